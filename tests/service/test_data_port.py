"""The port of data connections: what it counts is exact after every end, and no client stops it."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.server import Server
from aclnn_server.sessions import data_port
from tests.service.calling import Stubs, Unary
from tests.service.gated import CountingDevice
from tests.service.living import Open, health_of
from tests.service.transferring import READ, WRITE, Transferring, asking, dialled
from tests.waiting import until

ATTACH = pb.AttachDataConnectionRequest()
SIZE = 1 << 20


@pytest.fixture
def served(start: Open) -> Iterator[tuple[Server, Stubs]]:
    """A server; in the end its port holds nothing, and lets the next one in."""
    server, stubs = start()
    yield server, stubs
    check_nothing_is_left(server)
    check_lets_in(stubs)
    check_nothing_is_left(server)


def check_nothing_is_left(server: Server) -> None:
    """Checks that no connection, stranger, offer or thread is left."""
    port = server._data_port
    until(lambda: not (port._connections or port._strangers or port._threads))
    assert not port._offers
    assert set(port._selector.get_map()) == {port._socket.fileno(), port._woken.fileno()}


def check_lets_in(stubs: Stubs) -> None:
    """Checks that a client gets a connection, and can use it."""
    caller = Unary(stubs)
    with Transferring(caller(ATTACH)) as data:
        caller(pb.MallocRequest(buffer_id=1, bytes=4))
        assert data.write(1, b"1234")
        assert data.read(1, 4) == b"1234"
    caller.close()


# --- every end --------------------------------------------------------------------------------------


def reset(data: Transferring) -> None:
    """Breaks it off."""
    data.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    data.close()


def half_close(data: Transferring) -> None:
    """Says that nothing more is sent, in the middle of a transfer."""
    data.socket.sendall(asking(WRITE, 1, 0, SIZE) + bytes(1000))
    data.socket.shutdown(socket.SHUT_WR)
    assert data.over


def break_a_read(data: Transferring) -> None:
    """Asks for more than fits on the way, and resets."""
    for _ in range(20):
        data.socket.sendall(asking(READ, 1, 0, SIZE))
    reset(data)


def ask_what_cannot_be(data: Transferring) -> None:
    """Asks for a buffer that there is not."""
    data.socket.sendall(asking(READ, 99, 0, 1))
    assert data.over


CLIENTS: dict[str, Callable[[Transferring], None]] = {
    "closed": Transferring.close,
    "reset": reset,
    "half-closed": half_close,
    "reset in a read": break_a_read,
    "wrong": ask_what_cannot_be,
}
CALLS: dict[str, Callable[[Unary], object]] = {
    "detached": lambda caller: caller(pb.DetachDataConnectionRequest()),
    "attached again": lambda caller: caller(ATTACH),
    "the context closed": lambda caller: None,
}


@pytest.mark.parametrize("busy", [False, True], ids=["quiet", "busy"])
@pytest.mark.parametrize("end", [*CLIENTS, *CALLS])
def test_the_count_after_each_end(served: tuple[Server, Stubs], end: str, *, busy: bool) -> None:
    server, stubs = served
    caller = Unary(stubs)
    caller(pb.MallocRequest(buffer_id=1, bytes=SIZE))
    with Transferring(caller(ATTACH)) as data:
        if not busy:  # watched by the port's thread, and by none of its own
            until(lambda: not server._data_port._threads)
        elif end in CALLS:
            data.socket.sendall(asking(WRITE, 1, 0, SIZE) + bytes(1000))
        assert server._data_port._connections == 1
        if end in CLIENTS:
            CLIENTS[end](data)
        else:
            CALLS[end](caller)
        caller.close()


def test_who_hangs_up_at_every_byte_of_the_secret(served: tuple[Server, Stubs]) -> None:
    _, stubs = served
    caller = Unary(stubs)
    for size in range(33):
        offer = caller(ATTACH)
        with dialled(offer.port) as stranger:
            stranger.sendall(offer.secret[:size])
            if size % 2:
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    caller.close()


def test_a_hundred_come_and_go_at_once(served: tuple[Server, Stubs]) -> None:
    _, stubs = served

    def come_and_go(number: int) -> None:
        caller = Unary(stubs)
        for _ in range(4):
            with Transferring(caller(ATTACH)) as data:
                caller(pb.MallocRequest(buffer_id=1, bytes=64))
                assert data.write(1, bytes([number] * 64))
                assert data.read(1, 64) == bytes([number] * 64)
        caller.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(come_and_go, range(25)))


def test_no_more_than_may_be_are_let_in_though_more_were_offered(
    served: tuple[Server, Stubs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_port, "CONNECTIONS", 1)
    server, stubs = served
    callers = [Unary(stubs) for _ in range(3)]
    offers = [caller(ATTACH) for caller in callers]
    strangers = [dialled(offer.port) for offer in offers]
    until(lambda: len(server._data_port._strangers) == 3)
    for stranger, offer in zip(strangers, offers, strict=True):
        stranger.sendall(offer.secret)
    assert sorted(stranger.recv(1) for stranger in strangers) == [b"", b"", b"\1"]
    for stranger, caller in zip(strangers, callers, strict=True):
        stranger.close()
        caller.close()


# --- what stops nobody else -------------------------------------------------------------------------


def test_a_secret_byte_by_byte_takes_no_longer_than_may_be(
    served: tuple[Server, Stubs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_port, "STRANGE_SECONDS", 0.1)
    server, _ = served
    with dialled(server._data_port.number) as stranger:
        stranger.settimeout(0.02)
        for _ in range(31):
            if hung_up(stranger):
                return
        pytest.fail("it was listened to for longer")


def hung_up(stranger: socket.socket) -> bool:
    """Whether the server has hung up; says another byte where it has not."""
    try:
        stranger.sendall(b"x")
        return stranger.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_failure_that_nobody_foresaw_ends_that_connection_only(
    served: tuple[Server, Stubs], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the device is ill")

    _, stubs = served
    caller = Unary(stubs)
    caller(pb.MallocRequest(buffer_id=1, bytes=4))
    with Transferring(caller(ATTACH)) as data, monkeypatch.context() as ill:
        ill.setattr(CountingDevice, "write", fail)
        data.socket.sendall(asking(WRITE, 1, 0, 4) + b"1234")
        assert data.over
    caller.close()


@pytest.mark.parametrize("when", ["a stranger", "a transfer"])
def test_the_system_has_no_thread_left(
    served: tuple[Server, Stubs], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "aclnn-transfer":
            raise RuntimeError("can't start new thread")
        start(thread)

    server, stubs = served
    caller = Unary(stubs)
    offer = caller(ATTACH)
    if when == "a stranger":
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", refuse)
            with dialled(offer.port) as stranger:
                assert hangs_up(stranger)
    else:
        with Transferring(offer) as data:
            until(lambda: not server._data_port._threads)
            with monkeypatch.context() as full:
                full.setattr(threading.Thread, "start", refuse)
                data.socket.sendall(asking(READ, 1, 0, 4))
                assert hangs_up(data.socket)
    caller.close()


def hangs_up(client: socket.socket) -> bool:
    """Whether the other side hangs up, in an orderly way or not."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_the_system_has_no_file_left(
    served: tuple[Server, Stubs], monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, refused = socket.socket.accept, threading.Semaphore(0)

    def refuse(listener: socket.socket) -> tuple[socket.socket, object]:
        refused.release()
        raise OSError(24, "Too many open files")

    server, stubs = served
    with monkeypatch.context() as full:
        full.setattr(socket.socket, "accept", refuse)
        with dialled(server._data_port.number) as stranger:
            for _ in range(3):
                assert refused.acquire(timeout=30)
            full.setattr(socket.socket, "accept", accept)
            stranger.sendall(bytes(32))
            assert stranger.recv(1) == b""
    assert health_of(stubs) == 1


def test_strangers_do_not_hold_up_the_end(start: Open) -> None:
    server, _ = start()
    with dialled(server._data_port.number):
        until(lambda: server._data_port._strangers)
        begin = time.monotonic()
        server.stop(0)
        assert time.monotonic() - begin < data_port.STRANGE_SECONDS
