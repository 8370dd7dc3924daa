"""Events: marks in streams, to be waited for, or to tell times by."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from aclnn_server.backends.base import Moment
from aclnn_server.sessions.waiting import Gone, Patience


class Mark:
    """One recording of an event: passed when the work queued before it is done.

    Where the device runs later than the stream, the stream passes it first, and then the device does.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._calls: list[Callable[[], None]] = []
        self.passed_ns = 0
        """Time at which the stream passed it; 0 before."""
        self.moment: Moment | None = None
        """The device's part; ``None`` where the device is no later than the stream."""

    @property
    def passed(self) -> bool:
        """Whether it has been passed."""
        return self.passed_ns != 0 and (self.moment is None or self.moment.passed)

    def set_passed(self) -> None:
        """Passes the mark and lets everyone go on who waits for it."""
        with self._changed:
            self.passed_ns = self.passed_ns or time.monotonic_ns()
            calls, self._calls = self._calls, []
            self._changed.notify_all()
        for call in calls:
            call()

    def call_when_passed(self, call: Callable[[], None]) -> bool:
        """Tells whether the stream has passed it; if not, `call` is called once it does."""
        with self._changed:
            if not self.passed_ns:
                self._calls.append(call)
            return self.passed_ns != 0

    def wait(self, timeout: float | None, gone: Gone | None = None) -> bool:
        """Waits until it is passed; returns whether it was within `timeout` seconds.

        Raises:
            CancelledError: `gone` tells that the caller is.
        """
        patience = Patience(timeout, gone)
        with self._changed:
            passed = patience.wait_until(lambda: self.passed_ns != 0, self._changed)
        if not passed or self.moment is None:
            return passed
        return patience.wait_for(self.moment.wait)

    def nanoseconds_since(self, earlier: Mark) -> int:
        """Time between two marks that were passed; negative where `earlier` was passed later."""
        if self.moment is None or earlier.moment is None:
            return self.passed_ns - earlier.passed_ns
        return self.moment.nanoseconds_since(earlier.moment)
