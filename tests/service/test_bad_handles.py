"""Ids that name nothing, something of another context, or something that has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from google.protobuf.message import Message

from aclnn.errors import (
    ExecutorUsedError,
    HandleExistsError,
    HandleNotFoundError,
    InvalidParameterError,
    NotReadyError,
    SessionLostError,
)
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from tests.service.calling import Caller, Stubs, refused
from tests.service.gated import GatedBackend
from tests.service.requests import digit, floats, number, outputs, plan, plus, run, tensor


@pytest.fixture
def other(way: Callable[[Stubs], Caller], stubs: Stubs) -> Iterator[Caller]:
    """Another client, whose context holds buffer, event and executor 5."""
    other = way(stubs)
    other(pb.MallocRequest(buffer_id=5, bytes=64))
    other(pb.CreateEventRequest(event_id=5))
    other(plus(executor=5, repeatable=True))
    yield other
    other.close()


def copy(to: int, source: int) -> pb.MemcpyRequest:
    """Copies nothing from one buffer to another."""
    return pb.MemcpyRequest(destination_buffer_id=to, source_buffer_id=source)


def of_buffer(number: int) -> list[tuple[Message, str]]:
    """Every request that names a buffer, and the parameter that does."""
    return [
        (pb.FreeRequest(buffer_id=number), "buffer_id"),
        (pb.MemsetRequest(buffer_id=number, bytes=1), "buffer_id"),
        (copy(number, 1), "destination_buffer_id"),
        (copy(1, number), "source_buffer_id"),
        (pb.WriteBufferRequest(buffer_id=number, data=b"1"), "buffer_id"),
        (pb.ReadBufferRequest(buffer_id=number, bytes=1), "buffer_id"),
        (plan("aclnnPlus", floats(1), _ONE, tensor([1], buffer_id=number)), "out"),
        (plan("aclnnPlus", tensor([1], buffer_id=number), _ONE, tensor([1])), "self"),
    ]


def of_event(number: int) -> list[tuple[Message, str]]:
    """Every request that names an event."""
    return [
        (pb.DestroyEventRequest(event_id=number), "event_id"),
        (pb.RecordEventRequest(event_id=number), "event_id"),
        (pb.WaitEventRequest(event_id=number), "event_id"),
        (pb.SynchronizeEventRequest(event_id=number), "event_id"),
        (pb.QueryEventRequest(event_id=number), "event_id"),
        (pb.GetEventElapsedTimeRequest(start_event_id=number), "start_event_id"),
    ]


def of_executor(number: int) -> list[tuple[Message, str]]:
    """Every request that names an executor."""
    return [
        (run(number), "executor_id"),
        (op.DestroyExecutorRequest(executor_id=number), "executor_id"),
    ]


_ONE = number(1)
KINDS: dict[str, Callable[[int], list[tuple[Message, str]]]] = {
    "buffer": of_buffer,
    "event": of_event,
    "executor": of_executor,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("handle", [0, 5, 2**62, 2**64 - 1])
def test_unknown_and_foreign_ids_answer_the_same(
    caller: Caller, other: Caller, kind: str, handle: int
) -> None:
    caller(pb.MallocRequest(buffer_id=1, bytes=8))
    for request, parameter in KINDS[kind](handle):
        error = refused(caller, request, HandleNotFoundError, parameter=parameter)
        assert error.message.endswith(f"{kind} {handle} does not exist in this context")
    assert outputs(other(run(5))) == [[2.0, 3.0]]


def test_the_second_of_two_events_is_named(caller: Caller) -> None:
    caller(pb.CreateEventRequest(event_id=1))
    caller(pb.RecordEventRequest(event_id=1))
    request = pb.GetEventElapsedTimeRequest(start_event_id=1, end_event_id=9)
    refused(caller, request, HandleNotFoundError, parameter="end_event_id", says=["event 9"])


def of_stream(stream_id: str) -> list[Message]:
    """Every request that names a stream."""
    return [
        plus(stream=stream_id),
        run(1, stream=stream_id),
        pb.SynchronizeStreamRequest(stream_id=stream_id),
        pb.QueryStreamRequest(stream_id=stream_id),
        pb.DestroyStreamRequest(stream_id=stream_id),
        pb.MemsetRequest(buffer_id=1, stream_id=stream_id),
        pb.MemcpyRequest(destination_buffer_id=1, source_buffer_id=1, stream_id=stream_id),
        pb.WriteBufferRequest(buffer_id=1, stream_id=stream_id),
        pb.ReadBufferRequest(buffer_id=1, stream_id=stream_id),
        pb.RecordEventRequest(event_id=1, stream_id=stream_id),
        pb.WaitEventRequest(event_id=1, stream_id=stream_id),
    ]


@pytest.fixture
def furnished(caller: Caller) -> Caller:
    """A client whose context holds buffer, event and executor 1."""
    caller(pb.MallocRequest(buffer_id=1, bytes=64))
    caller(pb.CreateEventRequest(event_id=1))
    caller(plus(executor=1, repeatable=True))
    return caller


def test_unknown_streams(furnished: Caller) -> None:
    for stream_id in ("nonsense", "x" * 1000, furnished.stream_id[:-1]):
        for request in of_stream(stream_id):
            error = refused(furnished, request, HandleNotFoundError, parameter="stream_id")
            assert error.message == "stream does not exist in this context"


def test_streams_of_another_context(furnished: Caller, other: Caller) -> None:
    for request in of_stream(other.stream_id):
        if isinstance(request, pb.QueryStreamRequest | pb.DestroyStreamRequest):
            continue  # outside Submit, the stream's secret id alone says which context it is
        error = refused(furnished, request, HandleNotFoundError, parameter="stream_id")
        assert error.message == "stream does not exist in this context"


def test_contexts_that_do_not_exist(furnished: Caller, other: Caller) -> None:
    for context_id in ("nonsense", other.stream_id, furnished.context_id + "x"):
        for request in (pb.MallocRequest(bytes=1), plus(), pb.RenewContextRequest(), run(1)):
            request.context_id = context_id
            error = refused(furnished, request, HandleNotFoundError, parameter="context_id")
            assert error.message == (
                "the context does not exist, or has ended: destroyed, or silent for longer than its lease"
            )


def test_ids_of_before_a_restart(stubs: Stubs) -> None:
    lost = "0123abcd-AAAAAAAAAAAAAAAAAAAAAA"
    for request in (
        pb.MallocRequest(context_id=lost, bytes=1),
        pb.QueryStreamRequest(stream_id=lost),
        pb.RenewContextRequest(context_id=lost),
    ):
        with pytest.raises(SessionLostError, match="restart") as caught:
            stubs.unary(request)
        assert caught.value.code == 507010


# --- used, taken, freed ---------------------------------------------------------------------------


def test_a_one_shot_executor_runs_once(caller: Caller, backend: GatedBackend) -> None:
    caller(plus(executor=7))
    assert outputs(caller(run(7))) == [[2.0, 3.0]]

    says = ["executor 7", "was spent by an earlier phase two"]
    error = refused(caller, run(7), ExecutorUsedError, parameter="executor_id", says=says)
    assert error.code == 200005
    assert backend.device.runs == ["aclnnPlus"]

    caller(plus(executor=7))  # planned again, the id is as good as new
    assert outputs(caller(run(7))) == [[2.0, 3.0]]


def test_an_executor_is_used_up_by_a_run_that_is_refused(caller: Caller) -> None:
    caller(plus(executor=7))
    with pytest.raises(InvalidParameterError):
        caller(run(7, bindings=[op.Binding(argument=0)]))
    refused(caller, run(7), ExecutorUsedError, parameter="executor_id")


def test_a_destroyed_executor_is_unknown(caller: Caller) -> None:
    caller(plus(executor=7))
    caller(op.DestroyExecutorRequest(executor_id=7))
    for request, parameter in of_executor(7):
        refused(caller, request, HandleNotFoundError, parameter=parameter)


def test_the_same_plan_again_answers_the_same(caller: Caller, backend: GatedBackend) -> None:
    first = caller(plus(executor=7))
    before = caller.usage()
    assert caller(plus(executor=7)) == first
    assert caller.usage() == before
    assert backend.device.planned == 1


def test_a_repeat_with_another_plan_is_refused(caller: Caller) -> None:
    stream = caller(pb.CreateStreamRequest()).stream_id
    caller(plus(executor=7))
    for request in (
        plus(2, executor=7),
        plus(1, 1.0, 2.5, executor=7),
        plus(executor=7, repeatable=True),
        plus(executor=7, stream=stream),
        plan("aclnnPass", floats(1, 2), _ONE, tensor([2]), executor=7),
    ):
        error = refused(caller, request, HandleExistsError, parameter="executor_id")
        assert (error.code, error.operator) == (107017, request.operator)
        assert "executor 7 exists" in error.message


def test_a_buffer_freed_between_the_phases(caller: Caller, backend: GatedBackend) -> None:
    caller(pb.MallocRequest(buffer_id=1, bytes=8))
    caller(digit(1, buffer=1, executor=7))
    caller(pb.FreeRequest(buffer_id=1))
    assert caller(pb.RenewContextRequest()).usage.bytes == 0

    for again in (False, True):
        if again:  # another buffer of the same id is another buffer
            caller(pb.MallocRequest(buffer_id=1, bytes=8))
            caller(digit(1, buffer=1, executor=7))
            caller(pb.FreeRequest(buffer_id=1))
            caller(pb.MallocRequest(buffer_id=1, bytes=8))
        with pytest.raises(
            HandleNotFoundError, match=r"selfRef lies in buffer 1, .*freed"
        ) as caught:
            caller(run(7))
        assert (caught.value.parameter, caught.value.operator) == ("selfRef", "aclnnDigit")
    assert backend.device.runs == []
    assert caller(pb.RenewContextRequest()).usage.executors == 0


def test_malloc_again(caller: Caller, backend: GatedBackend) -> None:
    caller(pb.MallocRequest(buffer_id=1, bytes=8))
    caller(pb.WriteBufferRequest(buffer_id=1, data=b"12345678"))
    assert caller(pb.MallocRequest(buffer_id=1, bytes=8)).buffer_id == 1
    assert caller(pb.ReadBufferRequest(buffer_id=1, bytes=8)).data == b"12345678"
    assert backend.device.allocations == 1

    request = pb.MallocRequest(buffer_id=1, bytes=9)
    says = ["buffer 1", "8 bytes"]
    error = refused(caller, request, HandleExistsError, parameter="buffer_id", says=says)
    assert error.code == 107017


def test_the_default_stream_cannot_be_destroyed(caller: Caller) -> None:
    request = pb.DestroyStreamRequest(stream_id=caller.stream_id)
    says = ["default stream"]
    refused(caller, request, NotReadyError, parameter="stream_id", says=says)


def test_ending_twice(caller: Caller) -> None:
    stream = caller(pb.CreateStreamRequest()).stream_id
    caller(pb.MallocRequest(buffer_id=1, bytes=8))
    caller(pb.CreateEventRequest(event_id=1))
    for request, parameter in (
        (pb.DestroyStreamRequest(stream_id=stream), "stream_id"),
        (pb.FreeRequest(buffer_id=1), "buffer_id"),
        (pb.DestroyEventRequest(event_id=1), "event_id"),
    ):
        caller(request)
        refused(caller, request, HandleNotFoundError, parameter=parameter)


def test_ids_that_the_server_chooses(caller: Caller) -> None:
    buffers = {caller(pb.MallocRequest(bytes=8)).buffer_id for _ in range(3)}
    events = {caller(pb.CreateEventRequest()).event_id for _ in range(3)}
    executors = {caller(plus()).executor_id for _ in range(3)}
    assert len(buffers) == len(events) == len(executors) == 3
    assert all(number >= 2**62 for number in (*buffers, *events, *executors))
