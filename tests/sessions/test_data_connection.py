"""Data connections without a server: nothing late is written, nothing unencrypted, and no offer is left."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from aclnn.errors import HandleNotFoundError
from aclnn_server.sessions import data_connection
from aclnn_server.sessions.context import Context
from aclnn_server.sessions.data_connection import DataAccess, DataConnection
from aclnn_server.sessions.data_port import DataPort
from aclnn_server.sessions.registry import Registry
from tests.access.pki import Authority
from tests.service.gated import CountingDevice, GatedBackend
from tests.service.transferring import CREATE, WRITE, asking

PART = 1 << 12
"""Bytes that go at once to the device."""
SIZE = 256 * PART
CONTENT = bytes(i * 7 % 251 for i in range(SIZE))


@pytest.fixture
def context(registry: Registry) -> Context:
    """A context with buffer 1, of zeros."""
    context = registry.create_context(0, 60.0)
    context.add_buffer(1, SIZE)
    return context


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection: the client's, the server's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), 30)
        server = listener.accept()[0]
    with client, server:
        yield client, server


def held_bytes(context: Context, backend: GatedBackend) -> bytes:
    """What is in buffer 1."""
    return bytes(backend.device.read(context.buffers.find(1).memory))


@pytest.mark.parametrize("kind", [WRITE, CREATE])
def test_what_has_arrived_when_it_is_ended_is_never_written(
    context: Context,
    backend: GatedBackend,
    ends: tuple[socket.socket, socket.socket],
    kind: int,
) -> None:
    client, server = ends
    connection = DataConnection(server, context, nullcontext())
    client.sendall(asking(kind, 1 if kind == WRITE else 2, 0, 5) + b"stale")
    assert server.recv(37, socket.MSG_PEEK | socket.MSG_WAITALL) != b""
    connection.end()  # no thread was there to see it yet
    assert not connection.serve()
    assert set(held_bytes(context, backend)) == {0}
    assert len(context.buffers) == 1


def test_an_end_in_the_middle_lets_nothing_through_that_is_encrypted(
    context: Context,
    backend: GatedBackend,
    ends: tuple[socket.socket, socket.socket],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, server = encrypted(*ends, tmp_path)
    connection = DataConnection(server, context, nullcontext())
    monkeypatch.setattr(data_connection, "STAGED_BYTES", PART)
    write = CountingDevice.write

    def write_and_end(device: CountingDevice, *rest: object) -> None:
        write(device, *rest)  # type: ignore[arg-type]
        connection._break_off()  # as DetachDataConnection does meanwhile

    monkeypatch.setattr(CountingDevice, "write", write_and_end)
    with ThreadPoolExecutor(1) as pool, client, server:
        sending = pool.submit(send_until_it_ends, client, asking(WRITE, 1, 0, SIZE) + CONTENT)
        assert not connection.serve()
        connection.close()
        sending.result(30)
    found = held_bytes(context, backend)
    for start in range(0, SIZE, PART):
        part = slice(start, start + PART)
        assert found[part] in (CONTENT[part], bytes(PART))
    assert found[:PART] == CONTENT[:PART]


def send_until_it_ends(client: socket.socket, data: bytes) -> None:
    """Sends, to a server that may hang up."""
    with suppress(OSError):
        client.sendall(data)


def encrypted(
    client: socket.socket, server: socket.socket, folder: Path
) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """The same two with TLS."""
    authority = Authority(folder, "trusted")
    pair = authority.issue("server", ("localhost",))
    theirs = ssl.create_default_context(cafile=str(authority.certificate))
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(pair.certificate, pair.key)
    with ThreadPoolExecutor(1) as pool:
        shaking = pool.submit(ours.wrap_socket, server, server_side=True)
        return theirs.wrap_socket(client, server_hostname="localhost"), shaking.result(30)


# --- offers -----------------------------------------------------------------------------------------


@pytest.fixture
def port() -> Iterator[DataPort]:
    """An open port; no offer is left in it, and no connection counted."""
    port = DataPort()
    port.open("127.0.0.1", 0, None, nullcontext())
    yield port
    assert not port._offers
    port.close()
    assert port._connections == 0
    assert not port._strangers


@pytest.fixture
def access(context: Context, port: DataPort) -> Iterator[DataAccess]:
    """The access of a context, which ends."""
    access = DataAccess(context, port)
    yield access
    access.end()


LATER: dict[str, Callable[[DataAccess], object]] = {
    "detached": DataAccess.detach,
    "offered again": DataAccess.offer,
    "ended": DataAccess.end,
}


@pytest.mark.parametrize("later", LATER.values(), ids=LATER)
def test_a_connection_that_was_about_to_be_let_in(
    access: DataAccess,
    port: DataPort,
    ends: tuple[socket.socket, socket.socket],
    later: Callable[[DataAccess], object],
) -> None:
    _, secret = access.offer()
    assert port._offers.pop(secret) is access  # a thread of the port has found whose it is
    later(access)
    assert access.take(secret, ends[1], nullcontext()) is None


def test_an_ended_context_offers_none(access: DataAccess) -> None:
    access.end()
    with pytest.raises(HandleNotFoundError):
        access.offer()


def test_many_ask_at_once_and_one_offer_is_left(access: DataAccess, port: DataPort) -> None:
    def ask(_: int) -> None:
        for _ in range(50):
            access.offer()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    assert len(port._offers) == 1
