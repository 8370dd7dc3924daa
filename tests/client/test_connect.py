"""Opening and closing contexts: addresses, credentials, versions, and what is said when it fails."""
# ruff: noqa: ANN401 - wrong values are given on purpose

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from aclnn import PROTOCOL_VERSION
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import device_service_pb2_grpc
from aclnn_client import (
    AclnnError,
    Context,
    HandleNotFoundError,
    InvalidParameterError,
    ServerUnavailable,
    Tls,
    UnsupportedError,
    VersionMismatchError,
    connect,
    connection,
    get_workspace_size,
    opening,
    server_info,
)
from aclnn_client.connection import Connection, target_of
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.service.gated import GatedBackend

PATIENCE = 30.0


@pytest.mark.parametrize(
    ("address", "target", "host"),
    [
        ("localhost:50051", "dns:///localhost:50051", "localhost"),
        ("npu-1.example.org:1", "dns:///npu-1.example.org:1", "npu-1.example.org"),
        ("10.0.0.7:65535", "dns:///10.0.0.7:65535", "10.0.0.7"),
        ("[::1]:50051", "dns:///[::1]:50051", "::1"),
        ("unix:/run/a b.sock", "unix:/run/a b.sock", ""),
        ("unix:///run/a.sock", "unix:/run/a.sock", ""),
        ("unix:relative.sock", "unix:relative.sock", ""),
    ],
)
def test_addresses_are_read(address: str, target: str, host: str) -> None:
    assert target_of(address) == (target, host)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("", "no port"),
        ("localhost", "no port"),
        (":50051", "no host"),
        ("localhost:", "1 to 65535"),
        ("localhost:0", "1 to 65535"),
        ("localhost:65536", "1 to 65535"),
        ("localhost:http", "1 to 65535"),
        ("localhost:٣", "1 to 65535"),
        ("http://localhost:50051", "a URL"),
        ("::1:50051", "without brackets"),
        ("a b:50051", "no host name"),
        ("user@host:50051", "no host name"),
        ("unix:", "no path"),
        (50051, "a int"),
        (None, "a NoneType"),
    ],
)
def test_malformed_addresses_are_explained(address: Any, words: str) -> None:
    with pytest.raises(InvalidParameterError, match=words) as caught:
        connect(address)
    assert repr(address) in str(caught.value)
    assert "host:port" in str(caught.value)
    assert caught.value.parameter == "address"


def test_a_context_over_a_socket_file(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'aclnn.sock'}"
    with Server(ServerConfig(listen=address)), connect(address) as context:
        assert context.tensor([1, 2]).numpy().tolist() == [1, 2]
        assert repr(context) == f"<Context on device 0 of {address}>"


def test_a_context_over_ipv6() -> None:
    with (
        Server(ServerConfig(listen="[::1]:0")) as server,
        connect(server.address) as context,
    ):
        assert context.info().backend == "numpy"


# --- nobody there -----------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_nobody_there_is_told_at_once() -> None:
    address = f"127.0.0.1:{free_port()}"
    begin = time.monotonic()
    with pytest.raises(ServerUnavailable, match="connection refused") as caught:
        connect(address)
    assert address in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert time.monotonic() - begin < 4


@pytest.mark.parametrize("ask", [connect, server_info])
def test_a_server_that_does_not_answer_is_given_up(ask: Any) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServerUnavailable, match=r"no answer within 0\.2 seconds") as caught:
            ask(address, timeout=0.2)
    assert address in str(caught.value)


def test_a_call_over_a_connection_that_was_given_up_is_told_so() -> None:
    with socket.socket() as silent, ThreadPoolExecutor(1) as pool:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        connection = Connection(f"127.0.0.1:{silent.getsockname()[1]}", timeout=60)
        method, request = connection.devices.RenewContext, pb.RenewContextRequest()
        calling = pool.submit(connection.call, method, request, doing="asking")
        with silent.accept()[0]:
            for _ in range(2):
                connection.open_submit(timed=True, anew=True).cancel()
            calling.exception(60)
        with pytest.raises(ServerUnavailable, match="while asking: the connection broke"):
            calling.result()
        connection.close()
        with pytest.raises(HandleNotFoundError, match="the context is closed"):
            connection.call(method, request, doing="asking")


def test_a_server_is_found_once_it_is_started() -> None:
    port = free_port()
    with pytest.raises(ServerUnavailable):
        connect(f"127.0.0.1:{port}")
    with (
        Server(ServerConfig(listen=f"127.0.0.1:{port}")) as server,
        connect(server.address) as context,
    ):
        assert not context.closed


# --- arguments --------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_impossible_time_limits_are_refused(timeout: float) -> None:
    with pytest.raises(InvalidParameterError, match="a number of seconds above 0") as caught:
        connect("localhost:1", timeout=timeout)
    assert caught.value.parameter == "timeout"


@pytest.mark.parametrize("token", ["", "two words", "new\nline", "schlüssel"])
def test_impossible_tokens_are_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(InvalidParameterError, match="printable ASCII") as caught:
        connect("localhost:1", token=token)
    assert caught.value.parameter == "token"
    assert not token or token not in str(caught.value)


def test_a_device_is_chosen(server: Server) -> None:
    with connect(server.address, device=0) as context:
        assert context.device == 0
    with pytest.raises(AclnnError, match="device"):
        connect(server.address, device=7)


def test_shared_memory_is_had_where_it_is_offered(server: Server) -> None:
    for choice in (None, False):
        connect(server.address, shared_memory=choice).close()
    if server.backend.name == "numpy":
        with connect(server.address, shared_memory=True) as context:
            assert context.transport == "shared memory"
        return
    with pytest.raises(UnsupportedError, match="this server offers no shared memory") as caught:
        connect(server.address, shared_memory=True)
    assert caught.value.parameter == "shared_memory"


def test_another_version_of_the_protocol_is_told(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
    with pytest.raises(VersionMismatchError, match=f"speaks {PROTOCOL_VERSION}"):
        connect(server.address)


# --- credentials ------------------------------------------------------------------------------------


class Doorman(device_service_pb2_grpc.DeviceServiceServicer):
    """Answers every greeting and notes who came."""

    def __init__(self) -> None:
        self.metadata: list[dict[str, str | bytes]] = []

    def GetServerInfo(
        self, request: pb.GetServerInfoRequest, rpc: grpc.ServicerContext
    ) -> pb.GetServerInfoResponse:
        self.metadata.append(dict(rpc.invocation_metadata()))
        return pb.GetServerInfoResponse(backend="doorman", features=["shared-memory"])

    def ListDevices(
        self, request: pb.ListDevicesRequest, rpc: grpc.ServicerContext
    ) -> pb.ListDevicesResponse:
        return pb.ListDevicesResponse()


@pytest.fixture(scope="module")
def certificates() -> Path:
    """A folder with a certificate for localhost, its key, and another certificate.

    Made for these tests only, to last 100 years, by ``openssl req -x509 -nodes -days 36500 -newkey
    rsa:2048 -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout … -out …``.
    """
    return Path(__file__).parent / "certificates"


@pytest.fixture
def doorman() -> Doorman:
    """The servicer of `door`."""
    return Doorman()  # type: ignore[abstract]  # the other calls answer UNIMPLEMENTED


@pytest.fixture
def door(doorman: Doorman, certificates: Path) -> Iterator[str]:
    """Address of a server with TLS that asks for the client's certificate."""
    server = grpc.server(ThreadPoolExecutor(2))
    device_service_pb2_grpc.add_DeviceServiceServicer_to_server(doorman, server)
    key = (certificates / "server.key").read_bytes()
    certificate = (certificates / "server.pem").read_bytes()
    credentials = grpc.ssl_server_credentials([(key, certificate)], certificate, True)
    port = server.add_secure_port("localhost:0", credentials)
    server.start()
    yield f"localhost:{port}"
    server.stop(0).wait()


def test_tls_and_token_reach_the_server(door: str, doorman: Doorman, certificates: Path) -> None:
    pem = certificates / "server.pem"
    tls = Tls(root_certificates=pem, certificate=str(pem), key=certificates / "server.key")
    assert server_info(door, tls=tls, token="open-sesame").backend == "doorman"
    assert doorman.metadata[0]["authorization"] == "Bearer open-sesame"
    with pytest.raises(UnsupportedError, match="does not offer the call"):
        connect(door, tls=tls, shared_memory=True)


@pytest.mark.parametrize("tls", [None, True, "other"])
def test_what_the_server_is_not_trusted_with_fails(
    door: str, doorman: Doorman, certificates: Path, tls: bool | str | None
) -> None:
    choice = Tls(root_certificates=certificates / f"{tls}.pem") if isinstance(tls, str) else tls
    with pytest.raises(ServerUnavailable, match=door):
        server_info(door, tls=choice, timeout=2)
    assert doorman.metadata == []


def test_a_client_proves_itself_with_both_or_none() -> None:
    with pytest.raises(InvalidParameterError, match="only one of certificate and key"):
        Tls(certificate="me.pem")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match=r"root_certificates.*No such file"):
        connect("localhost:1", tls=Tls(root_certificates=tmp_path / "nothing.pem"))


# --- closing ----------------------------------------------------------------------------------------


def contexts_of(server: Server) -> int:
    return server_info(server.address).usage.contexts


def test_a_closed_context_is_gone_on_the_server() -> None:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        with connect(server.address) as context:
            context.tensor([1])
            assert contexts_of(server) == 1
        assert contexts_of(server) == 0
        assert context.closed
        context.close()
        assert repr(context).endswith(", closed>")


def test_a_context_of_which_nothing_was_asked_is_closed_too() -> None:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        connect(server.address).close()
        assert contexts_of(server) == 0


def test_a_closed_context_says_so(server: Server) -> None:
    with connect(server.address) as context:
        tensor = context.tensor([1, 2, 3])
        stream, event = context.create_stream(), context.create_event()
    calls: list[Callable[[], object]] = [
        tensor.numpy,
        lambda: context.tensor([1]),
        lambda: context.malloc(1),
        context.create_event,
        context.create_stream,
        context.synchronize,
        context.info,
        context.operators,
        stream.synchronize,
        event.record,
        lambda: context.ops.smooth_l1_loss([1.0], [2.0]),
    ]
    for call in calls:
        with pytest.raises(HandleNotFoundError, match="the context is closed"):
            call()
    tensor.free()
    event.destroy()


def test_an_abandoned_context_is_closed() -> None:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        context = connect(server.address)
        context.tensor([1])
        gone = weakref.ref(context)
        del context
        gc.collect()
        assert gone() is None
        until = time.monotonic() + PATIENCE
        while contexts_of(server):
            assert time.monotonic() < until, "the context was not closed"


PROGRAM = """
import sys
from aclnn_client import connect
context = connect(sys.argv[1])
tensor = context.tensor([1, 2, 3])
stream = context.create_stream()
print(tensor.numpy().tolist())
"""


def test_what_is_open_at_exit_is_closed_quietly() -> None:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM, server.address],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "[1, 2, 3]\n", "")
        assert contexts_of(server) == 0


def test_a_server_that_stops_ends_the_context() -> None:
    server = Server(ServerConfig(listen="127.0.0.1:0")).start()
    with connect(server.address) as context:
        tensor = context.tensor([1, 2, 3])
        tensor.numpy()
        server.stop(0)
        for call in (tensor.numpy, context.synchronize, context.info):
            with pytest.raises(ServerUnavailable, match=server.address):
                call()
        assert context.closed
        tensor.free()


def test_a_server_that_stops_ends_a_wait(
    gated: Context, gated_server: Server, backend: GatedBackend
) -> None:
    source, out = gated.tensor([1]), gated.empty((1,), "int64")
    _, executor = get_workspace_size("aclnnPass", (source, 1, out))
    executor.run()
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(call) for call in (out.numpy, gated.synchronize, out.numpy)]
        backend.gates[1].wait_entered()
        stopping = pool.submit(gated_server._grpc.stop, 0)
        errors = [future.exception(PATIENCE) for future in waiting]
        backend.gates.open_all()
        stopping.result(PATIENCE)
    assert [type(error) for error in errors] == [ServerUnavailable] * 3


def test_the_connection_is_named_once() -> None:
    link = connection.Connection("localhost:7")
    named = link.named(ServerUnavailable("gone"))
    assert named.message == "localhost:7: gone"
    assert link.named(named) is named
    link.close()
    link.close()
