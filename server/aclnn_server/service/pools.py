"""Threads that serve calls: a bounded number of calls waits for them, and connections take turns.

gRPC hands each call to a pool of threads, whose queue has no end and is served in the order of arrival: one
client with many calls keeps all others waiting. Here each connection has a queue of its own, the queues
are served in turn, and no connection takes all threads. What comes when too many wait is refused at once:
the newest call of the connection that has most of them waiting.
"""

from __future__ import annotations

import threading
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

_refused = threading.local()


class _Job:
    """One call that is to be served."""

    def __init__(self, connection: str, serve: Callable[[], object]) -> None:
        self.connection = connection
        self.future: Future[None] = Future()
        """Done when the call is over."""
        self._serve = serve

    def run(self) -> None:
        """Serves it."""
        try:
            self._serve()
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(None)

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

    @property
    def waiting(self) -> int:
        """Calls that wait."""
        return len(self._waiting)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401
        """Serves a call when it is its turn, or refuses it."""
        job = _Job(_connection(args), partial(fn, *args, **kwargs))
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

    def _end(self, job: _Job) -> None:
        self._free += 1
        self._running[job.connection] -= 1
        if not self._running[job.connection]:
            del self._running[job.connection]

    def _next(self) -> _Job | None:
        job = self._waiting.take(lambda connection: self._running[connection] < self._share)
        if job is not None:
            self._begin(job)
        return job

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


def _connection(arguments: tuple[Any, ...]) -> str:
    """The connection that a call came over: one of the arguments is gRPC's event of its arrival."""
    for argument in arguments:
        call = getattr(argument, "call", None)
        if call is not None:
            peer: str = call.peer()
            return peer
    return ""
