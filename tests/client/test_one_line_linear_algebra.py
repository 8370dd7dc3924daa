"""Reductions, normalisations and products in one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from aclnn.errors import InvalidParameterError, NullPointerError
from aclnn_client import Context
from aclnn_server.backends.numpy import NumpyBackend
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server

Array = Any
X = np.random.default_rng(0).normal(0, 1, (3, 4)).astype(np.float32)
Y = np.random.default_rng(1).normal(0, 1, (4, 5)).astype(np.float32)
POWERS = np.exp(X - X.max(axis=1, keepdims=True))
SOFTMAX = POWERS / POWERS.sum(axis=1, keepdims=True)
WEIGHT, BIAS = Y[:, 0].copy(), Y[:, 1].copy()
LAYERS = (X - X.mean(axis=1, keepdims=True)) / np.sqrt(X.var(axis=1, keepdims=True) + 1e-5)
SQUARE = 1 / np.sqrt((X * X).mean(axis=1, keepdims=True) + 1e-6)

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], Array]] = [
    ("reduce_sum", (X,), {}, X.sum()),
    ("reduce_sum", (X,), {"dims": (0,), "keepDims": True}, X.sum(axis=0, keepdims=True)),
    ("reduce_sum", (X,), {"dims": (1,), "dtype": "INT32"}, X.astype(np.int32).sum(axis=1)),
    ("mean", (X, (1,)), {}, X.mean(axis=1)),
    ("amax", (X, (0,)), {}, X.max(axis=0)),
    ("amin", (X,), {"dim": (-1,), "keepDim": True}, X.min(axis=-1, keepdims=True)),
    ("all", (X > 0, (1,)), {}, (X > 0).all(axis=1)),
    ("any", (X > 9,), {}, False),
    ("arg_max", (X, 1), {}, X.argmax(axis=1)),
    ("prod", (X,), {}, X.prod()),
    ("prod_dim", (X, 1), {}, X.prod(axis=1)),
    ("std", (X, (1,)), {}, X.std(axis=1, ddof=1)),
    ("var", (X, (1,)), {"unbiased": False}, X.var(axis=1)),
    ("cumsum", (X, 1), {}, X.cumsum(axis=1)),
    ("softmax", (X,), {}, SOFTMAX),
    ("log_softmax", (X,), {"dim": 1}, np.log(SOFTMAX)),
    ("matmul", (X, Y), {}, X @ Y),
    ("matmul", (np.stack([X, X]), Y[:, 0]), {}, np.stack([X, X]) @ Y[:, 0]),
    ("mm", (X, Y), {"cubeMathType": "ALLOW_FP32_DOWN_PRECISION"}, X @ Y),
    ("batch_matmul", (X[None], Y[None]), {}, (X @ Y)[None]),
    ("addmm", (Y[0], X, Y), {"beta": 2.0}, 2 * Y[0] + X @ Y),
    ("mv", (X, WEIGHT), {}, X @ WEIGHT),
    ("dot", (WEIGHT, BIAS), {}, WEIGHT @ BIAS),
    ("layer_norm", (X, WEIGHT, BIAS, (4,)), {}, LAYERS * WEIGHT + BIAS),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of the host's processor: the double of CANN has few operators."""
    with Server(ServerConfig(listen="127.0.0.1:0"), backend=NumpyBackend()) as server:
        yield server


@pytest.mark.parametrize(
    ("name", "values", "named", "want"), CALLS, ids=lambda value: str(value)[:12]
)
def test_arrays_in_array_out(
    context: Context, name: str, values: tuple[Any, ...], named: dict[str, Any], want: Array
) -> None:
    got = getattr(context.ops, name)(*values, **named)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_gradients_of_the_softmax(context: Context) -> None:
    grad = np.ascontiguousarray(X[::-1])
    got = context.ops.softmax_backward(grad, SOFTMAX)
    want = (grad - (grad * SOFTMAX).sum(axis=1, keepdims=True)) * SOFTMAX
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    got = context.ops.log_softmax_backward(grad, np.log(SOFTMAX))
    np.testing.assert_allclose(got, grad - SOFTMAX * grad.sum(axis=1, keepdims=True), atol=1e-5)


def test_two_results(context: Context) -> None:
    value, index = context.ops.max_dim(X, 1, keepdim=True)
    np.testing.assert_array_equal(value, X.max(axis=1, keepdims=True))
    np.testing.assert_array_equal(index, X.argmax(axis=1)[:, None])
    y, rstd = context.ops.rms_norm(X, WEIGHT)
    np.testing.assert_allclose(y, X * SQUARE * WEIGHT, rtol=1e-5)
    np.testing.assert_allclose(rstd, SQUARE, rtol=1e-5)


def test_tensors_stay_on_the_device(context: Context) -> None:
    product = context.ops.matmul(context.tensor(X), context.tensor(Y))
    np.testing.assert_allclose(context.ops.softmax(product).numpy().sum(axis=1), 1, rtol=1e-5)


def test_dimensions_that_are_not_there_are_refused(context: Context) -> None:
    with pytest.raises(InvalidParameterError):
        context.ops.amax(X, (2,))
    with pytest.raises(NullPointerError):
        context.ops.layer_norm(X, WEIGHT, BIAS)
