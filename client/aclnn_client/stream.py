"""Streams, the ordered queues of work in a context, and events, the marks in them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from google.protobuf.duration_pb2 import Duration

from aclnn.errors import InvalidParameterError
from aclnn.labels import label_of
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client.pending import CONTEXT, Pending, run

if TYPE_CHECKING:
    from aclnn_client.buffer import AnyBuffer
    from aclnn_client.context import AnyContext


@dataclass(frozen=True, slots=True)
class Timing:
    """Where the time of one run went, on the server; in seconds."""

    queue: float
    """From being queued to being started."""
    copy_in: float
    """Taking in arrays that came with the call."""
    run: float
    """Computing; on an NPU, where nobody waited for the answer, handing the work over."""
    copy_out: float
    """Taking out arrays that go back with the answer."""

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.queue + self.copy_in + self.run + self.copy_out


def duration(seconds: float, parameter: str = "timeout") -> Duration:
    """Encodes seconds.

    Raises:
        InvalidParameterError: 161002, they are negative or no finite number.
    """
    if not 0 <= seconds < 1e9:
        raise InvalidParameterError(
            f"{parameter} is {seconds!r}; it must be None or seconds of at least 0",
            parameter=parameter,
        )
    encoded = Duration()
    encoded.FromNanoseconds(round(seconds * 1e9))
    return encoded


def synchronizing(stream_id: str, timeout: float | None) -> Pending:
    """The command that waits for the work of a stream; of all, where the id is empty."""
    if timeout is None:
        return Pending("synchronize_stream", (_waiting_for(stream_id),))
    request = pb.SynchronizeStreamRequest(stream_id=stream_id, timeout=duration(timeout))
    return Pending("synchronize_stream", request, patience=timeout)


@functools.lru_cache(256)
def _waiting_for(stream_id: str) -> bytes:
    return pb.SynchronizeStreamRequest(stream_id=stream_id).SerializeToString()


class AnyStream:
    """What the blocking and the asyncio :class:`Stream` share."""

    def __init__(
        self, context: AnyContext[Any, Any, Any, Any], stream_id: str, *, default: bool = False
    ) -> None:
        """Wraps a stream that the server made; see ``context.create_stream``."""
        self._default = default
        self._destroyed = False
        self.context = context
        """Context that it belongs to."""
        self.stream_id = stream_id
        """Names it in every call; keep it secret."""
        self.dirty = False
        """Whether work was queued since it was last waited for."""
        self.report_timing = False
        """Whether to ask where the time of each run goes; set it before the calls that are to be timed."""
        self.last_timing: Timing | None = None
        """Where the time of the last run went, as far as it is known: with :attr:`report_timing` set, after
        a wait for the stream, or a call in one line."""

    @property
    def label(self) -> str:
        """Tells it from others where the server tells what it does: its log, ``aclnn-serve top``."""
        return label_of(self.stream_id)

    def wait(self, event: AnyEvent) -> None:
        """Holds up work that is queued from now on until the event's latest mark has been passed.

        An event without a mark holds nothing up. Never waits itself.
        """
        self._check_own(event)
        request = pb.WaitEventRequest(event_id=event.event_id, stream_id=self.stream_id)
        self.context.commands.post("wait_event", request, place=self.stream_id)
        self.dirty = True

    def _check_own(self, event: AnyEvent) -> None:
        if event.context is not self.context:
            raise InvalidParameterError("event belongs to another context", parameter="event")

    def note_work(self, *buffers: AnyBuffer) -> None:
        """Notes work that was queued, and the buffers that it uses."""
        for buffer in buffers:
            buffer.stream = self
        self.dirty = True

    def synchronizing(self, timeout: float | None = None) -> Pending:
        """The command that waits for the work queued so far."""
        self.dirty = False
        return self.context.commands.watched(synchronizing(self.stream_id, timeout))

    async def _synchronize(self, timeout: float | None) -> None:
        pending = self.synchronizing(timeout)
        places = (self.stream_id, CONTEXT)
        if self.report_timing:
            await self._synchronize_timed(pending, places)
            return
        try:
            await self.context.commands.ask(pending, *places, keep_at=self.stream_id)
        except BaseException:
            self.dirty = True
            raise

    async def ask_timing(self) -> None:
        """Asks where the time of the last run went."""
        await self._query()

    async def _query(self) -> bool:
        request = pb.QueryStreamRequest(stream_id=self.stream_id)
        answer = await self.context.commands.ask(Pending("query_stream", request))
        self.note_timing(answer)
        return bool(answer.complete)

    async def _synchronize_timed(self, pending: Pending, places: tuple[str, str]) -> None:
        """Waits, and asks in the same request where the time of the last run went."""
        asking = Pending("query_stream", pb.QueryStreamRequest(stream_id=self.stream_id))
        commands = self.context.commands
        commands.submit(pending, asking)
        try:
            await commands.answer(pending, *places, keep_at=self.stream_id)
        except BaseException:
            self.dirty = True
            raise
        self.note_timing(await commands.answer(asking))

    def note_timing(self, answer: Any) -> None:  # noqa: ANN401 - of Execute or QueryStream
        """Takes the timing out of an answer that has one."""
        if answer.HasField("timing"):
            told = answer.timing
            parts = (told.queue_ns, told.copy_in_ns, told.run_ns, told.copy_out_ns)
            self.last_timing = Timing(*(nanoseconds / 1e9 for nanoseconds in parts))

    async def _destroy(self) -> None:
        if self._destroyed:
            return
        request = pb.DestroyStreamRequest(stream_id=self.stream_id)
        await self.context.commands.ask(Pending("destroy_stream", request))
        self._destroyed = True
        self.dirty = False

    async def _close(self) -> None:
        if not self._destroyed:
            await self._synchronize(None)
        if not self._default:
            await self._destroy()

    def _abandon(self) -> None:
        if not (self._default or self._destroyed):
            self._destroyed = True
            self.context.commands.abandon("destroy_stream", self.stream_id)

    def __repr__(self) -> str:
        state = " default" if self._default else " destroyed" if self._destroyed else ""
        return f"<{type(self).__name__}{state} of {self.context!r}>"

    def __del__(self) -> None:
        self._abandon()


class Stream(AnyStream):
    """An ordered queue of work; work of several streams runs in parallel."""

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits until the work queued so far is done.

        Args:
            timeout: seconds; ``None`` waits without limit.

        Raises:
            WaitTimeoutError: 507046, it takes longer; the work goes on.
            AclnnError: the first failure, since the last time, of that work or of a command that
                nobody waited for.
        """
        run(self._synchronize(timeout))

    def query(self) -> bool:
        """Whether the work queued so far is done, without waiting for it."""
        return run(self._query())

    def destroy(self) -> None:
        """Destroys it at once: running work is broken off where the device can, queued work is dropped.

        :meth:`close` waits for it instead.

        Raises:
            NotReadyError: 107006, it is the context's default stream, which lives as long.
        """
        run(self._destroy())

    def close(self) -> None:
        """Waits for the work, as :meth:`synchronize` does, and destroys it."""
        run(self._close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self._abandon()


class AnyEvent:
    """What the blocking and the asyncio :class:`Event` share."""

    def __init__(self, context: AnyContext[Any, Any, Any, Any]) -> None:
        """Creates it on the server; see ``context.create_event``."""
        self._ended = True
        self.context = context
        """Context that it belongs to."""
        self.event_id = context.commands.next_id()
        """Its id, unique in its context."""
        request = pb.CreateEventRequest(event_id=self.event_id)
        context.commands.post("create_event", request, hold=True)
        self._ended = False

    def record(self, stream: AnyStream | None = None) -> None:
        """Puts a mark into a stream (default: the context's default stream). Never waits.

        The mark is passed when the work queued before it is done. It replaces an older one.
        """
        stream = stream or self.context.default_stream
        stream._check_own(self)
        request = pb.RecordEventRequest(event_id=self.event_id, stream_id=stream.stream_id)
        self.context.commands.post("record_event", request, place=stream.stream_id)

    def destroy(self) -> None:
        """Ends it; without effect where that is done."""
        if not self._ended:
            self._ended = True
            self.context.commands.end("destroy_event", self.event_id)

    async def _synchronize(self, timeout: float | None) -> None:
        request = pb.SynchronizeEventRequest(event_id=self.event_id)
        if timeout is not None:
            request.timeout.CopyFrom(duration(timeout))
        pending = Pending("synchronize_event", request, patience=timeout or 0.0)
        await self.context.commands.ask(pending)

    async def _query(self) -> bool:
        request = pb.QueryEventRequest(event_id=self.event_id)
        answer = await self.context.commands.ask(Pending("query_event", request))
        return bool(answer.complete)

    async def _elapsed_time(self, end: AnyEvent) -> float:
        if end.context is not self.context:
            raise InvalidParameterError("end belongs to another context", parameter="end")
        request = pb.GetEventElapsedTimeRequest(
            start_event_id=self.event_id, end_event_id=end.event_id
        )
        pending = Pending("get_event_elapsed_time", request)
        answer = await self.context.commands.ask(pending)
        return int(answer.elapsed_ns) / 1e6

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.event_id}>"

    def __del__(self) -> None:
        if not self._ended:
            self.context.commands.abandon("destroy_event", self.event_id)


class Event(AnyEvent):
    """A mark in a stream, to wait for or to time; ended when nothing refers to it any more."""

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits until the latest mark has been passed.

        Args:
            timeout: seconds; ``None`` waits without limit.

        Raises:
            WaitTimeoutError: 507047, it takes longer.
        """
        run(self._synchronize(timeout))

    def query(self) -> bool:
        """Whether the latest mark has been passed; true where there is none."""
        return run(self._query())

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event's mark to that of `end`; negative where `end` was first.

        Raises:
            NotReadyError: 107006, a mark is missing or not passed yet.
        """
        return run(self._elapsed_time(end))
