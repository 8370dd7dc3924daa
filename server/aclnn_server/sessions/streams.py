"""Streams: work in order, on one thread at a time; and events, the marks between them.

Work of a stream is run by whichever thread is there first: the caller that queued it when it is small,
one that waits for it, or a worker of the pool. So a lock-step call needs no second thread, and large work
of several streams runs in parallel.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from aclnn.errors import (
    AclnnError,
    CancelledError,
    LimitExceededError,
    StreamDestroyedError,
    WaitTimeoutError,
)
from aclnn_server.sessions.memory import Buffer


class Work:
    """One command in a stream."""

    __slots__ = (
        "_failure",
        "_on_end",
        "buffers",
        "expired",
        "mark",
        "number",
        "queued_ns",
        "started_ns",
        "task",
        "waited",
    )

    def __init__(
        self,
        task: Callable[[], None],
        buffers: tuple[Buffer, ...] = (),
        *,
        waited: bool = False,
        expired: Callable[[], bool] | None = None,
        on_end: Callable[[], None] | None = None,
        mark: Mark | None = None,
    ) -> None:
        self.task = task
        self.buffers = buffers
        self.waited = waited
        """Whether a caller takes the failure; else it stays with the stream until it is synchronised."""
        self.expired = expired
        """Tells, just before running, that nobody wants the work any more."""
        self.mark = mark
        """Mark that must have been passed before the work starts."""
        self.number = 0
        self.queued_ns = self.started_ns = 0
        self._on_end = on_end
        self._failure: AclnnError | None = None

    def run(self) -> AclnnError | None:
        """Runs the work, or drops it when it has expired; returns how it failed."""
        self.started_ns = time.monotonic_ns()
        if self.expired is not None and self.expired():
            return self.end(CancelledError("the call was over before its work was run"))
        try:
            self.task()
        except AclnnError as error:
            return self.end(error)
        return self.end(None)

    def end(self, failure: AclnnError | None) -> AclnnError | None:
        """Releases what the work held; its failure is for whoever waits."""
        for buffer in self.buffers:
            buffer.end_use()
        if self._on_end is not None:
            self._on_end()
        self._failure = failure
        return failure

    def raise_failure(self) -> None:
        """Raises what the work failed with, if it did."""
        if self._failure is not None:
            raise self._failure


class Stream:
    """An ordered queue of work."""

    def __init__(
        self, workers: Workers, limit: int, unexpected: Callable[[BaseException], AclnnError]
    ) -> None:
        self._workers = workers
        self._limit = limit
        self._unexpected = unexpected
        self._queue: deque[Work] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._running = False
        self._parked = False
        self._destroyed = False
        self._queued = 0
        self._done = 0
        self._failure: AclnnError | None = None

    @property
    def depth(self) -> int:
        """Commands queued or running."""
        return self._queued - self._done

    def enqueue(self, work: Work, *, inline: bool) -> None:
        """Queues work; small work is run at once by the calling thread, where it is its turn.

        Raises:
            LimitExceededError: the queue is full.
            StreamDestroyedError: the stream was destroyed.
        """
        with self._changed:
            self._check_room()
            self._queued += 1
            work.number = self._queued
            work.queued_ns = time.monotonic_ns()
            for buffer in work.buffers:
                buffer.begin_use(self, work.number)
            self._queue.append(work)
        if inline:
            self.drain()
        else:
            self._workers.schedule(self)

    def _check_room(self) -> None:
        if self._destroyed:
            raise StreamDestroyedError("the stream was destroyed")
        if len(self._queue) >= self._limit:
            raise LimitExceededError(
                f"the stream has {len(self._queue)} commands queued; at most {self._limit} may be",
                retry_after_ms=10,
            )

    def drain(self, seconds: float | None = None) -> bool:
        """Runs queued work on this thread, unless another does; returns whether work is left for later."""
        until = None if seconds is None else time.monotonic() + seconds
        work = self._take(first=True)
        while work is not None:
            self._run(work)
            if until is not None and time.monotonic() > until:
                with self._changed:
                    self._running = False
                    self._changed.notify_all()
                    return bool(self._queue)
            work = self._take(first=False)
        return False

    def _run(self, work: Work) -> None:
        try:
            failure = work.run()
        except BaseException as error:
            failure = work.end(self._unexpected(error))
        with self._changed:
            self._done += 1
            if failure is not None and not work.waited and self._failure is None:
                self._failure = failure
            self._changed.notify_all()

    def _take(self, *, first: bool) -> Work | None:
        with self._changed:
            if first and (self._running or self._parked):
                return None
            self._running = False
            if not self._queue:
                self._changed.notify_all()
                return None
            mark = self._queue[0].mark
            if mark is not None and not mark.call_when_passed(self._unpark):
                self._parked = True
                return None
            self._running = True
            return self._queue.popleft()

    def _unpark(self) -> None:
        with self._changed:
            self._parked = False
        self._workers.schedule(self)

    def wait(self, number: int | None = None, timeout: float | None = None) -> None:
        """Waits until the work with `number` (default: the last one queued) is done, helping to run it.

        Raises:
            WaitTimeoutError: 507046, `timeout` seconds passed.
        """
        target = self._queued if number is None else number
        if timeout is None:
            self.drain()
        with self._changed:
            if not self._changed.wait_for(lambda: self._done >= target, timeout):
                raise WaitTimeoutError(
                    f"the stream has {self.depth} commands left after {timeout:g} seconds"
                )

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits for all work queued so far and raises its first unreported failure."""
        self.wait(timeout=timeout)
        with self._changed:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def destroy(self) -> None:
        """Drops queued work and waits for running work; once it returns, nothing runs any more."""
        with self._changed:
            self._destroyed = True
            dropped = list(self._queue)
            self._queue.clear()
        for work in dropped:
            work.end(StreamDestroyedError("the stream was destroyed before the work was run"))
        with self._changed:
            self._done += len(dropped)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._running)


class Mark:
    """One recording of an event: passed when the work queued before it is done."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._calls: list[Callable[[], None]] = []
        self.passed_ns = 0
        """Time at which it was passed; 0 before."""

    @property
    def passed(self) -> bool:
        """Whether it has been passed."""
        return self.passed_ns != 0

    def set_passed(self) -> None:
        """Passes the mark and lets everyone go on who waits for it."""
        with self._changed:
            self.passed_ns = self.passed_ns or time.monotonic_ns()
            calls, self._calls = self._calls, []
            self._changed.notify_all()
        for call in calls:
            call()

    def call_when_passed(self, call: Callable[[], None]) -> bool:
        """Tells whether it has been passed; if not, `call` is called once it is."""
        with self._changed:
            if not self.passed:
                self._calls.append(call)
            return self.passed

    def wait(self, timeout: float | None) -> bool:
        """Waits until it is passed; returns whether it was within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.passed, timeout)


class Workers:
    """Threads that run the work of streams that no caller runs."""

    SLICE_SECONDS = 0.02
    """How long a stream is run before another one that has work gets its turn."""

    def __init__(self, count: int) -> None:
        self._ready: deque[Stream] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._work, name=f"aclnn-worker-{index}", daemon=True)
            for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def schedule(self, stream: Stream) -> None:
        """Lets a worker run the stream soon."""
        with self._changed:
            self._ready.append(stream)
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._stopped)
                if self._stopped:
                    return
                stream = self._ready.popleft()
            if stream.drain(self.SLICE_SECONDS):
                self.schedule(stream)

    def stop(self) -> None:
        """Ends the threads, after the work that they are running."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
