"""One step of AdamW."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from aclnn.errors import InvalidParameterError, NullPointerError, UnsupportedError
from aclnn_server.operators.engines.tiling import BLOCK
from tests.operators.calling import Array, call, device
from tests.operators.test_reductions import numbers

NAME = "aclnnApplyAdamW"
TOLERANCES = {np.float32: 1e-5, np.float16: 2e-3, ml_dtypes.bfloat16: 1.5e-2}
NUMBERS = {
    "b1p": 0.9**3,
    "b2p": 0.999**3,
    "lr": 1e-2,
    "decay": 0.1,
    "b1": 0.9,
    "b2": 0.999,
    "eps": 1e-6,
}


def state(shape: tuple[int, ...], dtype: npt.DTypeLike) -> list[Array]:
    """Weights, moments, gradient and limit."""
    var, first, second, grad, limit = (numbers(shape, dtype, seed) for seed in range(5))
    return [var, first, np.asarray(np.abs(second)), grad, np.asarray(np.abs(limit))]


def tensors(dtype: npt.DTypeLike) -> list[Array]:
    return [np.array([value], dtype) for value in NUMBERS.values()]


def expected(arrays: list[Array], dtype: npt.DTypeLike, ams: bool, maximize: bool) -> list[Array]:
    var, first, second, grad, limit = (array.astype(np.float64) for array in arrays)
    b1p, b2p, lr, decay, b1, b2, eps = (float(row[0]) for row in tensors(dtype))
    grad = -grad if maximize else grad
    first = b1 * first + (1 - b1) * grad
    second = b2 * second + (1 - b2) * grad * grad
    second = np.maximum(second, limit) if ams else second
    step = first / (1 - b1p * b1) / (np.sqrt(second / (1 - b2p * b2)) + eps)
    return [var * (1 - lr * decay) - lr * step, first, second]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("ams", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("shape", [(), (3, 5), (BLOCK + 5,)], ids=str)
def test_step(shape: tuple[int, ...], dtype: type, ams: bool, maximize: bool) -> None:
    arrays = state(shape, dtype)
    want = expected(arrays, dtype, ams, maximize)
    *written, grad, limit = arrays
    kept = grad.copy()
    limits = limit if ams else None
    call(NAME, *written, *tensors(dtype), grad, limits, ams, maximize, on=device(2))
    for got, value in zip(written, want, strict=True):
        tolerance = TOLERANCES[dtype]
        np.testing.assert_allclose(
            got.astype(np.float64), value, rtol=tolerance, atol=tolerance / 4
        )
    np.testing.assert_array_equal(grad, kept)


def test_strided_state_is_updated_in_place() -> None:
    rooms = state((6, 8), np.float32)
    views = [room[::2, 1::2] for room in rooms]
    want = expected(views, np.float32, False, False)
    outside = rooms[0][1::2].copy()
    call(NAME, *views[:3], *tensors(np.float32), views[3], None, False, False)
    for got, value in zip(views, want, strict=False):
        np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(rooms[0][1::2], outside)


def test_what_is_refused() -> None:
    var, first, second, grad, _ = state((3,), np.float32)
    with pytest.raises(NullPointerError, match="maxGradNormOptional"):
        call(NAME, var, first, second, *tensors(np.float32), grad, None, True, False)
    with pytest.raises(InvalidParameterError, match="mRef is FLOAT16"):
        call(
            NAME,
            var,
            first.astype(np.float16),
            second,
            *tensors(np.float32),
            grad,
            None,
            False,
            False,
        )
    with pytest.raises(InvalidParameterError, match="grad has shape"):
        call(NAME, var, first, second, *tensors(np.float32), grad[:2], None, False, False)
    wrong = [np.ones((2,), np.float32), *tensors(np.float32)[1:]]
    with pytest.raises(InvalidParameterError, match="beta1Power has shape"):
        call(NAME, var, first, second, *wrong, grad, None, False, False)


def test_only_ascend_950_has_it() -> None:
    var, first, second, grad, _ = state((3,), np.float32)
    arguments = (var, first, second, *tensors(np.float32), grad, None, False, False)
    call(NAME, *arguments, on=device(soc="ascend950"))
    with pytest.raises(UnsupportedError):
        call(NAME, *arguments, on=device(soc="ascend910b"))
