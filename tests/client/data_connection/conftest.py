"""A server whose clients' large tensors take data connections, and a proxy on their way."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from aclnn.addresses import open_socket
from aclnn_client import Context, connect
from aclnn_client.connection import Connection
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.chaos.proxy import Proxy
from tests.waiting import until


@pytest.fixture(scope="module")
def host() -> Iterator[Server]:
    """A server of the host's CPU that offers no shared memory."""
    with Server(ServerConfig(listen="127.0.0.1:0", shared_memory=False)) as server:
        yield server


@pytest.fixture
def proxy(host: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy on the way of data connections, and of nothing else."""
    with Proxy(f"127.0.0.1:{host._data_port.number}") as between:

        def dial(connection: Connection, port: int, timeout: float) -> socket.socket:
            assert port == host._data_port.number
            return open_socket(between.address, timeout)

        monkeypatch.setattr(Connection, "dial", dial)
        yield between


@pytest.fixture
def context(host: Server) -> Iterator[Context]:
    """A context of it; all that it held is gone when it closes."""
    with connect(host.address) as context:
        yield context
    until(lambda: not host.registry.usage.contexts)
    assert not host.registry.usage.bytes
