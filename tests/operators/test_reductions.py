"""Sums, means, extremes, products and truth along dimensions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn import dtypes
from aclnn.errors import InvalidParameterError, NullPointerError
from aclnn_server.operators.engines.tiling import BLOCK
from tests.operators.calling import Array, call, device

Axes = tuple[int, ...]
FLOAT_TYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]
ROUNDING = {
    np.dtype(np.float32): 2.0**-23,
    np.dtype(np.float16): 2.0**-10,
    np.dtype(ml_dtypes.bfloat16): 2.0**-7,
    np.dtype(np.float64): 2.0**-52,
}
LAYOUTS: list[tuple[tuple[int, ...], Axes]] = [
    ((), ()),
    ((5,), (0,)),
    ((3, 4), ()),
    ((3, 4), (0,)),
    ((3, 4), (-1,)),
    ((2, 3, 4, 5), (0, 2)),
    ((2, 3, 4, 5), (1, -1)),
    ((5, 1), (1,)),
    ((1, 5), (0,)),
    ((700, 3), (0,)),
    ((3, 700), (1,)),
    ((300, 2, 900), (0, 2)),
    ((BLOCK + 99, 3), (0,)),
    ((2, 2 * BLOCK + 1), (0,)),
]
LAYOUT = pytest.mark.parametrize(("shape", "dims"), LAYOUTS, ids=str)


def numbers(shape: tuple[int, ...], dtype: npt.DTypeLike, seed: int = 0) -> Array:
    return np.asarray(np.random.default_rng(seed).normal(0, 3, shape)).astype(dtype)


def reduced(
    operator: str,
    x: Array,
    dims: Axes,
    *more: object,
    keep: bool = False,
    out: npt.DTypeLike | None = None,
) -> Array:
    """Calls an operator with the arguments self, dims, keep, more, out."""
    axes = dims or tuple(range(x.ndim))
    shape = np.zeros(x.shape).sum(axis=axes, keepdims=keep).shape
    result: Array = np.full(shape, 7, x.dtype if out is None else out)
    call(operator, x, dims, keep, *more, result, on=device(2))
    return result


def summed(
    x: Array, dims: Axes, dtype: npt.DTypeLike | None = None, *, keep: bool = False
) -> Array:
    target = np.dtype(x.dtype if dtype is None else dtype)
    return reduced("aclnnReduceSum", x, dims, dtypes.dtype(target), keep=keep, out=target)


@LAYOUT
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dtype", FLOAT_TYPES)
def test_sums_are_within_their_rounding(
    shape: tuple[int, ...], dims: Axes, keep: bool, dtype: npt.DTypeLike
) -> None:
    x = numbers(shape, dtype)
    wide, axes = x.astype(np.float64), dims or tuple(range(x.ndim))
    want = wide.sum(axis=axes, keepdims=keep)
    got = summed(x, dims, keep=keep).astype(np.float64)
    assert got.shape == want.shape
    added = np.abs(wide).sum(axis=axes, keepdims=keep) * min(ROUNDING[np.dtype(dtype)], 2.0**-23)
    assert (np.abs(got - want) <= 4 * added + np.abs(want) * ROUNDING[np.dtype(dtype)]).all()


@LAYOUT
def test_means_are_sums_by_their_number(shape: tuple[int, ...], dims: Axes) -> None:
    x = numbers(shape, np.float32)
    got = reduced("aclnnMean", x, dims, dtypes.FLOAT)
    want = x.astype(np.float64).mean(axis=dims or None)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@LAYOUT
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int16, np.bool_])
def test_extremes_are_exact(shape: tuple[int, ...], dims: Axes, dtype: npt.DTypeLike) -> None:
    x = numbers(shape, dtype)
    for operator, expected in (("aclnnAmax", np.max), ("aclnnAmin", np.min)):
        got = reduced(operator, x, dims)
        np.testing.assert_array_equal(got, expected(x, axis=dims or None))


def test_nan_is_an_extreme() -> None:
    x = np.array([[1, np.nan, 3], [1, 2, 3]], np.float32)
    np.testing.assert_array_equal(reduced("aclnnAmax", x, (1,)), [np.nan, 3])
    np.testing.assert_array_equal(reduced("aclnnAmin", x, (1,)), [np.nan, 1])


@LAYOUT
@pytest.mark.parametrize("out", [np.bool_, np.uint8])
def test_all_and_any(shape: tuple[int, ...], dims: Axes, out: npt.DTypeLike) -> None:
    rng = np.random.default_rng(3)
    for share in (0.0, 0.5, 1.0):
        x = np.asarray(rng.random(shape) < share).astype(np.float32)
        for operator, expected in (("aclnnAll", np.all), ("aclnnAny", np.any)):
            got = reduced(operator, x, dims, out=out)
            np.testing.assert_array_equal(got, expected(x, axis=dims or None).astype(out))


def test_nan_is_true() -> None:
    x = np.array([np.nan, 0], np.float16)
    assert reduced("aclnnAny", x, (), out=np.bool_)
    assert not reduced("aclnnAll", x, (), out=np.bool_)


def test_integers_overflow() -> None:
    x = np.full((3, 100), 100, np.int8)
    np.testing.assert_array_equal(summed(x, (1,)), x.sum(axis=1, dtype=np.int8))
    np.testing.assert_array_equal(summed(x, (1,), np.int32), [10000] * 3)


def test_elements_are_cast_before_they_are_added() -> None:
    x = np.array([1.75, 1.75, -1.75], np.float32)
    assert summed(x, (), np.int32) == 1
    assert summed(x, (), np.bool_)


def test_means_of_integers_are_cut_off() -> None:
    x = np.array([-1, -2], np.int32)
    assert reduced("aclnnMean", x, (), dtypes.INT32) == -1
    assert reduced("aclnnMean", x, (), dtypes.FLOAT, out=np.float32) == -1.5


def test_means_are_rounded_to_dtype_first() -> None:
    x = np.array([1, 2**-12], np.float32)
    got = reduced("aclnnMean", x, (), dtypes.FLOAT16, out=np.float32)
    assert got == np.float32(np.float16(0.5 + 2**-13))


def test_complex_numbers_add() -> None:
    x = numbers((40, 3), np.float32).astype(np.complex64) * (1 + 2j)
    np.testing.assert_allclose(summed(x, (0,)), x.sum(axis=0, dtype=np.complex128), rtol=1e-5)


def test_products() -> None:
    x = 1 + numbers((1001,), np.float32) / 1000
    out = np.empty((), np.float32)
    call("aclnnProd", x, dtypes.FLOAT, out)
    np.testing.assert_allclose(out, x.prod(dtype=np.float64), rtol=1e-6)
    wholes = np.arange(1, 13, dtype=np.int32).reshape(3, 4)
    rows = np.empty((3,), np.int32)
    call("aclnnProdDim", wholes, 1, False, dtypes.INT32, rows)
    np.testing.assert_array_equal(rows, wholes.prod(axis=1))


@pytest.mark.parametrize(
    ("operator", "more", "value"),
    [
        ("aclnnReduceSum", (dtypes.FLOAT,), 0),
        ("aclnnMean", (dtypes.FLOAT,), np.nan),
        ("aclnnAll", (), 1),
        ("aclnnAny", (), 0),
    ],
)
def test_empty_tensors_have_a_neutral_result(
    operator: str, more: tuple[object, ...], value: float
) -> None:
    out = None if more else np.bool_
    x = np.empty((3, 0), np.float32)
    np.testing.assert_array_equal(reduced(operator, x, (1,), *more, out=out), [value] * 3)


def test_dimensions_without_elements_have_no_extreme() -> None:
    with pytest.raises(InvalidParameterError, match="no elements along it"):
        reduced("aclnnAmax", np.empty((3, 0), np.float32), (1,), out=np.float32)


@pytest.mark.parametrize("dims", [(2,), (-3,), (0, 0), (1, -1)])
def test_wrong_dimensions_are_refused(dims: Axes) -> None:
    x, out = np.ones((2, 3), np.float32), np.ones((), np.float32)
    with pytest.raises(InvalidParameterError) as caught:
        call("aclnnReduceSum", x, dims, False, dtypes.FLOAT, out)
    assert caught.value.parameter == "dims"


def test_wrong_shapes_and_types_are_refused() -> None:
    x = np.ones((2, 3), np.float32)
    with pytest.raises(InvalidParameterError, match=r"shape \[3\]; it must have \[2\]"):
        call("aclnnReduceSum", x, (1,), False, dtypes.FLOAT, np.ones((3,), np.float32))
    with pytest.raises(InvalidParameterError, match="as dtype says"):
        call("aclnnReduceSum", x, (1,), False, dtypes.INT32, np.ones((2,), np.float32))
    with pytest.raises(InvalidParameterError, match="does not cast"):
        call("aclnnMean", x, (1,), False, dtypes.INT32, np.ones((2,), np.int32))
    with pytest.raises(NullPointerError):
        call("aclnnAny", x, None, False, np.ones((2,), bool))


def test_one_number_may_have_one_dimension_or_none() -> None:
    out = np.full((1,), 7, np.float32)
    call("aclnnReduceSum", np.ones((2, 3), np.float32), (), False, dtypes.FLOAT, out)
    assert out[0] == 6


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.data(),
    st.sampled_from([np.float32, np.float16, np.int32]),
)
def test_bits_do_not_depend_on_strides(sizes: list[int], data: st.DataObject, dtype: type) -> None:
    x = numbers(tuple(sizes), dtype)
    dims = tuple(dim for dim in range(x.ndim) if data.draw(st.booleans()))
    order = data.draw(st.permutations(range(x.ndim)))
    moved = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    room: Array = np.zeros([2 * size for size in sizes], dtype)[(slice(None, None, 2),) * x.ndim]
    room[...] = x
    want = summed(x, dims)
    for view in (moved, room, np.flip(np.flip(x).copy())):
        np.testing.assert_array_equal(summed(view, dims), want)


def test_output_in_the_input_is_right() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    want = x.sum(axis=1)
    call("aclnnReduceSum", x, (1,), False, dtypes.FLOAT, x[:, 0])
    np.testing.assert_array_equal(x[:, 0], want)
