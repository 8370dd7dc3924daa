"""Unary calls with a request id: however often they come, they are made once."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message

from aclnn.errors import (
    AclnnError,
    ExecutorUsedError,
    HandleNotFoundError,
    InvalidParameterError,
    LimitExceededError,
    SessionLostError,
)
from aclnn.status import REQUEST_ID_KEY
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn_server.sessions import answers
from aclnn_server.sessions.batches import KeptAnswers
from tests.service.calling import DEADLINE, PROTOCOL, Stubs, Unary, checked
from tests.service.conftest import Serve
from tests.service.gated import PATIENCE, GatedBackend
from tests.service.queueing import blocking, queue, stored
from tests.service.requests import digit, failing, outputs, passing, plus, run
from tests.waiting import until


def new_id() -> str:
    """An id of its own."""
    return uuid.uuid4().hex


class Repeating:
    """A client whose calls carry request ids."""

    def __init__(self, stubs: Stubs) -> None:
        self.client = Unary(stubs)
        self.stubs = stubs

    def method(self, request: Message) -> Any:  # noqa: ANN401
        name = request.DESCRIPTOR.name.removesuffix("Request")
        stubs = self.stubs
        return getattr(stubs.operator if hasattr(stubs.operator, name) else stubs.device, name)

    def __call__(self, request: Message, request_id: str) -> Any:  # noqa: ANN401
        request = self.client.addressed(request)
        try:
            return self.method(request)(
                request, timeout=DEADLINE, metadata=((REQUEST_ID_KEY, request_id),)
            )
        except grpc.RpcError as error:
            raise checked(error) from None

    def failed(self, request: Message, request_id: str) -> AclnnError:
        with pytest.raises(AclnnError) as caught:
            self(request, request_id)
        return caught.value


@pytest.fixture
def repeating(stubs: Stubs) -> Repeating:
    """A client with a number in buffer 1 and a large buffer 2."""
    repeating = Repeating(stubs)
    repeating.client(pb.MallocRequest(buffer_id=1, bytes=8))
    repeating.client(pb.MallocRequest(buffer_id=2, bytes=2**21))
    return repeating


def test_a_run_is_repeated_safely(repeating: Repeating, backend: GatedBackend) -> None:
    client = repeating.client
    executor = client(digit(4, 1)).executor_id
    request_id = new_id()
    for _ in range(3):
        assert repeating(run(executor), request_id) == op.ExecuteResponse()
    assert stored(client) == 4
    assert isinstance(repeating.failed(run(executor), new_id()), ExecutorUsedError)

    planned = client(plus()).executor_id
    request_id = new_id()
    first = repeating(run(planned), request_id)
    assert outputs(first) == [[2.0, 3.0]]
    assert repeating(run(planned), request_id) == first
    assert backend.device.runs == ["aclnnDigit", "aclnnPlus"]


MAKING: list[tuple[Message, str]] = [
    (pb.MallocRequest(bytes=8), "buffers"),
    (pb.CreateEventRequest(), "events"),
    (pb.CreateStreamRequest(), "streams"),
    (plus(), "executors"),
]


@pytest.mark.parametrize(("request_", "what"), MAKING)
def test_one_object_is_made(repeating: Repeating, request_: Message, what: str) -> None:
    """Also where the server chooses the id."""
    before = repeating.client.usage()[what]
    request_id = new_id()
    made = [repeating(request_, request_id) for _ in range(3)]
    assert made[1:] == made[:1] * 2
    assert repeating.client.usage()[what] == before + 1
    assert repeating(request_, new_id()) != made[0]


def test_one_context_is_made(repeating: Repeating) -> None:
    for request in (
        pb.CreateContextRequest(protocol_version=PROTOCOL),
        pb.CreateStreamRequest(protocol_version=PROTOCOL),
    ):
        before = repeating.client.usage()["contexts"]
        request_id, method = new_id(), repeating.method(request)
        metadata = ((REQUEST_ID_KEY, request_id),)
        made = [method(request, timeout=DEADLINE, metadata=metadata) for _ in range(3)]
        assert len({answer.context_id for answer in made}) == 1
        assert repeating.client.usage()["contexts"] == before + 1


def test_what_was_ended_was_ended_by_this_call(repeating: Repeating) -> None:
    client = repeating.client
    stream = client(pb.CreateStreamRequest()).stream_id
    executor = client(plus()).executor_id
    for request in (
        pb.FreeRequest(buffer_id=1),
        pb.DestroyStreamRequest(stream_id=stream),
        op.DestroyExecutorRequest(executor_id=executor),
        pb.DestroyContextRequest(),
    ):
        request_id = new_id()
        assert repeating(request, request_id) == repeating(request, request_id)
        assert isinstance(repeating.failed(request, new_id()), HandleNotFoundError)


def test_a_failure_is_repeated_too(repeating: Repeating) -> None:
    client = repeating.client
    queue(client, failing(3, 1))
    request_id = new_id()
    first = repeating.failed(pb.SynchronizeStreamRequest(), request_id)
    again = repeating.failed(pb.SynchronizeStreamRequest(), request_id)
    assert (type(first), str(first)) == (type(again), str(again))
    assert "failed with 3" in first.message
    client(pb.SynchronizeStreamRequest())  # it was reported once, to that call


def test_a_repeat_while_the_first_runs_waits_for_it(
    repeating: Repeating, backend: GatedBackend
) -> None:
    executor, request_id = repeating.client(passing(1)).executor_id, new_id()
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(repeating, run(executor), request_id) for _ in range(3)]
        backend.gates[1].wait_entered()
        assert not any(answer.done() for answer in answers)
        backend.gates[1].open()
        assert [outputs(a.result(PATIENCE)) for a in answers] == [[[7.0, 8.0]]] * 3
    assert backend.device.runs == ["aclnnPass"]


def test_a_call_that_was_dropped_is_made_by_its_repeat(
    repeating: Repeating, backend: GatedBackend
) -> None:
    """The first caller went away before its work was begun, so nothing was done."""
    client, request_id = repeating.client, new_id()
    client(digit(4, 1, executor=1, repeatable=True))
    queue(client, blocking(1))
    backend.gates[1].wait_entered()
    request = client.addressed(run(1))
    metadata = ((REQUEST_ID_KEY, request_id),)
    first = repeating.stubs.operator.Execute.future(request, timeout=DEADLINE, metadata=metadata)  # type: ignore[arg-type]
    until(lambda: client.usage()["queued_commands"] == 2)
    first.cancel()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(repeating, run(1), request_id)
        until(lambda: client.usage()["queued_commands"] == 3)
        backend.gates[1].open()
        second.result(PATIENCE)
    assert stored(client) == 4


def test_a_refusal_that_may_be_tried_again_is_no_answer(serve: Serve) -> None:
    repeating = Repeating(serve(max_events=1))
    repeating.client(pb.CreateEventRequest(event_id=1))
    request_id = new_id()
    error = repeating.failed(pb.CreateEventRequest(), request_id)
    assert isinstance(error, LimitExceededError)
    repeating.client(pb.DestroyEventRequest(event_id=1))
    made = repeating(pb.CreateEventRequest(), request_id)
    assert repeating(pb.CreateEventRequest(), request_id) == made


def test_an_id_is_one_calls(repeating: Repeating, stubs: Stubs) -> None:
    request_id = new_id()
    made = repeating(pb.MallocRequest(bytes=8), request_id)
    for other in (pb.MallocRequest(bytes=9), pb.CreateEventRequest()):
        error = repeating.failed(other, request_id)
        assert isinstance(error, InvalidParameterError)
        assert (error.parameter, error.message) == (
            "request_id",
            "the request id is another call's",
        )
    elsewhere = Repeating(stubs)  # another context may use it for itself
    elsewhere(pb.MallocRequest(bytes=8), request_id)
    assert elsewhere.client(pb.RenewContextRequest()).usage.buffers == 1
    assert repeating(pb.MallocRequest(bytes=8), request_id) == made
    assert repeating.client(pb.RenewContextRequest()).usage.buffers == 3


@pytest.mark.parametrize("bad", ["", "1", "x" * 21, "x" * 129, "white space in the middle of it"])
def test_an_id_that_can_be_guessed_is_refused(repeating: Repeating, bad: str) -> None:
    error = repeating.failed(pb.RenewContextRequest(), bad)
    assert isinstance(error, InvalidParameterError)
    assert error.parameter == REQUEST_ID_KEY
    assert f"has {len(bad)} characters; it must be 22 to 128" in error.message


def test_answers_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "KEPT_BYTES", 100)
    monkeypatch.setattr(answers, "KEPT_IDS", 10)
    kept = answers.Answers(KeptAnswers())

    def once(name: str) -> Any:  # noqa: ANN401
        return kept.once(name, "call", lambda: name * 40, len)

    for name in "abcdefgh":
        assert once(name) == name * 40
    assert once("h") == "h" * 40
    assert once("g") == "g" * 40
    for name in "abcdef":
        with pytest.raises(SessionLostError, match="not kept any more"):
            once(name)
    for name in "ijkl":
        once(name)
    assert len(kept._kept) + len(kept._forgotten) == 10
    assert once("a") == "a" * 40  # forgotten altogether
    np.testing.assert_array_less(kept._bytes, 101)


def test_large_answers_share_a_room_with_those_of_all_contexts() -> None:
    room = KeptAnswers(limit=10_000)
    first, second = answers.Answers(room), answers.Answers(room)
    for name in ("a", "b", "c"):
        first.once(name, "call", lambda: "x" * 3000, len)
    second.once("d", "call", lambda: "small", len)
    second.once("e", "call", lambda: "x" * 3000, len)
    assert room.used == 9000
    assert first.once("c", "call", str, len) == "x" * 3000
    assert second.once("d", "call", str, len) == "small"
    with pytest.raises(SessionLostError):
        second.once("e", "call", str, len)
    first.close()
    assert room.used == 0
    second.once("f", "call", lambda: "x" * 9000, len)
    assert second.once("f", "call", str, len) == "x" * 9000
    second.close()
    assert room.used == 0
