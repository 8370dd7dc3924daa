"""The one thread of a device: order, results and errors, and waits that hold nobody up."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from aclnn.errors import InternalError
from aclnn_server.backends.ascend.thread import DeviceThread


@pytest.fixture
def thread() -> Iterator[DeviceThread]:
    thread = DeviceThread("test")
    yield thread
    thread.close()


def test_gives_results(thread: DeviceThread) -> None:
    assert thread.call(divmod, 7, 2) == (3, 1)


def test_all_on_one_thread(thread: DeviceThread) -> None:
    seen = {thread.call(threading.get_ident) for _ in range(20)}
    assert len(seen) == 1
    assert threading.get_ident() not in seen


def test_raises_errors_and_goes_on(thread: DeviceThread) -> None:
    with pytest.raises(ZeroDivisionError):
        thread.call(divmod, 1, 0)
    assert thread.call(int) == 0


def test_in_order(thread: DeviceThread) -> None:
    done: list[int] = []
    for number in range(100):
        thread.post(done.append, number)
    assert thread.call(list, done) == list(range(100))


def test_what_a_posted_function_raises_is_lost(thread: DeviceThread) -> None:
    thread.post(divmod, 1, 0)
    assert thread.call(int) == 0


def test_calls_from_the_thread_itself(thread: DeviceThread) -> None:
    assert thread.call(lambda: thread.call(threading.get_ident)) == thread.call(threading.get_ident)


def test_from_many_threads(thread: DeviceThread) -> None:
    results: list[int] = []

    def work(number: int) -> None:
        for step in range(200):
            assert thread.call(int.__add__, number, step) == number + step
        results.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(results) == list(range(8))


class TestWaiting:
    def test_until_the_answer_is_yes(self, thread: DeviceThread) -> None:
        answers = iter([False] * 50 + [True])
        assert thread.wait(lambda: next(answers), timeout=None)

    def test_until_it_is_too_late(self, thread: DeviceThread) -> None:
        begin = time.monotonic()
        assert not thread.wait(lambda: False, timeout=0.05)
        assert time.monotonic() - begin >= 0.05

    def test_asks_at_least_once(self, thread: DeviceThread) -> None:
        assert thread.wait(lambda: True, timeout=0)

    def test_an_error_ends_it(self, thread: DeviceThread) -> None:
        with pytest.raises(ZeroDivisionError):
            thread.wait(lambda: bool(1 // 0), timeout=None)

    def test_others_are_served_meanwhile(self, thread: DeviceThread) -> None:
        reached = threading.Event()
        waiter = threading.Thread(target=lambda: thread.wait(reached.is_set, timeout=None))
        waiter.start()
        for number in range(50):
            assert thread.call(int.__add__, number, 1) == number + 1
        reached.set()
        waiter.join(30)
        assert not waiter.is_alive()

    def test_several_at_once(self, thread: DeviceThread) -> None:
        gates = [threading.Event() for _ in range(5)]
        done: list[bool] = []
        waiters = [
            threading.Thread(target=lambda g=gate: done.append(thread.wait(g.is_set, timeout=None)))
            for gate in gates
        ]
        for waiter in waiters:
            waiter.start()
        for gate in reversed(gates):
            gate.set()
        for waiter in waiters:
            waiter.join(30)
        assert done == [True] * 5


def test_closed() -> None:
    thread = DeviceThread("closed")
    thread.post(int)
    thread.close()
    thread.post(int)
    with pytest.raises(InternalError, match="the device is closed"):
        thread.call(int)


def test_a_forked_process_is_told_that_it_cannot(
    thread: DeviceThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(InternalError, match="forked"):
        thread.call(int)
