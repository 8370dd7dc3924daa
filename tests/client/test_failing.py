"""A call that fails keeps nothing of its caller: tensors go with their last name, as after any other."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterator

import numpy as np
import pytest

from aclnn_client import AclnnError, Context, aio, connect, ops
from aclnn_client.buffer import AnyBuffer
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server

X = np.arange(8, dtype=np.float32)
TOO_MUCH = 1 << 60

pytestmark = pytest.mark.usefixtures("no_collector")


@pytest.fixture(scope="module")
def host() -> Iterator[Server]:
    """A server of the host's CPU."""
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        yield server


def buffers() -> int:
    """Buffers that there are, in whatever names or cycles."""
    return sum(isinstance(each, AnyBuffer) for each in gc.get_objects())


def phase_one(context: Context) -> None:
    x, out = context.tensor(X), context.empty((3,), "int8")
    with pytest.raises(AclnnError, match="out is INT8"):
        ops.aclnnAbsGetWorkspaceSize(x, out)


def one_line(context: Context) -> None:
    x = context.tensor(X)
    with pytest.raises(AclnnError, match="have the shapes"):
        context.ops.add(x, X[:7])


def a_wait(context: Context) -> None:
    x, _ = context.tensor(X), context.malloc(TOO_MUCH)
    with pytest.raises(AclnnError, match=f"bytes is {TOO_MUCH}"):
        context.synchronize()
    assert x.shape == X.shape


def a_second_run(context: Context) -> None:
    x, out = context.tensor(X), context.empty(X.shape, "float32")
    _, executor = ops.aclnnAbsGetWorkspaceSize(x, out)
    executor.run()
    executor.run()
    with pytest.raises(AclnnError, match="spent"):
        context.synchronize()


def a_download(context: Context) -> None:
    x = context.tensor(X)
    x.free()
    with pytest.raises(AclnnError, match="does not exist"):
        x.numpy()


async def phase_one_aio(context: aio.Context) -> None:
    x, out = await context.tensor(X), context.empty((3,), "int8")
    with pytest.raises(AclnnError, match="out is INT8"):
        await aio.ops.aclnnAbsGetWorkspaceSize(x, out)


async def a_wait_aio(context: aio.Context) -> None:
    x, _ = await context.tensor(X), context.malloc(TOO_MUCH)
    with pytest.raises(AclnnError, match=f"bytes is {TOO_MUCH}"):
        await context.synchronize()
    assert x.shape == X.shape


@pytest.mark.parametrize("fail", [phase_one, one_line, a_wait, a_second_run, a_download])
def test_nothing_stays(host: Server, fail: Callable[[Context], None]) -> None:
    with connect(host.address, shared_memory=False) as context:
        before = buffers()
        fail(context)
        assert buffers() == before


@pytest.mark.parametrize("fail", [phase_one_aio, a_wait_aio])
@pytest.mark.asyncio
async def test_nothing_stays_with_asyncio(
    host: Server, fail: Callable[[aio.Context], Awaitable[None]]
) -> None:
    async with aio.connect(host.address, shared_memory=False) as context:
        before = buffers()
        await fail(context)
        assert buffers() == before
