"""Softmax, its logarithm and their gradients."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn import dtypes
from aclnn.errors import InvalidParameterError, NullPointerError
from aclnn.tensors import TensorSpec
from aclnn_server.operators.engines.tiling import BLOCK
from tests.operators.calling import Array, call, device
from tests.operators.test_reductions import numbers

TOLERANCES = {np.float32: 2e-6, np.float16: 2e-3, ml_dtypes.bfloat16: 1e-2, np.float64: 1e-13}
ROWS = [
    ((), 0),
    ((5,), 0),
    ((3, 4), 0),
    ((3, 4), -1),
    ((2, 300, 3), 1),
    ((1, 7), 0),
    ((2, BLOCK + 9), 1),
]
ALONG = pytest.mark.parametrize(("shape", "dim"), ROWS, ids=str)


def expected(x: Array, dim: int) -> Array:
    wide = np.asarray(x, np.float64).reshape(x.shape or (1,))
    powers = np.exp(wide - wide.max(axis=dim, keepdims=True))
    found: Array = (powers / powers.sum(axis=dim, keepdims=True)).reshape(x.shape)
    return found


def total(x: Array, dim: int) -> Array:
    wide: Array = x.reshape(x.shape or (1,)).sum(axis=dim, keepdims=True)
    return wide if x.shape else wide.reshape(())


def along(operator: str, dim: int, *inputs: Array, out: npt.DTypeLike | None = None) -> Array:
    result: Array = np.full(inputs[0].shape, 7, inputs[0].dtype if out is None else out)
    call(operator, *inputs, dim, result, on=device(2))
    return result


def close(got: Array, want: Array, dtype: type) -> None:
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=tolerance)


@ALONG
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_softmax_and_its_logarithm(shape: tuple[int, ...], dim: int, dtype: type) -> None:
    x = numbers(shape, dtype)
    want = expected(x, dim)
    close(along("aclnnSoftmax", dim, x), want, dtype)
    got = along("aclnnLogSoftmax", dim, x).astype(np.float64)
    np.testing.assert_allclose(
        got, np.log(want), rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype] * 4
    )


@ALONG
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_gradients(shape: tuple[int, ...], dim: int, dtype: type) -> None:
    grad = numbers(shape, dtype, seed=1)
    y: Array = np.asarray(expected(numbers(shape, dtype), dim)).astype(dtype)
    wide, g = y.astype(np.float64), grad.astype(np.float64)
    close(along("aclnnSoftmaxBackward", dim, grad, y), (g - total(g * wide, dim)) * wide, dtype)
    logarithm: Array = np.asarray(np.log(expected(numbers(shape, dtype), dim))).astype(dtype)
    want = g - np.exp(logarithm.astype(np.float64)) * total(g, dim)
    got = along("aclnnLogSoftmaxBackward", dim, grad, logarithm).astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=TOLERANCES[dtype] * 2, atol=TOLERANCES[dtype] * 4)


@pytest.mark.parametrize("operator", ["aclnnSoftmax", "aclnnLogSoftmax"])
def test_large_numbers_do_not_overflow(operator: str) -> None:
    x = np.array([1000, 1001, -1000], np.float32)
    want = expected(x, 0)
    got = along(operator, 0, x)
    got = np.exp(got) if operator == "aclnnLogSoftmax" else got
    np.testing.assert_allclose(got, want, rtol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_spoil_their_row_only(bad: float) -> None:
    x = np.array([[1, bad, 3], [1, 2, 3]], np.float32)
    got = along("aclnnSoftmax", 1, x)
    assert np.isnan(got[0]).any()
    close(got[1], expected(x[1], 0), np.float32)


def test_in_place() -> None:
    x = numbers((3, 5), np.float32)
    want = expected(x, 1)
    call("aclnnSoftmax", x, 1, x)
    close(x, want, np.float32)


@pytest.mark.parametrize("shifted", [0, 1])
def test_gradient_over_one_of_its_inputs(shifted: int) -> None:
    grad, y = (
        numbers((4, 6), np.float32),
        expected(numbers((4, 6), np.float32), 1).astype(np.float32),
    )
    want = (grad - (grad * y).sum(axis=1, keepdims=True)) * y
    out = (grad, y)[shifted]
    call("aclnnSoftmaxBackward", grad, y, 1, out)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)


def test_results_are_rounded_to_the_input_first() -> None:
    x = numbers((40,), np.float16)
    wide = along("aclnnSoftmax", 0, x, out=np.float32)
    np.testing.assert_array_equal(wide, wide.astype(np.float16).astype(np.float32))
    wide = along("aclnnLogSoftmax", 0, x, out=np.float32)
    assert (wide != wide.astype(np.float16).astype(np.float32)).any()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=3), st.data())
def test_bits_do_not_depend_on_strides(sizes: list[int], data: st.DataObject) -> None:
    x = numbers(tuple(sizes), np.float32)
    dim = data.draw(st.integers(0, x.ndim - 1))
    order = data.draw(st.permutations(range(x.ndim)))
    moved = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    np.testing.assert_array_equal(along("aclnnSoftmax", dim, moved), along("aclnnSoftmax", dim, x))


def test_what_is_refused() -> None:
    x, out = numbers((2, 3), np.float32), np.empty((2, 3), np.float32)
    with pytest.raises(InvalidParameterError, match="dim is 2"):
        call("aclnnSoftmax", x, 2, out)
    with pytest.raises(InvalidParameterError, match="must have"):
        call("aclnnLogSoftmax", x, 1, np.empty((3,), np.float32))
    with pytest.raises(InvalidParameterError, match="INT32"):
        call("aclnnSoftmax", x.astype(np.int32), 1, out)
    with pytest.raises(InvalidParameterError, match="as gradOutput is"):
        call("aclnnSoftmaxBackward", x, x.astype(np.float16), 1, out)
    with pytest.raises(InvalidParameterError, match="floats do not cast"):
        call("aclnnSoftmaxBackward", x, x, 1, out.astype(np.int32))
    with pytest.raises(NullPointerError):
        call("aclnnLogSoftmaxBackward", x, None, 1, out)


def test_empty_inputs_skip_the_checks() -> None:
    spec = TensorSpec.contiguous((0, 3), dtypes.INT32)
    on = device()
    assert on.plan("aclnnSoftmax", [spec, 9, spec]).workspace_bytes == 0
    with pytest.raises(InvalidParameterError):
        on.plan("aclnnLogSoftmax", [spec, 9, spec])
