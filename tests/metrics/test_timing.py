"""Where the time of a run went: in the answer, behind it, and in the client."""

from __future__ import annotations

import re

import grpc
import numpy as np
import pytest

from aclnn_client import Context, Timing, aio, connect, get_workspace_size, ops
from aclnn_server.server import Server
from tests.metrics.conftest import Start
from tests.service.calling import Stubs, Submitting, Unary
from tests.service.gated import GatedBackend
from tests.service.requests import passing, plus, run

SMALL, LARGE = np.ones((4, 2), np.float32), np.ones(2**19, np.float32)


def check(timing: Timing | None) -> None:
    assert timing is not None
    assert timing.run > 0
    assert min(timing.queue, timing.copy_in, timing.copy_out) >= 0
    parts = timing.queue + timing.copy_in + timing.run + timing.copy_out
    assert timing.seconds == pytest.approx(parts)


def test_nothing_is_told_that_was_not_asked_for(context: Context) -> None:
    context.ops.add(SMALL, SMALL)
    context.synchronize()
    assert context.default_stream.last_timing is None


@pytest.mark.parametrize("array", [SMALL, LARGE], ids=["small", "large"])
def test_after_a_call_in_one_line(array: np.ndarray, context: Context) -> None:
    stream = context.create_stream()
    stream.report_timing = True
    context.ops.add(array, array, stream=stream)
    check(stream.last_timing)
    assert context.default_stream.last_timing is None


@pytest.mark.parametrize("array", [SMALL, LARGE], ids=["small", "large"])
def test_after_a_wait_for_the_stream(array: np.ndarray, context: Context) -> None:
    stream = context.create_stream()
    stream.report_timing = True
    tensor, out = context.tensor(array), context.empty(array.shape, "float32")
    size, executor = ops.aclnnReluGetWorkspaceSize(tensor, out)
    ops.aclnnRelu(context.malloc(size), size, executor, stream)
    stream.synchronize()
    check(stream.last_timing)


@pytest.mark.asyncio
async def test_for_asyncio(server: Server) -> None:
    async with aio.connect(server.address) as context:
        stream = context.default_stream
        stream.report_timing = True
        await context.ops.add(SMALL, SMALL)
        check(stream.last_timing)
        stream.last_timing = None
        tensor, out = await context.tensor(SMALL), context.empty(SMALL.shape, "float32")
        size, executor = await aio.ops.aclnnReluGetWorkspaceSize(tensor, out)
        await aio.ops.aclnnRelu(context.malloc(size), size, executor)
        await stream.synchronize()
        check(stream.last_timing)


def test_waiting_in_the_queue_is_told(start: Start, backend: GatedBackend) -> None:
    with grpc.insecure_channel(start(backend).address) as channel:
        caller = Submitting(Stubs(channel))
        caller(passing(1, executor=5))
        caller.send(run(5, timing=True))
        backend.gates[1].wait_entered()
        backend.gates.open_all()
        (answer,) = caller.receive()
        caller.close()
    assert answer.timing.run_ns > 0
    assert answer.timing.copy_in_ns > 0  # [7, 8] came with the call
    assert answer.timing.copy_out_ns > 0


def test_behind_the_answer_of_a_unary_call(start: Start, backend: GatedBackend) -> None:
    with grpc.insecure_channel(start(backend).address) as channel:
        caller = Unary(Stubs(channel))
        caller(plus(1, 1.0, executor=5))
        request = run(5)
        request.context_id = caller.context_id
        _, call = caller.stubs.operator.Execute.with_call(request, timeout=30)
        told = str(dict(call.trailing_metadata())["server-timing"])
        caller.close()
    number = r"[0-9.e+-]+"
    assert re.fullmatch(
        f"queue;dur={number}, copy_in;dur={number}, run;dur={number}, copy_out;dur={number}", told
    )


def test_a_run_that_is_not_over_has_no_timing(start: Start, backend: GatedBackend) -> None:
    server = start(backend)
    with connect(server.address) as context:
        stream = context.default_stream
        stream.report_timing = True
        big, out = context.tensor(LARGE), context.empty(LARGE.shape, "float32")
        _, executor = get_workspace_size("aclnnPass", (big, 1, out))
        executor.run()
        context.usage()
        backend.gates[1].wait_entered()
        assert stream.query() is False
        assert stream.last_timing is None
        backend.gates.open_all()
        stream.synchronize()
        check(stream.last_timing)
