"""Large calls that are recognised: queued where nobody waits for them, made at once where somebody does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np
import pytest

from aclnn.errors import ExecutionFailedError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from aclnn_server.service.known_calls import KnownCalls
from aclnn_server.sessions.streams import Work
from tests.service.requests import number, real, tensor
from tests.service.submitting import NAME, Submit, loss, refusal, returned, submitting


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(ServerConfig(listen="127.0.0.1:0")) as running:
        yield running


@pytest.fixture
def submit(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Submit]:
    with submitting(server, monkeypatch) as submit:
        yield submit


def test_large_outputs_that_are_returned_are_made_at_once(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aclnn_server.sessions.execution.INLINE_BYTES", 0)
    submit.applier.known = KnownCalls()
    submit.both(loss(0, 1))
    assert returned(submit.both(loss(3, 1))[1]) == [1.0, 0.0]
    assert submit.recognised == [False, True]


def test_outputs_that_no_message_can_carry_are_refused_each_time(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit.context, "limits", replace(submit.context.limits, message_bytes=0))
    submit.applier.known = KnownCalls()
    for _ in range(2):
        _, ran = submit.both(loss(0, 1))
        assert refusal(ran) == (
            "INVALID_PARAMETER",
            161002,
            f"{NAME}: gradInput would be returned with 8 bytes; one message carries at most 1: "
            "give a buffer",
        )
    assert submit.recognised == [False, False]


# --- large calls that nobody waits for are queued -----------------------------------------------------


@pytest.fixture
def busy(submit: Submit, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Submit, Event]]:
    """A context for whose calls no size is small, and whose stream stands until the event is set; buffers
    1 to 3 of four floats."""
    monkeypatch.setattr("aclnn_server.sessions.execution.INLINE_BYTES", 0)
    submit.applier.known = KnownCalls()
    for buffer_id, value in ((1, 0.5), (2, 0.0), (3, 1.0)):
        submit.buffer(buffer_id, np.full(4, value, np.float32).tobytes())
    assert large(submit)[1].HasField("execute")
    submit.send(SYNCHRONIZE)
    submit.send(pb.Command(write_buffer=pb.WriteBufferRequest(buffer_id=2, data=bytes(16))))
    go_on = Event()
    stream = submit.context.default_session.stream
    stream.enqueue(Work(lambda: None if go_on.wait(30) else pytest.fail("held")), inline=False)
    yield submit, go_on
    go_on.set()
    stream.synchronize()


SYNCHRONIZE = pb.Command(synchronize_stream=pb.SynchronizeStreamRequest())


def large(submit: Submit, **run: Any) -> tuple[pb.Result, pb.Result]:  # noqa: ANN401
    """Buffer 2 becomes the gradient at buffer 1's values, of which buffer 3 is the target."""
    x, target, out = (tensor([4], buffer_id=each) for each in (1, 3, 2))
    ones = tensor([4], buffer_id=3)
    return submit.both([ones, x, target, number(0), real(1.0), out], **run)


def test_a_large_call_is_queued_behind_what_is_before_it(busy: tuple[Submit, Event]) -> None:
    submit, go_on = busy
    context = submit.context
    assert context.meter is not None
    submit.call = replace(submit.call, tally=context.meter.open())
    before = context.meter.total()
    planned, ran = large(submit)
    assert submit.recognised == [False, True]
    assert ran == pb.Result(execute=op.ExecuteResponse())
    assert planned.get_workspace_size.workspace_bytes == 0
    assert context.usage.queued_commands == 2
    (again,) = submit.send(pb.Command(execute=op.ExecuteRequest(executor_id=2)))
    assert refusal(again)[:2] == ("EXECUTOR_USED", 200005)
    free = [pb.Command(free=pb.FreeRequest(buffer_id=each)) for each in (1, 3)]
    assert [each.WhichOneof("result") for each in submit.send(*free)] == ["free", "free"]
    go_on.set()
    assert submit.read(2) == [-0.5] * 4
    after = context.meter.total()
    assert after.runs == before.runs + 1
    assert after.methods["get_workspace_size"] == before.methods["get_workspace_size"] + 1
    assert after.methods["execute"] == before.methods["execute"] + 2  # one was refused
    assert context.account.used == 16


def test_a_large_call_that_is_waited_for_behind_others_is_done_when_it_is_answered(
    busy: tuple[Submit, Event],
) -> None:
    submit, go_on = busy
    assert large(submit)[1].HasField("execute")
    go_on.set()
    assert submit.send(SYNCHRONIZE)[0].HasField("synchronize_stream")
    assert submit.context.usage.queued_commands == 0
    assert submit.read(2) == [-0.5] * 4


def test_a_queued_call_that_fails_is_told_to_whoever_synchronises(
    busy: tuple[Submit, Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, go_on = busy

    def fail(*_: object) -> None:
        raise ExecutionFailedError("on purpose", operator=NAME)

    monkeypatch.setattr(submit.context.device, "run", fail)
    assert large(submit)[1].HasField("execute")
    go_on.set()
    (told,) = submit.send(SYNCHRONIZE)
    assert refusal(told)[::2] == ("EXECUTION_FAILED", f"{NAME}: on purpose")
    assert submit.send(SYNCHRONIZE)[0].HasField("synchronize_stream")
    total = submit.context.meter.total() if submit.context.meter else None
    assert total is not None
    assert sum(total.failures.values()) == 1


def test_a_queue_that_is_full_refuses_a_known_call(
    busy: tuple[Submit, Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, _ = busy
    assert large(submit)[1].HasField("execute")
    stream = submit.context.default_session.stream
    monkeypatch.setattr(stream, "_limits", replace(stream._limits, queued_commands=1))
    planned, ran = large(submit, executor_id=9)
    assert planned.HasField("get_workspace_size")
    assert refusal(ran)[:2] == ("LIMIT_EXCEEDED", 207012)
    assert submit.recognised[-1] is False
    submit.send(pb.Command(destroy_executor=op.DestroyExecutorRequest(executor_id=9)))


def repeat(submit: Submit, executor_id: int = 50) -> pb.Result:
    """Runs a repeatable executor once more."""
    run = op.ExecuteRequest(executor_id=executor_id, asynchronous=True)
    (result,) = submit.send(pb.Command(execute=run))
    return result


@pytest.fixture
def repeated(busy: tuple[Submit, Event]) -> tuple[Submit, Event]:
    """The same, with the call as the repeatable executor 50."""
    submit, go_on = busy
    x, target, out = (tensor([4], buffer_id=each) for each in (1, 3, 2))
    plan = op.GetWorkspaceSizeRequest(
        operator=NAME,
        executor_id=50,
        arguments=[target, x, target, number(0), real(1.0), out],
        repeatable=True,
    )
    (planned,) = submit.send(pb.Command(get_workspace_size=plan))
    assert planned.HasField("get_workspace_size")
    return submit, go_on


def test_a_large_repeatable_executor_is_queued_and_outlives_its_end(
    repeated: tuple[Submit, Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, go_on = repeated
    context = submit.context
    assert context.meter is not None
    submit.call = replace(submit.call, tally=context.meter.open())
    before = context.meter.total()
    with monkeypatch.context() as patched:
        patched.delattr("aclnn_server.service.operator_calls.execute")  # what runs it step by step
        for _ in range(3):
            assert repeat(submit) == pb.Result(execute=op.ExecuteResponse())
    assert context.usage.queued_commands == 4
    free = [pb.Command(free=pb.FreeRequest(buffer_id=each)) for each in (1, 3)]
    end = pb.Command(destroy_executor=op.DestroyExecutorRequest(executor_id=50))
    assert not any(each.HasField("error") for each in submit.send(end, *free))
    assert refusal(repeat(submit))[:2] == ("HANDLE_NOT_FOUND", 107017)
    go_on.set()
    assert submit.read(2) == [-0.5] * 4
    after = context.meter.total()
    assert after.runs == before.runs + 3
    assert after.methods["execute"] == before.methods["execute"] + 4
    assert context.account.used == 16


def test_a_large_repeatable_executor_that_fails_is_told_to_whoever_synchronises(
    repeated: tuple[Submit, Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, go_on = repeated

    def fail(*_: object) -> None:
        raise ExecutionFailedError("on purpose", operator=NAME)

    monkeypatch.setattr(submit.context.device, "run", fail)
    assert repeat(submit).HasField("execute")
    go_on.set()
    (told,) = submit.send(SYNCHRONIZE)
    assert refusal(told)[::2] == ("EXECUTION_FAILED", f"{NAME}: on purpose")
    submit.send(pb.Command(destroy_executor=op.DestroyExecutorRequest(executor_id=50)))


def test_a_queue_that_is_full_refuses_a_large_repeatable_executor(
    repeated: tuple[Submit, Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, go_on = repeated
    stream = submit.context.default_session.stream
    assert repeat(submit).HasField("execute")
    monkeypatch.setattr(stream, "_limits", replace(stream._limits, queued_commands=1))
    assert refusal(repeat(submit))[:2] == ("LIMIT_EXCEEDED", 207012)
    go_on.set()
    assert submit.send(SYNCHRONIZE)[0].HasField("synchronize_stream")
    assert repeat(submit).HasField("execute")
    submit.send(pb.Command(destroy_executor=op.DestroyExecutorRequest(executor_id=50)))


def test_a_workspace_of_the_client_is_held_for_a_queued_call(
    busy: tuple[Submit, Event],
) -> None:
    submit, go_on = busy
    x, target = (tensor([4], buffer_id=each) for each in (1, 3))
    mean = [x, target, number(1), real(1.0), tensor([], buffer_id=2)]
    submit.both(mean, "aclnnSmoothL1Loss")  # lends the stream's own
    submit.buffer(4, bytes(512))
    used = submit.context.account.used
    workspace = op.Workspace(buffer_id=4, bytes=512)
    assert submit.both(mean, "aclnnSmoothL1Loss", workspace=workspace)[1].HasField("execute")
    assert submit.recognised == [False, False, True]
    assert submit.send(pb.Command(free=pb.FreeRequest(buffer_id=4)))[0].HasField("free")
    assert submit.context.account.used == used
    go_on.set()
    assert submit.read(2) == [0.125, 0.0, 0.0, 0.0]
    assert submit.send(SYNCHRONIZE)[0].HasField("synchronize_stream")
    assert submit.context.account.used == used - 512
