"""Commands that nobody waits for go several in a request, and never later than in a moment."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from aclnn_client import Context, linger, ops, submit
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
    monkeypatch.setattr(submit, "LINGER", Linger())
    monkeypatch.setattr(linger, "SECONDS", 5.0)
    monkeypatch.setattr(linger, "CALM_SECONDS", 5.0)


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
        self.held = 1
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


def test_one_thread_serves_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linger, "IDLE_ROUNDS", 10**9)
    lingering, others = Linger(), set(threading.enumerate())
    owners = [Owner() for _ in range(20)]
    for _ in range(3):
        for owner in owners:
            owner.lingers = True
            lingering.watch(owner)
        for owner in owners:
            assert owner.sent.acquire(timeout=10)
        assert len(set(threading.enumerate()) - others) == 1
    monkeypatch.setattr(linger, "IDLE_ROUNDS", 0)
    for thread in set(threading.enumerate()) - others:
        thread.join(10)
        assert not thread.is_alive()


class Busy(Owner):
    """More comes whenever somebody looks."""

    @property
    def held(self) -> int:
        self._held = getattr(self, "_held", 0) + 1
        return self._held

    @held.setter
    def held(self, value: int) -> None:
        pass


def test_what_more_follows_is_held_back_longer_but_not_for_ever() -> None:
    owner = Busy()
    owner.lingers = True
    Linger().watch(owner)
    assert owner.sent.acquire(timeout=10)
    assert owner.held > 3


def test_what_others_send_is_left_to_them() -> None:
    class Sending(Owner):
        """Somebody sends between two looks, forty times."""

        looks = 0

        @property
        def requests_sent(self) -> int:
            self.looks += 1
            return min(self.looks, 40)

        @requests_sent.setter
        def requests_sent(self, value: int) -> None:
            pass

    owner = Sending()
    owner.lingers = True
    Linger().watch(owner)
    assert owner.sent.acquire(timeout=10)
    assert owner.looks > 40


def test_a_connection_that_takes_nothing_keeps_no_other_waiting(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for the connection waits in a thread of its own."""
    entered, go_on = threading.Event(), threading.Event()

    def stuck(self: submit.Submitter, limit: object) -> None:
        entered.set()
        assert go_on.wait(30)

    queue(context, 1)
    submitter = context.commands.submitter
    x, out = context.tensor(GRAD), context.empty((4, 2), "float32")
    with monkeypatch.context() as patch:
        patch.setattr(submit.Submitter, "_step", stuck)
        while not entered.is_set():  # the second request waits until the first is gone
            size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(x, x, x, 2, 1.0, out)
            ops.aclnnSmoothL1LossBackward(None, size, executor)
            entered.wait(0.01)
        other = Owner()
        other.lingers = True
        linger.LINGER.watch(other)
        assert other.sent.acquire(timeout=10)
    go_on.set()
    assert out.numpy().shape == (4, 2)
    assert submitter.settled
