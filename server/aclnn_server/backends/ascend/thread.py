"""The one thread that makes all calls to a device.

CANN keeps a thread's device, its error texts and its cache of plans per thread, so a device has one thread
that lives as long as it. Nothing in it blocks for long: what has to be waited for is asked for again and
again, between other work, so that one client's wait is not another's.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from aclnn.errors import InternalError

T = TypeVar("T")

SPINS = 16
"""Times that a new wait is asked for without a pause."""
SHORTEST_PAUSE, LONGEST_PAUSE = 20e-6, 1e-3
"""Seconds between two questions, at first and at last."""


class _Job:
    """A function to call, and what became of it."""

    __slots__ = ("arguments", "done", "error", "function", "result")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.arguments = arguments
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()

    def run(self) -> None:
        try:
            self.result = self.function(*self.arguments)
        except BaseException as error:
            self.error = error
        self.done.release()

    def outcome(self) -> Any:  # noqa: ANN401 - what the function returned
        """Waits for the call; gives its result or raises its error."""
        self.done.acquire()
        if self.error is None:
            return self.result
        try:
            raise self.error
        finally:
            self.error = None  # it refers to this frame, which refers to the job


class _Wait:
    """A question that is asked until it is answered with yes, or given up."""

    __slots__ = ("asked", "job", "until")

    def __init__(self, job: _Job, until: float | None) -> None:
        self.job = job
        self.until = until
        self.asked = 0

    def over(self) -> bool:
        """Asks; ends the job when the answer is yes, an error, or too late."""
        self.asked += 1
        job = self.job
        try:
            job.result = job.function(*job.arguments)
        except BaseException as error:
            job.error = error
        late = self.until is not None and time.monotonic() >= self.until
        if not job.result and job.error is None and not late:
            return False
        job.done.release()
        return True


class _Queue:
    """Items for one taker, from any thread.

    Not :class:`queue.SimpleQueue`: its ``get`` with a time-out of microseconds can wait for ever, when the
    time has passed between its two looks at the clock.
    """

    def __init__(self) -> None:
        self._items: deque[_Job | _Wait | None] = deque()
        self._filled = threading.Lock()
        self._filled.acquire()

    def put(self, item: _Job | _Wait | None) -> None:
        self._items.append(item)
        with contextlib.suppress(RuntimeError):  # it is open already
            self._filled.release()

    def get(self, timeout: float) -> _Job | _Wait | None:
        """Takes the oldest item; -1 waits without limit.

        Raises:
            TimeoutError: there was none in time.
        """
        while not self._items:
            if not self._filled.acquire(timeout=timeout) and not self._items:
                raise TimeoutError
        return self._items.popleft()

    @property
    def empty(self) -> bool:
        return not self._items


class DeviceThread:
    """A thread that calls functions for others, in the order in which they ask."""

    def __init__(self, name: str) -> None:
        self._queue = _Queue()
        self._waits: list[_Wait] = []
        self._closed = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401
        """Calls a function on the thread; gives its result or raises its error."""
        if threading.get_ident() == self._thread.ident:
            return function(*arguments)
        job = _Job(function, arguments)
        self._put(job)
        result: T = job.outcome()
        return result

    def post(self, function: Callable[..., object], *arguments: Any) -> None:  # noqa: ANN401
        """Lets the thread call a function, later; what it raises is lost."""
        if not self._closed:
            self._queue.put(_Job(function, arguments))

    def wait(self, question: Callable[..., bool], *arguments: Any, timeout: float | None) -> bool:  # noqa: ANN401
        """Waits until `question`, asked on the thread, is answered with yes.

        Returns:
            Whether it was, within `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        job = _Job(question, arguments)
        self._put(_Wait(job, until))
        return bool(job.outcome())

    def _put(self, item: _Job | _Wait) -> None:
        if self._process != os.getpid():
            raise InternalError("the process was forked after CANN was started, which CANN forbids")
        if self._closed:
            raise InternalError("the device is closed")
        self._queue.put(item)

    def close(self) -> None:
        """Ends the thread, after all that it was asked for; no wait is left."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()

    # --- the thread -------------------------------------------------------------------------------

    def _work(self) -> None:
        pause = SHORTEST_PAUSE
        while True:
            try:
                item = self._queue.get(pause if self._waits else -1)
            except TimeoutError:
                self._ask()
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            if item is None:
                return
            if isinstance(item, _Wait):
                pause = SHORTEST_PAUSE
                self._begin(item)
            else:
                item.run()
                del item

    def _begin(self, wait: _Wait) -> None:
        while not wait.over():
            if wait.asked >= SPINS or not self._queue.empty:
                self._waits.append(wait)
                return

    def _ask(self) -> None:
        self._waits = [wait for wait in self._waits if not wait.over()]
