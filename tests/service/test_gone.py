"""Callers that are gone: their work is dropped or broken off, and no thread of the server waits on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from aclnn.errors import HandleNotFoundError, StreamDestroyedError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn_server.server import UNARY_THREADS, Server
from tests.service.calling import DEADLINE, Unary, checked
from tests.service.gated import PATIENCE, GatedBackend
from tests.service.living import Open
from tests.service.queueing import blocking, queue, synchronize
from tests.service.requests import INT64, number, plan, plus, run, tensor
from tests.waiting import until

Call = Any


def parts(count: int, gate: int) -> op.GetWorkspaceSizeRequest:
    """Phase one of a computation of `count` parts; each stands at a gate of its own, from `gate` on."""
    out = tensor([1], INT64, buffer_id=1)
    return plan("aclnnBlocks", number(count), number(gate), out)


def under_way(client: Unary, request: Message, timeout: float = DEADLINE) -> Call:
    """Makes a call without waiting for its answer."""
    request = client.addressed(request)
    name = request.DESCRIPTOR.name.removesuffix("Request")
    stub = client.stubs.operator if hasattr(client.stubs.operator, name) else client.stubs.device
    if isinstance(request, pb.WriteBufferRequest):
        return stub.WriteBuffer.future(iter([request]), timeout=timeout)  # type: ignore[union-attr]
    if isinstance(request, pb.ReadBufferRequest):
        return stub.ReadBuffer(request, timeout=timeout)  # type: ignore[union-attr]
    return getattr(stub, name).future(request, timeout=timeout)


@pytest.fixture
def started(start: Open, backend: GatedBackend) -> tuple[Server, Unary]:
    """A server and a client with buffers 1, small, and 2, large, and event 1."""
    server, stubs = start()
    client = Unary(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    client(pb.MallocRequest(buffer_id=2, bytes=2**21))
    client(pb.CreateEventRequest(event_id=1))
    return server, client


WAITING: dict[str, Callable[[Unary], Message]] = {
    "a stream": lambda client: pb.SynchronizeStreamRequest(stream_id=client.stream_id),
    "all streams": lambda _: pb.SynchronizeStreamRequest(),
    "an event": lambda _: pb.SynchronizeEventRequest(event_id=1),
    "a write": lambda _: pb.WriteBufferRequest(buffer_id=2, data=b"1"),
    "a write in the stream": lambda client: pb.WriteBufferRequest(
        buffer_id=1, data=b"1", stream_id=client.stream_id
    ),
    "a read": lambda _: pb.ReadBufferRequest(buffer_id=2, bytes=1),
    "a read in the stream": lambda client: pb.ReadBufferRequest(
        buffer_id=1, bytes=1, stream_id=client.stream_id
    ),
    "a fill": lambda _: pb.MemsetRequest(buffer_id=2, bytes=1),
    "a copy": lambda _: pb.MemcpyRequest(destination_buffer_id=1, source_buffer_id=2, bytes=1),
    "a run": lambda client: run(client(plus()).executor_id),
}


@pytest.mark.parametrize("how", ["cancelled", "past its deadline"])
@pytest.mark.parametrize("what", WAITING)
def test_a_wait_ends_with_its_caller(
    started: tuple[Server, Unary], backend: GatedBackend, what: str, how: str
) -> None:
    """The kernel that it waits for stands at its gate throughout."""
    server, client = started
    queue(client, blocking(1))
    backend.gates[1].wait_entered()
    client(pb.RecordEventRequest(event_id=1))
    request = WAITING[what](client)
    call = under_way(client, request, DEADLINE if how == "cancelled" else 0.3)
    if how == "cancelled":
        until(lambda: server._service.in_hand.count == 1)
        call.cancel()
    code = call.code()
    wanted = {"cancelled": grpc.StatusCode.CANCELLED}
    assert code is wanted.get(how, grpc.StatusCode.DEADLINE_EXCEEDED)
    until(lambda: server._service.in_hand.count == 0)
    assert backend.device.runs == ["aclnnPass"]

    backend.gates[1].open()
    synchronize(client)
    usage = client.usage()
    assert (usage["executors"], usage["queued_commands"]) == (0, 0)
    assert backend.device.runs == ["aclnnPass"]
    assert client(pb.ReadBufferRequest(buffer_id=1, bytes=1)).data == b"\x00"


def test_callers_that_are_gone_take_no_threads(
    started: tuple[Server, Unary], backend: GatedBackend
) -> None:
    server, client = started
    queue(client, blocking(1))
    backend.gates[1].wait_entered()
    wait = pb.SynchronizeStreamRequest(stream_id=client.stream_id)
    calls = [under_way(client, wait) for _ in range(2 * UNARY_THREADS)]
    until(lambda: server._service.in_hand.count > 0)
    for call in calls:
        call.cancel()
    assert client(pb.QueryStreamRequest()) == pb.QueryStreamResponse(complete=False)
    backend.gates[1].open()
    synchronize(client)


# --- running work ---------------------------------------------------------------------------------


def test_running_work_is_broken_off_between_its_parts(
    started: tuple[Server, Unary], backend: GatedBackend
) -> None:
    server, client = started
    executor = client(parts(3, 1)).executor_id
    call = under_way(client, run(executor))
    backend.gates[1].wait_entered()
    backend.gates[1].open()
    backend.gates[2].wait_entered()
    call.cancel()
    until(lambda: not _active(server))
    backend.gates[2].open()
    until(lambda: server._service.in_hand.count == 0)
    assert backend.device.parts == 2
    assert client.usage()["executors"] == 0

    backend.gates[3].open()  # what comes next is not concerned
    client(run(client(parts(3, 1)).executor_id))
    assert backend.device.parts == 5


def _active(server: Server) -> bool:
    """Whether a caller waits for the work that runs."""
    (context,) = server.registry._contexts.values()
    work = context.default_session.stream._current
    assert work is not None
    assert work.expired is not None
    return not work.expired()


ENDS: dict[str, Callable[[Server, Unary, str], object]] = {
    "stream": lambda _, client, stream: client(pb.DestroyStreamRequest(stream_id=stream)),
    "context": lambda _, client, __: client.close(),
    "server": lambda server, _, __: server.stop(0.1),
}


@pytest.mark.parametrize("end", ENDS)
def test_running_work_is_broken_off_with_its(
    started: tuple[Server, Unary], backend: GatedBackend, pool: ThreadPoolExecutor, end: str
) -> None:
    server, client = started
    stream = client(pb.CreateStreamRequest()).stream_id
    request = parts(3, 1)
    request.stream_id = stream
    call = under_way(client, run(client(request).executor_id, stream=stream))
    backend.gates[1].wait_entered()
    found = server.registry.session(stream).stream
    ending = pool.submit(ENDS[end], server, client, stream)
    until(lambda: found._destroyed)
    backend.gates[1].open()
    ending.result(PATIENCE)
    assert backend.device.parts == 1
    if end != "server":  # which has broken the call off before
        error = checked(call.exception(PATIENCE))
        assert isinstance(error, StreamDestroyedError | HandleNotFoundError)
