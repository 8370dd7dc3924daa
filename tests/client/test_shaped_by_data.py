"""Outputs that are given as large as they may become: the run tells the shape, and the tensor takes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aclnn_client import Context, Tensor, aio, connect, ops
from aclnn_client.plans import known_signature
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        yield server


@pytest.fixture
def context(server: Server) -> Iterator[Context]:
    with connect(server.address) as context:
        yield context


def select(context: Context, mask: npt.NDArray[Any], out: Tensor) -> None:
    """Queues a MaskedSelect of X."""
    x, chosen = context.tensor(X), context.tensor(mask)
    size, executor = ops.aclnnMaskedSelectGetWorkspaceSize(x, chosen, out)
    ops.aclnnMaskedSelect(context.malloc(size), size, executor)


def test_the_shape_is_there_when_the_stream_has_been_waited_for(context: Context) -> None:
    out = context.empty((12,), "float32")
    select(context, X % 5 == 0, out)
    context.default_stream.synchronize()
    assert out.shape == (3,)
    np.testing.assert_array_equal(out.numpy(), [0, 5, 10])


def test_reading_waits_for_the_shape(context: Context) -> None:
    out = context.empty((12,), "float32")
    select(context, X > 100, out)
    assert out.numpy().shape == (0,)
    select(context, X < 100, out := context.empty((12,), "float32"))
    np.testing.assert_array_equal(out.numpy(), X.reshape(-1))


def test_two_dimensions_lie_one_after_the_other(context: Context) -> None:
    found = context.empty((2, 12), "int64")
    size, executor = ops.aclnnNonzeroV2GetWorkspaceSize(context.tensor(X), found)
    ops.aclnnNonzeroV2(context.malloc(size), size, executor)
    np.testing.assert_array_equal(found.numpy(), np.nonzero(X))
    assert (found.shape, found.strides, found.storage_shape) == ((2, 11), (11, 1), (2, 12))


def test_the_tensor_is_used_with_its_new_shape(context: Context) -> None:
    out, doubled = context.empty((12,), "float32"), context.empty((3,), "float32")
    select(context, X % 5 == 0, out)
    context.synchronize()
    size, executor = ops.aclnnMulsGetWorkspaceSize(out, 2, doubled)
    ops.aclnnMuls(context.malloc(size), size, executor)
    np.testing.assert_array_equal(doubled.numpy(), [0, 10, 20])


def test_each_run_of_a_repeatable_executor_tells_its_shape(context: Context) -> None:
    x, mask = context.tensor(X), context.tensor(X > 4)
    first, second = (context.empty((12,), "float32") for _ in range(2))
    _, executor = ops.aclnnMaskedSelectGetWorkspaceSize(x, mask, first, repeatable=True)
    executor.run()
    context.synchronize()
    assert first.shape == (7,)
    executor.run(mask=context.tensor(X > 9), out=second)
    assert (second.numpy().tolist(), first.shape) == ([10, 11], (7,))


@pytest.mark.asyncio
async def test_the_asyncio_twin_takes_it_too(server: Server) -> None:
    async with aio.connect(server.address) as context:
        x, mask = await context.tensor(X), await context.tensor(X > 4)
        out = context.empty((12,), "float32")
        size, executor = await aio.ops.aclnnMaskedSelectGetWorkspaceSize(x, mask, out)
        await aio.ops.aclnnMaskedSelect(context.malloc(size), size, executor)
        await context.synchronize()
        assert out.shape == (7,)


def test_the_catalogue_names_such_outputs(context: Context) -> None:
    told = {info.name: info for info in context.operators()}["aclnnMaskedSelect"]
    assert [row.shaped_by_data for row in told.parameters] == [False, False, True]
    assert told.signature() == known_signature("aclnnMaskedSelect")
