"""Positions of extremes, spread, and running sums."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from aclnn import dtypes
from aclnn.errors import InvalidParameterError
from aclnn_server.operators.engines.tiling import BLOCK
from tests.operators.calling import Array, call, device
from tests.operators.test_reductions import LAYOUT, numbers, reduced

ROWS = [((), 0), ((5,), 0), ((3, 4), 0), ((3, 4), -1), ((2, 300, 3), 1), ((BLOCK + 9, 2), 0)]
ALONG = pytest.mark.parametrize(("shape", "dim"), ROWS, ids=str)


def largest(x: Array, dim: int, *, keep: bool = False) -> tuple[Array, Array]:
    shape = np.zeros(x.shape or (1,)).sum(axis=dim, keepdims=keep).shape if x.shape else ()
    out, indices = np.full(shape, 7, x.dtype), np.full(shape, 7, np.int64)
    call("aclnnMaxDim", x, dim, keep, out, indices, on=device(2))
    return out, indices


@ALONG
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.bool_])
def test_greatest_and_its_first_position(
    shape: tuple[int, ...], dim: int, dtype: npt.DTypeLike
) -> None:
    x = numbers(shape, dtype)
    out, indices = largest(x, dim)
    wide, axis = x.astype(np.float64), dim if shape else None
    np.testing.assert_array_equal(indices, np.argmax(wide, axis=axis))
    np.testing.assert_array_equal(out.astype(np.float64), wide.max(axis=axis))


@ALONG
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_arg_max(shape: tuple[int, ...], dim: int, index: npt.DTypeLike) -> None:
    x = numbers(shape, np.float32)
    want = np.argmax(x, axis=dim if shape else None)
    out = np.full(np.shape(want), 7, index)
    call("aclnnArgMax", x, dim, False, out, on=device(2))
    np.testing.assert_array_equal(out, want)


def test_equal_elements_in_several_blocks_give_the_first() -> None:
    x = np.zeros((5 * BLOCK,), np.float16)
    x[[BLOCK + 5, 3 * BLOCK, 5 * BLOCK - 1]] = 1
    assert largest(x, 0)[1] == BLOCK + 5


def test_the_first_nan_is_the_greatest_in_every_block() -> None:
    x = np.zeros((4 * BLOCK,), np.float16)
    x[0] = np.inf
    x[[2 * BLOCK + 1, 3 * BLOCK]] = np.nan
    out, indices = largest(x, 0)
    assert np.isnan(out)
    assert indices == 2 * BLOCK + 1


def test_dimensions_are_kept_on_demand() -> None:
    assert largest(numbers((2, 3), np.float32), 1, keep=True)[0].shape == (2, 1)


@LAYOUT
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_variance_and_its_root(
    shape: tuple[int, ...], dims: tuple[int, ...], dtype: npt.DTypeLike
) -> None:
    x = numbers(shape, dtype)
    wide = x.astype(np.float64).var(axis=dims or None)
    rounding = 1e-3 if dtype is np.float16 else 1e-5
    got = _spread("aclnnVar", x, dims, False)
    np.testing.assert_allclose(got.astype(np.float64), wide, rounding, 1e-6)
    got = _spread("aclnnStd", x, dims, 0)
    np.testing.assert_allclose(got.astype(np.float64), np.sqrt(wide), rounding, 1e-6)


def _spread(operator: str, x: Array, dims: tuple[int, ...], how: int | bool) -> Array:
    out = np.full(np.zeros(x.shape).sum(axis=dims or None).shape, 7, x.dtype)
    call(operator, x, dims, how, False, out, on=device(2))
    return out


def test_small_spread_far_from_zero_is_found() -> None:
    x = (1e4 + np.random.default_rng(0).normal(0, 1, (3, 50000))).astype(np.float32)
    np.testing.assert_allclose(
        _spread("aclnnVar", x, (1,), True), x.astype(np.float64).var(axis=1, ddof=1), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("count", "correction", "value"),
    [(1, 1, np.nan), (1, 2, np.nan), (2, 2, np.inf), (2, 3, np.inf)],
)
def test_corrections_that_leave_nothing(count: int, correction: int, value: float) -> None:
    x = np.arange(count, dtype=np.float32)
    np.testing.assert_array_equal(_spread("aclnnStd", x, (0,), correction), value)


def test_one_element_has_no_unbiased_variance() -> None:
    assert np.isnan(_spread("aclnnVar", np.ones((1,), np.float32), (), True))
    assert _spread("aclnnVar", np.ones((1,), np.float32), (), False) == 0


def test_null_is_all_dimensions() -> None:
    x, out = numbers((2, 3), np.float32), np.empty((), np.float32)
    call("aclnnStd", x, None, 1, False, out)
    np.testing.assert_allclose(out, x.std(ddof=1), rtol=1e-6)


def test_outputs_of_more_elements_are_an_inner_error() -> None:
    with pytest.raises(InvalidParameterError) as caught:
        call("aclnnStd", numbers((2, 3), np.float32), None, 1, False, np.empty((2,), np.float32))
    assert caught.value.code == 561103


@ALONG
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int8, np.complex64])
def test_running_sums(shape: tuple[int, ...], dim: int, dtype: npt.DTypeLike) -> None:
    x = numbers(shape, np.float32).astype(dtype)
    out = np.full(shape, 7, dtype)
    call("aclnnCumsum", x, dim, dtypes.dtype(np.dtype(dtype)), out, on=device(2))
    if dtype is np.int8:
        np.testing.assert_array_equal(
            out.reshape(-1), np.cumsum(x, axis=dim, dtype=dtype).reshape(-1)
        )
        return
    wide = x.astype(np.complex128 if dtype is np.complex64 else np.float64)
    want = np.cumsum(wide, axis=dim).reshape(shape)
    rounding = 1e-3 if dtype is np.float16 else 1e-6
    np.testing.assert_allclose(out.astype(wide.dtype), want, rtol=rounding, atol=1e-2)


def test_running_sums_in_place() -> None:
    x = numbers((3, 4), np.float32)
    want = np.cumsum(x, axis=1, dtype=np.float64)
    call("aclnnCumsum", x, 1, dtypes.FLOAT, x)
    np.testing.assert_allclose(x, want, rtol=1e-6)


def test_keeping_dimensions_of_a_variance() -> None:
    x = numbers((2, 3), np.float32)
    out = np.empty((2, 1), np.float32)
    call("aclnnVar", x, (1,), True, True, out)
    np.testing.assert_allclose(out, x.var(axis=1, ddof=1, keepdims=True), rtol=1e-5)
    assert reduced("aclnnAmax", x, (1,), keep=True).shape == (2, 1)
