"""Events: marks in streams, to wait for and to time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from aclnn.errors import NotReadyError, WaitTimeoutError
from aclnn.v1 import device_service_pb2 as pb
from tests.service.calling import Caller, refused
from tests.service.gated import PATIENCE, GatedBackend
from tests.service.queueing import blocking, queue, stored
from tests.service.requests import digit, number, plan, tensor


@pytest.fixture
def pair(caller: Caller) -> Caller:
    """A client with event 1, a number in buffer 1, and buffer 2 for large work."""
    caller(pb.CreateEventRequest(event_id=1))
    caller(pb.MallocRequest(buffer_id=1, bytes=8))
    caller(pb.MallocRequest(buffer_id=2, bytes=2**21))
    return caller


@pytest.fixture
def second(pair: Caller) -> str:
    """A second stream of the client."""
    stream: str = pair(pb.CreateStreamRequest()).stream_id
    return stream


def complete(caller: Caller, event_id: int = 1) -> bool:
    """Whether the event's mark has been passed."""
    answer: bool = caller(pb.QueryEventRequest(event_id=event_id)).complete
    return answer


def test_an_event_orders_two_streams(pair: Caller, second: str, backend: GatedBackend) -> None:
    queue(pair, blocking(1))
    queue(pair, digit(1, 1))
    pair(pb.RecordEventRequest(event_id=1))
    pair(pb.WaitEventRequest(event_id=1, stream_id=second))
    queue(pair, digit(2, 1, stream=second))
    backend.gates[1].wait_entered()
    assert not complete(pair)
    assert not pair(pb.QueryStreamRequest(stream_id=second)).complete
    backend.gates[1].open()
    pair(pb.SynchronizeStreamRequest(stream_id=second))
    assert stored(pair) == 12
    assert complete(pair)


def test_an_event_without_a_mark_holds_nothing_up(pair: Caller, second: str) -> None:
    assert complete(pair)
    pair(pb.SynchronizeEventRequest(event_id=1))
    pair(pb.WaitEventRequest(event_id=1, stream_id=second))
    queue(pair, digit(2, 1, stream=second))
    pair(pb.SynchronizeStreamRequest(stream_id=second))
    assert stored(pair) == 2


def test_a_wait_is_for_the_mark_that_was_the_latest(
    pair: Caller, second: str, backend: GatedBackend
) -> None:
    pair(pb.RecordEventRequest(event_id=1))
    pair(pb.WaitEventRequest(event_id=1, stream_id=second))
    queue(pair, blocking(1))
    pair(pb.RecordEventRequest(event_id=1))  # replaces the mark, not the wait
    queue(pair, digit(2, 1, stream=second))
    pair(pb.SynchronizeStreamRequest(stream_id=second))
    assert stored(pair) == 2
    assert not complete(pair)
    backend.gates[1].open()
    pair(pb.SynchronizeEventRequest(event_id=1))
    assert complete(pair)


def test_a_chain_of_streams(pair: Caller, backend: GatedBackend) -> None:
    """Each stream waits for the one before it; a single gate holds all of them."""
    queue(pair, blocking(1))
    pair(pb.RecordEventRequest(event_id=1))
    for index in range(2, 10):
        stream = pair(pb.CreateStreamRequest()).stream_id
        pair(pb.WaitEventRequest(event_id=index - 1, stream_id=stream))
        queue(pair, digit(index, 1, stream=stream))
        pair(pb.CreateEventRequest(event_id=index))
        pair(pb.RecordEventRequest(event_id=index, stream_id=stream))
    assert [complete(pair, index) for index in range(1, 10)] == [False] * 9
    backend.gates[1].open()
    pair(pb.SynchronizeEventRequest(event_id=9))
    assert stored(pair) == 23456789


@pytest.mark.parametrize("early", [False, True])
def test_a_destroyed_stream_passes_its_marks(
    pair: Caller, second: str, backend: GatedBackend, pool: ThreadPoolExecutor, *, early: bool
) -> None:
    """Whoever waits for them goes on, also where the work before the mark was dropped."""
    queue(pair, blocking(1, stream=second))
    queue(pair, digit(1, 1, stream=second))
    pair(pb.RecordEventRequest(event_id=1, stream_id=second))
    pair(pb.WaitEventRequest(event_id=1))
    queue(pair, digit(2, 1))
    backend.gates[1].wait_entered()
    if early:
        pair(pb.DestroyEventRequest(event_id=1))
    destroying = pool.submit(pair, pb.DestroyStreamRequest(stream_id=second))
    backend.gates[1].open()
    destroying.result(PATIENCE)
    pair(pb.SynchronizeStreamRequest())
    # The digit 1 was dropped, or ran before the stream was destroyed.
    assert stored(pair) in (2, 12)


def test_a_stream_that_waits_may_be_destroyed(
    pair: Caller, second: str, backend: GatedBackend
) -> None:
    queue(pair, blocking(1))
    pair(pb.RecordEventRequest(event_id=1))
    pair(pb.WaitEventRequest(event_id=1, stream_id=second))
    queue(pair, digit(2, 1, stream=second))
    pair(pb.DestroyStreamRequest(stream_id=second))
    backend.gates[1].open()
    pair(pb.SynchronizeStreamRequest())
    assert stored(pair) == 0


def test_a_wait_has_a_time_limit(pair: Caller, backend: GatedBackend) -> None:
    queue(pair, blocking(1))
    pair(pb.RecordEventRequest(event_id=1))
    request = pb.SynchronizeEventRequest(event_id=1)
    request.timeout.FromMilliseconds(20)
    error = refused(pair, request, WaitTimeoutError, parameter="", code=507047, says=["event 1"])
    assert "0.02 seconds" in error.message
    backend.gates[1].open()
    request.timeout.FromSeconds(30)
    pair(request)


def test_the_time_between_two_marks(pair: Caller, backend: GatedBackend) -> None:
    pair(pb.CreateEventRequest(event_id=2))
    request = pb.GetEventElapsedTimeRequest(start_event_id=1, end_event_id=2)
    says = ["event 1", "never recorded"]
    refused(pair, request, NotReadyError, parameter="start_event_id", code=107006, says=says)
    pair(pb.RecordEventRequest(event_id=1))
    says = ["event 2", "never recorded"]
    refused(pair, request, NotReadyError, parameter="end_event_id", code=107006, says=says)
    queue(pair, blocking(1))
    pair(pb.RecordEventRequest(event_id=2))
    backend.gates[1].wait_entered()
    says = ["event 2", "not been reached"]
    refused(pair, request, NotReadyError, parameter="end_event_id", code=107006, says=says)

    backend.gates[1].open()
    pair(pb.SynchronizeEventRequest(event_id=2))
    forward = pair(request).elapsed_ns
    assert forward > 0
    request = pb.GetEventElapsedTimeRequest(start_event_id=2, end_event_id=1)
    assert pair(request).elapsed_ns == -forward
    request = pb.GetEventElapsedTimeRequest(start_event_id=1, end_event_id=1)
    assert pair(request).elapsed_ns == 0


def test_create_again_finds_the_first(pair: Caller) -> None:
    pair(pb.RecordEventRequest(event_id=1))
    assert pair(pb.CreateEventRequest(event_id=1)).event_id == 1
    assert pair(pb.RenewContextRequest()).usage.events == 1


def test_a_failure_before_a_mark_does_not_hold_it(pair: Caller) -> None:
    queue(pair, plan("aclnnFail", number(3), tensor([1], buffer_id=1)))
    pair(pb.RecordEventRequest(event_id=1))
    pair(pb.SynchronizeEventRequest(event_id=1))
    with pytest.raises(Exception, match="failed with 3"):
        pair(pb.SynchronizeStreamRequest())
