"""Streams: order inside one, and parallel across them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from aclnn.v1 import device_service_pb2 as pb
from tests.service.calling import Caller, Stubs, Unary
from tests.service.conftest import Serve
from tests.service.gated import PATIENCE, GatedBackend
from tests.service.queueing import blocking, queue, stored, synchronize
from tests.service.requests import (
    digit,
    outputs,
    passing,
    run,
)

# --- order ----------------------------------------------------------------------------------------


def test_work_is_done_in_the_order_of_the_calls(ready: Caller, backend: GatedBackend) -> None:
    queue(ready, blocking(1))
    for value in range(1, 10):
        queue(ready, digit(value, 1))
    assert ready(pb.RenewContextRequest()).usage.queued_commands == 10
    assert not ready(pb.QueryStreamRequest()).complete
    backend.gates[1].open()
    synchronize(ready)
    assert stored(ready) == 123456789
    assert ready(pb.QueryStreamRequest()).complete
    assert ready(pb.RenewContextRequest()).usage.queued_commands == 0


def test_two_streams_run_at_the_same_time(
    serve: Serve, way: Callable[[Stubs], Caller], backend: GatedBackend
) -> None:
    """Both kernels are inside at once, though an event is recorded behind the first."""
    caller = way(serve(workers=2))
    caller(pb.MallocRequest(buffer_id=2, bytes=2**21))
    caller(pb.CreateEventRequest(event_id=1))
    second = caller(pb.CreateStreamRequest()).stream_id
    queue(caller, blocking(1))
    caller(pb.RecordEventRequest(event_id=1))
    queue(caller, blocking(2, stream=second))
    backend.gates[1].wait_entered()
    backend.gates[2].wait_entered()
    backend.gates.open_all()
    synchronize(caller)
    caller.close()


def test_nothing_that_is_queued_blocks_a_submitting_client(
    ready: Caller, backend: GatedBackend
) -> None:
    """Small work queued behind large work stays in the stream, and the call returns."""
    for _ in range(15):
        queue(ready, blocking(1))
        queue(ready, digit(1, 1))
        ready(pb.CreateEventRequest(event_id=1))
        ready(pb.RecordEventRequest(event_id=1))
        ready(pb.MemsetRequest(buffer_id=1, bytes=0, stream_id=ready.stream_id))
    assert not ready(pb.QueryStreamRequest()).complete
    backend.gates[1].open()
    synchronize(ready)
    assert stored(ready) == int("1" * 15)


def test_one_worker_is_not_held_up_by_streams_that_wait(
    serve: Serve, backend: GatedBackend
) -> None:
    client = Unary(serve(workers=1))
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    client(pb.MallocRequest(buffer_id=2, bytes=2**21))
    client(pb.CreateEventRequest(event_id=1))
    queue(client, blocking(1))
    client(pb.RecordEventRequest(event_id=1))
    streams = [client(pb.CreateStreamRequest()).stream_id for _ in range(50)]
    for index, stream in enumerate(streams):
        client(pb.WaitEventRequest(event_id=1, stream_id=stream))
        target = pb.MallocRequest(buffer_id=100 + index, bytes=8)
        client(target)
        queue(client, digit(7, 100 + index, stream=stream))
    free = client(pb.CreateStreamRequest()).stream_id
    backend.gates[1].wait_entered()
    backend.gates[1].open()
    queue(client, digit(5, 1, stream=free))
    synchronize(client)
    assert [stored(client, 100 + index) for index in range(50)] == [7] * 50
    assert stored(client) == 5


def test_a_waiting_call_is_not_kept_by_work_that_others_queue(
    serve: Serve, backend: GatedBackend, pool: ThreadPoolExecutor
) -> None:
    """Who waits helps to run what is before it, and nothing that came after."""
    client = Unary(serve(workers=1))
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    other = client(pb.CreateStreamRequest()).stream_id
    client(pb.MallocRequest(buffer_id=2, bytes=2**21))
    queue(client, blocking(1, stream=other))  # takes the only worker
    backend.gates[1].wait_entered()
    queue(client, blocking(3))
    first = pool.submit(client, run(client(passing(2)).executor_id))
    backend.gates[3].wait_entered()  # by the waiting call, as no worker is free
    queue(client, passing(4, buffer=1))  # comes after
    backend.gates[3].open()
    backend.gates[2].wait_entered()
    backend.gates[2].open()
    assert outputs(first.result(PATIENCE)) == [[7.0, 8.0]]
    assert not client(pb.QueryStreamRequest()).complete
    backend.gates.open_all()
    synchronize(client)
