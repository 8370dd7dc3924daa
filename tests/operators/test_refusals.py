"""What every operator refuses: null pointers first, foreign types, outputs of another shape."""

from __future__ import annotations

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.errors import AclnnError
from aclnn.tensors import TensorSpec
from aclnn_server.operators.catalogue import built_in
from aclnn_server.operators.definition import Operator
from tests.operators.calling import Argument, device
from tests.operators.samples import Sample, sample

EVERY = pytest.mark.parametrize("operator", built_in().values(), ids=lambda row: row.name)
INTERNAL = {"aclnnArange", "aclnnInplaceRandom", "aclnnRandperm", "aclnnStack"}
"""Operators of which the vendor's report a null pointer as an internal one."""
COPIES = ("aclnnCast", "aclnnInplaceCopy", "aclnnInplaceZero")
"""Operators that may take a type which no other has."""
OF_ANY_SHAPE = {
    "aclnnForeachNonFiniteCheckAndUnscale": "scaledGrads",
    "aclnnIndexPutImpl": "selfRef",
    "aclnnInplaceScatter": "selfRef",
    "aclnnInplaceScatterValue": "selfRef",
}
"""Outputs that are changed in place, and have the shape of nothing else."""


def made(operator: Operator) -> Sample:
    return sample(operator, (2, 3), dtypes.FLOAT)


@EVERY
def test_null_pointers_come_first(operator: Operator) -> None:
    arguments = [_described(value) for value in made(operator).arguments]
    on = device()
    for place, row in enumerate(operator.signature.parameters):
        if row.kind.pointer and not row.optional:
            with pytest.raises(AclnnError) as caught:
                on.plan(operator.name, [*arguments[:place], None, *arguments[place + 1 :]])
            expected = 561103 if operator.name in INTERNAL else 161001
            assert (caught.value.code, caught.value.parameter) == (expected, row.name)


@EVERY
def test_foreign_types_are_refused(operator: Operator) -> None:
    if operator.name in COPIES:
        pytest.skip("it copies any type")
    foreign = [
        _with_type(_described(value), dtypes.FLOAT8_E5M2) for value in made(operator).arguments
    ]
    with pytest.raises(AclnnError) as caught:
        device().plan(operator.name, foreign)
    assert caught.value.code == 161002


@EVERY
def test_outputs_of_another_shape_are_refused(operator: Operator) -> None:
    call = made(operator)
    arrays = [value for value in call.values.values() if isinstance(value, np.ndarray | list)]
    if len(arrays) == 1:
        pytest.skip("its one tensor is the output")
    described = {name: _described(value) for name, value in call.values.items()}
    for name in (row.name for row in operator.signature.outputs):
        right = described[name]
        if right is None or OF_ANY_SHAPE.get(operator.name) == name:
            continue
        of_list = isinstance(right, tuple)
        wrong: Argument = TensorSpec.contiguous((5, 2), (right[0] if of_list else right).dtype)
        wrong = (wrong,) * len(right) if of_list else wrong
        with pytest.raises(AclnnError) as caught:
            device().plan(operator.name, list((described | {name: wrong}).values()))
        assert caught.value.code in (161002, 561002, 561103)


def _described(value: Argument) -> Argument:
    if isinstance(value, list):
        return tuple(map(_described, value))
    if not isinstance(value, np.ndarray):
        return value
    return TensorSpec.contiguous(value.shape, dtypes.dtype(value.dtype))


def _with_type(value: Argument, dtype: DType) -> Argument:
    if isinstance(value, tuple):
        return tuple(_with_type(row, dtype) for row in value)
    if not isinstance(value, TensorSpec):
        return value
    return TensorSpec.contiguous(value.shape, dtype)
