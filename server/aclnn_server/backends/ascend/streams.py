"""Streams of a device: what is queued in them, what is done, and waiting for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from aclnn.errors import AclnnError, InternalError, NotReadyError, WaitTimeoutError
from aclnn_server.backends.ascend import handles
from aclnn_server.backends.ascend.acl import Acl
from aclnn_server.backends.ascend.memory import Deferred, Queue, Region
from aclnn_server.backends.ascend.thread import DeviceThread
from aclnn_server.backends.base import Moment

MOST_QUEUED = 1024
"""Commands that a stream may have on the device; whoever queues another one waits."""
MOST_DEFERRED_BYTES = 2**28
"""Bytes that may wait for work to be done before they are given back."""
STOP_SECONDS = 30.0
"""Longest wait for a stream's work when the stream is ended."""

_LOG = logging.getLogger(__name__)

Act = Callable[[int | None], object]
"""Queues something in the stream whose handle it is given."""


class AscendStream(Queue):
    """A stream of the device, and what is not done in it."""

    __slots__ = ("failure", "handle", "lock")

    def __init__(self, handle: handles.Stream) -> None:
        super().__init__()
        self.handle = handle
        self.failure: AclnnError | None = None
        """What failed in it and was not reported yet."""
        self.lock = threading.Lock()
        """Held while something is queued or waited for, so that no wait is for work that came later."""

    def note(self, failure: AclnnError) -> None:
        """Keeps a failure; the first one counts."""
        if self.failure is None:
            self.failure = failure


class Streams:
    """The streams of one device. Methods may be called from any thread, those with ``_`` on its own."""

    def __init__(self, acl: Acl, thread: DeviceThread, deferred: Deferred) -> None:
        self._acl = acl
        self._thread = thread
        self._deferred = deferred
        self._live: set[AscendStream] = set()
        self._events: set[handles.Event] = set()

    # --- life -------------------------------------------------------------------------------------

    def create(self) -> AscendStream:
        """Makes a stream; errors as aclrtCreateStream."""
        return self._thread.call(self._create)

    def _create(self) -> AscendStream:
        stream = AscendStream(handles.Stream(self._acl))
        self._live.add(stream)
        return stream

    def end(self, stream: AscendStream) -> None:
        """Ends a stream after its work, or without, where that takes too long."""
        self._stop(stream)
        self._thread.call(self._end, stream)

    def _stop(self, stream: AscendStream) -> None:
        try:
            self.wait(stream, STOP_SECONDS)
        except WaitTimeoutError:
            _LOG.error("a stream's work was not done after %g seconds: abandoned", STOP_SECONDS)
            self._thread.call(stream.handle.abandon)

    def _end(self, stream: AscendStream) -> None:
        stream.handle.close()
        stream.done = stream.queued
        self._live.discard(stream)
        self._deferred.settle()

    def close(self) -> None:
        """Ends what is left, events before streams."""
        for stream in list(self._live):
            self._stop(stream)
        self._thread.call(self._close)

    def _close(self) -> None:
        for event in self._events:
            event.close()
        self._events.clear()
        for stream in list(self._live):
            self._end(stream)

    # --- queueing ---------------------------------------------------------------------------------

    def queue(
        self,
        stream: AscendStream,
        act: Act,
        *used: Region,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Lets the device's thread queue something in a stream; what fails comes out of the stream.

        Args:
            stream: which.
            act: queues it.
            used: memory that it uses.
            then: what to do when it is done.
        """
        with stream.lock:
            crowded = stream.given - stream.done >= MOST_QUEUED
            if crowded or self._deferred.bytes > MOST_DEFERRED_BYTES:
                self._finish(stream, None)
            stream.given += 1
            for region in used:
                region.allocation.use(stream)
            self._thread.post(self._queue, stream, act, then)

    def _queue(self, stream: AscendStream, act: Act, then: Callable[[], None] | None) -> None:
        try:
            act(stream.handle.value)
        except AclnnError as error:
            stream.note(error)
        except Exception:
            _LOG.exception("unexpected failure in a stream")
            stream.note(InternalError("unexpected failure; the server's log tells more"))
        stream.queued += 1  # also on failure: a part of it may have been queued
        if then is not None:
            self._deferred.add(((stream, stream.queued),), then)

    # --- waiting ----------------------------------------------------------------------------------

    def wait(self, stream: Queue, timeout: float | None = None) -> None:
        """Waits for the work that is queued now; what failed in it is kept in the stream.

        Raises:
            WaitTimeoutError: 507046, `timeout` seconds passed.
        """
        assert isinstance(stream, AscendStream)
        if stream.done == stream.given:
            return
        if not stream.lock.acquire(timeout=-1 if timeout is None else timeout):
            raise _too_long(timeout)
        try:
            self._finish(stream, timeout)
        finally:
            stream.lock.release()

    def _finish(self, stream: AscendStream, timeout: float | None) -> None:
        if stream.done == stream.given:
            return
        if not self._thread.wait(self._try_finish, stream, timeout=timeout):
            raise _too_long(timeout)

    def _try_finish(self, stream: AscendStream) -> bool:
        """Whether all is done; if so, takes note of what failed and of what is free now."""
        failure = None
        try:
            if not stream.handle.is_complete():
                return False
        except AclnnError as error:
            failure = error
        try:
            self._acl.aclrtSynchronizeStream(
                stream.handle.value
            )  # at once: it is where errors come out
        except AclnnError as error:
            failure = error
        if failure is not None:
            stream.note(failure)
        stream.done = stream.queued
        self._deferred.settle()
        return True

    def is_idle(self, stream: AscendStream) -> bool:
        """Whether all work is done."""
        return stream.done == stream.given or self._thread.call(self._try_finish, stream)

    def when_unused(self, act: Callable[[], object], *used: Region) -> None:
        """Acts on memory, on the device's thread, as soon as no queued work uses it.

        Raises:
            AclnnError: what `act` failed with.
        """
        while pending := self._thread.call(self._if_unused, act, used):
            for queue in pending:
                self.wait(queue)

    @staticmethod
    def _if_unused(act: Callable[[], object], used: tuple[Region, ...]) -> list[Queue]:
        pending = [queue for region in used for queue in region.allocation.pending()]
        if not pending:
            act()
        return pending

    # --- events -----------------------------------------------------------------------------------

    def record(self, stream: AscendStream) -> AscendMoment:
        """Marks the point after all that was given."""
        moment = AscendMoment(self, self._acl, self._thread)
        self.queue(stream, moment.record)
        moment.uses[stream] = stream.given
        return moment

    def keep_event(self, event: handles.Event) -> None:
        """Notes an event, so that it ends with the device if not before; on the device's thread."""
        self._events.add(event)

    def release_event(self, event: handles.Event, uses: dict[Queue, int]) -> None:
        """Destroys an event once the work that needs it is done; on the device's thread."""
        if event in self._events:
            self._deferred.add(uses.items(), partial(self._end_event, event))

    def _end_event(self, event: handles.Event) -> None:
        self._events.discard(event)
        event.close()


class AscendMoment(Moment):
    """An event that is recorded once. It is destroyed when nobody has it any more."""

    def __init__(self, streams: Streams, acl: Acl, thread: DeviceThread) -> None:
        self._streams = streams
        self._acl = acl
        self._thread = thread
        self._event: handles.Event | None = None
        self._passed = False
        self.uses: dict[Queue, int] = {}
        """Work that needs the event: its recording, and waits for it."""

    def record(self, stream: int | None) -> None:
        """Records it in CANN's stream; on the device's thread."""
        event = handles.Event(self._acl)
        try:
            self._acl.aclrtRecordEvent(event.value, stream)
        except BaseException:
            event.close()
            raise
        self._streams.keep_event(event)
        self._event = event

    @property
    def passed(self) -> bool:
        """Whether the device has reached it; so it has where it could not be recorded."""
        return self._passed or self._thread.call(self._ask)

    def wait(self, timeout: float | None) -> bool:
        """Waits until the device reaches it."""
        return self._passed or self._thread.wait(self._ask, timeout=timeout)

    def _ask(self) -> bool:
        self._passed = self._event is None or self._event.is_complete()
        return self._passed

    def hold(self, stream: AscendStream) -> None:
        """Lets the stream wait for it on the device."""
        if not self.passed:
            self._streams.queue(stream, self._hold)
            self.uses[stream] = stream.given

    def _hold(self, stream: int | None) -> None:
        assert self._event is not None
        self._acl.aclrtStreamWaitEvent(stream, self._event.value)

    def nanoseconds_since(self, earlier: AscendMoment) -> int:
        """Time on the device's clock.

        Raises:
            NotReadyError: one of the two could not be recorded.
        """
        if self._event is None or earlier._event is None:
            raise NotReadyError("an event could not be recorded")
        return self._thread.call(self._event.nanoseconds_since, earlier._event)

    def __del__(self) -> None:
        if self._event is not None:
            self._thread.post(self._streams.release_event, self._event, self.uses)


def _too_long(timeout: float | None) -> WaitTimeoutError:
    return WaitTimeoutError(
        f"the stream's work was not done on the device after {timeout:g} seconds"
    )
