"""One-line forms of arithmetic, activations, comparisons and losses, over a server."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aclnn_client import Context, InvalidParameterError, connect, ops
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server

Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that has all of them."""
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        yield server


@pytest.fixture
def context(server: Server) -> Iterator[Context]:
    with connect(server.address) as context:
        yield context


X = np.array([[0.25, 0.5, 0.75], [0.125, 0.375, 0.625]], np.float32)
Y = np.array([0.5, 0.25, 1], np.float32)
WHOLE = np.array([1, 2, 4], np.int32)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda o: o.add(X, Y), X + Y),
        (lambda o: o.add(X, Y, alpha=2), X + 2 * Y),
        (lambda o: o.add(WHOLE, Y), (WHOLE + Y).astype(np.float32)),
        (lambda o: o.adds(X, 3), X + 3),
        (lambda o: o.adds(WHOLE, 0.5), (WHOLE + 0.5).astype(np.float32)),
        (lambda o: o.muls(WHOLE, 3), WHOLE * 3),
        (lambda o: o.div(WHOLE, WHOLE[:1] + 1), (WHOLE / 2).astype(np.float32)),
        (lambda o: o.div_mod(WHOLE, WHOLE[1:2], mode="floor"), (WHOLE // 2).astype(np.float32)),
        (lambda o: o.div_mod(WHOLE, WHOLE[1:2]), (WHOLE / 2).astype(np.float32)),
        (lambda o: o.addcmul(X, X, Y, value=2.0), X + 2 * X * Y),
        (lambda o: o.pow_scalar(X, 2), X**2),
        (lambda o: o.clamp(X, 0.25, 0.5), X.clip(0.25, 0.5)),
        (lambda o: o.clamp(X, clipValueMax=0.5), X.clip(None, 0.5)),
        (lambda o: o.sqrt(WHOLE), np.sqrt(WHOLE.astype(np.float32))),
        (lambda o: o.relu(X - 0.5), np.maximum(X - 0.5, 0)),
        (lambda o: o.threshold_backward(X, X, 0.5), np.where(X > 0.5, X, 0)),
        (lambda o: o.eq(X, Y), X == Y),
        (lambda o: o.lt_scalar(X, 0.5), X < 0.5),
        (lambda o: o.logical_not(WHOLE - 1), WHOLE == 1),
        (lambda o: o.where(X > 0.3, X, Y), np.where(X > 0.3, X, Y)),
        (lambda o: o.mse_loss(X, Y, reduction="sum"), np.square(X - Y).sum()),
        (lambda o: o.l1_loss(X, Y, reduction="none"), np.abs(X - Y)),
        (lambda o: o.kl_div(Y - 1, Y, reduction="none"), Y * (np.log(Y) - Y + 1)),
        (
            lambda o: o.binary_cross_entropy(X, np.ones_like(X), reduction="none"),
            -np.log(X),
        ),
    ],
)
def test_is_numpys(context: Context, call: Callable[[Any], Array], expected: Array) -> None:
    found = call(context.ops)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_tensors_stay_on_the_server(context: Context) -> None:
    x = context.tensor(X)
    hidden = context.ops.gelu(context.ops.add(x, 1 - X))
    expected = 0.5 * (1 + math.erf(math.sqrt(0.5)))
    np.testing.assert_allclose(hidden.numpy(), np.full_like(X, expected), rtol=1e-6)


def test_in_place_forms_write_their_tensor(context: Context) -> None:
    x = context.tensor(X)
    size, executor = ops.aclnnInplaceMulsGetWorkspaceSize(x, 2.0)
    ops.aclnnInplaceMuls(None, size, executor)
    np.testing.assert_array_equal(x.numpy(), 2 * X)


def test_types_that_meet_in_none_are_refused(context: Context) -> None:
    with pytest.raises(InvalidParameterError, match="which meet in none"):
        context.ops.add(X, WHOLE.astype(np.uint32))
