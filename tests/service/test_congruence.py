"""The same commands answer the same in-process, by unary calls and inside Submit.

Random sequences, with right ones and wrong ones, over few ids, so that they meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aclnn.errors import AclnnError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn.v1 import tensor_pb2 as t
from aclnn.wire import BulkRead
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.service.calling import Caller, InProcess, Stubs, Submitting, Unary
from tests.service.gated import GatedBackend
from tests.service.requests import INT64, bytes_of, number, plan, run, scratch, tensor

Answer = tuple[str, Any]

# --- commands -------------------------------------------------------------------------------------

IDS = st.integers(1, 3)
SIZES = st.sampled_from([0, 1, 8, 16, 64])
OFFSETS = st.sampled_from([0, 1, 8, 60])
STREAMS = st.sampled_from(["", "<first>", "<second>", "nonsense"])
INLINE = st.sampled_from([bytes_of(1, 2), bytes_of(-3, 0.5), b"123", b""])


def tensors(shape: list[int]) -> st.SearchStrategy[t.Argument]:
    """Tensors of float32 in a buffer, inline or nowhere."""
    in_buffer = st.builds(
        lambda buffer, offset: tensor(shape, buffer_id=buffer, buffer_offset=offset), IDS, OFFSETS
    )
    return st.one_of(
        in_buffer, INLINE.map(lambda data: tensor(shape, data=data)), st.just(tensor(shape))
    )


PLANS = st.one_of(
    st.builds(
        lambda x, y, out, **rest: plan("aclnnPlus", x, number(y), out, **rest),
        tensors([2]),
        st.integers(-3, 3),
        tensors([2]),
        executor=IDS,
        repeatable=st.booleans(),
        stream=STREAMS,
    ),
    st.builds(
        lambda digit, buffer, **rest: plan(
            "aclnnDigit", number(digit), tensor([1], INT64, buffer_id=buffer), **rest
        ),
        st.integers(0, 9),
        IDS,
        executor=IDS,
    ),
    st.builds(
        lambda value, buffer, **rest: plan(
            "aclnnFail", number(value), tensor([1], INT64, buffer_id=buffer), **rest
        ),
        st.integers(1, 9),
        IDS,
        executor=IDS,
    ),
    st.builds(scratch, st.sampled_from([0, 32, 100]), executor=IDS, stream=STREAMS),
)
BINDINGS = st.lists(
    st.one_of(
        st.builds(op.Binding, argument=st.integers(0, 3), data=INLINE),
        st.builds(op.Binding, argument=st.integers(0, 3), buffer_id=IDS, buffer_offset=OFFSETS),
    ),
    max_size=2,
)
WORKSPACES = st.one_of(
    st.none(), st.builds(op.Workspace, buffer_id=st.integers(0, 3), offset=OFFSETS, bytes=SIZES)
)
RUNS = st.builds(run, IDS, stream=STREAMS, workspace=WORKSPACES, bindings=BINDINGS)
MEMORY = st.one_of(
    st.builds(pb.MallocRequest, buffer_id=IDS, bytes=SIZES),
    st.builds(pb.FreeRequest, buffer_id=IDS),
    st.builds(
        pb.MemsetRequest,
        buffer_id=IDS,
        offset=OFFSETS,
        bytes=SIZES,
        value=st.sampled_from([0, 7, 256]),
        stream_id=STREAMS,
    ),
    st.builds(
        pb.MemcpyRequest,
        destination_buffer_id=IDS,
        destination_offset=OFFSETS,
        source_buffer_id=IDS,
        source_offset=OFFSETS,
        bytes=SIZES,
        stream_id=STREAMS,
    ),
    st.builds(pb.WriteBufferRequest, buffer_id=IDS, offset=OFFSETS, data=INLINE, stream_id=STREAMS),
    st.builds(pb.ReadBufferRequest, buffer_id=IDS, offset=OFFSETS, bytes=SIZES, stream_id=STREAMS),
)
OTHERS = st.one_of(
    st.builds(op.DestroyExecutorRequest, executor_id=IDS),
    st.builds(pb.SynchronizeStreamRequest, stream_id=STREAMS),
    st.builds(pb.DestroyStreamRequest, stream_id=st.sampled_from(["<first>", "nonsense"])),
    st.builds(pb.CreateEventRequest, event_id=IDS),
    st.builds(pb.DestroyEventRequest, event_id=IDS),
    st.builds(pb.RecordEventRequest, event_id=IDS, stream_id=STREAMS),
    st.builds(pb.WaitEventRequest, event_id=IDS, stream_id=STREAMS),
    st.builds(pb.SynchronizeEventRequest, event_id=IDS),
    st.builds(pb.QueryEventRequest, event_id=IDS),
    st.just(pb.RenewContextRequest()),
)
COMMANDS = st.lists(st.one_of(MEMORY, PLANS, RUNS, OTHERS, RUNS), min_size=1, max_size=30)


# --- the three ways -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for all examples."""
    backend = GatedBackend()
    with Server(ServerConfig(listen="127.0.0.1:0"), backend=backend) as server:
        yield server
    backend.check_clean()


@pytest.fixture(scope="module")
def stubs(server: Server) -> Iterator[Stubs]:
    """A connection to it."""
    with grpc.insecure_channel(server.address) as channel:
        yield Stubs(channel)


def setting_up() -> list[Message]:
    """What every sequence begins with, so that most of it means something."""
    return [
        pb.MallocRequest(buffer_id=1, bytes=64),
        pb.MallocRequest(buffer_id=2, bytes=16),
        pb.CreateEventRequest(event_id=1),
    ]


def looking_around() -> list[Message]:
    """What shows, at the end, what a sequence has done."""
    return [
        pb.SynchronizeStreamRequest(),
        pb.SynchronizeStreamRequest(),
        pb.ReadBufferRequest(buffer_id=1, bytes=64),
        pb.ReadBufferRequest(buffer_id=2, bytes=16),
        pb.RenewContextRequest(),
    ]


def placed(command: Message, caller: Caller, second: str) -> Message:
    """The command with the caller's own stream ids."""
    ids = {"<first>": caller.stream_id, "<second>": second}
    given = getattr(command, "stream_id", "")
    if given not in ids:
        return command
    copy = type(command)()
    copy.CopyFrom(command)
    copy.stream_id = ids[given]  # type: ignore[attr-defined]
    return copy


def answer_of(response: object) -> Answer:
    """What can be compared of a response or an error."""
    if isinstance(response, AclnnError):
        return response.reason, (
            response.code,
            response.parameter,
            response.operator,
            response.message,
        )
    if isinstance(response, BulkRead):
        return "ReadBufferResponse", bytes(response.data)
    if isinstance(response, pb.ReadBufferResponse):
        return "ReadBufferResponse", response.data
    if isinstance(response, pb.RenewContextResponse):
        return "RenewContextResponse", str(response.usage)
    return type(response).__name__, str(response)


def one_by_one(make: Callable[[], Caller], commands: Sequence[Message]) -> list[Answer]:
    """The answers of commands that are sent one after the other."""
    caller = make()
    second = caller(pb.CreateStreamRequest()).stream_id
    answers = []
    for command in commands:
        try:
            answers.append(answer_of(caller(placed(command, caller, second))))
        except AclnnError as error:
            answers.append(answer_of(error))
    caller.close()
    return answers


def in_batches(stubs: Stubs, commands: Sequence[Message], size: int) -> list[Answer]:
    """The answers of commands that are sent in batches, all before the first answer is read."""
    caller = Submitting(stubs)
    second = caller(pb.CreateStreamRequest()).stream_id
    places = range(0, len(commands), size)
    for place in places:
        caller.send(*(placed(c, caller, second) for c in commands[place : place + size]))
    answers = [answer_of(result) for _ in places for result in caller.receive()]
    caller.close()
    return answers


@settings(
    max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(commands=COMMANDS, size=st.integers(1, 12))
def test_every_way_answers_the_same(
    server: Server, stubs: Stubs, commands: list[Message], size: int
) -> None:
    commands = [*setting_up(), *commands, *looking_around()]
    direct = one_by_one(lambda: InProcess(server.registry, server.backend), commands)

    assert one_by_one(lambda: Unary(stubs), commands) == direct
    assert in_batches(stubs, commands, size) == direct
    assert set(stubs.usage().values()) == {0}
