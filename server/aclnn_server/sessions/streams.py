"""Streams: work in order, on one thread at a time.

Work of a stream is run by whichever thread is there first: the caller that queued it when it is small,
one that waits for it, or a worker of the pool. So a lock-step call needs no second thread, and large work
of several streams runs in parallel.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable

from aclnn.errors import (
    AclnnError,
    CancelledError,
    LimitExceededError,
    StreamDestroyedError,
    WaitTimeoutError,
)
from aclnn_server.sessions.limits import Limits
from aclnn_server.sessions.marks import Mark
from aclnn_server.sessions.memory import Buffer, hold_all
from aclnn_server.sessions.turns import Turns
from aclnn_server.sessions.waiting import Gone, Patience, WouldWait, cannot_wait

RETRY_MS = 10
"""Milliseconds after which a command that a full queue refused may be tried again."""


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
        "size",
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
        size: int = 0,
    ) -> None:
        self.task = task
        self.buffers = buffers
        self.waited = waited
        """Whether a caller takes the failure; else it stays with the stream until it is synchronised."""
        self.expired = expired
        """Tells, just before running, that nobody wants the work any more."""
        self.mark = mark
        """Mark that must have been passed before the work starts."""
        self.size = size
        """Bytes that the work has brought along, and keeps until it is run."""
        self.number = 0
        self.queued_ns = self.started_ns = 0
        self._on_end = on_end
        self._failure: AclnnError | None = None

    def run(self, unexpected: Callable[[BaseException], AclnnError]) -> AclnnError | None:
        """Runs the work, or drops it when it has expired; returns how it failed."""
        self.started_ns = time.monotonic_ns()
        failure: AclnnError | None = None
        try:
            if self.expired is not None and self.expired():
                raise CancelledError("the call was over before its work was run")
            self.task()
        except AclnnError as error:
            failure = bare(error)
        except BaseException as error:
            failure = bare(unexpected(error))
        return self.end(failure, unexpected)

    def end(
        self, failure: AclnnError | None, unexpected: Callable[[BaseException], AclnnError]
    ) -> AclnnError | None:
        """Releases what the work held, once; its failure is for whoever waits."""
        self._failure = failure
        releases = [buffer.end_use for buffer in self.buffers]
        if self._on_end is not None:
            releases.append(self._on_end)
        for release in releases:
            try:
                release()
            except Exception as error:  # the device is ill; the stream must not stop for it
                self._failure = self._failure or unexpected(error)
        # What made the work may know it: memory must not stay until the cycle is found.
        self.task, self.buffers, self._on_end = _nothing, (), None
        return self._failure

    def raise_failure(self) -> None:
        """Raises what the work failed with, if it did; once."""
        _raise(self._take_failure())

    def _take_failure(self) -> AclnnError | None:
        failure, self._failure = self._failure, None
        return failure


def _nothing() -> None:
    """What is left to do of work that has ended."""


def bare(error: AclnnError) -> AclnnError:
    """A failure that is kept, without the frames that it came through: they refer to it, and to memory."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


def _raise(failure: AclnnError | None) -> None:
    """Raises a failure, if there is one. Callers give it no name: their frames will be part of it."""
    try:
        if failure is not None:
            raise failure
    finally:
        del failure


class Stream:
    """An ordered queue of work."""

    def __init__(
        self,
        workers: Workers,
        limits: Limits,
        unexpected: Callable[[BaseException], AclnnError],
        owner: Hashable = None,
    ) -> None:
        """Makes an empty queue.

        Args:
            workers: run what no caller runs.
            limits: how many commands, and bytes, may be queued.
            unexpected: gives the error that the client sees of a failure that nobody foresaw.
            owner: with whom its other streams share their turns.
        """
        self.owner = owner
        self._workers = workers
        self._limits = limits
        self._bytes = 0
        """Bytes that queued work has brought along."""
        self._unexpected = unexpected
        self._queue: deque[Work] = deque()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._running = False
        self._current: Work | None = None
        """The work that is being run."""
        self._parked = False
        self._destroyed = False
        self._queued = 0
        self._done = 0
        self._dropped = 0
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
            HandleNotFoundError: one of the work's buffers was freed.
        """
        with self._changed:
            self._check_room(work.size)
            hold_all(work.buffers)
            self._queued += 1
            work.number = self._queued
            work.queued_ns = time.monotonic_ns()
            for buffer in work.buffers:
                buffer.note_work(self, work.number)
            # Where others are before it, whoever runs or waits for them takes this one too.
            first = not (self._queue or self._running or self._parked)
            self._queue.append(work)
            self._bytes += work.size
        if first and inline:
            self.drain(target=work.number)
        elif first:
            self._workers.schedule(self)

    def begin_now(self) -> bool:
        """Takes the stream for work that the caller runs at once, if nothing is before it.

        Returns:
            Whether it was taken; then :meth:`end_now` has to follow.
        """
        with self._lock:
            if self._queue or self._running or self._parked or self._destroyed:
                return False
            self._running = True
            self._queued += 1
            return True

    def end_now(self, failure: AclnnError | None) -> None:
        """Ends the work that :meth:`begin_now` began; a failure is kept for whoever synchronises."""
        with self._lock:
            self._done += 1
            self._failure = self._failure or failure
            self._running = False
            self._count_dropped()
            left = bool(self._queue)
        if left:
            self._workers.schedule(self)

    def check_not_full(self) -> None:
        """Checks that the queue takes one more piece of work.

        Raises:
            LimitExceededError: 207012, not now.
        """
        limits = self._limits
        if len(self._queue) >= limits.queued_commands:
            raise LimitExceededError(
                f"the stream has {len(self._queue)} commands queued; at most {limits.queued_commands} may be",
                retry_after_ms=RETRY_MS,
            )

    def _check_room(self, size: int) -> None:
        if self._destroyed:
            raise StreamDestroyedError("the stream was destroyed")
        self.check_not_full()
        limits = self._limits
        if size and self._bytes and self._bytes + size > limits.queued_bytes:
            raise LimitExceededError(
                f"the stream has {self._bytes} bytes of writes queued, and {size} are too many more; "
                f"at most {limits.queued_bytes} may be",
                retry_after_ms=RETRY_MS,
            )

    def drain(
        self,
        *,
        target: int | None = None,
        seconds: float | None = None,
        gone: Gone | None = None,
    ) -> None:
        """Runs queued work on this thread, unless another does; leaves to the workers what remains.

        Args:
            target: number of the last work to run here; `None`: all.
            seconds: time after which no more is begun here.
            gone: tells that whoever lends the thread is gone, and no more is to be begun here.
        """
        until = None if seconds is None else time.monotonic() + seconds
        work = self._take(first=True)
        while work is not None:
            self._run(work)
            if (
                self.has_done(target)
                or (until is not None and time.monotonic() > until)
                or (gone is not None and gone())
            ):
                self._hand_over()
                return
            work = self._take(first=False)

    def has_done(self, target: int | None) -> bool:
        """Whether the work with that number is done; `None` is no work."""
        return target is not None and self._done >= target

    def _hand_over(self) -> None:
        with self._changed:
            self._running = False
            self._count_dropped()
            left = bool(self._queue)
        if left:
            self._workers.schedule(self)

    def _run(self, work: Work) -> None:
        failure = work.run(self._unexpected)
        if failure is not None and not work.waited:
            self.note_failure(failure)
        with self._changed:
            self._current = None
            self._done += 1
            self._changed.notify_all()

    def _take(self, *, first: bool) -> Work | None:
        with self._changed:
            if first and (self._running or self._parked):
                return None
            self._running = False
            if not self._queue:
                self._count_dropped()
                return None
            mark = self._queue[0].mark
            if mark is not None and not mark.call_when_passed(self._unpark):
                self._parked = True
                return None
            self._running = True
            self._current = self._queue.popleft()
            self._bytes -= self._current.size
            return self._current

    def _unpark(self) -> None:
        with self._changed:
            self._parked = False
        self._workers.schedule(self)

    def check_wanted(self) -> None:
        """Checks that the work that is being run is wanted; a device asks between two parts of it.

        Raises:
            StreamDestroyedError: the stream was destroyed meanwhile.
            CancelledError: the call that waits for the work is over.
        """
        if self._destroyed:
            raise StreamDestroyedError("the stream was destroyed while the work was run")
        work = self._current
        if work is not None and work.expired is not None and work.expired():
            raise CancelledError("the call was over before its work was done")

    def wait(
        self, number: int | None = None, timeout: float | None = None, gone: Gone | None = None
    ) -> None:
        """Waits until the work with `number` (default: the last one queued) is done, helping to run it.

        Raises:
            WaitTimeoutError: 507046, `timeout` seconds passed.
            CancelledError: `gone` tells that the caller is; the work is left to others.
            WouldWait: `gone` is :func:`~aclnn_server.sessions.waiting.cannot_wait`.
        """
        target = self._queued if number is None else number
        if gone is cannot_wait and not self.has_done(target):
            raise WouldWait
        if timeout is None and not self.has_done(target):
            self.drain(target=target, gone=gone)
        if self.has_done(target):
            return
        with self._changed:
            patience = Patience(timeout, gone)
            if not patience.wait_until(lambda: self._done >= target, self._changed):
                raise WaitTimeoutError(
                    f"the stream has {self.depth} commands left after {timeout:g} seconds"
                )

    def note_failure(self, failure: AclnnError) -> None:
        """Keeps a failure for :meth:`synchronize`; the first one counts."""
        with self._changed:
            if self._failure is None:
                self._failure = bare(failure)

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits for all work queued so far and raises its first unreported failure."""
        self.wait(timeout=timeout)
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raises the first unreported failure, if there is one, or that the stream was destroyed."""
        _raise(self._take_failure())

    def _take_failure(self) -> AclnnError | None:
        with self._changed:
            failure, self._failure = self._failure, None
            if failure is None and self._destroyed:
                failure = StreamDestroyedError("the stream was destroyed")
        return failure

    def stop(self) -> bool:
        """Drops queued work and takes no more; returns whether nothing runs any more."""
        with self._changed:
            self._destroyed = True
            dropped = list(self._queue)
            self._queue.clear()
            self._bytes = 0
        for work in dropped:
            error = StreamDestroyedError("the stream was destroyed before the work was run")
            work.end(error, self._unexpected)
        with self._changed:
            self._dropped += len(dropped)
            self._count_dropped()
            return not self._running

    def _count_dropped(self) -> None:
        # Numbers are counted in order: dropped work is done when what ran before it is.
        if not self._running:
            self._done += self._dropped
            self._dropped = 0
        self._changed.notify_all()

    def destroy(self) -> None:
        """Drops queued work and waits for running work; once it returns, nothing runs any more."""
        self.stop()
        with self._changed:
            self._changed.wait_for(lambda: not self._running)


class Workers:
    """Threads that run the work of streams that no caller runs; owners of streams take turns."""

    SLICE_SECONDS = 0.02
    """How long a stream is run before another one that has work gets its turn."""

    def __init__(self, count: int) -> None:
        self._ready: Turns[Stream] = Turns()
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
            self._ready.add(stream.owner, stream)
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._stopped)
                stream = self._ready.take()
                if self._stopped or stream is None:
                    return
            stream.drain(seconds=self.SLICE_SECONDS)

    def stop(self) -> None:
        """Ends the threads, after the work that they are running."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
