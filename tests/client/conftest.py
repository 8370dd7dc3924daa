"""Servers for the client: one with the kernels of the product, and one whose kernels wait at gates."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from aclnn_client import Context, connect
from aclnn_server.backends import open_backend
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.ascend import building
from tests.client.submit_server import CALLS
from tests.service.gated import GatedBackend


@pytest.fixture(scope="module", params=["numpy", "ascend"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server for all tests that leave it as it is: of the host's CPU, and of the double of CANN."""
    options = building.options() if request.param == "ascend" else {}
    backend = open_backend(request.param, **options)
    with Server(ServerConfig(listen="127.0.0.1:0"), backend=backend) as server:
        yield server


@pytest.fixture
def context(server: Server) -> Iterator[Context]:
    """A context of that server."""
    with connect(server.address) as context:
        yield context


@pytest.fixture
def backend() -> Iterator[GatedBackend]:
    """A backend whose kernels wait, fail and tell on demand; clean when the test is over."""
    backend = GatedBackend()
    yield backend
    backend.check_clean()


@pytest.fixture
def gated_server(backend: GatedBackend) -> Iterator[Server]:
    """A server of `backend`."""
    server = Server(ServerConfig(listen="127.0.0.1:0"), backend=backend).start()
    yield server
    backend.gates.open_all()
    server.stop(0)


@pytest.fixture
def gated(gated_server: Server, backend: GatedBackend) -> Iterator[Context]:
    """A context of that server; it is closed when its gates are open."""
    context = connect(gated_server.address)
    yield context
    backend.gates.open_all()
    context.close()


@pytest.fixture(params=CALLS)
def way(request: pytest.FixtureRequest) -> str:
    """Each way to carry Submit."""
    return str(request.param)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Cycles of references stay."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
