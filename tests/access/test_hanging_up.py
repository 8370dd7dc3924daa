"""Clients and servers of data connections that are gone before TLS has begun: every socket is closed."""

from __future__ import annotations

import contextlib
import gc
import socket
import struct
import warnings
from collections.abc import Iterator

import pytest

from aclnn_client import Tls
from aclnn_client.connection import Connection
from tests.access.conftest import Start
from tests.access.pki import Authority, Pair
from tests.waiting import PATIENCE, until

COUNT = 60
"""Connections: at some the other side finds out before TLS begins, at some after."""


@pytest.fixture
def nothing_unclosed() -> Iterator[None]:
    """Checks that no socket was left to be collected unclosed."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert [str(each.message) for each in seen] == []


def reset(connection: socket.socket) -> None:
    """Breaks a connection off."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.mark.usefixtures("nothing_unclosed")
def test_clients_that_hang_up(start: Start, pair: Pair) -> None:
    server = start(tls_certificate=pair.certificate, tls_key=pair.key)
    port = server._data_port
    for number in range(COUNT):
        stranger = socket.create_connection(("127.0.0.1", port.number), PATIENCE)
        stranger.sendall(b"x" * (number % 3))
        reset(stranger)
    until(lambda: not (port._threads or port._strangers))
    assert port._connections == 0


@pytest.mark.usefixtures("nothing_unclosed")
def test_a_server_that_hangs_up(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    create, tls = socket.create_connection, Tls(root_certificates=authority.certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def create_and_lose(*where: object) -> socket.socket:
            made = create(listener.getsockname(), PATIENCE)
            reset(listener.accept()[0])
            return made

        monkeypatch.setattr(socket, "create_connection", create_and_lose)
        connection = Connection(f"127.0.0.1:{listener.getsockname()[1]}", tls=tls)
        with contextlib.closing(connection):
            for _ in range(3):
                with pytest.raises(ConnectionResetError):
                    connection.dial(1, PATIENCE)
