"""One-line forms of operators that move data, lists of tensors among their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aclnn_client import Context, ExecutionFailedError, InvalidParameterError, aio, connect
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


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
INDEX = np.array([2, 0, 0])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda ops: ops.cast(X, dtype="int8"), X.astype(np.int8)),
        (lambda ops: ops.permute(X, (2, 0, -2)), X.transpose(2, 0, 1)),
        (lambda ops: ops.expand(X[:, :1], (5, 2, 3, 4)), np.broadcast_to(X[:, :1], (5, 2, 3, 4))),
        (lambda ops: ops.slice(X, 1, 1), X[:, 1:]),
        (lambda ops: ops.slice(X, dim=-1, start=-3, end=4, step=2), X[..., -3:4:2]),
        (lambda ops: ops.index_select(X, INDEX, dim=1), X[:, INDEX]),
        (lambda ops: ops.gather_v2(X, INDEX.reshape(3, 1) - 3, 1), X[:, INDEX.reshape(3, 1)]),
        (lambda ops: ops.embedding(X[0], INDEX), X[0][INDEX]),
        (
            lambda ops: ops.constant_pad_nd(X, (1, 0), 7.0),
            np.pad(X, ((0, 0), (0, 0), (1, 0)), constant_values=7),
        ),
        (lambda ops: ops.triu(X, 1), np.triu(X, 1)),
        (lambda ops: ops.tril(X), np.tril(X)),
        (lambda ops: ops.arange(2, 11, 3), np.arange(2, 11, 3)),
        (lambda ops: ops.arange(end=1.0, step=0.25), np.array([0, 0.25, 0.5, 0.75])),
        (lambda ops: ops.cat([X, X[:, :2]], dim=1), np.concatenate([X, X[:, :2]], 1)),
        (lambda ops: ops.stack((X, X + 1, X), -1), np.stack([X, X + 1, X], -1)),
        (lambda ops: ops.cat([X[0, 0], np.arange(3)]), np.concatenate([X[0, 0], np.arange(3)])),
    ],
)
def test_is_numpys(context: Context, call: Callable[[Any], Array], expected: Array) -> None:
    found = call(context.ops)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype in (expected.dtype, np.float32)


def test_scatter_add(context: Context) -> None:
    index = np.array([[0, 1, 1]])
    found = context.ops.scatter_add(
        np.zeros((2, 3), np.float32), index, np.ones((1, 3), np.float32)
    )
    assert found.tolist() == [[1, 0, 0], [0, 1, 1]]


def test_lists_of_tensors_give_tensors(context: Context) -> None:
    found = context.ops.cat([context.tensor(X), X])
    np.testing.assert_array_equal(found.numpy(), np.concatenate([X, X]))
    large = np.ones((300, 1000), np.float32)
    np.testing.assert_array_equal(context.ops.stack([large, large]), np.stack([large, large]))


@pytest.mark.asyncio
async def test_for_asyncio(server: Server) -> None:
    async with await aio.connect(server.address) as context:
        np.testing.assert_array_equal(await context.ops.stack([X, X]), np.stack([X, X]))


def test_refusals_name_what_is_wrong(context: Context, server: Server) -> None:
    with pytest.raises(InvalidParameterError, match="dims = None does not fit the shapes"):
        context.ops.permute(X)
    with pytest.raises(InvalidParameterError, match="range object index out of range"):
        context.ops.cat([X, X], dim=3)
    with pytest.raises(InvalidParameterError, match=r"tensors\[1\] has shape"):
        context.ops.cat([X, X[0]])
    with connect(server.address) as other, pytest.raises(InvalidParameterError, match="another"):
        context.ops.cat([X, other.tensor(X)])


def test_an_index_of_no_place_is_told(context: Context) -> None:
    with pytest.raises(ExecutionFailedError, match="index has the element 3; allowed are 0 to 2"):
        context.ops.index_select(X, np.array([0, 3]), dim=1)
    found = context.ops.embedding(context.tensor(X[0]), np.array([-1]))
    with pytest.raises(ExecutionFailedError, match="aclnnEmbedding: index has the element -1"):
        found.numpy()
