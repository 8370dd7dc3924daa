"""Random schedules from eight threads: contexts opened, used, broken off, expired and destroyed.

Every thread does as it likes, with its own objects and with those of others. In the end nothing is left,
nothing was released twice or used after its end, and nobody saw anything but foreseen errors.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf.message import Message

from aclnn import errors, status
from aclnn.errors import AclnnError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.service.calling import PROTOCOL, Stubs, Submitting, Unary
from tests.service.gated import PATIENCE, GatedBackend
from tests.service.requests import floats, number, plan, plus, run, scratch, tensor
from tests.sessions.conftest import Clock

Ids = tuple[str, str]
THREADS = 8
ACTIONS = 120
LEASE = 60.0
FORESEEN = (
    errors.HandleNotFoundError,
    errors.HandleExistsError,
    errors.ExecutorUsedError,
    errors.StreamDestroyedError,
    errors.NotReadyError,
    errors.LimitExceededError,
    errors.OutOfMemoryError,
    errors.CancelledError,
    errors.NullPointerError,
    errors.InvalidParameterError,
    errors.WaitTimeoutError,
)


class Schedule:
    """What one thread does, by a random number of its own; the contexts are everybody's."""

    def __init__(
        self, seed: int, server: Server, stubs: Stubs, clock: Clock, contexts: list[Ids]
    ) -> None:
        self.random = random.Random(seed)
        self.server, self.stubs, self.clock = server, stubs, clock
        self.contexts = contexts
        self.submitting: Submitting | None = None

    def act(self) -> None:
        """Does something."""
        weights: dict[Callable[[], None], int] = {
            self.open: 3,
            self.use: 12,
            self.submit: 6,
            self.break_off: 2,
            self.expire: 1,
            self.destroy: 2,
            self.lone_stream: 1,
        }
        (action,) = self.random.choices(list(weights), list(weights.values()))
        try:
            action()
        except AclnnError as error:
            if not isinstance(error, FORESEEN):
                raise
        except grpc.RpcError as error:
            if not isinstance(status.from_rpc_error(error), FORESEEN):
                raise

    def open(self) -> None:
        self.share(Unary(self.stubs))
        if len(self.contexts) > 12:
            self.destroy()

    def share(self, client: Unary | Submitting) -> None:
        """Lets everybody use a context."""
        self.contexts.append((client.context_id, client.stream_id))

    def anyone(self) -> Unary:
        """Some context, mostly another thread's; it may have ended."""
        try:
            return Unary.adopt(self.stubs, *self.random.choice(self.contexts))
        except IndexError:
            return Unary(self.stubs)

    def command(self) -> Message:
        """A request over few ids."""
        pick = self.random.randrange
        out = tensor([2], storage_shape=[pick(1, 3) * 2**18], buffer_id=pick(1, 4))
        into = plan("aclnnPlus", floats(1, 2), number(1), out, executor=pick(1, 6))
        return self.random.choice(
            [
                pb.MallocRequest(buffer_id=pick(1, 4), bytes=2**21),
                pb.FreeRequest(buffer_id=pick(1, 4)),
                pb.MemsetRequest(buffer_id=pick(1, 4), bytes=2**20 + 1, stream_id=""),
                pb.MemcpyRequest(
                    destination_buffer_id=pick(1, 4), source_buffer_id=pick(1, 4), bytes=9
                ),
                pb.ReadBufferRequest(buffer_id=pick(1, 4), bytes=100),
                plus(executor=pick(1, 6), repeatable=pick(2) == 0),
                scratch(pick(1, 5000), executor=pick(1, 6)),
                into,
                into,
                run(pick(1, 6)),
                run(pick(1, 6), asynchronous=True),
                op.DestroyExecutorRequest(executor_id=pick(1, 6)),
                pb.CreateEventRequest(event_id=pick(1, 3)),
                pb.RecordEventRequest(event_id=pick(1, 3)),
                pb.WaitEventRequest(event_id=pick(1, 3)),
                pb.CreateStreamRequest(),
                pb.SynchronizeStreamRequest(),
            ]
        )

    def use(self) -> None:
        self.anyone()(self.command())

    def submit(self) -> None:
        if self.submitting is None:
            self.submitting = Submitting(self.stubs)
        results = self.submitting.batch([self.command() for _ in range(5)])
        for result in results:
            if isinstance(result, AclnnError) and not isinstance(result, FORESEEN):
                raise result

    def break_off(self) -> None:
        """Sends a batch and leaves without the answer; somebody else may go on with the context."""
        client, self.submitting = self.submitting, None
        if client is not None:
            client.send(*[self.command() for _ in range(10)])
            client.hang_up()
            self.share(client)

    def expire(self) -> None:
        self.clock.advance(LEASE / 3)
        self.server.registry.reap()

    def destroy(self) -> None:
        client = self.anyone()
        ids = (client.context_id, client.stream_id)
        self.contexts[:] = [other for other in self.contexts if other != ids]
        client.close()

    def lone_stream(self) -> None:
        request = pb.CreateStreamRequest(protocol_version=PROTOCOL)
        stream = self.stubs.device.CreateStream(request).stream_id
        planned = self.stubs.unary(plus(stream=stream))
        self.stubs.unary(run(planned.executor_id, stream=stream))
        self.stubs.unary(pb.DestroyStreamRequest(stream_id=stream))

    def finish(self) -> None:
        """Ends what is this thread's own."""
        if self.submitting is not None:
            self.submitting.close()


@pytest.fixture
def server(backend: GatedBackend, clock: Clock) -> Iterator[Server]:
    """A server with tight limits, so that they are met."""
    config = ServerConfig(
        listen="127.0.0.1:0",
        lease_seconds=LEASE,
        max_context_bytes=5 * 2**20,
        max_streams=4,
        workers=2,
    )
    with Server(config, backend=backend, clock=clock) as server:
        yield server


@pytest.mark.parametrize("seed", range(3))
def test_random_schedules(
    server: Server, backend: GatedBackend, clock: Clock, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    contexts: list[Ids] = []
    barrier = threading.Barrier(THREADS)

    def live(thread: int) -> None:
        with grpc.insecure_channel(server.address) as channel:
            schedule = Schedule(1000 * seed + thread, server, Stubs(channel), clock, contexts)
            barrier.wait(PATIENCE)
            for _ in range(ACTIONS):
                schedule.act()
            schedule.finish()

    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(live, thread) for thread in range(THREADS)]:
            future.result(2 * PATIENCE)

    assert backend.device.faults.seen == []
    clock.advance(2 * LEASE)
    _until(lambda: server.registry.reap() >= 0 and server.registry.usage.contexts == 0)
    backend.check_clean()
    assert server._service.open_submit_calls == 0
    assert server._service.in_hand.count == 0
    assert not server.registry._sessions
    assert not server.registry._owned
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def _until(holds: Callable[[], bool]) -> None:
    """Asks until it holds, for calls that were broken off to end."""
    patience = threading.Event()
    for _ in range(3000):
        if holds():
            return
        patience.wait(0.01)
    raise AssertionError("it never held")
