"""Tensors in memory that client and server share: no bytes travel, and the memory outlives everything."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aclnn.errors import (
    AclnnError,
    ExecutionFailedError,
    HandleNotFoundError,
    ServerUnavailable,
    UnsupportedError,
)
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client import Context, aio, connect, mapping, ops
from aclnn_client.mapping import Mapping
from aclnn_client.pending import Pending
from aclnn_client.regions import Regions
from aclnn_client.shared import (
    CALL_BYTES,
    SEGMENT_BYTES,
    SHARED_BYTES,
    SharedMemory,
    handle_of,
)
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.chaos.proxy import Proxy

COUNT = 1 << 18
VALUES = np.arange(COUNT, dtype=np.float32)


@pytest.fixture(scope="module")
def host() -> Iterator[Server]:
    """A server of the host's CPU."""
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        yield server


@pytest.fixture
def context(host: Server) -> Iterator[Context]:
    """A context of it."""
    with connect(host.address) as context:
        yield context


# --- connections that break -----------------------------------------------------------------------------


@pytest.fixture
def proxy(host: Server) -> Iterator[Proxy]:
    """A proxy before the server."""
    with Proxy(host.address) as proxy:
        yield proxy


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_break_while_it_is_asked_for_is_not_noticed(proxy: Proxy, way: str) -> None:
    with connect(proxy.address) as context:
        before = context.usage().bytes
        proxy.cut_after(**{way: 30})
        tensor = context.tensor(VALUES)
        assert tensor.buffer.shared is not None
        np.testing.assert_array_equal(tensor.numpy(), VALUES)
        assert [fault.way for fault in proxy.happened] == [way]
        # Asked for twice, and made once.
        assert context.usage().bytes - before == SEGMENT_BYTES


def test_it_is_asked_for_again_over_the_next_connection(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aclnn_client.connection.CONNECT_SECONDS", 0.2)
    asked: list[int] = []
    attach = SharedMemory._attach

    def counted(self: SharedMemory, size: int) -> Any:  # noqa: ANN401
        asked.append(size)
        return attach(self, size)

    monkeypatch.setattr(SharedMemory, "_attach", counted)
    with connect(proxy.address) as context:
        context.synchronize()
        proxy.broken = True
        proxy.cut()
        for _ in range(3):
            assert context.empty((COUNT,), "float32").buffer.shared is None
        assert len(asked) == 1  # then nobody waits for the server any more
        proxy.broken = False
        context.synchronize()
        tensor = context.tensor(VALUES)
        assert tensor.buffer.shared is not None
        np.testing.assert_array_equal(tensor.numpy(), VALUES)
    assert len(asked) == 2


# --- without copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("excess", "shared"), [(0, False), (8, True)])
def test_arrays_of_a_call_lie_in_it_where_they_are_larger_than_what_it_carries(
    host: Server, excess: int, shared: bool
) -> None:
    x = VALUES[: (CALL_BYTES + excess) // 8]
    with connect(host.address) as context, connect(host.address, shared_memory=False) as apart:
        got, other = context.ops.neg(x), apart.ops.neg(x)
        assert (handle_of(got) is not None) is shared
        assert handle_of(other) is None
        assert apart.inline_bytes > context.inline_bytes == CALL_BYTES
    np.testing.assert_array_equal(got, -x)
    np.testing.assert_array_equal(other, -x)


def test_large_tensors_lie_in_it_without_being_asked_to(context: Context) -> None:
    assert context.transport == "tcp"
    small = context.tensor(VALUES[: SHARED_BYTES // 4 - 1])
    assert small.buffer.shared is None
    large = context.tensor(VALUES[: SHARED_BYTES // 4])
    assert large.buffer.shared is not None
    assert context.transport == "shared memory"
    with pytest.raises(UnsupportedError, match="connect with shared_memory=True"):
        small.view()
    np.testing.assert_array_equal(large.numpy(), VALUES[: SHARED_BYTES // 4])


def test_both_sides_see_what_the_other_writes(context: Context) -> None:
    tensor, out = context.tensor(VALUES), context.empty((COUNT,), "float32")
    seen = out.view()
    assert not seen.any()
    tensor.view()[:] = -VALUES
    size, executor = ops.aclnnAbsGetWorkspaceSize(tensor, out)
    ops.aclnnAbs(context.malloc(size), size, executor)
    context.synchronize()
    np.testing.assert_array_equal(seen, VALUES)


def test_a_call_on_views_moves_nothing_and_is_one_request(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = context.tensor(VALUES).view()
    submitter, submit = context.commands.submitter, context.commands.submitter.submit

    def interrupted(
        commands: Sequence[Pending], *, hold: bool = False, linger: bool = False
    ) -> None:
        submit(commands, hold=hold, linger=linger)
        submitter.send_lingering()  # as its thread does, whenever the machine lets it

    monkeypatch.setattr(submitter, "submit", interrupted)
    for _ in range(3):
        chunks = context.usage().bytes
        sent, waits = submitter.requests_sent, submitter.responses_waited
        y = context.ops.abs(x)
        assert (submitter.requests_sent - sent, submitter.responses_waited - waits) == (1, 1)
        assert handle_of(y) is not None
        assert context.usage().bytes == chunks
    assert handle_of(context.ops.abs(y)) is not handle_of(y)
    np.testing.assert_array_equal(y, VALUES)


def test_parts_of_views_are_used_in_place(context: Context) -> None:
    x = context.tensor(VALUES).view()
    half = context.ops.abs(x[COUNT // 2 :])
    np.testing.assert_array_equal(half, VALUES[COUNT // 2 :])
    turned = context.ops.abs(x.reshape(512, 512).T)
    np.testing.assert_array_equal(turned, VALUES.reshape(512, 512).T)


def test_writes_wait_for_the_work_before_them(context: Context) -> None:
    tensor, total = context.tensor(VALUES), context.empty((COUNT,), "float32")
    for _ in range(5):
        size, executor = ops.aclnnAbsGetWorkspaceSize(tensor, total)
        ops.aclnnAbs(context.malloc(size), size, executor)
    tensor.write(VALUES + 1)
    np.testing.assert_array_equal(total.numpy(), VALUES)
    tensor.buffer.write(b"\0" * 4, 4)
    assert tensor.numpy()[:3].tolist() == [1, 0, 3]
    assert tensor.buffer.read(8, 4) == np.float32(3).tobytes()


def test_memory_that_is_used_again_begins_as_zeros(context: Context) -> None:
    for _ in range(6):
        tensor = context.empty((COUNT,), "float32")
        assert not tensor.numpy().any()
        tensor.view()[:] = 7
        tensor.free()
    assert context.usage().bytes == 64 << 20


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "bool"])
def test_every_size_and_dtype_where_it_is_a_must(host: Server, dtype: str) -> None:
    with connect(host.address, shared_memory=True) as context:
        tensor = context.empty((3,), dtype)
        tensor.view()[1] = 1
        assert tensor.numpy().astype(int).tolist() == [0, 1, 0]


def test_asyncio(host: Server) -> None:
    async def work() -> npt.NDArray[Any]:
        async with aio.connect(host.address) as context:
            tensor = await context.tensor(VALUES)
            doubled = await context.ops.add(tensor.view(), VALUES)
            assert (await tensor.numpy() == VALUES).all()
            result: npt.NDArray[Any] = doubled
            return result

    np.testing.assert_array_equal(asyncio.run(work()), VALUES * 2)


def test_many_contexts_and_threads(host: Server) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with connect(host.address) as context:
                for step in range(8):
                    x = context.tensor(VALUES + number)
                    y = context.ops.add(x.view(), VALUES)
                    np.testing.assert_array_equal(y, VALUES * 2 + number, err_msg=f"{step}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# --- lifetimes ----------------------------------------------------------------------------------------


def test_a_view_keeps_the_memory_of_a_tensor_that_is_gone(context: Context) -> None:
    view = context.tensor(VALUES).view()
    freed = context.tensor(VALUES + 1)
    kept = freed.view()[3:5]
    freed.free()
    freed.free()
    with pytest.raises(UnsupportedError):
        freed.view()
    for _ in range(4):
        context.tensor(np.zeros(COUNT, np.float32))
        context.synchronize()
    np.testing.assert_array_equal(view, VALUES)
    assert kept.tolist() == [4, 5]
    np.testing.assert_array_equal(context.ops.add(view, VALUES), VALUES * 2)


def test_views_outlive_context_and_server() -> None:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        context = connect(server.address)
        tensor = context.tensor(VALUES)
        view, result = tensor.view(), context.ops.abs(VALUES)
        context.close()
        np.testing.assert_array_equal(view, VALUES)
        other = connect(server.address)
        seen = other.tensor(VALUES).view()
    for array in (view, result, seen):
        np.testing.assert_array_equal(array, VALUES)
    with pytest.raises(AclnnError) as caught:
        other.ops.abs(seen)
    assert isinstance(caught.value, HandleNotFoundError | ServerUnavailable)
    other.close()


def test_a_context_that_nobody_refers_to_is_closed_although_a_result_lives(host: Server) -> None:
    def result() -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = connect(host.address).ops.abs(VALUES)
        return array

    kept = result()
    gc.collect()
    deadline = threading.Event()
    while host.registry.usage.contexts:
        assert not deadline.wait(0.01)
    np.testing.assert_array_equal(kept, VALUES)


def test_a_child_of_this_process_leaves_it_alone(context: Context) -> None:
    view = context.tensor(VALUES).view()
    child = os.fork()
    if not child:
        refused = context.shared.allocate(999, 1 << 20) is None
        os._exit(0 if refused and (view == VALUES).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


# --- where there is none ------------------------------------------------------------------------------


def fallen_back(address: str) -> None:
    """Checks that large tensors travel."""
    with connect(address) as context:
        tensor = context.tensor(VALUES)
        assert tensor.buffer.shared is None
        np.testing.assert_array_equal(context.ops.abs(tensor.numpy()), VALUES)
        assert context.transport == "data connection"
        assert context.usage().bytes == VALUES.nbytes


def test_a_server_may_offer_none() -> None:
    with Server(ServerConfig(listen="127.0.0.1:0", shared_memory=False)) as server:
        fallen_back(server.address)
        with pytest.raises(UnsupportedError, match="this server offers no shared memory"):
            connect(server.address, shared_memory=True)
        assert server.registry.usage.contexts == 0


def test_it_may_not_be_to_be_had_from_here(host: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, address: str) -> None:
        raise FileNotFoundError(path)

    monkeypatch.setattr(mapping, "_connected", refuse)
    fallen_back(host.address)
    with pytest.raises(UnsupportedError, match="not to be had from here") as caught:
        connect(host.address, shared_memory=True)
    assert "/dev/shm" not in str(caught.value)
    assert host.registry.usage.contexts == 0


def test_the_quota_may_be_too_small() -> None:
    config = ServerConfig(listen="127.0.0.1:0", max_context_bytes=5 << 20)
    with Server(config) as server, connect(server.address) as context:
        tensors = [context.tensor(VALUES[:COUNT]) for _ in range(4)]
        for tensor in tensors:
            np.testing.assert_array_equal(tensor.numpy(), VALUES)
        assert context.usage().bytes <= 5 << 20


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_another_user_falls_back(host: Server) -> None:
    program = (
        "import os, numpy as np; from aclnn_client import connect\n"
        # What is imported on the way may not be for the other user to read.
        f"with connect('{host.address}', shared_memory=True) as first:\n"
        f"    first.tensor(np.ones({COUNT}, np.float32)).numpy()\n"
        "import encodings.idna\n"
        "os.setuid(65534)\n"
        f"context = connect('{host.address}')\n"
        f"tensor = context.tensor(np.ones({COUNT}, np.float32))\n"
        "assert tensor.buffer.shared is None and tensor.numpy().all(); print(context.transport)\n"
        "context.close()"
    )
    # The other user may not write where coverage keeps its figures.
    environment = {name: value for name, value in os.environ.items() if "COV" not in name}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert (done.stdout, done.stderr) == ("data connection\n", "")


def test_another_process_shares_it(host: Server) -> None:
    program = (
        "import numpy as np; from aclnn_client import connect\n"
        f"with connect('{host.address}') as context:\n"
        f"    view = context.tensor(np.arange({COUNT}, dtype=np.float32)).view()\n"
        "    print(context.transport, context.ops.add(view, view)[-1])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"shared memory {2.0 * (COUNT - 1)}\n", "")


@pytest.mark.parametrize("path", ["/var/run/docker.sock", "/dev/shm/aclnn-memory-" + "0" * 31])
def test_a_client_connects_to_no_other_socket(path: str) -> None:
    with pytest.raises(ConnectionRefusedError, match="no such socket"):
        Mapping(pb.AttachSharedMemoryResponse(path=path, bytes=4096), "localhost:1")


# --- hostile ------------------------------------------------------------------------------------------


def test_a_client_that_scribbles_while_kernels_run_harms_nobody(host: Server) -> None:
    indexes = np.arange(COUNT) % 1000
    table = np.ones((1000, 4), np.float32)
    over = threading.Event()
    with connect(host.address, shared_memory=True) as context:
        tensors = [context.tensor(array) for array in (table, indexes)]
        views = [tensor.view().reshape(-1).view(np.uint8) for tensor in tensors]

        def scribble() -> None:
            random = np.random.default_rng(1)
            while not over.is_set():
                for view in views:
                    start = int(random.integers(0, view.size - 4096))
                    view[start : start + 4096] = random.integers(0, 256, 4096, np.uint8)
                views[1].view(np.int64)[:] = indexes

        thread = threading.Thread(target=scribble)
        thread.start()
        try:
            for _ in range(20):
                with contextlib.suppress(ExecutionFailedError):  # an index names no row
                    context.ops.embedding(*tensors).numpy()
        finally:
            over.set()
            thread.join()
    with connect(host.address) as other:
        np.testing.assert_array_equal(other.ops.abs(-VALUES), VALUES)


# --- regions ------------------------------------------------------------------------------------------


def test_regions_never_overlap_and_come_back() -> None:
    random = np.random.default_rng(3)
    regions = Regions(1 << 20)
    held: dict[int, int] = {}
    dirty = np.zeros(1 << 20, bool)
    for _ in range(3000):
        if held and random.random() < 0.5:
            start = int(random.choice(list(held)))
            regions.give_back(start, held.pop(start))
            continue
        size = int(random.integers(1, 60_000))
        if (found := regions.take(size)) is None:
            continue
        start, fresh = found
        assert start % 64 == 0
        assert start + size <= 1 << 20
        assert all(start + size <= other or other + held[other] <= start for other in held)
        assert not (fresh and dirty[start : start + size].any())
        dirty[start : start + size] = True
        held[start] = size
    for start, size in held.items():
        regions.give_back(start, size)
    assert regions.unused
    assert regions.take(1 << 20) == (0, False)
    assert regions.take(1) is None
