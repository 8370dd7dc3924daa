"""Data connections: who gets one, what moves over it and when, and how it ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import grpc
import pytest

from aclnn.errors import (
    HandleNotFoundError,
    LimitExceededError,
    UnsupportedError,
)
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.access.listening import ListenError
from aclnn_server.config import ConfigError, ServerConfig
from aclnn_server.server import Server
from aclnn_server.sessions import data_connection, data_port
from tests.service.calling import Caller, Stubs, Unary, refused
from tests.service.conftest import Serve
from tests.service.gated import CountingDevice, GatedBackend
from tests.service.requests import run
from tests.service.test_memory import large
from tests.service.transferring import CREATE, READ, WRITE, Transferring, asking, dialled
from tests.waiting import until

ATTACH = pb.AttachDataConnectionRequest()
DETACH = pb.DetachDataConnectionRequest()
SIZE = (2 << 20) + 12345
"""More than goes at once to a device whose memory the host cannot reach."""
CONTENT = bytes(i * 7 % 251 for i in range(SIZE))


@pytest.fixture(params=["in place", "staged"])
def reach(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices whose memory the host can reach, and others."""
    if request.param == "in place":
        monkeypatch.setattr(
            CountingDevice,
            "reach",
            lambda device, memory: device.bytes_of(memory).data,
        )


@pytest.fixture
def data(caller: Caller) -> Iterator[Transferring]:
    """A data connection of the caller's context."""
    with Transferring(caller(ATTACH)) as data:
        yield data


def malloc(caller: Caller, buffer_id: int = 1, size: int = SIZE) -> None:
    caller(pb.MallocRequest(buffer_id=buffer_id, bytes=size))


def occupy(caller: Caller, backend: GatedBackend) -> None:
    """Lets a kernel stand at gate 1; it writes to buffer 8."""
    malloc(caller, 8, 2**21)
    planned = caller(large(1))
    caller(run(planned.executor_id, asynchronous=True))
    backend.gates[1].wait_entered()


# --- what moves -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("reach")
def test_bytes_go_there_and_back(caller: Caller, data: Transferring) -> None:
    malloc(caller)
    assert data.write(1, CONTENT)
    assert caller(pb.ReadBufferRequest(buffer_id=1, bytes=SIZE)).data == CONTENT
    assert data.read(1, SIZE) == CONTENT
    assert data.write(1, b"abc", offset=SIZE - 3)
    assert data.write(1, b"", offset=SIZE)
    assert data.read(1, 5, offset=SIZE - 5) == CONTENT[SIZE - 5 : SIZE - 3] + b"abc"
    assert data.read(1, 0) == b""


@pytest.mark.usefixtures("reach")
def test_buffers_are_made_on_the_way(caller: Caller, data: Transferring) -> None:
    data.socket.sendall(asking(CREATE, 7, 0, SIZE) + CONTENT + asking(CREATE, 8, 0, 3) + b"abc")
    assert data.received(2) == b"\1\1"
    malloc(caller, 7)  # what is under way meanwhile finds the same one
    assert data.read(7, SIZE) + data.read(8, 3) == CONTENT + b"abc"
    assert caller(pb.RenewContextRequest()).usage.bytes == SIZE + 3


def test_a_buffer_that_there_is_no_room_for_ends_nothing(serve: Serve) -> None:
    caller = Unary(serve(max_context_bytes=SIZE, max_buffers=1))
    with Transferring(caller(ATTACH)) as data:
        data.socket.sendall(asking(CREATE, 1, 0, SIZE + 1) + CONTENT + b"x")
        assert data.received(1) == b"\2"
        assert caller(pb.RenewContextRequest()).usage.bytes == 0
        data.socket.sendall(asking(CREATE, 1, 0, 3) + b"abc" + asking(CREATE, 2, 0, 3) + b"def")
        assert data.received(2) == b"\1\2"
        assert data.read(1, 3) == b"abc"
    caller.close()


def test_it_waits_for_a_new_thread_after_a_while(caller: Caller, data: Transferring) -> None:
    malloc(caller, size=4)
    for number in range(3):
        assert data.write(1, bytes([number] * 4))
        until(lambda: not transfer_threads())
    assert data.read(1, 4) == bytes([2] * 4)


def transfer_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "aclnn-transfer"]


@pytest.mark.usefixtures("reach")
def test_it_acts_after_queued_work(
    caller: Caller, data: Transferring, backend: GatedBackend
) -> None:
    occupy(caller, backend)
    data.socket.sendall(asking(WRITE, 8, 0, 8) + b"12345678")
    data.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        data.socket.recv(1)
    data.socket.settimeout(30)
    backend.gates[1].open()
    assert data.received(1) == b"\1"
    assert data.read(8, 8) == b"12345678"


# --- who gets one -----------------------------------------------------------------------------------


def test_a_secret_is_good_once(caller: Caller) -> None:
    offer = caller(ATTACH)
    assert len(offer.secret) == 32
    with Transferring(offer), dialled(offer.port) as second:
        second.sendall(offer.secret)
        assert second.recv(1) == b""


@pytest.mark.parametrize("said", [b"\0" * 32, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(32)])
def test_who_knows_no_secret_is_shown_out(caller: Caller, data: Transferring, said: bytes) -> None:
    malloc(caller, size=4)
    with dialled(data.socket.getpeername()[1]) as stranger:
        stranger.sendall(said)
        assert Silent(stranger).over
    assert data.write(1, b"1234")


class Silent(Transferring):
    """A connection that was not let in."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection


def test_who_says_nothing_is_shown_out(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_port, "STRANGE_SECONDS", 0.05)
    offer = caller(ATTACH)
    with dialled(offer.port) as stranger:
        stranger.sendall(offer.secret[:31])
        assert Silent(stranger).over
    with Transferring(offer):
        pass


def test_no_more_strangers_than_may_be(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_port, "STRANGERS", 2)
    offer = caller(ATTACH)
    strangers = [dialled(offer.port) for _ in range(2)]
    with dialled(offer.port) as third:
        assert Silent(third).over
    for stranger in strangers:
        stranger.close()
    until(lambda: not transfer_threads())
    with Transferring(offer):
        pass


def test_no_more_connections_than_may_be(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_port, "CONNECTIONS", 2)
    callers = [Unary(stubs) for _ in range(3)]
    first = Transferring(callers[0](ATTACH))
    with first, Transferring(callers[1](ATTACH)):
        error = refused(callers[2], ATTACH, LimitExceededError, parameter="", says=["2 data conn"])
        assert error.retry_after_ms == 1000
        first.close()
        until(lambda: attached(callers[2]))
    for caller in callers:
        caller.close()


def attached(caller: Caller) -> bool:
    """Whether the context gets a connection, which is closed again."""
    try:
        Transferring(caller(ATTACH)).close()
    except LimitExceededError:
        return False
    return True


def test_a_server_may_offer_none(serve: Serve) -> None:
    stubs = serve(data_port="off")
    features = stubs.device.GetServerInfo(pb.GetServerInfoRequest()).features
    assert "data-connection" not in features
    caller = Unary(stubs)
    refused(caller, ATTACH, UnsupportedError, parameter="", says=["offers no data connections"])
    caller(DETACH)
    caller.close()


def test_it_is_told_where_they_are_offered(stubs: Stubs) -> None:
    features = stubs.device.GetServerInfo(pb.GetServerInfoRequest()).features
    assert "data-connection" in features


def test_a_port_of_the_settings(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(
            ListenError, match=f"data connections on 127.0.0.1, port {number}: Addr"
        ):
            serve(data_port=str(number))
    caller = Unary(serve(data_port=str(number)))
    assert caller(ATTACH).port == number
    caller.close()


@pytest.mark.parametrize("port", ["0", "65536", "-1", "any", "", "\uff11"])
def test_a_port_that_is_none(serve: Serve, port: str) -> None:
    allowed = "it must be a port of 1 to 65535, auto or off"
    with pytest.raises(ConfigError, match=f"data_port is '{port}'; {allowed}"):
        serve(data_port=port)


# --- what ends it -----------------------------------------------------------------------------------

BAD = {
    "a new buffer without a number": asking(CREATE, 0, 0, 1) + b"x",
    "a new buffer of no bytes": asking(CREATE, 2, 0, 0),
    "a new buffer written from its middle": asking(CREATE, 2, 1, 1) + b"x",
    "a new buffer of a size that cannot be": asking(CREATE, 2, 0, 2**63),
    "a buffer of another size": asking(CREATE, 1, 0, 3) + b"xyz",
    "no such buffer": asking(WRITE, 2, 0, 1) + b"x",
    "another direction": asking(4, 1, 0, 0),
    "a range outside": asking(WRITE, 1, 3, 2) + b"xy",
    "a range that overflows": asking(READ, 1, 2**64 - 1, 1),
    "more than there is": asking(READ, 1, 0, 2**63),
}


@pytest.mark.parametrize("asked", BAD.values(), ids=BAD)
def test_what_cannot_be_ends_it_and_nothing_else(
    caller: Caller, data: Transferring, asked: bytes
) -> None:
    malloc(caller, size=4)
    assert data.write(1, b"1234")
    data.socket.sendall(asked)
    assert data.over
    assert caller(pb.ReadBufferRequest(buffer_id=1, bytes=4)).data == b"1234"
    with Transferring(caller(ATTACH)) as again:
        assert again.read(1, 4) == b"1234"


def test_the_end_in_the_middle_of_a_write(caller: Caller, data: Transferring) -> None:
    malloc(caller)
    data.socket.sendall(asking(WRITE, 1, 0, SIZE) + CONTENT[:1000])
    data.close()
    caller(pb.FreeRequest(buffer_id=1))
    until(lambda: caller(pb.RenewContextRequest()).usage.bytes == 0)


def test_silence_in_the_middle_of_a_write(
    caller: Caller, data: Transferring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_connection, "SILENT_SECONDS", 0.05)
    malloc(caller)
    data.socket.sendall(asking(WRITE, 1, 0, SIZE) + CONTENT[:1000])
    assert data.over
    caller(pb.FreeRequest(buffer_id=1))
    until(lambda: caller(pb.RenewContextRequest()).usage.bytes == 0)


@pytest.mark.usefixtures("reach")
def test_detached_it_writes_nothing_any_more(caller: Caller, data: Transferring) -> None:
    malloc(caller)
    data.socket.sendall(asking(WRITE, 1, 0, SIZE) + CONTENT[: SIZE // 2])
    until(lambda: transfer_threads())
    caller(DETACH)
    caller(pb.MemsetRequest(buffer_id=1, bytes=SIZE, value=5))
    assert data.over
    assert set(caller(pb.ReadBufferRequest(buffer_id=1, bytes=SIZE)).data) == {5}
    caller(DETACH)


def test_another_ends_the_one_before(caller: Caller, data: Transferring) -> None:
    malloc(caller, size=4)
    unused = caller(ATTACH)
    assert data.over
    offer = caller(ATTACH)
    with dialled(unused.port) as late:
        late.sendall(unused.secret)
        assert Silent(late).over
    with Transferring(offer) as second:
        assert second.write(1, b"1234")


def test_it_ends_with_its_context_and_nothing_is_left(stubs: Stubs, backend: GatedBackend) -> None:
    quiet, busy, waiting = (Unary(stubs) for _ in range(3))
    connections = [Transferring(each(ATTACH)) for each in (quiet, busy, waiting)]
    malloc(busy)
    connections[1].socket.sendall(asking(WRITE, 1, 0, SIZE) + CONTENT[:1000])
    occupy(waiting, backend)
    connections[2].socket.sendall(asking(READ, 8, 0, 8))
    quiet.close()
    busy.close()
    assert connections[0].over
    assert connections[1].over
    backend.gates[1].open()
    waiting.close()
    connections[2].received(8)
    until(lambda: set(stubs.usage().values()) == {0})
    until(lambda: not transfer_threads())
    for each in connections:
        each.close()


def test_a_transfer_keeps_its_context(serve: Serve) -> None:
    stubs = serve(lease_seconds=0.2)
    caller = Unary(stubs)
    with Transferring(caller(ATTACH)) as data:
        malloc(caller)
        data.socket.sendall(asking(WRITE, 1, 0, SIZE))
        for start in range(0, SIZE, SIZE // 8 + 1):  # longer than the lease, all in all
            data.socket.sendall(CONTENT[start : start + SIZE // 8 + 1])
            threading.Event().wait(0.05)
        assert data.received(1) == b"\1"
        assert data.over  # silent from then on
    with pytest.raises(HandleNotFoundError):
        caller(pb.RenewContextRequest())
    until(lambda: set(stubs.usage().values()) == {0})


def test_the_server_stops_with_connections(backend: GatedBackend) -> None:
    server = Server(ServerConfig(listen="127.0.0.1:0"), backend=backend).start()
    with grpc.insecure_channel(server.address) as channel:
        callers = [Unary(Stubs(channel)) for _ in range(2)]
        quiet, busy = (Transferring(each(ATTACH)) for each in callers)
        malloc(callers[1])
        busy.socket.sendall(asking(WRITE, 1, 0, SIZE) + CONTENT[:1000])
        with dialled(quiet.socket.getpeername()[1]) as stranger:
            server.stop(0)
            assert Silent(stranger).over
    assert quiet.over
    assert busy.over
    assert not transfer_threads()
    quiet.close()
    busy.close()
