"""A server's life: where it listens, what it answers while busy, and how it stops."""

from __future__ import annotations

import itertools
import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from aclnn import errors
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn_server.access.listening import ListenError
from aclnn_server.config import ConfigError, ServerConfig
from aclnn_server.server import UNARY_THREADS, Server
from aclnn_server.service.rpc import CHUNK_THREADS
from tests.service.calling import (
    DEADLINE,
    PROTOCOL,
    Stubs,
    Unary,
    code_of,
    failed,
)
from tests.service.gated import PATIENCE, GatedBackend
from tests.service.living import HEALTH, SERVICES, Open, health_of
from tests.service.requests import floats, number, outputs, passing, plan, plus, run, tensor

# --- where it listens -----------------------------------------------------------------------------


def test_the_banner_tells_where(start: Open) -> None:
    server, _ = start()
    assert server.address.startswith("127.0.0.1:")
    assert not server.address.endswith(":0")
    where = f"listening on {server.address} (backend gated, devices 0: counting 0)"
    assert where in server.banner()


def test_a_second_server_on_the_port_fails(start: Open) -> None:
    server, stubs = start()
    before = {thread.name for thread in threading.enumerate()}
    with pytest.raises(ListenError, match=f"cannot listen on {server.address}: it is in use"):
        start(listen=server.address)
    assert {thread.name for thread in threading.enumerate()} == before
    assert health_of(stubs) == HEALTH.SERVING


def test_an_address_of_another_machine_fails(backend: GatedBackend) -> None:
    config = ServerConfig(listen="192.0.2.1:0", allow_insecure=True)
    with pytest.raises(ListenError, match=r"192\.0\.2\.1:0"):
        Server(config, backend=backend).start()


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "[::]", "192.0.2.1", "example.org", "127.0.0.1.nip.io"]
)
def test_what_other_machines_can_reach_must_be_asked_for(host: str, backend: GatedBackend) -> None:
    with pytest.raises(ConfigError, match="other machines can reach"):
        Server(ServerConfig(listen=f"{host}:0"), backend=backend)


def test_listening_everywhere_is_warned_about(
    start: Open, caplog: pytest.LogCaptureFixture
) -> None:
    server, _ = start(listen="0.0.0.0:0", allow_insecure=True)
    assert "anyone can connect" in caplog.text
    port = int(server.address.rpartition(":")[2])
    socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()


@pytest.mark.parametrize(
    "listen", ["", "127.0.0.1", ":50051", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "x:y"]
)
def test_addresses_that_are_none(listen: str, backend: GatedBackend) -> None:
    with pytest.raises(ConfigError, match="must be HOST:PORT"):
        Server(ServerConfig(listen=listen), backend=backend)


def test_a_unix_socket(start: Open, tmp_path: Path) -> None:
    path = tmp_path / "serve.sock"
    server, stubs = start(listen=f"unix:{path}")
    assert server.address == f"unix:{path}"
    client = Unary(stubs)
    assert outputs(client(run(client(plus()).executor_id))) == [[2.0, 3.0]]
    client.close()


def test_a_second_server_on_a_unix_socket_fails(start: Open, tmp_path: Path) -> None:
    server, stubs = start(listen=f"unix:{tmp_path / 'serve.sock'}")
    with pytest.raises(ListenError, match="in use"):
        start(listen=server.address)
    assert health_of(stubs) == HEALTH.SERVING
    server.stop(0)
    start(listen=server.address)  # what a server leaves behind is no hindrance


# --- what it answers ------------------------------------------------------------------------------


def test_reflection_lists_the_services(start: Open) -> None:
    _, stubs = start()
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(stubs.channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=DEADLINE)
    names = {service.name for service in answer.list_services_response.service}
    assert names >= SERVICES | {"grpc.health.v1.Health", "grpc.channelz.v1.Channelz"}

    request = reflection_pb2.ServerReflectionRequest(
        file_containing_symbol="aclnn.v1.DeviceService"
    )
    (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=DEADLINE)
    assert b"WriteBuffer" in answer.file_descriptor_response.file_descriptor_proto[0]


def test_channelz_answers(start: Open) -> None:
    _, stubs = start()
    stub = channelz_pb2_grpc.ChannelzStub(stubs.channel)
    answer = stub.GetServers(channelz_pb2.GetServersRequest(), timeout=DEADLINE)
    assert len(answer.server) >= 1


def test_what_the_server_tells_about_itself(start: Open) -> None:
    server, stubs = start(lease_seconds=7.5, max_events=9)
    info = stubs.device.GetServerInfo(pb.GetServerInfoRequest(), timeout=DEADLINE)
    assert (info.backend, info.soc, info.device_count) == ("gated", "reference", 1)
    assert info.operator_count == len(server.backend.operators)
    assert info.protocol_min <= PROTOCOL <= info.protocol_max
    assert info.default_lease.ToMilliseconds() == 7500
    assert info.limits.events == 9
    context = stubs.create_context()
    assert context.context_id.startswith(info.epoch)
    assert context.stream_id.startswith(info.epoch)
    (device,) = stubs.device.ListDevices(pb.ListDevicesRequest(), timeout=DEADLINE).devices
    assert (device.index, device.name, device.context_count) == (0, "counting 0", 1)
    assert (device.free_bytes, device.total_bytes) == (2**30, 2**30)


def test_operators_are_listed_and_described(start: Open) -> None:
    _, stubs = start()
    listed = op.ListOperatorsRequest(prefix="aclnnP")
    answer = stubs.operator.ListOperators(listed, timeout=DEADLINE)
    assert [operator.name for operator in answer.operators] == ["aclnnPass", "aclnnPlus"]
    named = op.GetOperatorRequest(operator="aclnnPlus")
    operator = stubs.operator.GetOperator(named, timeout=DEADLINE).operator
    parameters = [(p.name, p.c_type, p.output) for p in operator.parameters]
    assert parameters == [
        ("self", "const aclTensor*", False),
        ("other", "int64_t", False),
        ("out", "aclTensor*", True),
    ]
    assert list(operator.backends) == ["gated"]
    named = op.GetOperatorRequest(operator="aclnnNo")
    assert isinstance(failed(stubs.operator.GetOperator, named), errors.OperatorNotFoundError)


@pytest.mark.parametrize("version", [0, 2, 2**32 - 1])
def test_another_version_of_the_protocol(start: Open, version: int) -> None:
    _, stubs = start()
    for call, request in (
        (stubs.device.CreateContext, pb.CreateContextRequest(protocol_version=version)),
        (stubs.device.CreateStream, pb.CreateStreamRequest(protocol_version=version)),
    ):
        error = failed(call, request)
        assert isinstance(error, errors.VersionMismatchError)
        assert (error.code, error.parameter) == (500001, "protocol_version")
        assert f"protocol_version is {version};" in error.message
        assert "speaks 1" in error.message
    assert set(stubs.usage().values()) == {0}


def test_devices_that_do_not_exist(start: Open) -> None:
    _, stubs = start()
    request = pb.CreateContextRequest(protocol_version=PROTOCOL, device_index=1)
    error = failed(stubs.device.CreateContext, request)
    assert isinstance(error, errors.HandleNotFoundError)
    assert (error.code, error.parameter) == (107001, "device_index")
    assert "device_index is 1; the server has devices 0 to 0" in error.message


def test_health_has_readiness_and_liveness(start: Open) -> None:
    _, stubs = start()
    for name in ("", "liveness", *SERVICES):
        assert health_of(stubs, name) == HEALTH.SERVING
    with pytest.raises(grpc.RpcError) as caught:
        health_of(stubs, "nonsense")
    assert code_of(caught.value) is grpc.StatusCode.NOT_FOUND


def test_health_is_answered_while_everything_else_is_busy(
    start: Open, backend: GatedBackend
) -> None:
    """Kernels stand on every worker and on every thread that serves unary calls, of two connections."""
    server, stubs = start(workers=2)
    client = Unary(stubs)
    streams = [client(pb.CreateStreamRequest()).stream_id for _ in range(UNARY_THREADS + 2)]
    client(pb.MallocRequest(buffer_id=2, bytes=2**21))
    out = tensor([2], storage_shape=[2**19], buffer_id=2)
    for stream in streams[:2]:
        planned = client(plan("aclnnPass", floats(7, 8), number(1), out, stream=stream))
        client(run(planned.executor_id, stream=stream, asynchronous=True))
    planned_ids = [client(passing(1)).executor_id for _ in streams[2:]]
    requests = [
        client.addressed(run(executor, stream=stream))
        for executor, stream in zip(planned_ids, streams[2:], strict=True)
    ]
    own = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(server.address, own) as channel:
        connections = itertools.cycle([stubs, Stubs(channel)])
        calls = [
            next(connections).operator.Execute.future(request, timeout=DEADLINE)  # type: ignore[arg-type]
            for request in requests
        ]
        for _ in streams:
            backend.gates[1].wait_entered()
        _check_health(stubs)
        backend.gates[1].open()
        answers = [outputs(call.result(PATIENCE)) for call in calls]
    assert answers == [[[7.0, 8.0]]] * UNARY_THREADS


def _check_health(stubs: Stubs) -> None:
    assert health_of(stubs) == HEALTH.SERVING
    assert health_of(stubs, "liveness") == HEALTH.SERVING
    stub: Any = health_pb2_grpc.HealthStub(stubs.channel)
    watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=DEADLINE)
    assert next(watch).status == HEALTH.SERVING
    watch.cancel()


def test_clients_that_stall_in_the_middle_of_a_write_keep_nobody_else_waiting(start: Open) -> None:
    _, stubs = start()
    client = Unary(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    ends: queue.SimpleQueue[None] = queue.SimpleQueue()
    first = pb.WriteBufferRequest(context_id=client.context_id, buffer_id=1, total_bytes=8)

    def stalling() -> Iterator[pb.WriteBufferRequest]:
        yield first
        ends.get()

    write: Any = stubs.device.WriteBuffer
    calls = [write.future(stalling(), timeout=DEADLINE) for _ in range(CHUNK_THREADS + 20)]
    assert outputs(client(run(client(plus()).executor_id))) == [[2.0, 3.0]]
    assert health_of(stubs) == HEALTH.SERVING
    for call in calls:
        call.cancel()
        ends.put(None)
    client(pb.WriteBufferRequest(buffer_id=1, data=b"12345678"))


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"lease_seconds": float("inf")}, "lease_seconds is inf"),
        ({"grace_seconds": float("nan")}, "grace_seconds is nan"),
        ({"lease_seconds": -1.0}, "lease_seconds is -1"),
        ({"lease_seconds": 0.0}, "lease_seconds is 0; a context would end before it is used"),
        ({"context_rate": -1.0}, "context_rate is -1"),
        ({"client_context_rate": float("nan")}, "client_context_rate is nan"),
        ({"max_contexts": 0}, "max_contexts is 0"),
        ({"max_message_bytes": 2**31}, f"max_message_bytes is {2**31}"),
        ({"max_context_bytes": 2**64}, f"max_context_bytes is {2**64}"),
        ({"workers": -1}, "workers is -1"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, float], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ServerConfig(**settings)  # type: ignore[arg-type]
