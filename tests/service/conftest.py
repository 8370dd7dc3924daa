"""Servers with a test backend, and clients that reach them in every way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.service.calling import Caller, Stubs, Submitting, Unary
from tests.service.gated import GatedBackend
from tests.service.living import Open

WAYS: dict[str, Callable[[Stubs], Caller]] = {"unary": Unary, "submit": Submitting}

Serve = Callable[..., Stubs]


@pytest.fixture
def backend() -> Iterator[GatedBackend]:
    """A backend; when the test is over its gates are opened, and it must be clean."""
    backend = GatedBackend()
    yield backend
    backend.check_clean()


@pytest.fixture(params=["where it arrives", "by gRPC's public API"])
def submit_served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that serve Submit in each of two ways."""
    if request.param == "by gRPC's public API":
        monkeypatch.setattr("aclnn_server.service.at_arrival.grpc_parts", lambda: None)


@pytest.fixture
def serve(backend: GatedBackend) -> Iterator[Serve]:
    """Starts a server of `backend` with the settings given, and connects to it."""
    servers: list[Server] = []
    channels: list[grpc.Channel] = []

    def start(**settings: object) -> Stubs:
        config = ServerConfig(listen="127.0.0.1:0", **settings)  # type: ignore[arg-type]
        servers.append(Server(config, backend=backend).start())
        channels.append(grpc.insecure_channel(servers[-1].address))
        return Stubs(channels[-1])

    yield start
    backend.gates.open_all()
    for channel in channels:
        channel.close()
    for server in servers:
        server.stop(0)


@pytest.fixture
def stubs(serve: Serve) -> Stubs:
    """A server with the default settings."""
    return serve()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Callable[[Stubs], Caller]:
    """Makes a client of each kind."""
    made: Callable[[Stubs], Caller] = WAYS[request.param]
    return made


@pytest.fixture
def caller(way: Callable[[Stubs], Caller], stubs: Stubs, backend: GatedBackend) -> Iterator[Caller]:
    """A client of each kind; what its context held is gone when it closes."""
    caller = way(stubs)
    yield caller
    backend.gates.open_all()
    caller.close()
    assert set(stubs.usage().values()) == {0}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for calls that block."""
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture
def ready(caller: Caller) -> Caller:
    """A client with buffer 1, a number, and buffer 2, large enough that its work goes to a worker."""
    caller(pb.MallocRequest(buffer_id=1, bytes=8))
    caller(pb.MallocRequest(buffer_id=2, bytes=2**21))
    return caller


@pytest.fixture
def start(backend: GatedBackend) -> Iterator[Open]:
    """Starts servers of `backend`, each with a client."""
    servers: list[Server] = []
    channels: list[grpc.Channel] = []

    def opened(**settings: object) -> tuple[Server, Stubs]:
        config = ServerConfig(**({"listen": "127.0.0.1:0"} | settings))  # type: ignore[arg-type]
        server = Server(config, backend=backend)
        servers.append(server)
        server.start()
        channels.append(grpc.insecure_channel(server.address))
        return server, Stubs(channels[-1])

    yield opened
    backend.gates.open_all()
    for channel in channels:
        channel.close()
    for server in servers:
        server.stop(0)
