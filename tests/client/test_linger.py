"""Commands that nobody waits for go several in a request, and never later than in a moment."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from aclnn_client import Context, linger, ops
from aclnn_client.linger import Linger
from tests.client.calls import counts

GRAD = np.ones((4, 2), np.float32)


def queue(context: Context, times: int) -> np.ndarray:
    """Queues equal calls and gives the result, after their phase one is known."""
    x, out = context.tensor(GRAD * 3), context.empty((4, 2), "float32")
    for _ in range(times + 1):
        size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(x, x, x, 2, 1.0, out)
        ops.aclnnSmoothL1LossBackward(None, size, executor)
    return out.numpy()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment that is long enough for a busy machine."""
    monkeypatch.setattr(linger, "SECONDS", 5.0)


@pytest.mark.usefixtures("patient")
def test_many_calls_share_a_request(context: Context) -> None:
    before, _ = counts(context)
    assert queue(context, 1000).shape == (4, 2)
    sent = counts(context)[0] - before
    assert sent <= 1000 / 10, f"{sent} requests for 1000 calls"


@pytest.mark.usefixtures("patient")
def test_both_phases_and_the_wait_are_one_request(context: Context) -> None:
    queue(context, 1)
    x, out = context.tensor(GRAD), context.empty((4, 2), "float32")
    context.default_stream.synchronize()
    for _ in range(3):
        before, _ = counts(context)
        size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(x, x, x, 2, 1.0, out)
        ops.aclnnSmoothL1LossBackward(None, size, executor)
        context.default_stream.synchronize()
        assert counts(context)[0] == before + 1


@pytest.mark.usefixtures("patient")
def test_small_uploads_a_call_and_its_result_are_one_request(context: Context) -> None:
    queue(context, 1)
    for value in (1.0, 2.0):
        before, _ = counts(context)
        array = GRAD * value
        x = context.tensor(array)
        array[:] = 7  # is the caller's again
        out = context.empty((4, 2), "float32")
        size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(x, x, x, 2, 1.0, out)
        ops.aclnnSmoothL1LossBackward(None, size, executor)
        x.write(GRAD * 3)  # behind the call
        assert not out.numpy().any()
        assert counts(context)[0] == before + 1
        assert (x.numpy() == 3).all()


def test_a_small_upload_that_nothing_follows_is_sent(context: Context) -> None:
    before, _ = counts(context)
    context.tensor(GRAD)
    reached = threading.Event()
    while counts(context)[0] == before:
        assert not reached.wait(0.001)


def test_a_call_that_nobody_waits_for_is_sent(context: Context) -> None:
    x, out = context.tensor(GRAD), context.empty((4, 2), "float32")
    size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(x, x, x, 2, 1.0, out)
    before, _ = counts(context)
    ops.aclnnSmoothL1LossBackward(None, size, executor)
    reached = threading.Event()
    while counts(context)[0] == before:
        assert not reached.wait(0.001)
    assert counts(context)[0] == before + 1


class Owner:
    """Holds something back, and counts how often it is sent."""

    def __init__(self) -> None:
        self.lingers = False
        self.requests_sent = 0
        self.sent = threading.Semaphore(0)

    def send_lingering(self) -> None:
        self.lingers = False
        self.requests_sent += 1
        self.sent.release()


def test_the_thread_ends_when_there_is_nothing_and_comes_back() -> None:
    lingering, owner, others = Linger(), Owner(), set(threading.enumerate())
    for _ in range(3):
        owner.lingers = True
        lingering.watch(owner)
        assert owner.sent.acquire(timeout=10)
        for thread in set(threading.enumerate()) - others:
            thread.join(10)
            assert not thread.is_alive()


def test_what_is_held_back_while_the_thread_ends_is_sent() -> None:
    owner = Owner()
    lingering = Linger()
    for _ in range(20):
        owner.lingers = True
        lingering.watch(owner)
        assert owner.sent.acquire(timeout=10)
