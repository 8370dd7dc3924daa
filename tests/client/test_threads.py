"""One context used by many threads at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from aclnn_client import Context, connect, ops, submit
from aclnn_server.server import Server

THREADS = 8


def test_threads_compute_in_streams_of_their_own(context: Context) -> None:
    together = threading.Barrier(THREADS)

    def work(thread: int) -> None:
        stream = context.create_stream()
        x = np.arange(100, dtype=np.float32) + thread
        grad, resident = context.tensor(np.full(100, thread, np.float32)), context.tensor(x)
        out = context.empty((100,), "float32")
        together.wait()
        for turn in range(25):
            target = context.tensor(x - (2 if turn % 2 else 0.5))
            size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
                grad, resident, target, 0, 1.0, out
            )
            ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor, stream)
            if turn % 3:
                stream.synchronize()
            assert (out.numpy() == thread * (1 if turn % 2 else 0.5)).all()
            one_line = context.ops.smooth_l1_loss(x, x + thread, "none", 1e-3)
            np.testing.assert_allclose(one_line, max(thread - 5e-4, 0), atol=1e-4)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    context.synchronize()
    assert context.usage().executors == 0


def test_threads_move_large_arrays_at_once(context: Context) -> None:
    def work(thread: int) -> bool:
        array = np.full((3 << 20) + thread, thread, np.uint8)
        return all(bool((context.tensor(array).numpy() == thread).all()) for _ in range(3))

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(work, range(THREADS)))


def test_calls_that_nobody_waits_for_do_not_pile_up(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "MAX_OUTSTANDING", 50)
    x, out = context.tensor(np.ones(4, np.float32)), context.empty((4,), "float32")
    submitter = context.commands.submitter
    for _ in range(300):
        size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(x, x, x, 0, 1.0, out)
        ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor)
        assert len(submitter._awaiting) <= 54
    events = [context.create_event() for _ in range(300)]
    assert len(submitter._awaiting) <= 51
    context.synchronize()
    assert context.usage().events == len(events)


def test_contexts_come_and_go_in_many_threads(server: Server) -> None:
    def work(thread: int) -> int:
        with connect(server.address) as context:
            return int(context.tensor([thread]).numpy()[0])

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(work, range(24))) == list(range(24))
