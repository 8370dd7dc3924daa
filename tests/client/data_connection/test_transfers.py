"""Large transfers over a connection of their own: right, in order, and done otherwise where it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
import time

import numpy as np
import pytest

from aclnn.data_connection import DONE, Direction, Transfer
from aclnn.errors import HandleNotFoundError, OutOfMemoryError, ServerUnavailable
from aclnn_client import Context, aio, connect, data_connection, ops
from aclnn_client.connection import Connection
from aclnn_client.data_connection import DATA_BYTES, TRIES
from aclnn_client.progress import Progress
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from aclnn_server.sessions import data_port
from tests.chaos.proxy import Fault, Kind, Proxy, Way
from tests.waiting import until

COUNT = DATA_BYTES  # of fp32: four times as many bytes
VALUES = np.arange(COUNT, dtype=np.float32)
DIRECT, ORDINARY = "data connection", "tcp"


# --- what moves -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [DATA_BYTES - 1, DATA_BYTES, 3 * DATA_BYTES + 5])
def test_bytes_come_back_as_they_went(context: Context, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    tensor = context.tensor(data)
    np.testing.assert_array_equal(tensor.numpy(), data)
    assert context.transport == (DIRECT if size >= DATA_BYTES else ORDINARY)
    tensor.buffer.write(data[::-1].copy(), 0)
    assert tensor.buffer.read() == data[::-1].tobytes()


def test_a_part_of_a_buffer(context: Context) -> None:
    buffer = context.malloc(3 * DATA_BYTES)
    assert buffer is not None
    buffer.write(b"\7" * DATA_BYTES, offset=DATA_BYTES)
    assert buffer.read() == bytes(DATA_BYTES) + b"\7" * DATA_BYTES + bytes(DATA_BYTES)
    assert buffer.read(DATA_BYTES - 1, DATA_BYTES + 2) == b"\0" + b"\7" * DATA_BYTES + b"\0"


def test_a_view_and_a_packed_type(context: Context) -> None:
    base = VALUES.reshape(1024, -1)
    tensor = context.tensor(base[:, 3:])
    assert tensor.offset == 3
    np.testing.assert_array_equal(tensor.numpy(), base[:, 3:])
    bits = np.arange(2 * DATA_BYTES, dtype=np.int8) % 8
    np.testing.assert_array_equal(context.tensor(bits, "INT4").numpy(), bits)


def test_calls_on_arrays_and_on_tensors(context: Context) -> None:
    np.testing.assert_array_equal(context.ops.add(VALUES, VALUES), VALUES * 2)
    x, out = context.tensor(VALUES), context.empty((COUNT,), np.float32)
    size, executor = ops.aclnnAbsGetWorkspaceSize(x, out)
    ops.aclnnAbs(context.malloc(size), size, executor)
    np.testing.assert_array_equal(out.numpy(), VALUES)
    assert context.transport == DIRECT


def test_a_write_comes_after_work_that_was_queued_before(context: Context) -> None:
    x, out = context.tensor(VALUES), context.empty((COUNT,), np.float32)
    for number in range(5):
        size, executor = ops.aclnnAbsGetWorkspaceSize(x, out)
        ops.aclnnAbs(context.malloc(size), size, executor)
        x.write(np.full(COUNT, number, np.float32))
        np.testing.assert_array_equal(
            out.numpy(), VALUES if not number else np.full(COUNT, number - 1)
        )


def test_what_was_freed_is_not_seen_by_others(host: Server, context: Context) -> None:
    for _ in range(2):
        context.tensor(VALUES + 1).free()
    assert not context.empty((COUNT,), np.float32).numpy().any()
    context.tensor(VALUES + 1).free()
    context.synchronize()
    with connect(host.address) as other:
        assert not other.empty((COUNT,), np.float32).numpy().any()


def test_a_failure_to_allocate_is_told_with_its_cause() -> None:
    quota = 2 * VALUES.nbytes
    config = ServerConfig(listen="127.0.0.1:0", shared_memory=False, max_context_bytes=quota)
    with Server(config) as server, connect(server.address) as context:
        hog = context.malloc(quota - 1)
        context.synchronize()
        with pytest.raises(
            OutOfMemoryError, match=f"asks for {VALUES.nbytes} bytes; the context has 1"
        ):
            context.tensor(VALUES).numpy()
        assert hog is not None
        hog.free()
        np.testing.assert_array_equal(context.tensor(VALUES).numpy(), VALUES)
        assert context.transport == DIRECT


def test_threads_take_turns(context: Context) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(5):
                tensor = context.tensor(VALUES + number)
                np.testing.assert_array_equal(tensor.numpy(), VALUES + number)
                tensor.free()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert context.transport == DIRECT


def test_a_progress_bar(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    tensor = context.tensor(VALUES, progress=True)
    assert "upload" in capsys.readouterr().err
    tensor.numpy(progress=True)
    assert "download" in capsys.readouterr().err


def test_on_an_event_loop(host: Server) -> None:
    async def main() -> None:
        async with aio.connect(host.address) as context:
            tensors = await asyncio.gather(*(context.tensor(VALUES + n) for n in range(3)))
            for number, tensor in enumerate(tensors):
                np.testing.assert_array_equal(await tensor.numpy(), VALUES + number)
            np.testing.assert_array_equal(await context.ops.abs(VALUES), VALUES)
            assert context.transport == DIRECT

    asyncio.run(main())
    until(lambda: not host.registry.usage.contexts)


def test_what_moves_is_counted(host: Server, context: Context) -> None:
    tensor = context.tensor(VALUES)
    tensor.numpy()
    meter = host.registry.context(context._context_id).meter
    assert meter is not None
    tally = meter.total()
    assert tally.methods["write_buffer"] == 1
    for counted in (tally.received, tally.sent):
        assert 0 <= counted - VALUES.nbytes < 4096


# --- where there is none ----------------------------------------------------------------------------


def check_ordinary(context: Context) -> None:
    """Checks that large arrays travel in messages."""
    tensor = context.tensor(VALUES)
    np.testing.assert_array_equal(tensor.numpy(), VALUES)
    np.testing.assert_array_equal(context.ops.abs(VALUES), VALUES)
    assert context.transport == ORDINARY


def test_a_server_may_offer_none() -> None:
    config = ServerConfig(listen="127.0.0.1:0", shared_memory=False, data_port="off")
    with Server(config) as server, connect(server.address) as context:
        check_ordinary(context)


def test_the_port_may_not_be_to_be_reached(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def dial(connection: Connection, port: int, timeout: float) -> socket.socket:
        tried.append(port)
        raise TimeoutError

    monkeypatch.setattr(Connection, "dial", dial)
    check_ordinary(context)
    assert len(tried) == 1


def test_something_else_may_be_at_the_port(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def dial(connection: Connection, port: int, timeout: float) -> socket.socket:
            made = socket.create_connection(other.getsockname(), 0.1)
            other.accept()[0].close()
            return made

        monkeypatch.setattr(Connection, "dial", dial)
        check_ordinary(context)


def test_a_server_without_room_is_asked_again(
    host: Server, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_port, "CONNECTIONS", 0)
    check_ordinary(context)
    monkeypatch.undo()
    check_ordinary(context)
    monkeypatch.setattr(data_connection, "AGAIN_SECONDS", 0.0)
    context.data._not_before = 0.0
    context.tensor(VALUES)
    assert context.transport == DIRECT


# --- where it breaks --------------------------------------------------------------------------------

SETTLING = 32 + 1
"""Bytes each way until a transfer can be asked for: the secret up, and one byte down."""


@pytest.mark.parametrize("kind", ["cut", "reset", "half-close"])
@pytest.mark.parametrize(
    ("way", "after"),
    [
        ("up", 16),
        ("up", 32),
        ("up", 40),
        ("up", 64),
        ("up", 64 + VALUES.nbytes // 2),
        ("up", 64 + VALUES.nbytes),
        ("down", 0),
        ("down", 1),
        ("down", 2),
        ("down", 2 + VALUES.nbytes // 2),
        ("down", 1 + VALUES.nbytes),
    ],
)
def test_a_break_at_any_byte(
    context: Context, proxy: Proxy, kind: Kind, way: Way, after: int
) -> None:
    proxy.plan(Fault(kind, way, after))
    x, out = context.tensor(VALUES), context.empty((COUNT,), np.float32)
    for number in range(3):
        np.testing.assert_array_equal(x.numpy(), VALUES + number)
        size, executor = ops.aclnnAddsGetWorkspaceSize(x, 1.0, 1.0, out)
        ops.aclnnAdds(context.malloc(size), size, executor)
        x.write(out.numpy())
    np.testing.assert_array_equal(x.numpy(), VALUES + 3)
    assert [fault.kind for fault in proxy.happened] == [kind]
    if proxy.connections > 1 or after > SETTLING:
        assert context.transport == DIRECT


def test_nothing_late_is_written(context: Context, proxy: Proxy) -> None:
    x = context.tensor(VALUES)
    for at in (1000, VALUES.nbytes // 3, VALUES.nbytes):
        proxy.plan(Fault("cut", "up", at))
        x.write(VALUES * 2)
        x.buffer.fill(0)
        assert not x.numpy().any()


def test_it_is_given_up_after_some_breaks(context: Context, proxy: Proxy) -> None:
    context.tensor(VALUES).free()
    for broken in range(1, TRIES + 1):
        proxy.plan(Fault("cut", "up", 100))
        np.testing.assert_array_equal(context.tensor(VALUES).numpy(), VALUES)
        if broken < TRIES:
            # Two in a row, of which the second is the download, are no reason to give up.
            assert context.transport == DIRECT
            context.data._broken = broken
    check_ordinary(context)


def test_a_server_that_falls_silent(
    context: Context, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.data._silence = 0.1
    proxy.plan(Fault("stall", "up", 1000))
    np.testing.assert_array_equal(context.tensor(VALUES).numpy(), VALUES)
    proxy.release()


def test_a_context_outlives_a_connection_that_answers_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def swallow(listening: socket.socket) -> None:
        stranger, _ = listening.accept()
        with stranger:
            stranger.recv(32, socket.MSG_WAITALL)
            stranger.sendall(DONE)
            while stranger.recv(1 << 16):
                pass

    config = ServerConfig(listen="127.0.0.1:0", shared_memory=False, lease_seconds=1.5)
    with Server(config) as server, socket.create_server(("127.0.0.1", 0)) as listening:

        def dial(connection: Connection, port: int, timeout: float) -> socket.socket:
            return socket.create_connection(listening.getsockname(), timeout)

        monkeypatch.setattr(Connection, "dial", dial)
        swallowing = threading.Thread(target=swallow, args=(listening,))
        swallowing.start()
        # Nothing keeps the lease yet but the time since the context was opened: no command was sent.
        with connect(server.address) as context:
            np.testing.assert_array_equal(context.ops.add(VALUES, VALUES), VALUES * 2)
        swallowing.join()


def test_a_server_that_has_ended_is_noticed_by_who_asks_for_a_transfer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection = socket.create_connection(listening.getsockname())
        peer, _ = listening.accept()
        with connection, peer:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:  # until it takes no more
                    connection.send(bytes(1 << 16))
            connection.settimeout(30)
            peer.shutdown(socket.SHUT_WR)
            begin = time.monotonic()
            transfer = Transfer(Direction.WRITE, 1, 0, 1)
            bar = Progress("upload", 1, shown=False)
            with pytest.raises(ConnectionResetError):
                data_connection._send(connection, transfer, memoryview(b"x"), bar)
            assert time.monotonic() - begin < 10


def test_an_interrupt_leaves_it_usable(context: Context, proxy: Proxy) -> None:
    x = context.tensor(VALUES)
    proxy.plan(Fault("stall", "up", VALUES.nbytes // 2))
    interrupter = threading.Thread(target=_interrupt, args=(proxy,))
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        x.write(VALUES * 2)
    interrupter.join()
    proxy.release()
    x.write(VALUES * 3)
    np.testing.assert_array_equal(x.numpy(), VALUES * 3)


def _interrupt(proxy: Proxy) -> None:
    proxy.stalled.acquire(timeout=30)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_a_cancelled_task_leaves_it_usable(host: Server, proxy: Proxy) -> None:
    async def main() -> None:
        async with aio.connect(host.address) as context:
            x = await context.tensor(VALUES)
            proxy.plan(Fault("stall", "up", VALUES.nbytes // 2))
            writing = asyncio.ensure_future(x.write(VALUES * 2))
            await asyncio.to_thread(proxy.stalled.acquire, timeout=30)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing
            proxy.release()
            await x.write(VALUES * 3)
            np.testing.assert_array_equal(await x.numpy(), VALUES * 3)

    asyncio.run(main())


def test_the_context_is_closed_in_the_middle(host: Server, proxy: Proxy) -> None:
    context = connect(host.address)
    x = context.tensor(VALUES)
    proxy.plan(Fault("stall", "up", VALUES.nbytes // 2))
    failures: list[BaseException] = []

    def write() -> None:
        try:
            x.write(VALUES)
        except BaseException as error:
            failures.append(error)

    writing = threading.Thread(target=write)
    writing.start()
    assert proxy.stalled.acquire(timeout=30)
    context.close()
    writing.join(30)
    assert not writing.is_alive()
    assert {type(failure) for failure in failures} <= {HandleNotFoundError}
    proxy.release()
    until(lambda: not host.registry.usage.contexts)


def test_the_server_is_gone() -> None:
    config = ServerConfig(listen="127.0.0.1:0", shared_memory=False)
    server = Server(config).start()
    context = connect(server.address)
    x = context.tensor(VALUES)
    server.stop(0)
    with contextlib.closing(context), pytest.raises(ServerUnavailable):
        x.buffer.write(VALUES, progress=True)
