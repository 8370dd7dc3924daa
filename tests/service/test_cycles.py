"""Memory goes with the last use of it: nothing that refers to memory is left in a cycle of references.

The host's memory is freed with the last reference, and the account counts it as free when its buffer ends. A
cycle would keep it until Python looks for cycles, which an idle server never does.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest

from aclnn.errors import AclnnError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from aclnn_server.sessions.execution import Execution
from aclnn_server.sessions.executors import Executor, Slot
from aclnn_server.sessions.memory import Buffer
from aclnn_server.sessions.segments import Place, Segment
from aclnn_server.sessions.streams import Work
from tests.service.calling import Caller, Stubs, Submitting
from tests.service.gated import Region
from tests.service.requests import (
    INT64,
    bytes_of,
    digit,
    failing,
    inline,
    number,
    plan,
    plus,
    run,
    scratch,
    tensor,
)
from tests.waiting import until

WITH_MEMORY = (Buffer, Execution, Executor, Place, Region, Segment, Slot, Work)
LARGE = 2**19
"""Elements of float32 of a call that a worker runs."""


@pytest.fixture
def in_cycles() -> Iterator[Callable[[], Counter[str]]]:
    """What has memory and was left in cycles since the test's begin, by type."""

    def left() -> Counter[str]:
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            gc.collect()
            return Counter(type(o).__name__ for o in gc.garbage if isinstance(o, WITH_MEMORY))
        finally:
            gc.set_debug(0)
            gc.garbage.clear()

    gc.collect()
    gc.disable()
    yield left
    gc.enable()


def small(caller: Caller) -> None:
    """Both phases, answered inline."""
    for value in range(3):
        caller(run(caller(plus(value)).executor_id))


def large(caller: Caller) -> None:
    """Work in buffers, which a worker runs."""
    arguments = [tensor([LARGE], buffer_id=2) for _ in range(2)]
    caller(plan("aclnnPlus", arguments[0], plus().arguments[1], arguments[1], executor=1))
    caller(run(1, asynchronous=True))
    caller(pb.SynchronizeStreamRequest())


def in_scratch(caller: Caller) -> None:
    """With a workspace that the session lends, and one of the client's."""
    caller(run(caller(scratch(100)).executor_id))
    buffer = op.Workspace(buffer_id=2, bytes=5000)
    caller(run(caller(scratch(100)).executor_id, workspace=buffer))


def repeated(caller: Caller) -> None:
    """An executor that is run again, and bound to other memory."""
    caller(digit(1, 1, executor=1, repeatable=True))
    caller(run(1))
    caller(run(1, bindings=[op.Binding(argument=1, buffer_id=2)]))
    caller(op.DestroyExecutorRequest(executor_id=1))


def moved(caller: Caller) -> None:
    """Bytes written, set, copied and read, small and large."""
    caller(pb.WriteBufferRequest(buffer_id=1, data=bytes_of(1, 2)))
    caller(pb.MemsetRequest(buffer_id=2, bytes=2**21, value=1))
    caller(pb.MemcpyRequest(destination_buffer_id=1, source_buffer_id=2, bytes=8))
    caller(pb.ReadBufferRequest(buffer_id=1, bytes=8))
    caller(pb.ReadBufferRequest(buffer_id=2, bytes=2**21))


def marked(caller: Caller) -> None:
    """Events."""
    caller(pb.CreateEventRequest(event_id=1))
    caller(pb.RecordEventRequest(event_id=1))
    caller(pb.WaitEventRequest(event_id=1))
    caller(pb.SynchronizeStreamRequest())


def refuse(caller: Caller, request: op.ExecuteRequest | pb.SynchronizeStreamRequest) -> None:
    """A call that fails."""
    with pytest.raises(AclnnError):
        caller(request)


def failed(caller: Caller) -> None:
    """Kernels that fail, foreseen and not, waited for and not."""
    for value in (5, -5):
        caller(failing(value, 1, executor=1))
        caller(run(1, asynchronous=True))
        refuse(caller, pb.SynchronizeStreamRequest())
        inline = tensor([1], INT64)
        caller(plan("aclnnFail", number(value), inline, executor=2))
        refuse(caller, run(2))  # its output is to be returned


def refused(caller: Caller) -> None:
    """Phase two that is not begun."""
    caller(scratch(100, executor=1))
    refuse(caller, run(1, workspace=op.Workspace(buffer_id=1, bytes=8)))
    caller(digit(1, 1, executor=2))
    refuse(caller, run(2, bindings=[op.Binding(argument=1, buffer_id=2)]))
    caller(pb.MallocRequest(buffer_id=3, bytes=8))
    caller(digit(1, 3, executor=3))
    caller(pb.FreeRequest(buffer_id=3))
    refuse(caller, run(3))


def left_behind(caller: Caller) -> None:
    """What ends with its stream."""
    stream = caller(pb.CreateStreamRequest()).stream_id
    caller(plus(stream=stream))
    caller(run(caller(plus(stream=stream)).executor_id, stream=stream))
    caller(pb.DestroyStreamRequest(stream_id=stream))


def test_a_known_call_that_fails(in_cycles: Callable[[], Counter[str]]) -> None:
    """It is neither planned nor queued; its failure is kept until somebody waits."""
    with (
        Server(ServerConfig(listen="127.0.0.1:0")) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        client = Submitting(Stubs(channel))
        for buffer_id in (1, 2):
            client(pb.MallocRequest(buffer_id=buffer_id, bytes=16))
        source, out = tensor([4], buffer_id=1), tensor([1], buffer_id=2)
        index = inline(np.array([9], np.int64))
        for _ in range(4):
            gather = plan("aclnnGather", source, number(0), index, out, executor=1)
            client.batch([gather, run(1)])
            refuse(client, pb.SynchronizeStreamRequest())
        client.close()
        until(lambda: not server.registry.usage.contexts)
        assert not in_cycles()


@pytest.mark.parametrize(
    "work",
    [small, large, in_scratch, repeated, moved, marked, failed, refused, left_behind],
    ids=lambda work: work.__name__,
)
def test_nothing_with_memory_is_left_in_a_cycle(
    ready: Caller, work: Callable[[Caller], None], in_cycles: Callable[[], Counter[str]]
) -> None:
    work(ready)
    for buffer_id in (1, 2):
        ready(pb.FreeRequest(buffer_id=buffer_id))
    assert not in_cycles()
