"""How a server stops."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import grpc
import pytest

from aclnn import errors, status
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.service.calling import (
    DEADLINE,
    Stubs,
    Submitting,
    Unary,
)
from tests.service.gated import PATIENCE, GatedBackend
from tests.service.living import HEALTH, SERVICES, Open, health_of
from tests.service.requests import outputs, passing, plus, run

pytestmark = pytest.mark.usefixtures("submit_served")

# --- how it stops ---------------------------------------------------------------------------------


def running(
    client: Unary, backend: GatedBackend, pool: ThreadPoolExecutor
) -> Future[op.ExecuteResponse]:
    """A call whose kernel stands at gate 1."""
    future = pool.submit(client, run(client(passing(1)).executor_id))
    backend.gates[1].wait_entered()
    return future


def test_running_work_is_finished_and_answered(
    start: Open, backend: GatedBackend, pool: ThreadPoolExecutor
) -> None:
    server, stubs = start()
    client = Unary(stubs)
    answer = running(client, backend, pool)
    stopping = pool.submit(server.stop, PATIENCE)
    _until_draining(stubs)

    assert health_of(stubs, "liveness") == HEALTH.SERVING
    for name in SERVICES:
        assert health_of(stubs, name) == HEALTH.NOT_SERVING
    with pytest.raises(grpc.RpcError) as caught:
        stubs.create_context()
    error = status.from_rpc_error(caught.value)
    assert isinstance(error, errors.ServerUnavailable)
    assert "the server is stopping" in error.message
    assert error.retry_after_ms > 0
    planned = client(plus())  # whoever has a context may go on
    assert outputs(client(run(planned.executor_id, stream=_second_stream(client)))) == [[2.0, 3.0]]

    assert not stopping.done()
    backend.gates[1].open()
    assert outputs(answer.result(PATIENCE)) == [[7.0, 8.0]]
    stopping.result(PATIENCE)
    assert backend.closed


def _second_stream(client: Unary) -> str:
    stream: str = client(pb.CreateStreamRequest()).stream_id
    return stream


def _until_draining(stubs: Stubs) -> None:
    for _ in range(10_000):
        if health_of(stubs) == HEALTH.NOT_SERVING:
            return
    raise AssertionError("the server never began to stop")


@pytest.mark.parametrize("attempt", range(10))
def test_the_last_answer_is_sent_before_the_server_is_gone(
    start: Open, backend: GatedBackend, pool: ThreadPoolExecutor, attempt: int
) -> None:
    server, stubs = start()
    client, submitting = Unary(stubs), Submitting(stubs)
    submitting.send(plus(executor=1), run(1))
    answer = running(client, backend, pool)
    stopping = pool.submit(server.stop, PATIENCE)
    backend.gates[1].open()
    assert outputs(answer.result(PATIENCE)) == [[7.0, 8.0]]
    assert outputs(submitting.receive()[1]) == [[2.0, 3.0]]
    stopping.result(PATIENCE)
    with pytest.raises(grpc.RpcError) as caught:
        submitting.receive()
    assert isinstance(status.from_rpc_error(caught.value), errors.ServerUnavailable)


def test_after_the_grace_the_client_is_let_go_and_the_kernel_ends_first(
    start: Open, backend: GatedBackend, pool: ThreadPoolExecutor
) -> None:
    server, stubs = start()
    client = Unary(stubs)
    request = client.addressed(run(client(passing(1)).executor_id))
    answer = stubs.operator.Execute.future(request, timeout=DEADLINE)  # type: ignore[arg-type]
    backend.gates[1].wait_entered()
    stopping = pool.submit(server.stop, 0.05)
    with pytest.raises(grpc.RpcError) as caught:
        answer.result(PATIENCE)
    assert isinstance(status.from_rpc_error(caught.value), errors.ServerUnavailable)
    assert not stopping.done()
    assert not backend.closed
    backend.gates[1].open()
    stopping.result(PATIENCE)
    assert backend.closed


def test_it_stops_once_whoever_asks(
    start: Open, backend: GatedBackend, pool: ThreadPoolExecutor
) -> None:
    server, stubs = start()
    client = Unary(stubs)
    answer = running(client, backend, pool)
    barrier = threading.Barrier(8)

    def stop() -> bool:
        barrier.wait(PATIENCE)
        server.stop(PATIENCE)
        return backend.closed

    stopping = [pool.submit(stop) for _ in range(8)]
    waiting = pool.submit(server.wait)
    _until_draining(stubs)
    backend.gates[1].open()
    assert outputs(answer.result(PATIENCE)) == [[7.0, 8.0]]
    assert [future.result(PATIENCE) for future in stopping] == [True] * 8
    waiting.result(PATIENCE)
    server.stop()  # at once


def test_no_thread_outlives_the_server(start: Open, pool: ThreadPoolExecutor) -> None:
    list(pool.map(abs, range(16)))
    before = set(threading.enumerate())
    server, stubs = start()
    clients = (Unary(stubs), Submitting(stubs))
    for client in clients:
        assert outputs(client(run(client(plus()).executor_id))) == [[2.0, 3.0]]
    health_of(stubs)
    server.stop(0)
    clients[1].hang_up()
    stubs.channel.close()
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(PATIENCE)  # gRPC's own end on their own, after it has said that it has stopped
    ours = [t.name for t in left if t.name.startswith("aclnn")]
    assert ours == []
    assert [thread.name for thread in left if thread.is_alive()] == []


def test_a_server_that_never_started_can_be_stopped(backend: GatedBackend) -> None:
    before = set(threading.enumerate())
    server = Server(ServerConfig(listen="127.0.0.1:0"), backend=backend)
    server.stop()
    assert set(threading.enumerate()) == before
    assert backend.closed


def test_with_starts_and_stops(backend: GatedBackend) -> None:
    with (
        Server(ServerConfig(listen="127.0.0.1:0"), backend=backend) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        assert health_of(Stubs(channel)) == HEALTH.SERVING
    assert backend.closed
