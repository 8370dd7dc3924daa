"""Calls that are found by their bytes answer what they would answer if they were decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import assume, given
from hypothesis import strategies as st

from aclnn import wire
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import tensor_pb2 as t
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from aclnn_server.service import seen_calls
from aclnn_server.service.applying import Applying
from aclnn_server.service.calls import Call
from aclnn_server.service.seen_calls import Apart, SeenCalls, take_apart
from tests.service.requests import bytes_of, floats, number, plan, real, run, tensor

NAME = "aclnnSmoothL1LossBackward"
IDS = (1, 77, 200, 30_000)
"""Of buffers: one byte in a request, two, three."""
NUMBERS = st.one_of(st.integers(1, 127), st.integers(128, 2**14), st.integers(2**14, 2**64 - 1))


def encoded(**command: object) -> bytes:
    return pb.Command(**command).SerializeToString()  # type: ignore[arg-type]


# --- taking apart ------------------------------------------------------------------------------------


@given(executor=NUMBERS, size=st.sampled_from((0, 1, 50, 5000)), stream=st.text(max_size=40))
def test_protobufs_own_bytes_are_taken_apart(executor: int, size: int, stream: str) -> None:
    planned = plan(NAME, floats(*[1.0] * size), executor=executor)
    ran = run(executor, stream=stream)
    apart = take_apart(encoded(get_workspace_size=planned), encoded(execute=ran))
    if len(stream.encode()) > 127 or planned.ByteSize() > wire.BULK_BYTES * 8:
        assert apart is None
        return
    for message in (planned, ran):
        message.ClearField("executor_id")
    assert apart is not None
    assert apart.executor_id == executor
    assert apart.plan == planned.SerializeToString()
    assert b"".join(apart.run) == ran.SerializeToString()


PLAN = encoded(get_workspace_size=plan(NAME, floats(1), executor=300))
RUN = encoded(execute=run(300, stream="s"))
TOO_LARGE = b"\xff" * 9 + b"\x7f"


@pytest.mark.parametrize(
    ("phase_one", "phase_two"),
    [
        (PLAN, encoded(execute=run(301, stream="s"))),
        (encoded(get_workspace_size=plan(NAME, executor=300, stream="s")), RUN),
        (encoded(get_workspace_size=plan(NAME)), encoded(execute=run(0))),
        (PLAN, encoded(execute=run(300, stream="s" * 128))),
        (PLAN, RUN[:-1]),
        (PLAN, RUN + b"\0"),
        (b"\x0a\x0b\x18" + TOO_LARGE, b"\x12\x0b\x18" + TOO_LARGE),
        (PLAN, b"\x12\x80"),
        (PLAN, b"\x12\x01\x18"),
        (PLAN, b"\x12"),
        (memoryview(PLAN), RUN),
    ],
    ids=[
        "of other executors",
        "a stream at phase one",
        "no executor",
        "a long stream",
        "too short",
        "too long",
        "too large a number",
        "no size",
        "no number",
        "a tag only",
        "a view",
    ],
)
def test_what_is_written_in_another_way_is_left_alone(
    phase_one: bytes | memoryview, phase_two: bytes
) -> None:
    assert take_apart(phase_one, phase_two) is None


# --- keeping -----------------------------------------------------------------------------------------


def kept(
    seen: SeenCalls[str], operator: str, known: str, *arguments: bytes, stored: int = -1
) -> Apart:
    """Keeps a call one of whose arguments ends in a storage of one byte."""
    message = plan(operator, executor=1).SerializeToString()[2:]
    body = b"".join(b"\x2a" + wire.varint(len(each)) + each for each in arguments)
    apart = Apart(1, message + body, (b"", b""))
    place = range(len(arguments))[stored], len(arguments[stored]) - 1
    seen.keep(apart, operator, arguments, [place], known)
    return apart


def test_what_changes_is_given_and_the_rest_tells_calls_apart() -> None:
    seen: SeenCalls[str] = SeenCalls()
    first = kept(seen, "aclnnOne", "one", b"ab", b"cd\1")
    other = kept(seen, "aclnnTwo", "two", b"ab", b"cd\1")
    assert seen.find(first) == ("one", [b"\1"])
    assert seen.find(other) == ("two", [b"\1"])
    assert seen.find(first._replace(plan=first.plan[:-1] + b"\7")) == ("one", [b"\7"])
    assert seen.find(first._replace(plan=first.plan.replace(b"cd", b"ce"))) is None
    assert seen.find(first._replace(plan=first.plan.replace(b"ab", b"abb"))) is None
    assert seen.find(first._replace(run=(b"", b"x"))) is None
    assert seen.find(first._replace(plan=b"")) is None


def test_only_the_usual_form_is_kept() -> None:
    seen: SeenCalls[str] = SeenCalls()
    apart = kept(seen, "aclnnOne", "one", b"ab\1")
    odd = apart._replace(plan=apart.plan + b"\x30\0")
    seen.keep(odd, "aclnnOne", [b"ab\1"], [(0, 2)], "odd")
    assert seen.find(odd) is None


def test_not_more_is_kept_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: SeenCalls[str] = SeenCalls()
    monkeypatch.setattr(seen_calls, "CAPACITY", 3)
    calls = [kept(seen, f"aclnn{name}", name, b"\1") for name in "ABCD"]
    assert [seen.find(call) is not None for call in calls] == [False, False, False, True]
    monkeypatch.setattr(seen_calls, "KEPT_BYTES", 100)
    calls = [kept(seen, "aclnnE", name, name.encode() * 30 + b"\1") for name in "EFG"]
    assert [seen.find(call) is not None for call in calls] == [False, False, True]


def test_a_few_ways_to_place_the_storages_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_calls, "SHAPES", 2)
    seen: SeenCalls[str] = SeenCalls()
    rows = [(b"a" * before + b"\1", b"b" * (9 - before) + b"\1") for before in (1, 2, 3)]
    calls = [kept(seen, "aclnnOne", str(place), *row, stored=0) for place, row in enumerate(rows)]
    assert len({len(call.plan) for call in calls}) == 1
    assert [seen.find(call) is not None for call in calls] == [False, True, True]


# --- beside a context that decodes everything --------------------------------------------------------


class Side:
    """A context with four buffers, whose calls are found by their bytes, or not."""

    def __init__(self, server: Server, seen: SeenCalls[object] | None) -> None:
        self.context = server.registry.create_context(0, 60.0)
        self.found: list[bool] = []
        if seen is not None:
            whole = seen.find

            def find(call: Apart) -> object:
                found = whole(call)
                self.found.append(found is not None)
                return found

            seen.find = find  # type: ignore[method-assign, assignment]
        self._call = Call(server.registry, self.context, seen=seen)
        self._applier = server._service._submit_calls._applier
        for buffer_id in IDS:
            self.context.add_buffer(buffer_id, 16)
        self.reset()

    def reset(self) -> None:
        for place, buffer in enumerate(self.context.buffers):
            buffer.memory[:] = np.frombuffer(bytes_of(*range(place, place + 4)), np.uint8)

    def answer(self, commands: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
        """The answer to a batch, and what the buffers hold then."""
        applying = Applying(self._applier, self._call, wire.RawBatch("", 0, list(commands)))
        assert applying.go_on()
        buffers = sorted(self.context.buffers, key=lambda each: each.id)
        return applying.answer(), [buffer.memory.tobytes() for buffer in buffers]


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        yield Side(server, SeenCalls()), Side(server, None)


def call(
    inputs: Sequence[int], out: int, executor: int, *, beta: float = 1.0, shape: int = 4
) -> list[bytes]:
    """Both phases; an input of 0 travels with the call, an output of 0 with the answer."""
    given: list[t.Argument] = [
        tensor([shape], buffer_id=each) if each else floats(*[float(executor % 7)] * shape)
        for each in inputs
    ]
    result = tensor([shape], buffer_id=out) if out else tensor([shape])
    planned = plan(NAME, *given, number(0), real(beta), result, executor=executor)
    return [encoded(get_workspace_size=planned), encoded(execute=run(executor))]


PLACES = st.sampled_from((0, *IDS))
CALLS = st.tuples(
    st.tuples(PLACES, PLACES, PLACES),
    PLACES,
    st.sampled_from((1.0, 0.5)),
    st.sampled_from((2, 4)),
)


@given(st.lists(CALLS, min_size=1, max_size=4))
def test_calls_in_turn_answer_the_same(
    sides: tuple[Side, Side], calls: list[tuple[tuple[int, int, int], int, float, int]]
) -> None:
    seen, decoding = sides
    seen.reset()
    decoding.reset()
    seen.found.clear()
    for executor, (inputs, out, beta, shape) in enumerate(calls * 3, EXECUTORS[0]):
        commands = call(inputs, out, executor, beta=beta, shape=shape)
        assert seen.answer(commands) == decoding.answer(commands)
    EXECUTORS[0] += 3 * len(calls)
    assert all(seen.found[-len(calls) :])


EXECUTORS = [1]
"""The next executor's id."""


def answers_by_chance(command: bytes) -> bool:
    """Whether a command makes a handle or a secret, which no two servers answer alike."""
    try:
        kind = pb.Command.FromString(command).WhichOneof("command")
    except DecodeError:
        return False
    return kind in ("create_stream", "attach_shared_memory", "attach_data_connection")


@given(
    st.tuples(PLACES, PLACES, PLACES),
    PLACES,
    st.integers(0, 1),
    st.integers(0, 400),
    st.integers(1, 255),
)
def test_a_changed_byte_changes_what_it_would_change(
    sides: tuple[Side, Side],
    inputs: tuple[int, int, int],
    out: int,
    which: int,
    place: int,
    change: int,
) -> None:
    seen, decoding = sides
    for _ in range(3):
        EXECUTORS[0] += 1
        commands = call(inputs, out, EXECUTORS[0])
        assert seen.answer(commands) == decoding.answer(commands)
    EXECUTORS[0] += 1
    commands = call(inputs, out, EXECUTORS[0])
    changed = bytearray(commands[which])
    changed[place % len(changed)] ^= change
    commands[which] = bytes(changed)
    assume(not answers_by_chance(commands[which]))
    assert seen.answer(commands) == decoding.answer(commands)
