"""Signals in the middle of a wait: Ctrl-C ends the wait and nothing else, and nothing ever hangs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from aclnn.errors import ServerUnavailable
from aclnn_client.pending import Pending, run
from aclnn_client.submit import Submitter
from tests.client.submit_server import SubmitServer, ask, malloc, number


@pytest.fixture
def server() -> Iterator[SubmitServer]:
    """A server that answers everything."""
    with SubmitServer() as server:
        yield server


@pytest.fixture
def submitter(server: SubmitServer, way: str) -> Iterator[Submitter]:
    """An engine that is closed at the end."""
    submitter = server.submitter(way)
    yield submitter
    server.gate.set()
    submitter.close()


def signal_once_waiting(
    submitter: Submitter, number: signal.Signals, waits: int
) -> threading.Thread:
    """A thread that signals the main one when `waits` threads wait."""

    def kill() -> None:
        while submitter.responses_waited < waits:
            os.sched_yield()
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    return threading.Thread(target=kill)


def start_and_wait(thread: threading.Thread, pending: Pending) -> None:
    thread.start()
    pending.wait()


@pytest.mark.parametrize("leader", [True, False], ids=["leader", "follower"])
def test_an_interrupt_ends_the_wait_only(
    server: SubmitServer, submitter: Submitter, leader: bool
) -> None:
    server.gate.clear()
    pending = malloc(5)
    submitter.submit([pending])
    with ThreadPoolExecutor(1) as pool:
        if not leader:
            pool.submit(number, pending)
            while not submitter.responses_waited:
                os.sched_yield()
        thread = signal_once_waiting(submitter, signal.SIGINT, 1 if leader else 2)
        with pytest.raises(KeyboardInterrupt):
            start_and_wait(thread, pending)
        thread.join()
        server.gate.set()
        assert number(pending) == 5
    assert run(ask(submitter, malloc(6))) == 6


def test_an_interrupt_that_is_handled_does_not_end_the_wait(
    server: SubmitServer, submitter: Submitter
) -> None:
    server.gate.clear()
    pending, seen = malloc(5), []

    def handler(number: int, frame: object) -> None:
        seen.append(number)
        server.gate.set()

    submitter.submit([pending])
    usual = signal.signal(signal.SIGINT, handler)
    try:
        thread = signal_once_waiting(submitter, signal.SIGINT, 1)
        start_and_wait(thread, pending)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, usual)
    thread.join()
    assert seen == [signal.SIGINT]
    assert number(pending) == 5


def test_an_ignored_interrupt_stays_ignored(server: SubmitServer, submitter: Submitter) -> None:
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run(ask(submitter, malloc(5))) == 5
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, usual)


class AlarmError(Exception):
    """What the handler of a signal raises."""


def test_an_exception_of_another_handler_ends_the_call_and_nothing_hangs(
    server: SubmitServer, submitter: Submitter
) -> None:
    def handler(number: int, frame: object) -> None:
        raise AlarmError

    server.gate.clear()
    pending = malloc(5)
    submitter.submit([pending])
    usual = signal.signal(signal.SIGUSR1, handler)
    try:
        thread = signal_once_waiting(submitter, signal.SIGUSR1, 1)
        with pytest.raises(AlarmError):
            start_and_wait(thread, pending)
    finally:
        signal.signal(signal.SIGUSR1, usual)
    thread.join()
    server.gate.set()
    try:
        assert number(pending) == 5
    except ServerUnavailable as error:
        assert "broken off by an exception" in str(error)  # noqa: PT017
