"""Threads that serve calls: a bounded number of calls waits for them, and connections take turns.

gRPC hands each call to a pool of threads, whose queue has no end and is served in the order of arrival: one
client with many calls keeps all others waiting. Here each connection has a queue of its own, the queues
are served in turn, and no connection takes all threads. What comes when too many wait is refused at once:
the newest call of the connection that has most of them waiting.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from aclnn.errors import LimitExceededError
from aclnn_server.sessions.turns import Turns

REFUSING_THREADS = 2
RETRY_MS = 100
"""Milliseconds after which a refused call may be tried again."""

ARRIVAL_SECONDS = 10.0
"""Time that a call's first message may take while other calls wait for a thread."""

_refused = threading.local()
_served = threading.local()


class _Job:
    """One call that is to be served."""

    def __init__(self, call: Any, serve: Callable[[], object]) -> None:  # noqa: ANN401 - gRPC's
        self.connection: str = "" if call is None else call.peer()
        self.future: Future[None] = Future()
        """Done when the call is over."""
        self.begun = math.inf
        """When it was given a thread."""
        self.has_arrived = False
        """Whether its first message has."""
        self._call = call
        self._serve = serve

    def run(self) -> None:
        """Serves it."""
        _served.job = self
        try:
            self._serve()
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(None)
        finally:
            _served.job = None

    def break_off(self) -> None:
        """Ends the call; its thread is free when gRPC has noticed."""
        if self._call is not None:
            self._call.cancel()

    def refuse(self, limit: int) -> None:
        """Serves it so that :func:`check_admitted` raises in it."""
        _refused.limit = limit
        try:
            self.run()
        finally:
            _refused.limit = None


class FairPool(ThreadPoolExecutor):
    """A pool for gRPC's calls."""

    def __init__(self, threads: int, name: str, waiting: int) -> None:
        """Starts no thread yet.

        Args:
            threads: calls that are served at the same time.
            name: of the threads.
            waiting: calls that may wait.
        """
        super().__init__(threads, name)
        self._free = threads
        self._share = max(1, threads * 3 // 4)
        self._limit = waiting
        self._refusing = ThreadPoolExecutor(REFUSING_THREADS, f"{name}-refusing")
        self._changed = threading.Lock()
        # All below is guarded by the lock, as are the free threads.
        self._waiting: Turns[_Job] = Turns()
        """By connection."""
        self._running: Counter[Hashable] = Counter()
        self._jobs: set[_Job] = set()
        """That have a thread."""

    @property
    def waiting(self) -> int:
        """Calls that wait."""
        return len(self._waiting)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401
        """Serves a call when it is its turn, or refuses it."""
        job = _Job(_call_of(args), partial(fn, *args, **kwargs))
        refused = None
        with self._changed:
            if self._free and self._running[job.connection] < self._share:
                self._begin(job)
                super().submit(self._run, job)
            else:
                self._waiting.add(job.connection, job)
                refused = self._waiting.take_newest() if self.waiting > self._limit else None
        if refused is not None:
            self._refusing.submit(refused.refuse, self._limit)
        return job.future

    def _run(self, job: _Job | None) -> None:
        """Serves a call and those that wait, for as long as there are some."""
        while job is not None:
            job.run()
            with self._changed:
                self._end(job)
                job = self._next()

    def _begin(self, job: _Job) -> None:
        self._free -= 1
        self._running[job.connection] += 1
        self._jobs.add(job)
        job.begun = time.monotonic()

    def _end(self, job: _Job) -> None:
        self._free += 1
        self._jobs.discard(job)
        self._running[job.connection] -= 1
        if not self._running[job.connection]:
            del self._running[job.connection]

    def _next(self) -> _Job | None:
        job = self._waiting.take(lambda connection: self._running[connection] < self._share)
        if job is not None:
            self._begin(job)
        return job

    def break_off_silent(self) -> int:
        """Ends calls that hold a thread others wait for, and send nothing; returns how many.

        gRPC gives a call its thread when it is begun, and its message may never come.
        """
        latest = time.monotonic() - ARRIVAL_SECONDS
        with self._changed:
            silent = [job for job in self._jobs if not job.has_arrived and job.begun < latest]
            silent = silent if self._waiting else []
        for job in silent:
            job.break_off()
        return len(silent)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the threads, after the calls that they serve."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        self._refusing.shutdown(wait, cancel_futures=cancel_futures)


def check_admitted() -> None:
    """Checks, first thing in a call, that it is to be served.

    Raises:
        LimitExceededError: 207012, as many calls wait as may; tells when to try again.
    """
    limit = getattr(_refused, "limit", None)
    if limit is not None:
        raise LimitExceededError(
            f"the server has {limit} calls waiting, as many as it takes", retry_after_ms=RETRY_MS
        )


def note_arrival() -> None:
    """Notes, in a call, that its first message is there."""
    job = getattr(_served, "job", None)
    if job is not None:
        job.has_arrived = True


def _call_of(arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - not public
    """gRPC's call: one of the arguments is its event of the arrival."""
    for argument in arguments:
        call = getattr(argument, "call", None)
        if call is not None:
            return call
    return None
