"""Threads that serve calls: a bounded number of calls waits for them, and connections take turns.

gRPC hands each call to a pool of threads, whose queue has no end and is served in the order of arrival: one
client with many calls keeps all others waiting. Here each connection has a queue of its own, the queues
are served in turn, and no connection takes all threads. What comes when too many wait is refused at once:
the newest call of the connection that has most of them waiting.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from aclnn.errors import LimitExceededError

REFUSING_THREADS = 2
RETRY_MS = 100
"""Milliseconds after which a refused call may be tried again."""

Job = Callable[[], None]

_refused = threading.local()


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
        self._share = threads - max(1, threads // 4) if threads > 1 else 1
        self._limit = waiting
        self._refusing = ThreadPoolExecutor(REFUSING_THREADS, f"{name}-refusing")
        self._changed = threading.Lock()
        # All below is guarded by the lock.
        self._waiting: OrderedDict[str, deque[Job]] = OrderedDict()
        """Calls by connection; the connection whose turn is next is first."""
        self._count = 0
        self._running: dict[str, int] = {}
        self._passed = 0
        """Threads that found only connections with all the threads that they may have."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401
        """Serves a call when it is its turn, or refuses it: then :func:`check_admitted` raises in it."""
        connection = _connection(args)
        with self._changed:
            self._waiting.setdefault(connection, deque()).append(partial(fn, *args, **kwargs))
            self._count += 1
            too_much = self._take_newest() if self._count > self._limit else None
        if too_much is not None:
            # A thread was asked for already by the call whose place this one takes, if it is not this one.
            return self._refusing.submit(_refuse, too_much, self._limit)
        return super().submit(self._serve)

    def _take_newest(self) -> Job:
        connection = max(self._waiting, key=lambda name: len(self._waiting[name]))
        self._count -= 1
        return self._remove(connection, self._waiting[connection].pop())

    def _remove(self, connection: str, job: Job) -> Job:
        if not self._waiting[connection]:
            del self._waiting[connection]
        return job

    def _serve(self) -> None:
        with self._changed:
            found = self._next()
            self._passed += found is None
        while found is not None:
            connection, job = found
            try:
                job()
            finally:
                del job, found
                with self._changed:
                    self._end(connection)
                    found = self._next() if self._passed else None
                    self._passed -= found is not None

    def _next(self) -> tuple[str, Job] | None:
        for connection, jobs in self._waiting.items():
            running = self._running.get(connection, 0)
            if running < self._share:
                self._waiting.move_to_end(connection)
                self._running[connection] = running + 1
                self._count -= 1
                return connection, self._remove(connection, jobs.popleft())
        return None

    def _end(self, connection: str) -> None:
        self._running[connection] -= 1
        if not self._running[connection]:
            del self._running[connection]

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


def _refuse(job: Job, limit: int) -> None:
    _refused.limit = limit
    try:
        job()
    finally:
        _refused.limit = None


def _connection(arguments: tuple[Any, ...]) -> str:
    """The connection that a call came over: one of the arguments is gRPC's event of its arrival."""
    for argument in arguments:
        call = getattr(argument, "call", None)
        if call is not None:
            peer: str = call.peer()
            return peer
    return ""
