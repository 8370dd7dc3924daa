"""Open Submit calls: how many there may be; each keeps its context alive while its client is there."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from aclnn.errors import LimitExceededError
from aclnn_server.sessions.context import Context

RETRY_MS = 1000
"""Milliseconds after which a call that was one too many may be opened again."""
FEWEST = 4
"""Calls that one context may have in any case: of a broken connection one may be left for a while."""

WhenOver = Callable[[Callable[[], None]], bool]
"""Calls back when a client is gone; tells whether it is not gone yet."""


class OpenCalls:
    """The open Submit calls of a server."""

    def __init__(self, limit: int) -> None:
        self.count = 0
        self._limit = limit
        self._share = max(FEWEST, limit // 4)
        self._by_context: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts a call of the server's.

        Raises:
            LimitExceededError: 207012, as many as allowed are open.
        """
        with self._lock:
            self.count += 1
            allowed = self.count <= self._limit
        try:
            if not allowed:
                raise _too_many("server", self._limit)
            yield
        finally:
            with self._lock:
                self.count -= 1

    @contextmanager
    def counted_in(self, context: Context, when_over: WhenOver) -> Iterator[None]:
        """Counts a call of a context's, which keeps the lease from ending for as long as its client is there.

        Work that a client that is gone has left behind is still done, and keeps nothing alive.

        Raises:
            LimitExceededError: 207012, as many as one context may have are open.
            HandleNotFoundError: the context has ended.
        """
        with self._lock:
            allowed = self._by_context[context.id] < self._share
            self._by_context[context.id] += 1
        try:
            if not allowed:
                raise _too_many("context", self._share)
            with _present(context, when_over):
                yield
        finally:
            with self._lock:
                self._by_context[context.id] -= 1
                if not self._by_context[context.id]:
                    del self._by_context[context.id]


@contextmanager
def _present(context: Context, when_over: WhenOver) -> Iterator[None]:
    context.begin_call()
    ends = [context.end_call]

    def end() -> None:  # the block's end or the client's, whichever is first
        with suppress(IndexError):
            ends.pop()()

    if not when_over(end):
        end()
    try:
        yield
    finally:
        end()


def _too_many(whose: str, limit: int) -> LimitExceededError:
    return LimitExceededError(
        f"the {whose} has {limit} open Submit calls, as many as allowed", retry_after_ms=RETRY_MS
    )
