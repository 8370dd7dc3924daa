"""Random schedules of open, submit, repeat, cancel, expire and destroy, compared step by step with a model.

After each step the server's counters are those of the model, each answer is the model's, and a batch that
comes again changes nothing. What hypothesis finds it shrinks to the shortest schedule that shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from aclnn.errors import HandleNotFoundError, InvalidParameterError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.chaos import length
from tests.chaos.model import GATE_BYTES, Command, Model, answered
from tests.service.calling import DEADLINE, Stubs, submit
from tests.service.gated import PATIENCE, GatedBackend
from tests.service.requests import floats, number, plan, run, tensor
from tests.sessions.conftest import Clock
from tests.sessions.driving import NOTHING
from tests.waiting import until

LEASE = 60.0
MANY = 64
"""Workers: more than kernels stand at gates in one schedule."""
GATE_ID = 1000
"""Buffer and executor of the kernels that stand at gates."""
CANCELLED_ID = 4
"""Executor of the calls that are given up."""

SMALL = st.integers(1, 3)
COMMANDS = st.builds(
    Command,
    kind=st.sampled_from(("malloc", "malloc", "write", "plan", "plan", "run", "run", "free")),
    id=SMALL,
    buffer=SMALL,
    value=st.integers(1, 9),
    repeatable=st.booleans(),
)


class World:
    """The server that all schedules run on, one after the other."""

    def __init__(self) -> None:
        self.clock, self.backend = Clock(), GatedBackend()
        config = ServerConfig(listen="127.0.0.1:0", lease_seconds=LEASE, workers=MANY)
        self.server = Server(config, backend=self.backend, clock=self.clock).start()
        self.channel = grpc.insecure_channel(self.server.address)
        self.stubs = Stubs(self.channel)
        self.gates = 0

    def advance(self, seconds: float) -> None:
        """Lets time pass, when all calls are over: leases begin anew then, which clients do not see."""
        until(lambda: self.server._service.open_submit_calls == 0)
        self.clock.advance(seconds)

    def close(self) -> None:
        self.backend.gates.open_all()
        self.channel.close()
        self.server.stop(0)
        self.backend.check_clean()


_WORLD: list[World] = []


@pytest.fixture(scope="module", autouse=True)
def _world() -> Iterator[None]:
    """A machine of hypothesis has no fixtures: the world is found in the module."""
    _WORLD.append(World())
    yield
    _WORLD.pop().close()


class Client:
    """One context: what the server knows of it, and the model."""

    def __init__(self, world: World) -> None:
        created = world.stubs.create_context()
        self.world = world
        self.context_id, self.stream_id = created.context_id, created.stream_id
        self.model = Model(LEASE, world.clock.now)
        self.sequence = 0
        self.answered: dict[int, tuple[pb.SubmitRequest, pb.SubmitResponse]] = {}
        self.gate = 0
        self.streams: list[str] = []
        self.dead = False

    def send(self, *commands: pb.Command, sequence: int = 0) -> pb.SubmitResponse:
        """Sends one batch over a call of its own."""
        request = pb.SubmitRequest(context_id=self.context_id, sequence=sequence, commands=commands)
        (response,) = submit(self.world.stubs, request)
        if sequence:
            self.answered[sequence] = request, response
        self.model.seen = self.world.clock.now
        return response


class Schedules(RuleBasedStateMachine):
    """What clients may do, in any order."""

    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.world = _WORLD[0]
        self.all: list[Client] = []
        self.zombies: list[Client] = []
        """Ended by their leases while a kernel ran, which the server waits for."""

    # --- contexts -----------------------------------------------------------------------------------

    @rule(target=clients)
    def open(self) -> Client:
        self.all.append(Client(self.world))
        return self.all[-1]

    @rule(client=clients)
    def destroy(self, client: Client) -> None:
        request = pb.DestroyContextRequest(context_id=client.context_id)
        call = self.world.stubs.device.DestroyContext
        if client.dead:
            with pytest.raises(grpc.RpcError):
                call(request, timeout=DEADLINE)
            return
        with ThreadPoolExecutor(1) as pool:
            destroying = pool.submit(call, request, timeout=DEADLINE)
            if client.gate:
                context = self.world.server.registry._contexts.get(client.context_id)
                until(lambda: context is None or context.closed)
                self.world.backend.gates[client.gate].open()
            destroying.result(PATIENCE)
        self._end(client)

    @rule(seconds=st.sampled_from((20.0, 41.0, 61.0)))
    def time_passes(self, seconds: float) -> None:
        clock = self.world.clock
        self.world.advance(seconds)
        self.world.server.registry.reap()
        for client in list(self.all):
            if clock.now - client.model.seen > LEASE:
                if client.gate:
                    self.zombies.append(client)
                self._end(client)

    def _end(self, client: Client) -> None:
        client.dead = True
        self.all.remove(client)

    # --- batches ------------------------------------------------------------------------------------

    @rule(client=clients, commands=st.lists(COMMANDS, min_size=1, max_size=6))
    def submit(self, client: Client, commands: list[Command]) -> None:
        """A numbered batch; numbers are read where nothing holds the stream."""
        if client.dead:
            with pytest.raises(HandleNotFoundError):
                client.send(pb.Command(), sequence=client.sequence + 1)
            return
        if not client.model.held:
            commands = [*commands, *(Command("read", buffer=buffer) for buffer in (1, 2, 3))]
        client.sequence += 1
        response = client.send(
            *(command.encode(client.stream_id) for command in commands), sequence=client.sequence
        )
        expected = [client.model.apply(command) for command in commands]
        assert [answered(result) for result in response.results] == expected

    @rule(client=clients, back=st.integers(0, 3))
    def repeat(self, client: Client, back: int) -> None:
        """A batch comes again, as after a broken connection: nothing is done, the answer is the same."""
        sequence = client.sequence - back
        if client.dead or sequence not in client.answered:
            return
        request, response = client.answered[sequence]
        assert submit(self.world.stubs, request) == [response]
        client.model.seen = self.world.clock.now

    @rule(client=clients, gap=st.integers(2, 4))
    def leave_one_out(self, client: Client, gap: int) -> None:
        """A batch that is missing is noticed, and nothing after it is done."""
        if client.dead:
            return
        malloc = pb.Command(malloc=pb.MallocRequest(buffer_id=9, bytes=8))
        request = pb.SubmitRequest(
            context_id=client.context_id, sequence=client.sequence + gap, commands=[malloc]
        )
        with pytest.raises(InvalidParameterError, match="the next batch is"):
            submit(self.world.stubs, request)
        client.model.seen = self.world.clock.now

    # --- kernels that take their time -----------------------------------------------------------------

    @rule(client=clients)
    def hold(self, client: Client) -> None:
        """A kernel begins that does not end before :meth:`release`."""
        if client.dead or client.gate:
            return
        self.world.gates += 1
        client.gate = self.world.gates
        out = tensor([2], storage_shape=[GATE_BYTES // 4], buffer_id=GATE_ID)
        planned = plan("aclnnPass", floats(7, 8), number(client.gate), out, executor=GATE_ID)
        response = client.send(
            pb.Command(malloc=pb.MallocRequest(buffer_id=GATE_ID, bytes=GATE_BYTES)),
            pb.Command(get_workspace_size=planned),
            pb.Command(execute=run(GATE_ID)),
            pb.Command(free=pb.FreeRequest(buffer_id=GATE_ID)),
        )
        assert [answered(result) for result in response.results] == ["ok"] * 4
        self.world.backend.gates[client.gate].wait_entered()
        client.model.held = True

    @rule(client=clients)
    def release(self, client: Client) -> None:
        """It ends, and what was queued behind it is done, or was dropped with its context."""
        if not client.gate:
            return
        self.world.backend.gates[client.gate].open()
        client.gate = 0
        if client in self.zombies:
            self.zombies.remove(client)
            contexts = self.world.server.registry._contexts
            until(
                lambda: self.world.server.registry.reap() >= 0 and client.context_id not in contexts
            )
        elif not client.dead:
            response = client.send(pb.Command(synchronize_stream=pb.SynchronizeStreamRequest()))
            assert [answered(result) for result in response.results] == ["ok"]
            client.model.release()
            self.submit(client, [])

    @rule(client=clients, value=st.integers(1, 9), repeatable=st.booleans())
    def cancel(self, client: Client, value: int, repeatable: bool) -> None:
        """A unary call is queued behind the kernel and given up: its work is never done."""
        if client.dead or not client.gate:
            return
        planned = Command("plan", CANCELLED_ID, 1, value, repeatable)
        commands = [Command("malloc"), Command("destroy", CANCELLED_ID), planned]
        response = client.send(*(command.encode(client.stream_id) for command in commands))
        expected = [client.model.apply(command) for command in commands]
        assert [answered(result) for result in response.results] == expected
        stream = self.world.server.registry.session(client.stream_id).stream
        depth = stream.depth
        request = run(CANCELLED_ID)
        request.context_id = client.context_id
        execute: Any = self.world.stubs.operator.Execute
        call = execute.future(request, timeout=DEADLINE)
        until(lambda: stream.depth == depth + 1)
        call.cancel()
        until(lambda: self.world.server._service.in_hand.count == 0)
        client.model.queue_nothing(CANCELLED_ID)

    # --- streams, and what is another's -----------------------------------------------------------------

    @rule(client=clients)
    def create_stream(self, client: Client) -> None:
        if client.dead or len(client.streams) > 2:
            return
        response = client.send(pb.Command(create_stream=pb.CreateStreamRequest()))
        client.streams.append(response.results[0].create_stream.stream_id)
        client.model.streams += 1

    @rule(client=clients)
    def destroy_stream(self, client: Client) -> None:
        if client.dead or not client.streams:
            return
        request = pb.DestroyStreamRequest(stream_id=client.streams.pop())
        response = client.send(*[pb.Command(destroy_stream=request)] * 2)
        assert [answered(result) for result in response.results] == ["ok", "HANDLE_NOT_FOUND"]
        client.model.streams -= 1

    @rule(one=clients, other=clients, buffer=SMALL)
    def reach_for_what_is_anothers(self, one: Client, other: Client, buffer: int) -> None:
        """The ids of another context, dead or alive, find nothing."""
        if one.dead or one is other:
            return
        named = pb.MallocRequest(context_id=other.context_id, buffer_id=buffer, bytes=8)
        write = pb.WriteBufferRequest(buffer_id=buffer, data=b"x" * 8, stream_id=other.stream_id)
        synchronize = pb.SynchronizeStreamRequest(stream_id=other.stream_id)
        response = one.send(
            pb.Command(malloc=named),
            pb.Command(write_buffer=write),
            pb.Command(synchronize_stream=synchronize),
        )
        assert {answered(result) for result in response.results} == {"HANDLE_NOT_FOUND"}

    # --- what always holds ------------------------------------------------------------------------------

    @invariant()
    def counters_are_the_models(self) -> None:
        if self.zombies:
            return
        expected = dict(NOTHING)
        for client in self.all:
            for name, count in client.model.usage.items():
                expected[name] += count
        assert self.world.stubs.usage() == expected

    def teardown(self) -> None:
        for client in [*self.all, *self.zombies]:
            if client.gate:
                self.world.backend.gates[client.gate].open()
        self.world.advance(LEASE + 1)
        registry = self.world.server.registry
        until(lambda: registry.reap() >= 0 and not any(self.world.stubs.usage().values()))
        self.world.backend.check_clean()
        assert not registry._sessions


pytestmark = pytest.mark.timeout(3600)  # a failure is shrunk, which takes its time

TestSchedules = Schedules.TestCase
TestSchedules.settings = length.settings(25, 5000)
