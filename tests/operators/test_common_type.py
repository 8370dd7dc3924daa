"""The type in which tensors and numbers meet."""

from __future__ import annotations

import pytest

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.promotion import promote_float, promote_scalar


@pytest.mark.parametrize(
    ("tensor", "scalar", "expected"),
    [
        (dtypes.FLOAT16, dtypes.DOUBLE, dtypes.FLOAT16),
        (dtypes.BF16, dtypes.INT64, dtypes.BF16),
        (dtypes.INT8, dtypes.INT64, dtypes.INT8),
        (dtypes.INT8, dtypes.DOUBLE, dtypes.FLOAT),
        (dtypes.BOOL, dtypes.INT32, dtypes.INT32),
        (dtypes.BOOL, dtypes.BOOL, dtypes.BOOL),
        (dtypes.FLOAT, dtypes.COMPLEX128, dtypes.COMPLEX64),
        (dtypes.DOUBLE, dtypes.COMPLEX64, dtypes.COMPLEX128),
        (dtypes.COMPLEX64, dtypes.DOUBLE, dtypes.COMPLEX64),
        (dtypes.UINT32, dtypes.FLOAT, None),
    ],
)
def test_a_scalar_counts_only_where_it_is_of_a_higher_kind(
    tensor: DType, scalar: DType, expected: DType | None
) -> None:
    assert promote_scalar(tensor, scalar) is expected


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (dtypes.BOOL, dtypes.FLOAT),
        (dtypes.INT64, dtypes.FLOAT),
        (dtypes.FLOAT16, dtypes.FLOAT16),
        (dtypes.COMPLEX64, dtypes.COMPLEX64),
    ],
)
def test_functions_of_real_numbers_compute_integers_in_float(dtype: DType, expected: DType) -> None:
    assert promote_float(dtype) is expected
