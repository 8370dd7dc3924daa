"""A server in a process of its own, used for long: memory, threads and open files stay flat.

Compared are two moments of the same process: after a warm-up, in which pools fill, and at the end.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest

from aclnn import wire
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn.v1 import tensor_pb2 as t
from aclnn.wire import Batch, BulkRead, BulkWrite
from aclnn_server.cli.server_process import ServerProcess
from tests.held import Held, check_flat, settled
from tests.service.calling import Stubs, Submitting, Unary
from tests.service.requests import floats, number, outputs, plan, real, run, tensor
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]

NAME = "aclnnSmoothL1LossBackward"
MIB = 2**20
TOLERATED_BYTES = 6 * MIB
"""Growth of the resident memory that fragments may make (2 MiB are seen): a leak of 320 bytes for each of
the 20,000 calls, or of 32 KiB for each of the 200 clients, is more."""
LEASE_SECONDS = 1.0


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    """The server. Its allocator gives back at once what is freed, so that what stays is in use."""
    for name, value in (("ARENA_MAX", 1), ("MMAP_THRESHOLD_", 2**16), ("TRIM_THRESHOLD_", 2**16)):
        monkeypatch.setenv(f"MALLOC_{name}", str(value))
    with ServerProcess("--lease-seconds", str(LEASE_SECONDS), "--workers", "2") as process:
        yield process


@pytest.fixture
def held(process: ServerProcess) -> Callable[[], Held]:
    """Tells what the server holds."""
    return lambda: Held.by(process._process.pid)


# --- clients --------------------------------------------------------------------------------------


def come_and_go(address: str, index: int) -> None:
    """One client: connects, computes, and leaves, in one of four ways."""
    with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        stubs = Stubs(channel)
        client = Submitting(stubs) if index % 2 else Unary(stubs)
        client(pb.MallocRequest(buffer_id=1, bytes=MIB))
        client(pb.MemsetRequest(buffer_id=1, bytes=MIB, value=1))
        client(pb.CreateEventRequest(event_id=1))
        stream = client(pb.CreateStreamRequest()).stream_id
        executor = client(loss(floats(3), floats(1), tensor([1]), stream=stream)).executor_id
        assert outputs(client(run(executor, stream=stream))) == [[1.0]]
        client(loss(floats(3), floats(1), tensor([1]), repeatable=True))  # left behind
        if isinstance(client, Submitting) and index % 4 == 1:
            client.hang_up()
        elif index % 4 < 2:
            client.close()


def loss(
    x: t.Argument,
    target: t.Argument,
    out: t.Argument,
    **rest: Any,  # noqa: ANN401
) -> op.GetWorkspaceSizeRequest:
    """Phase one of the loss's gradient, element by element."""
    return plan(NAME, floats(1), x, target, number(0), real(1.0), out, **rest)


def test_clients_that_come_and_go(process: ServerProcess, held: Callable[[], Held]) -> None:
    """200 of them, 8 at once; half end their contexts, the others leave that to the lease."""
    files = held().files + 3  # the measuring connection is there too

    def serve(indices: range) -> Held:
        with ThreadPoolExecutor(8) as pool:
            for future in [pool.submit(come_and_go, process.address, index) for index in indices]:
                future.result(PATIENCE)
        return settled(process.address, process._process.pid, files)

    before = serve(range(100))
    check_flat(before, serve(range(200)), TOLERATED_BYTES)


# --- calls ----------------------------------------------------------------------------------------

ELEMENTS = MIB // 4
CALLS_PER_BATCH = 10
WARM_UP, CALLS = 2_000, 20_000


def one_batch() -> list[pb.Command | BulkWrite]:
    """A write of 1 MiB, ten calls on 1 MiB, and a read of 1 MiB."""
    data = np.linspace(-2, 2, ELEMENTS, dtype=np.float32)
    write = BulkWrite(pb.WriteBufferRequest(buffer_id=1), data.tobytes())
    call = pb.Command(execute=run(1))
    read = pb.Command(read_buffer=pb.ReadBufferRequest(buffer_id=3, bytes=MIB))
    return [write, *[call] * CALLS_PER_BATCH, read]


class Pipeline:
    """A Submit call with two batches under way."""

    def __init__(self, channel: grpc.Channel, context_id: str) -> None:
        self._context_id = context_id
        self._requests: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        method = channel.stream_stream(
            "/aclnn.v1.DeviceService/Submit",
            request_serializer=wire.encode_request,
            response_deserializer=wire.decode_response,
        )
        self._answers = method(iter(self._requests.get, None))

    def run(self, count: int) -> None:
        """Sends so many batches and checks each answer."""
        expected = np.clip(np.linspace(-2, 2, ELEMENTS, dtype=np.float32), -1, 1).tobytes()
        batch = Batch(self._context_id, 0, one_batch())
        for place in itertools.count():
            if place < count:
                self._requests.put(batch)
            if place >= 2:
                *_, read = next(self._answers).results
                assert isinstance(read, BulkRead)
                assert read.data == expected
            if place == count + 1:
                return

    def close(self) -> None:
        """Ends the call."""
        self._requests.put(None)
        assert list(self._answers) == []


def test_calls_of_one_mebibyte(process: ServerProcess, held: Callable[[], Held]) -> None:
    """20,000 of them through one Submit call; 2,000 times a mebibyte up and one down."""
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(process.address, options=options) as channel:
        client = Unary(Stubs(channel))
        for buffer_id in (1, 2, 3):
            client(pb.MallocRequest(buffer_id=buffer_id, bytes=MIB))
        x, target, out = (tensor([ELEMENTS], buffer_id=buffer_id) for buffer_id in (1, 2, 3))
        client(loss(x, target, out, executor=1, repeatable=True))
        pipeline = Pipeline(channel, client.context_id)
        pipeline.run(WARM_UP // CALLS_PER_BATCH)
        before, begin = held(), time.monotonic()
        pipeline.run(CALLS // CALLS_PER_BATCH)
        seconds, after = time.monotonic() - begin, held()
        print(f"\n{CALLS / seconds:.0f} calls of 1 MiB a second")  # noqa: T201 - for whoever asks with -s
        pipeline.close()
        client.close()
    check_flat(before, after, TOLERATED_BYTES)


def test_executors_planned_and_run(process: ServerProcess, held: Callable[[], Held]) -> None:
    """10,000 one-shot executors with inline tensors, fifty in a batch."""
    with grpc.insecure_channel(process.address) as channel:
        client = Submitting(Stubs(channel))

        def plan_and_run(first: int, count: int) -> None:
            for place in range(first, first + count, 50):
                ids = range(place + 1, place + 51)
                requests = [
                    (loss(floats(3), floats(1), tensor([1]), executor=i), run(i)) for i in ids
                ]
                results = client.batch([r for pair in requests for r in pair])
                assert [outputs(result) for result in results[1::2]] == [[[1.0]]] * 50

        plan_and_run(0, 5_000)  # more than are remembered as used
        before = held()
        plan_and_run(5_000, 5_000)
        check_flat(before, held(), TOLERATED_BYTES)
        client.close()
