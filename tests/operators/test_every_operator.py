"""What holds for each operator of the catalogue, whatever it computes."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.errors import InvalidParameterError
from aclnn.signatures import Kind
from aclnn_server.operators.catalogue import built_in
from aclnn_server.operators.definition import Operator
from aclnn_server.operators.engines.tiling import BLOCK
from tests.operators.calling import Array, device
from tests.operators.samples import Sample, sample

OPERATORS = list(built_in().values())
EVERY = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
TYPES = (
    dtypes.FLOAT,
    dtypes.FLOAT16,
    dtypes.BF16,
    dtypes.DOUBLE,
    dtypes.INT32,
    dtypes.UINT8,
    dtypes.BOOL,
    dtypes.COMPLEX64,
)
TOLERANCES = {dtypes.FLOAT16: 2e-3, dtypes.BF16: 1.6e-2}
_REFUSED = {
    "BOOL": ("PowTensorScalar", "PowTensorTensor", "PowScalarTensor"),
    "BOOL UINT8": ("RemainderTensorTensor", "RemainderTensorScalar", "RemainderScalarTensor"),
}
_OF_FLOATS = (
    "Div Divs DivMod DivMods Cos Erf Exp Expm1 Log Log1p Reciprocal Rsqrt Sigmoid Sin Sqrt Tanh "
    "Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Log2 Log10 Exp2"
)
NOT_FOR = {
    f"aclnn{form}{name}": set(types.split())
    for types, names in _REFUSED.items()
    for name in names
    for form in ("", "Inplace")
} | {f"aclnnInplace{name}": {"BOOL", "INT32", "UINT8", "INT64"} for name in _OF_FLOATS.split()}
"""Types that are refused in a tensor of every place: selfRef cannot hold a quotient, which is FLOAT."""
NO_COMPLEX_EMPTY = {"aclnnMean", "aclnnProd", "aclnnProdDim", "aclnnReduceSum"}
"""Operators that have no neutral element of complex numbers, as the vendor's do not."""
STEPS = {
    "aclnnArgMax",
    "aclnnArgMin",
    "aclnnMaxDim",
    "aclnnMinDim",
    "aclnnCumsum",
    "aclnnInplaceUniform",
    "aclnnSort",
    "aclnnArgsort",
    "aclnnTopk",
    "aclnnCummax",
    "aclnnCummin",
}
"""Operators of which a small difference of the inputs makes a large one of the results, or another number of
digits."""

RANDOM = {"aclnnInplaceNormal", "aclnnInplaceUniform"}
"""Operators that draw other numbers for another type."""


def _types(operator: Operator) -> list[DType]:
    rows = [row for row in operator.signature.parameters if row.kind.holds_tensors]
    names = [row.name for row in rows if row.name != "condition"]
    allowed = operator.dtypes.get(names[0], (dtypes.FLOAT,))
    refused = NOT_FOR.get(operator.name, set())
    return [row for row in TYPES if row in allowed and row.name not in refused]


CASES = [
    pytest.param(operator, dtype, id=f"{operator.name}-{dtype.name}")
    for operator in OPERATORS
    for dtype in _types(operator)
]
EVERY_TYPE = pytest.mark.parametrize(("operator", "dtype"), CASES)
NARROW = [case for case in CASES if case.values[1] in TOLERANCES]


def spread(array: Array) -> Array:
    """An equal array whose elements are not neighbours, in another order and from an odd place."""
    if not array.shape:
        return array.copy()
    room = np.full(tuple(2 * size + 1 for size in reversed(array.shape)), 7).astype(array.dtype)
    view = room[tuple(slice(1, None, 2) for _ in array.shape)].transpose()
    view[...] = array
    return view


def equal(left: Sample, right: Sample) -> None:
    for name, array in left.outputs.items():
        np.testing.assert_array_equal(array, right.outputs[name], strict=True)


@EVERY
def test_some_type_is_tried(operator: Operator) -> None:
    assert _types(operator)


@EVERY_TYPE
def test_strided_is_contiguous(operator: Operator, dtype: DType) -> None:
    plain = sample(operator, (3, 5), dtype)
    strided = plain.with_arrays(spread)
    plain.run()
    strided.run()
    equal(plain, strided)


@EVERY_TYPE
@pytest.mark.parametrize("shape", [(), (0, 3), (1, 1, 1)], ids=str)
def test_no_dimensions_no_elements_and_one_element(
    operator: Operator, dtype: DType, shape: tuple[int, ...]
) -> None:
    if 0 in shape and dtype.kind == "complex" and operator.name in NO_COMPLEX_EMPTY:
        pytest.skip("empty complex tensors are refused")
    made = sample(operator, shape, dtype)
    before = {name: array.copy() for name, array in made.outputs.items()}
    made.run()
    if operator.name in ("aclnnNLLLoss", "aclnnBatchNorm") or dtype.kind != "float":
        return  # they leave an output as it is; and a small integer may be 7
    if 0 in shape and operator.name in ("aclnnMax", "aclnnMin"):
        return
    if any(row.shaped_by_data for row in operator.signature.parameters):
        return  # what is behind the result is left as it is
    for name, array in made.outputs.items():
        assert not ((array == 7) & (before[name] == 7)).any()


@EVERY
def test_a_wider_output_holds_the_same_values(operator: Operator) -> None:
    if dtypes.FLOAT not in _types(operator) or operator.name in RANDOM:
        return
    made, wide = (sample(operator, (3, 5), dtypes.FLOAT) for _ in range(2))
    given = wide.outputs
    for name, array in given.items():
        if array.dtype == np.float32:
            wide.values[name] = array.astype(np.float64)
    made.run()
    with contextlib.suppress(InvalidParameterError):  # where it must not be of another type
        wide.run()
        for name, array in made.outputs.items():
            np.testing.assert_allclose(wide.outputs[name], array, rtol=1e-5, atol=1e-6)


@EVERY
def test_the_same_bits_at_every_number_of_threads(operator: Operator) -> None:
    results = []
    for threads in (1, 3):
        made = sample(operator, (3, BLOCK // 2 + 77), _types(operator)[0])
        made.run(device(threads))
        results.append(made)
    equal(*results)


@pytest.mark.parametrize(("operator", "dtype"), NARROW)
def test_sixteen_bits_are_within_tolerance_of_float(operator: Operator, dtype: DType) -> None:
    if operator.name in STEPS:
        pytest.skip("a small difference of the inputs makes a large one of the results")
    narrow = sample(operator, (7, 11), dtype)
    values = {name: _wide_type(value) for name, value in narrow.values.items()}
    wide = Sample(operator, values).with_arrays(_widened)
    narrow.run()
    wide.run()
    for name, array in narrow.outputs.items():
        np.testing.assert_allclose(
            array.astype(np.float32),
            wide.outputs[name].astype(np.float32),
            rtol=TOLERANCES[dtype],
            atol=TOLERANCES[dtype] / 4,
        )


def _wide_type(value: object) -> object:
    return dtypes.FLOAT if isinstance(value, DType) else value


def _widened(array: Array) -> Array:
    kept = array.dtype.kind in "biu"
    return array.copy() if kept else array.astype(np.float32)


def test_samples_reach_every_kind_of_parameter() -> None:
    kinds = {row.kind for operator in OPERATORS for row in operator.signature.parameters}
    assert kinds >= {Kind.TENSOR, Kind.TENSOR_LIST, Kind.SCALAR, Kind.INT_ARRAY, Kind.DATA_TYPE}
