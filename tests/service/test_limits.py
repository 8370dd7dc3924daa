"""Limits: each one is told with its number, holds exactly, and counts what is there now."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar, cast

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message

from aclnn.errors import HandleNotFoundError, InvalidParameterError, LimitExceededError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn_server.service.calls import Call
from aclnn_server.sessions.tenants import Tenant
from tests.service.calling import (
    DEADLINE,
    PROTOCOL,
    Caller,
    Stubs,
    Submitting,
    Unary,
    checked,
    code_of,
    failed,
    refused,
)
from tests.service.conftest import Serve
from tests.service.gated import GatedBackend
from tests.service.queueing import blocking
from tests.service.queueing import queue as queue_up
from tests.service.requests import (
    UINT8,
    floats,
    inline,
    number,
    outputs,
    passing,
    plan,
    plus,
    run,
    tensor,
)

if TYPE_CHECKING:
    from aclnn_server.sessions.registry import Registry

pytestmark = pytest.mark.usefixtures("submit_served")

T = TypeVar("T")
Made = tuple[str, Callable[[int], Message], Callable[[int], Message]]

OBJECTS: dict[str, Made] = {
    "buffers": (
        "max_buffers",
        lambda i: pb.MallocRequest(buffer_id=i, bytes=8),
        lambda i: pb.FreeRequest(buffer_id=i),
    ),
    "events": (
        "max_events",
        lambda i: pb.CreateEventRequest(event_id=i),
        lambda i: pb.DestroyEventRequest(event_id=i),
    ),
    "executors": (
        "max_executors",
        lambda i: plus(executor=i),
        lambda i: op.DestroyExecutorRequest(executor_id=i),
    ),
}


@pytest.mark.parametrize("what", OBJECTS)
def test_objects_of_a_context(
    serve: Serve, way: Callable[[Stubs], Caller], backend: GatedBackend, what: str
) -> None:
    setting, make, end = OBJECTS[what]
    stubs = serve(**{setting: 3})
    caller, other = way(stubs), way(stubs)
    for index in (1, 2, 3):
        caller(make(index))
    before = backend.device.allocations, backend.device.planned
    for index in (4, 0):
        says = [f"3 {what}", "at most 3", "context"]
        error = refused(caller, make(index), LimitExceededError, parameter="", says=says)
        assert (error.code, error.retry_after_ms > 0) == (207012, True)
    assert (backend.device.allocations, backend.device.planned) == before
    caller(make(2))  # a repeat makes nothing
    other(make(4))  # another context has its own count

    caller(end(2))
    caller(make(4))
    refused(caller, make(5), LimitExceededError, parameter="")
    caller.close()
    other.close()


def test_streams_of_a_context(serve: Serve, way: Callable[[Stubs], Caller]) -> None:
    caller = way(serve(max_streams=3))
    streams = [caller(pb.CreateStreamRequest()).stream_id for _ in range(2)]
    says = ["3 streams", "at most 3"]  # the default one counts
    refused(caller, pb.CreateStreamRequest(), LimitExceededError, parameter="", says=says)
    caller(pb.DestroyStreamRequest(stream_id=streams[0]))
    caller(pb.CreateStreamRequest())
    refused(caller, pb.CreateStreamRequest(), LimitExceededError, parameter="")
    caller.close()


def test_contexts_of_a_server(serve: Serve, backend: GatedBackend) -> None:
    stubs = serve(max_contexts=2)
    first, _ = Unary(stubs), Unary(stubs)
    before = stubs.usage(), backend.device.streams_made
    lone = pb.CreateStreamRequest(protocol_version=PROTOCOL)
    for call, request in (
        (stubs.device.CreateContext, pb.CreateContextRequest(protocol_version=PROTOCOL)),
        (stubs.device.CreateStream, lone),
    ):
        error = failed(call, request)
        assert isinstance(error, LimitExceededError)
        assert "the server has 2 contexts; at most 2 are allowed" in error.message
        assert error.retry_after_ms > 0
    assert (stubs.usage(), backend.device.streams_made) == before
    first.close()
    stubs.device.CreateStream(lone, timeout=DEADLINE)


def test_new_contexts_of_a_machine(serve: Serve) -> None:
    stubs = serve(client_context_rate=0.1)
    lone = pb.CreateStreamRequest(protocol_version=PROTOCOL)
    stubs.device.CreateStream(lone, timeout=DEADLINE)
    for call, request in (
        (stubs.device.CreateContext, pb.CreateContextRequest(protocol_version=PROTOCOL)),
        (stubs.device.CreateStream, lone),
    ):
        error = failed(call, request)
        assert isinstance(error, LimitExceededError)
        assert "faster than the 0.1 a second that this client may have" in error.message
        assert 0 < error.retry_after_ms <= 10_000
    assert stubs.usage()["contexts"] == 1


@pytest.mark.parametrize(
    ("peer", "machine"),
    [
        ("ipv4:10.0.0.7:43210", "10.0.0.7/32"),
        ("ipv6:%5B2001:db8::1%5D:43210", "2001:db8::/64"),
        ("ipv6:[2001:db8::2]:1", "2001:db8::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:1", "fe80::/64"),
        ("ipv6:%5B::1%5D:1", "::/64"),
        ("unix:/run/aclnn.sock", "unix"),
        ("unix:", "unix"),
        ("ipv4:nonsense", "nonsense"),
        ("", ""),
    ],
)
def test_clients_are_told_apart_by_their_machines(peer: str, machine: str) -> None:
    call = Call(cast("Registry", None), peer=lambda: peer)
    assert call.client == machine
    named = Call(cast("Registry", None), peer=lambda: peer, tenant=Tenant("alice"))
    assert named.client == "name alice"


def test_commands_of_a_stream(
    serve: Serve, way: Callable[[Stubs], Caller], backend: GatedBackend
) -> None:
    caller = way(serve(max_queued_commands=3))
    caller(pb.MallocRequest(buffer_id=1, bytes=8))
    caller(pb.MallocRequest(buffer_id=2, bytes=2**21))
    out = tensor([2], storage_shape=[2**19], buffer_id=2)
    planned = caller(plan("aclnnPass", floats(7, 8), number(1), out))
    caller(run(planned.executor_id, asynchronous=True))
    backend.gates[1].wait_entered()
    stream = caller.stream_id
    for _ in range(3):
        caller(pb.MemsetRequest(buffer_id=1, bytes=1, stream_id=stream))

    caller(pb.CreateEventRequest(event_id=1))
    for request in (
        pb.MemsetRequest(buffer_id=1, bytes=1, stream_id=stream),
        pb.MemcpyRequest(destination_buffer_id=1, source_buffer_id=1, bytes=1, stream_id=stream),
        pb.RecordEventRequest(event_id=1),
    ):
        says = ["3 commands queued", "at most 3"]
        error = refused(caller, request, LimitExceededError, parameter="", says=says)
        assert error.retry_after_ms > 0
    assert caller(pb.QueryEventRequest(event_id=1)).complete  # a mark that was refused is none

    caller(plus(executor=1))
    caller(passing(0, buffer=1, executor=2))
    for executor in (1, 2):  # which are not spent by it
        phase_two = run(executor, asynchronous=executor == 2)
        refused(caller, phase_two, LimitExceededError, parameter="", says=["3 commands queued"])

    backend.gates[1].open()
    caller(pb.SynchronizeStreamRequest())
    assert outputs(caller(run(1))) == [[2.0, 3.0]]
    caller(run(2, asynchronous=True))
    caller(pb.SynchronizeStreamRequest())
    caller(pb.MemsetRequest(buffer_id=1, bytes=1, stream_id=stream))
    caller.close()


def test_bytes_of_a_stream(serve: Serve, backend: GatedBackend) -> None:
    """Of writes that wait: what they have brought is memory that no quota counts."""
    client = Submitting(serve(max_queued_bytes=100))
    client(pb.MallocRequest(buffer_id=1, bytes=2**21))
    client(pb.MallocRequest(buffer_id=2, bytes=2**21))
    queue_up(client, blocking(1))
    backend.gates[1].wait_entered()
    stream = client.stream_id

    def write(size: int) -> pb.WriteBufferRequest:
        return pb.WriteBufferRequest(buffer_id=1, data=b"x" * size, stream_id=stream)

    client(write(60))
    client(write(40))
    says = ["100 bytes of writes queued", "1 are too many more", "at most 100"]
    error = refused(client, write(1), LimitExceededError, parameter="", says=says)
    assert error.retry_after_ms > 0
    client(pb.MemsetRequest(buffer_id=1, bytes=2**21, value=7, stream_id=stream))
    backend.gates[1].open()
    client(pb.SynchronizeStreamRequest())
    client(write(1000))  # a single one may be as large as it likes
    assert client(pb.ReadBufferRequest(buffer_id=1, bytes=1000)).data == b"x" * 1000
    client.close()


def test_work_that_is_waited_for_frees_its_place(serve: Serve) -> None:
    client = Unary(serve(max_queued_commands=1))
    for _ in range(5):
        assert outputs(client(run(client(plus()).executor_id))) == [[2.0, 3.0]]


# --- Submit calls ---------------------------------------------------------------------------------


@pytest.fixture
def hanging() -> Iterator[Callable[[Stubs, str], grpc.Call]]:
    """Opens Submit calls that stay open until the test is over."""
    ends: list[queue.SimpleQueue[pb.SubmitRequest | None]] = []

    def open_call(stubs: Stubs, context_id: str) -> grpc.Call:
        ends.append(queue.SimpleQueue())
        ends[-1].put(pb.SubmitRequest(context_id=context_id))
        return stubs.device.Submit(iter(ends[-1].get, None), timeout=DEADLINE)

    yield open_call
    for end in ends:
        end.put(None)


def test_submit_calls_of_a_server(
    serve: Serve, hanging: Callable[[Stubs, str], Iterator[pb.SubmitResponse]]
) -> None:
    stubs = serve(max_submit_calls=2)
    clients = [Submitting(stubs), Submitting(stubs)]
    third = Unary(stubs)
    for _ in range(20):  # more than the threads that are there to refuse
        with pytest.raises(grpc.RpcError) as caught:
            next(hanging(stubs, third.context_id))
        error = checked(caught.value)
        assert isinstance(error, LimitExceededError)
        assert "2 open Submit calls" in error.message
        assert (error.code, error.retry_after_ms) == (207012, 1000)
    assert outputs(third(run(third(plus()).executor_id))) == [[2.0, 3.0]]
    assert clients[0](pb.RenewContextRequest()).usage.contexts == 1

    clients[0].close()
    assert patiently(lambda: next(hanging(stubs, third.context_id))).results == []


def test_submit_calls_of_one_context(
    serve: Serve, hanging: Callable[[Stubs, str], Iterator[pb.SubmitResponse]]
) -> None:
    """A quarter of the server's, and at least four: a connection that broke leaves one behind."""
    stubs = serve(max_submit_calls=20)
    greedy, other = Unary(stubs), Submitting(stubs)
    calls = [hanging(stubs, greedy.context_id) for _ in range(5)]
    assert [next(call).results for call in calls] == [[]] * 5
    with pytest.raises(grpc.RpcError) as caught:
        next(hanging(stubs, greedy.context_id))
    error = checked(caught.value)
    assert isinstance(error, LimitExceededError)
    assert "the context has 5 open Submit calls, as many as allowed" in error.message
    assert (error.code, error.retry_after_ms) == (207012, 1000)
    assert other(pb.RenewContextRequest()).usage.contexts == 1
    other.close()


def test_a_call_that_is_refused_or_broken_off_gives_its_place_back(serve: Serve) -> None:
    stubs = serve(max_submit_calls=1)
    for _ in range(30):
        requests = iter([pb.SubmitRequest(context_id="nonsense")])
        with pytest.raises(grpc.RpcError) as caught:
            next(stubs.device.Submit(requests, timeout=DEADLINE))
        assert isinstance(checked(caught.value), HandleNotFoundError | LimitExceededError)
    client = patiently(lambda: Submitting(stubs))
    client.hang_up()
    again = patiently(lambda: Submitting(stubs))
    again.close()


def patiently(connect: Callable[[], T]) -> T:
    """Tries until a place is free: the server notes a call's end later than the client does."""
    for _ in range(1000):
        try:
            return connect()
        except grpc.RpcError as refusal:
            if not isinstance(checked(refusal), LimitExceededError):
                raise
    raise AssertionError("the place of a call that ended was never free")


# --- messages -------------------------------------------------------------------------------------


def test_a_message_that_is_too_large(serve: Serve) -> None:
    client = Unary(serve(max_message_bytes=2**20))
    request = plan("aclnnPlus", inline(np.zeros(2**18, np.float32)), number(1), tensor([2**18]))
    before = client.usage()
    with pytest.raises(grpc.RpcError) as caught:
        client.stubs.operator.GetWorkspaceSize(request, timeout=DEADLINE)
    assert code_of(caught.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert client.usage() == before


def test_a_read_that_fits_no_message_comes_in_chunks(serve: Serve) -> None:
    stubs = serve(max_message_bytes=2**20)
    client, submitting = Unary(stubs), Submitting(stubs)
    for caller in (client, submitting):
        caller(pb.MallocRequest(buffer_id=1, bytes=2**22))
    request = pb.ReadBufferRequest(buffer_id=1, bytes=2**22, chunk_bytes=2**30)
    assert client(request).data == bytes(2**22)
    says = [str(2**22), "one message"]
    refused(submitting, request, InvalidParameterError, parameter="bytes", says=says)
    submitting.close()


def test_results_that_do_not_fit_one_answer_together(serve: Serve) -> None:
    """The first ones are answered; each of the others says so, and the call goes on."""
    client = Submitting(serve(max_message_bytes=2**20))
    client(pb.MallocRequest(buffer_id=1, bytes=2**22))
    reads = [pb.ReadBufferRequest(buffer_id=1, bytes=2**18)] * 6
    results = client.batch([*reads, pb.MemsetRequest(buffer_id=1, bytes=1, value=7)])
    assert [getattr(result, "data", None) for result in results[:3]] == [bytes(2**18)] * 3
    for result in results[3:6]:
        assert isinstance(result, LimitExceededError)
        assert str(2**18) in result.message
    assert isinstance(results[6], pb.MemsetResponse)
    assert client(pb.ReadBufferRequest(buffer_id=1, bytes=2)).data == b"\x07\x00"
    client.close()


def test_small_results_always_fit(serve: Serve) -> None:
    client = Submitting(serve(max_message_bytes=2**20))
    client(pb.MallocRequest(buffer_id=1, bytes=2**20))
    large = pb.ReadBufferRequest(buffer_id=1, bytes=2**20 - 2**13)
    results = client.batch(
        [*[pb.QueryStreamRequest()] * 20, large, *[pb.QueryStreamRequest()] * 30]
    )
    assert isinstance(results[20], LimitExceededError)
    others = [*results[:20], *results[21:]]
    assert all(isinstance(result, pb.QueryStreamResponse) for result in others)
    client.close()


def test_outputs_that_fit_no_message_are_refused_before_they_are_computed(
    serve: Serve, way: Callable[[Stubs], Caller], backend: GatedBackend
) -> None:
    caller = way(serve(max_message_bytes=2**20))
    before = backend.device.allocations
    caller(plan("aclnnPlus", tensor([0]), number(1), tensor([2**20], UINT8), executor=1))
    with pytest.raises(InvalidParameterError, match=r"out .*1048576 bytes.*one message") as caught:
        caller(run(1))
    assert (caught.value.code, caught.value.parameter) == (161002, "out")
    assert backend.device.allocations == before
    assert caller.usage()["executors"] == 0
    caller.close()
