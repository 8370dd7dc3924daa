"""Servers whose metrics can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from aclnn_client import Context, connect
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.service.gated import GatedBackend

Start = Callable[..., Server]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers with metrics, of a given backend or of the host's CPU."""
    servers: list[Server] = []

    def started(backend: GatedBackend | None = None, **settings: object) -> Server:
        usual: dict[str, object] = {"listen": "127.0.0.1:0", "metrics_listen": "127.0.0.1:0"}
        config = ServerConfig(**(usual | settings))  # type: ignore[arg-type]
        servers.append(Server(config, backend=backend).start())
        return servers[-1]

    yield started
    for server in servers:
        server.stop(0)


@pytest.fixture
def server(start: Start) -> Server:
    """A server of the host's CPU, with metrics."""
    return start()


@pytest.fixture
def context(server: Server) -> Iterator[Context]:
    """A context of that server."""
    with connect(server.address, shared_memory=False) as context:
        yield context


@pytest.fixture
def backend() -> Iterator[GatedBackend]:
    """A backend whose kernels wait, fail and tell on demand; clean when the test is over."""
    backend = GatedBackend()
    yield backend
    backend.gates.open_all()
    backend.check_clean()
