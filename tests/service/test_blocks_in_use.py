"""A block that a freed buffer leaves is no other buffer's while a run still uses it, however it is run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import pytest

from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn.v1 import tensor_pb2 as t
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from aclnn_server.service.known_calls import KnownCalls
from aclnn_server.sessions.blocks import KEPT_SECONDS, LARGE_BYTES
from tests.service.requests import floats, number, real, tensor
from tests.service.submitting import NAME, Submit, loss, submitting
from tests.waiting import PATIENCE, until

SIZE = LARGE_BYTES
X, OUT, SCRATCH, NEXT = 1, 2, 3, 9
"""Buffers: an input, an output, a workspace, and the one that is made meanwhile."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(ServerConfig(listen="127.0.0.1:0")) as running:
        yield running


@pytest.fixture
def submit(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Submit]:
    """A context with buffers that are worth keeping, of which calls use a few bytes."""
    with submitting(server, monkeypatch) as submit:
        for buffer_id in (X, OUT, SCRATCH):
            submit.buffer(buffer_id, np.full(SIZE // 4, 0.5, np.float32).tobytes())
        yield submit
        submit.send(pb.Command(destroy_executor=op.DestroyExecutorRequest(executor_id=50)))


def step_by_step(submit: Submit) -> Callable[[], object]:
    """A call that was never seen before."""
    return lambda: submit.both(loss(1, 2, 3, 4, out=tensor([4], buffer_id=OUT)))


def at_once(submit: Submit) -> Callable[[], object]:
    """A call that is recognised."""
    call = step_by_step(submit)
    call()
    return call


def with_workspace(submit: Submit) -> Callable[[], object]:
    """A call that is recognised, with scratch memory of the client's."""
    mean: list[t.Argument] = [floats(1, 2), floats(0, 0), number(1), real(1.0), tensor([])]
    workspace = op.Workspace(buffer_id=SCRATCH, bytes=512)

    def call() -> object:
        return submit.both(mean, "aclnnSmoothL1Loss", workspace=workspace)

    call()
    return call


def again(submit: Submit) -> Callable[[], object]:
    """A repeatable executor, which is run at once."""
    plan = op.GetWorkspaceSizeRequest(
        operator=NAME,
        executor_id=50,
        arguments=loss(1, 2, 3, 4, out=tensor([4], buffer_id=OUT)),
        repeatable=True,
    )
    submit.send(pb.Command(get_workspace_size=plan))
    run = pb.Command(execute=op.ExecuteRequest(executor_id=50, asynchronous=True))
    submit.send(run)
    return lambda: submit.send(run)


CALLS = {
    "step by step": (step_by_step, OUT),
    "at once": (at_once, OUT),
    "a workspace": (with_workspace, SCRATCH),
    "again": (again, OUT),
}


@pytest.mark.parametrize("size", [0, 1 << 20], ids=["queued where it can be", "small"])
@pytest.mark.parametrize(("kind", "freed"), CALLS.values(), ids=CALLS)
def test_a_run_writes_into_no_other_buffer(
    submit: Submit,
    monkeypatch: pytest.MonkeyPatch,
    kind: Callable[[Submit], Callable[[], object]],
    freed: int,
    size: int,
) -> None:
    monkeypatch.setattr("aclnn_server.sessions.execution.INLINE_BYTES", size)
    submit.applier.known = KnownCalls()
    context, call = submit.context, kind(submit)
    device, entered, go_on = context.device, Event(), Event()
    run = device.run

    def run_when_told(*rest: Any) -> object:  # noqa: ANN401
        entered.set()
        assert go_on.wait(PATIENCE)
        return run(*rest)

    monkeypatch.setattr(device, "run", run_when_told)
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(call)
        assert entered.wait(PATIENCE)
        context.buffers.take(freed).free()  # as a call of another thread of the client does
        following = context.add_buffer(NEXT, SIZE, zeroed=False)
        device.fill(following.memory, 7)
        go_on.set()
        calling.result(PATIENCE)
    submit.send(pb.Command(synchronize_stream=pb.SynchronizeStreamRequest()))
    assert set(device.read(following.memory)) == {7}


def test_what_is_freed_when_nothing_uses_it_is_the_next_one(submit: Submit) -> None:
    memory = submit.context.buffers.find(OUT).memory
    at_once(submit)()
    submit.context.buffers.take(OUT).free()
    assert submit.context.add_buffer(NEXT, SIZE, zeroed=False).memory is memory


def test_blocks_go_after_a_while_whatever_else_cannot_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> int:
        raise RuntimeError("a context cannot end")

    with Server(ServerConfig(listen="127.0.0.1:0", lease_seconds=0.2)) as server:
        monkeypatch.setattr(server.registry, "reap", fail)
        context = server.registry.create_context(0, 60.0)
        context.add_buffer(X, SIZE).free()
        assert server._blocks.bytes == SIZE
        monkeypatch.setattr(server._blocks, "_clock", lambda: time.monotonic() + KEPT_SECONDS)
        until(lambda: server._blocks.bytes == 0)
        until(lambda: "a context cannot end" in caplog.text)
