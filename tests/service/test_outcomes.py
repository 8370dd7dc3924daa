"""Where the outcome of queued work is told, and what becomes of it when its stream or its caller is gone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from aclnn.errors import (
    ExecutionFailedError,
    HandleNotFoundError,
    InternalError,
    InvalidParameterError,
    StreamDestroyedError,
    WaitTimeoutError,
)
from aclnn.v1 import device_service_pb2 as pb
from tests.service.calling import DEADLINE, PROTOCOL, Caller, Stubs, Unary, refused
from tests.service.gated import PATIENCE, SECRET, GatedBackend
from tests.service.queueing import blocking, queue, stored, synchronize
from tests.service.requests import (
    INT64,
    digit,
    failing,
    floats,
    number,
    outputs,
    passing,
    plan,
    plus,
    run,
    tensor,
)

# --- failures -------------------------------------------------------------------------------------


def test_a_queued_failure_surfaces_once(ready: Caller) -> None:
    queue(ready, failing(3, 1))
    queue(ready, digit(4, 1))
    with pytest.raises(ExecutionFailedError, match="failed with 3") as caught:
        synchronize(ready)
    assert (caught.value.code, caught.value.operator) == (361001, "aclnnFail")
    synchronize(ready)
    assert stored(ready) == 4  # what came after it was run


def test_the_first_failure_wins(ready: Caller) -> None:
    for value in (5, 6, 7):
        queue(ready, failing(value, 1))
    with pytest.raises(ExecutionFailedError, match="failed with 5"):
        synchronize(ready)
    synchronize(ready)


def test_a_failure_stays_with_its_stream(ready: Caller) -> None:
    second = ready(pb.CreateStreamRequest()).stream_id
    queue(ready, failing(3, 1, stream=second))
    synchronize(ready, ready.stream_id)
    with pytest.raises(ExecutionFailedError):
        synchronize(ready, second)


def test_waiting_for_all_streams_waits_for_all_and_tells_a_failure(
    ready: Caller, backend: GatedBackend, pool: ThreadPoolExecutor
) -> None:
    second = ready(pb.CreateStreamRequest()).stream_id
    queue(ready, failing(3, 1))
    queue(ready, blocking(1, stream=second))
    backend.gates[1].wait_entered()
    waiting = pool.submit(synchronize, ready)
    # Not before the other stream is done, whatever the first one failed with.
    with pytest.raises(TimeoutError):
        waiting.result(0.05)
    backend.gates[1].open()
    with pytest.raises(ExecutionFailedError, match="failed with 3"):
        waiting.result(PATIENCE)
    synchronize(ready)


def test_a_call_that_waits_reports_its_failure_itself(stubs: Stubs) -> None:
    client = Unary(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    planned = client(failing(3, 1))
    with pytest.raises(ExecutionFailedError, match="failed with 3"):
        client(run(planned.executor_id))
    synchronize(client)


def test_an_execution_whose_answer_carries_outputs_reports_its_failure_itself(
    ready: Caller,
) -> None:
    request = plan("aclnnFail", number(4), tensor([1], INT64))
    planned = ready(request)
    with pytest.raises(ExecutionFailedError, match="failed with 4"):
        ready(run(planned.executor_id))
    synchronize(ready)
    assert ready(pb.RenewContextRequest()).usage.bytes == 8 + 2**21


def test_an_unexpected_failure_is_told_by_its_id_only(
    ready: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    planned = ready(plan("aclnnFail", number(-4), tensor([1], INT64)))
    with pytest.raises(InternalError) as caught:
        ready(run(planned.executor_id))
    _check_fixed_sentence(caught.value, caplog)

    queue(ready, failing(-5, 1))
    caplog.clear()
    queue(ready, failing(-6, 1))
    with pytest.raises(InternalError) as caught:
        synchronize(ready)
    assert SECRET not in str(caught.value)
    synchronize(ready)


def test_an_unexpected_failure_of_phase_one(
    ready: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    request = plan("aclnnRefuse", floats(1), tensor([1]), executor=1)
    error = refused(ready, request, InternalError, parameter="")
    assert isinstance(error, InternalError)
    _check_fixed_sentence(error, caplog)


def _check_fixed_sentence(error: InternalError, caplog: pytest.LogCaptureFixture) -> None:
    text = "unexpected failure; the server's log tells more under request id "
    assert error.message == text + error.request_id
    assert len(error.request_id) == 16
    assert (error.code, error.parameter) == (561000, "")
    (record,) = [r for r in caplog.records if error.request_id in r.getMessage()]
    assert record.exc_info is not None
    assert SECRET in str(record.exc_info[1])


# --- waiting --------------------------------------------------------------------------------------


def test_a_wait_has_a_time_limit(ready: Caller, backend: GatedBackend) -> None:
    queue(ready, blocking(1))
    for stream in (ready.stream_id, ""):
        request = pb.SynchronizeStreamRequest(stream_id=stream)
        request.timeout.FromMilliseconds(20)
        with pytest.raises(WaitTimeoutError, match=r"1 commands left after 0\.0\d+ s") as caught:
            ready(request)
        assert caught.value.code == 507046


def test_a_time_limit_may_be_longer_than_any_clock(
    ready: Caller, backend: GatedBackend, pool: ThreadPoolExecutor
) -> None:
    ready(pb.CreateEventRequest(event_id=1))
    requests = (pb.SynchronizeStreamRequest(), pb.SynchronizeEventRequest(event_id=1))
    for gate, request in enumerate(requests, 1):
        queue(ready, blocking(gate))
        ready(pb.RecordEventRequest(event_id=1))
        request.timeout.FromSeconds(10**11)  # type: ignore[attr-defined]
        waiting = pool.submit(ready, request)
        with pytest.raises(TimeoutError):
            waiting.result(0.05)
        backend.gates[gate].open()
        waiting.result(PATIENCE)


@pytest.mark.parametrize("kind", [pb.SynchronizeStreamRequest, pb.SynchronizeEventRequest])
def test_a_negative_time_limit_is_refused(ready: Caller, kind: type) -> None:
    request = kind()
    request.timeout.FromMilliseconds(-1)
    with pytest.raises(InvalidParameterError, match="at least 0") as caught:
        ready(request)
    assert caught.value.parameter == "timeout"


# --- destroyed ------------------------------------------------------------------------------------


def test_a_stream_destroyed_while_work_runs(
    stubs: Stubs, backend: GatedBackend, pool: ThreadPoolExecutor
) -> None:
    """Running work ends and answers; queued work is dropped and answers ABORTED."""
    client = Unary(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    stream = client(pb.CreateStreamRequest()).stream_id
    running = pool.submit(client, run(client(passing(1)).executor_id, stream=stream))
    backend.gates[1].wait_entered()
    queued = [
        pool.submit(client, run(client(passing(2)).executor_id, stream=stream)) for _ in range(2)
    ]
    request = pb.SynchronizeStreamRequest(stream_id=stream)
    waiting = pool.submit(client, request)
    _wait_until(lambda: client.usage()["queued_commands"] == 3)
    destroying = pool.submit(client, pb.DestroyStreamRequest(stream_id=stream))
    _wait_until(lambda: client.usage()["streams"] == 1)
    assert not destroying.done()
    backend.gates[1].open()

    assert outputs(running.result(PATIENCE)) == [[7.0, 8.0]]
    for future in queued:
        with pytest.raises(StreamDestroyedError, match="before the work was run") as caught:
            future.result(PATIENCE)
        assert caught.value.code == 107023
    _aborted_or_unknown(waiting)
    destroying.result(PATIENCE)
    assert backend.gates[2].untouched
    assert client.usage() | {"buffers": 1, "bytes": 8} == client.usage()
    with pytest.raises(HandleNotFoundError):
        client(run(client(passing(0)).executor_id, stream=stream))


def _aborted_or_unknown(future: Future[None]) -> None:
    """The synchronise of a stream that is destroyed: begun before it, or after."""
    with pytest.raises((StreamDestroyedError, HandleNotFoundError)):
        future.result(PATIENCE)


def _wait_until(holds: Callable[[], bool]) -> None:
    """Asks until it holds; each question is a round trip to the server."""
    for _ in range(10_000):
        if holds():
            return
    raise AssertionError("it never held")


def test_a_waiter_of_running_work_waits_for_it_though_the_stream_is_destroyed(
    stubs: Stubs, backend: GatedBackend, pool: ThreadPoolExecutor
) -> None:
    """What is dropped behind it does not count for it."""
    client = Unary(stubs)
    client(pb.MallocRequest(buffer_id=2, bytes=2**21))
    stream = client(pb.CreateStreamRequest()).stream_id
    queue(client, blocking(1, stream=stream))
    backend.gates[1].wait_entered()
    for _ in range(3):
        queue(client, blocking(0, stream=stream))
    reading = pool.submit(client, pb.ReadBufferRequest(buffer_id=2, bytes=8))
    destroying = pool.submit(client, pb.DestroyStreamRequest(stream_id=stream))
    _wait_until(lambda: client.usage()["streams"] == 1)
    backend.gates[1].open()
    destroying.result(PATIENCE)
    assert np.frombuffer(reading.result(PATIENCE).data, np.float32).tolist() == [7.0, 8.0]


def test_a_stream_without_a_context_brings_its_own(stubs: Stubs, backend: GatedBackend) -> None:
    request = pb.CreateStreamRequest(protocol_version=PROTOCOL)
    created = stubs.device.CreateStream(request, timeout=DEADLINE)
    assert stubs.usage() | {"contexts": 1, "streams": 1} == stubs.usage()
    planned = stubs.unary(plus(stream=created.stream_id))  # the stream's id is enough
    answer = stubs.unary(run(planned.executor_id, stream=created.stream_id))
    assert outputs(answer) == [[2.0, 3.0]]
    stubs.unary(pb.MallocRequest(context_id=created.context_id, bytes=8))

    stubs.unary(pb.DestroyStreamRequest(stream_id=created.stream_id))
    assert set(stubs.usage().values()) == {0}
    with pytest.raises(HandleNotFoundError):
        stubs.unary(pb.RenewContextRequest(context_id=created.context_id))


# --- deadlines ------------------------------------------------------------------------------------


def test_a_call_past_its_deadline_is_dropped_before_it_runs(
    stubs: Stubs, backend: GatedBackend
) -> None:
    client = Unary(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    client(pb.MallocRequest(buffer_id=2, bytes=2**21))
    queue(client, blocking(1))
    backend.gates[1].wait_entered()
    request = client.addressed(run(client(digit(5, 1)).executor_id))
    future = stubs.operator.Execute.future(request, timeout=0.2)  # type: ignore[arg-type]
    _wait_until(lambda: client.usage()["queued_commands"] == 2 or future.done())
    assert future.exception(PATIENCE) is not None
    # The server learns of a deadline by its own clock; what it answers next, it answers after it.
    _wait_until(lambda: client.usage()["queued_commands"] == 2)
    backend.gates[1].open()
    synchronize(client)
    assert stored(client) == 0
    assert backend.device.runs == ["aclnnPass"]
    assert client.usage()["executors"] == 0


def test_a_cancelled_call_is_dropped_before_it_runs(stubs: Stubs, backend: GatedBackend) -> None:
    client = Unary(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    client(pb.MallocRequest(buffer_id=2, bytes=2**21))
    queue(client, blocking(1))
    backend.gates[1].wait_entered()
    request = client.addressed(run(client(digit(5, 1)).executor_id))
    future = stubs.operator.Execute.future(request, timeout=DEADLINE)  # type: ignore[arg-type]
    _wait_until(lambda: client.usage()["queued_commands"] == 2)
    future.cancel()
    for _ in range(20):
        client.usage()
    backend.gates[1].open()
    synchronize(client)
    assert stored(client) == 0


def test_queued_work_outlives_the_call_that_queued_it(stubs: Stubs, backend: GatedBackend) -> None:
    """An asynchronous call is over when it is answered; its work is not."""
    client = Unary(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    client(pb.MallocRequest(buffer_id=2, bytes=2**21))
    queue(client, blocking(1))
    for value in (4, 2):
        queue(client, digit(value, 1))
    backend.gates[1].open()
    synchronize(client)
    assert stored(client) == 42
