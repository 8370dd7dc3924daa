"""Submit served by the thread that takes gRPC's events: what that thread does itself, and what it leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

from aclnn import wire
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn_client import Context, connect, ops
from aclnn_server.backends.base import Plan, Storage
from aclnn_server.backends.numpy import NumpyDevice
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from aclnn_server.service import known_calls
from aclnn_server.service.applying import Applying
from aclnn_server.service.calls import Call
from aclnn_server.sessions import at_once
from aclnn_server.sessions.meters import Tally
from tests.service.requests import plan, tensor
from tests.waiting import PATIENCE, until

SMALL = np.arange(8, dtype=np.float32)
LARGE = np.ones(2**20, np.float32)
EVENTS = "_serve"
"""Part of the name of the thread that takes gRPC's events."""
POOL = "aclnn-submit"


class Kernels:
    """Where kernels run; those on much memory wait until they are let go."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.begun = threading.Event()
        self.go = threading.Event()

    def note(self, storages: Sequence[Storage]) -> None:
        self.threads.append(threading.current_thread().name)
        if any(len(memory) > 2**20 for memory in storages if memory is not None):
            self.begun.set()
            assert self.go.wait(PATIENCE)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernels]:
    kernels = Kernels()
    run = NumpyDevice.run

    def watched(device: NumpyDevice, plan: Plan, storages: Sequence[Storage], *rest: Any) -> Any:  # noqa: ANN401
        kernels.note(storages)
        return run(device, plan, storages, *rest)

    monkeypatch.setattr(NumpyDevice, "run", watched)
    yield kernels
    kernels.go.set()


@pytest.fixture
def server(kernels: Kernels) -> Iterator[Server]:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        yield server
        kernels.go.set()


@pytest.fixture
def context(server: Server) -> Iterator[Context]:
    with connect(server.address, shared_memory=False) as context:
        yield context


def test_small_calls_are_made_by_the_thread_of_the_events(
    context: Context, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "QUICK_NS", 10**12)
    for _ in range(5):
        np.testing.assert_array_equal(context.ops.neg(SMALL), -SMALL)
    # It has to be planned once, and timed once.
    assert [EVENTS in name for name in kernels.threads] == [False, False, True, True, True]


def test_calls_that_took_long_are_made_by_the_pool(
    context: Context, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "QUICK_NS", -1)
    for _ in range(5):
        np.testing.assert_array_equal(context.ops.neg(SMALL), -SMALL)
    assert all(POOL in name for name in kernels.threads)


def test_a_call_that_took_long_once_stays_with_the_thread_of_the_events(
    context: Context, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been the machine; twice in a row it is the call."""
    quick, slow = 10**12, -1
    for limit in (quick, quick, quick, slow, quick, slow, slow, slow):
        monkeypatch.setattr(at_once, "QUICK_NS", limit)
        context.ops.neg(SMALL)
    here = [EVENTS in name for name in kernels.threads]
    assert here == [False, False, True, True, True, True, True, False]


def test_repeatable_executors_are_run_there_too(
    context: Context, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "QUICK_NS", 10**12)
    x, out = context.tensor(SMALL), context.empty((8,), "float32")
    size, executor = ops.aclnnNegGetWorkspaceSize(x, out, repeatable=True)
    for _ in range(4):
        ops.aclnnNeg(context.malloc(size), size, executor)
        context.synchronize()
    np.testing.assert_array_equal(out.numpy(), -SMALL)
    assert [EVENTS in name for name in kernels.threads[-3:]] == [True, True, True]


def test_idle_calls_hold_no_thread(server: Server) -> None:
    with ExitStack() as stack:
        for _ in range(40):
            context = stack.enter_context(connect(server.address, shared_memory=False))
            context.ops.neg(SMALL)
        assert server._service.open_submit_calls == 40
        names = [thread.name for thread in threading.enumerate()]
        assert sum(POOL in name for name in names) <= 8


WAITS: dict[str, Callable[[Context], object]] = {
    "for a stream": lambda context: context.default_stream.synchronize(),
    "for all streams": lambda context: context.synchronize(),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_client_that_waits_keeps_no_other_waiting(
    server: Server, context: Context, kernels: Kernels, wait: str
) -> None:
    x, out = context.tensor(LARGE), context.empty(LARGE.shape, "float32")
    size, executor = ops.aclnnNegGetWorkspaceSize(x, out)
    ops.aclnnNeg(context.malloc(size), size, executor)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(WAITS[wait], context)
        assert kernels.begun.wait(PATIENCE)
        with connect(server.address, shared_memory=False, timeout=PATIENCE) as other:
            for _ in range(5):
                np.testing.assert_array_equal(other.ops.neg(SMALL), -SMALL)
        assert not waiting.done()
        kernels.go.set()
        waiting.result(PATIENCE)
    np.testing.assert_array_equal(out.numpy(), -LARGE)


class Blocked:
    """A context whose stream has work that waits; batches are applied to it without gRPC."""

    def __init__(self, server: Server, context: Context, kernels: Kernels) -> None:
        x, out = context.tensor(LARGE), context.empty(LARGE.shape, "float32")
        size, executor = ops.aclnnNegGetWorkspaceSize(x, out)
        ops.aclnnNeg(context.malloc(size), size, executor)
        context.default_stream.query()  # what is sent without waiting is on its way by now
        assert kernels.begun.wait(PATIENCE)
        assert x.buffer is not None
        self.buffer_id = x.buffer.buffer_id
        (session_context,) = server.registry.contexts
        self.session = session_context.default_session
        self.call = Call(server.registry, session_context, tally=Tally())
        self._applier = server._service._submit_calls._applier

    def applying(self, **command: object) -> Applying:
        encoded = pb.Command(**command).SerializeToString()  # type: ignore[arg-type]
        return Applying(self._applier, self.call, wire.RawBatch("", 0, [encoded]))


WAITING_COMMANDS: dict[str, Callable[[Blocked], dict[str, object]]] = {
    "synchronize_stream": lambda _: {"synchronize_stream": pb.SynchronizeStreamRequest()},
    "write_buffer": lambda blocked: {
        "write_buffer": pb.WriteBufferRequest(buffer_id=blocked.buffer_id, data=b"1234")
    },
    "read_buffer": lambda blocked: {
        "read_buffer": pb.ReadBufferRequest(buffer_id=blocked.buffer_id, bytes=4)
    },
    "read_buffer in order": lambda blocked: {
        "read_buffer": pb.ReadBufferRequest(
            buffer_id=blocked.buffer_id, bytes=4, stream_id=blocked.session.id
        )
    },
}


@pytest.mark.parametrize("name", WAITING_COMMANDS)
def test_a_command_that_would_wait_is_left_with_nothing_done(
    server: Server, context: Context, kernels: Kernels, name: str
) -> None:
    blocked = Blocked(server, context, kernels)
    applying = blocked.applying(**WAITING_COMMANDS[name](blocked))
    before = blocked.session.stream.depth
    assert not applying.go_on(quick=True)
    assert blocked.session.stream.depth == before
    kernels.go.set()
    assert applying.go_on()
    (result,) = pb.SubmitResponse.FromString(applying.answer()).results
    assert result.WhichOneof("result") == name.split()[0]
    assert blocked.call.tally is not None
    assert blocked.call.tally.methods == {name.split()[0]: 1}


def test_what_does_not_wait_is_done_while_a_stream_works(
    server: Server, context: Context, kernels: Kernels
) -> None:
    blocked = Blocked(server, context, kernels)
    malloc = blocked.applying(malloc=pb.MallocRequest(buffer_id=2**40, bytes=64))
    assert malloc.go_on(quick=True)
    query = pb.QueryStreamRequest(stream_id=blocked.session.id)
    assert blocked.applying(query_stream=query).go_on(quick=True)
    assert blocked.applying(free=pb.FreeRequest(buffer_id=2**40)).go_on(quick=True)
    kernels.go.set()


@pytest.mark.parametrize(
    "command",
    [
        {"malloc": pb.MallocRequest(buffer_id=2**40, bytes=2**30)},
        {"read_buffer": pb.ReadBufferRequest(buffer_id=1, bytes=2**20)},
        {"get_workspace_size": op.GetWorkspaceSizeRequest(operator="aclnnNeg", executor_id=2**40)},
        {"memset": pb.MemsetRequest(buffer_id=1, bytes=2**30)},
        {"create_stream": pb.CreateStreamRequest()},
        {},
    ],
    ids=lambda command: next(iter(command), "nothing"),
)
def test_what_may_take_long_is_left(
    server: Server, context: Context, command: dict[str, object]
) -> None:
    context.synchronize()
    (session_context,) = server.registry.contexts
    encoded = pb.Command(**command).SerializeToString()  # type: ignore[arg-type]
    call = Call(server.registry, session_context)
    batch = wire.RawBatch("", 0, [encoded])
    assert not Applying(server._service._submit_calls._applier, call, batch).go_on(quick=True)


def test_what_a_call_held_is_given_back_however_it_ends(server: Server) -> None:
    contexts = [connect(server.address, shared_memory=False) for _ in range(6)]
    for context in contexts[:3]:
        context.close()
    for context in contexts[3:]:
        context._connection._channel.close()
    until(lambda: server._service.open_submit_calls == 0)
    for context in contexts[3:]:
        context.close()


# --- large calls ----------------------------------------------------------------------------------


class Direct:
    """A context with buffers 1 and 2, as large as a large tensor; batches are applied to it without gRPC."""

    def __init__(self, server: Server) -> None:
        self.context = server.registry.create_context(0, 60.0)
        self.other = server.registry.create_stream(self.context)
        self._call = Call(server.registry, self.context)
        self._applier = server._service._submit_calls._applier
        for buffer_id in (1, 2):
            self.apply(malloc=pb.MallocRequest(buffer_id=buffer_id, bytes=LARGE.nbytes))

    def apply(self, *more: pb.Command, **command: Message) -> list[pb.Result]:
        commands = [pb.Command(**command), *more] if command else more  # type: ignore[arg-type]
        encoded = [command.SerializeToString() for command in commands]
        applying = Applying(self._applier, self._call, wire.RawBatch("", 0, encoded))
        assert applying.go_on()
        return list(pb.SubmitResponse.FromString(applying.answer()).results)

    def negate(self, executor_id: int, *following: pb.Command) -> None:
        """Both phases of a call from buffer 1 to buffer 2, and what follows in the same batch."""
        planned = negation(executor_id)
        run = pb.Command(execute=op.ExecuteRequest(executor_id=executor_id, asynchronous=True))
        results = self.apply(pb.Command(get_workspace_size=planned), run, *following)
        assert [result.WhichOneof("result") for result in results[:2]] == [
            "get_workspace_size",
            "execute",
        ]


def negation(executor_id: int, *, repeatable: bool = False) -> op.GetWorkspaceSizeRequest:
    shape = list(LARGE.shape)
    request = plan("aclnnNeg", tensor(shape, buffer_id=1), tensor(shape, buffer_id=2))
    request.executor_id, request.repeatable = executor_id, repeatable
    return request


def synchronize(stream_id: str = "") -> pb.Command:
    return pb.Command(synchronize_stream=pb.SynchronizeStreamRequest(stream_id=stream_id))


@pytest.fixture
def direct(server: Server, kernels: Kernels) -> Iterator[Direct]:
    """A context in which the negation of a large tensor is known."""
    kernels.go.set()
    direct = Direct(server)
    direct.negate(1, synchronize())
    kernels.threads.clear()
    yield direct
    kernels.go.set()
    server.registry.destroy_context(direct.context)


def test_a_large_call_that_is_waited_for_is_run_by_the_thread_that_applies_it(
    direct: Direct, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That spares a change of threads; who does not wait has other things to do meanwhile."""
    made: list[object] = []

    def run_at_once(*arguments: Any) -> Any:  # noqa: ANN401
        made.append(at_once.run_at_once(*arguments))
        return made[-1]

    monkeypatch.setattr(known_calls, "run_at_once", run_at_once)
    direct.negate(2, synchronize())
    assert kernels.threads == [threading.current_thread().name]
    assert made[-1] is not None
    for following in ((), (synchronize(direct.other.id),)):
        direct.negate(3, *following)
        direct.apply(synchronize())
    assert (len(made), len(kernels.threads)) == (1, 3)


def test_a_large_repeatable_executor_too(direct: Direct, kernels: Kernels) -> None:
    direct.apply(get_workspace_size=negation(7, repeatable=True))
    run = pb.Command(execute=op.ExecuteRequest(executor_id=7, asynchronous=True))
    for _ in range(2):
        ran, waited = direct.apply(run, synchronize())
        assert (ran.WhichOneof("result"), waited.WhichOneof("result")) == (
            "execute",
            "synchronize_stream",
        )
    assert kernels.threads == [threading.current_thread().name] * 2


def test_memory_that_is_freed_while_a_large_call_uses_it_is_kept_until_its_end(
    direct: Direct, kernels: Kernels
) -> None:
    kernels.go.clear()
    kernels.begun.clear()
    account = direct.context.account
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(direct.negate, 2, synchronize())
        assert kernels.begun.wait(PATIENCE)
        direct.context.buffers.take(1).free()
        assert account.used == 2 * LARGE.nbytes
        kernels.go.set()
        waiting.result(PATIENCE)
    assert account.used == LARGE.nbytes
