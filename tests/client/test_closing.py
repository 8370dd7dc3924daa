"""What a closed context held is gone, on both sides, though nobody looks for cycles of references."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from aclnn_client import Context, aio, connect, ops
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.waiting import until

CONTEXTS = 5
VALUES = np.arange(1 << 18, dtype=np.float32)
pytestmark = pytest.mark.usefixtures("no_collector")


@pytest.fixture(scope="module", params=["tcp", "unix"])
def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of the host's CPU in this process, so that the files of both sides are seen."""
    unix = f"unix:{tmp_path_factory.mktemp('host')}/socket"
    listen = unix if request.param == "unix" else "127.0.0.1:0"
    with Server(ServerConfig(listen=listen)) as server:
        yield server


def held() -> Counter[str]:
    """Open files of this process, by kind, and segments that it maps."""
    files: Counter[str] = Counter()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            files[os.readlink(link).partition(":")[0]] += 1
    files["mapped"] = Path("/proc/self/maps").read_text(encoding="utf-8").count("memfd:aclnn-serve")
    return files


def work(address: str, shared_memory: bool | None) -> None:
    """A client that uses what there is, and closes its context."""
    with connect(address, shared_memory=shared_memory) as context:
        x, out = context.tensor(VALUES), context.empty(VALUES.shape, "float32")
        stream, event = context.create_stream(), context.create_event()
        for _ in range(3):
            _, executor = ops.aclnnAbsGetWorkspaceSize(x, out)
            ops.aclnnAbs(None, 0, executor, stream)
        event.record(stream)
        _, kept = ops.aclnnAbsGetWorkspaceSize(x, out, repeatable=True)
        ops.aclnnAbs(None, 0, kept)
        context.synchronize()
        for values in (VALUES, VALUES[:8]):
            np.testing.assert_array_equal(context.ops.add(values, values), values * 2)
        assert out.numpy()[-1] == VALUES[-1]


def work_aio(address: str, shared_memory: bool | None) -> None:
    """The same with asyncio."""

    async def use() -> None:
        async with aio.connect(address, shared_memory=shared_memory) as context:
            x = await context.tensor(VALUES)
            result = await context.ops.add(x, VALUES)
            np.testing.assert_array_equal(await result.numpy(), VALUES * 2)
            assert (await x.numpy())[-1] == VALUES[-1]

    asyncio.run(use())


@pytest.mark.parametrize("shared_memory", [None, True, False])
@pytest.mark.parametrize("client", [work, work_aio])
def test_nothing_stays(
    host: Server, client: Callable[[str, bool | None], None], shared_memory: bool | None
) -> None:
    client(host.address, shared_memory)  # what is made once is there
    gc.collect()
    until(lambda: not host.registry.usage.contexts)
    before = held()
    for _ in range(CONTEXTS):
        client(host.address, shared_memory)
    until(lambda: not held() - before, told=lambda: held() - before)
    assert host.registry.usage.contexts == 0


def test_what_arrays_refer_to_stays_until_they_are_gone(host: Server) -> None:
    context = connect(host.address, shared_memory=True)
    view = context.tensor(VALUES).view()
    context.close()
    mapped = held()["mapped"]
    np.testing.assert_array_equal(view, VALUES)
    del view
    until(lambda: held()["mapped"] < mapped)
    assert isinstance(context, Context)
    assert context.closed
