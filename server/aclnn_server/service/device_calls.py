"""Calls of DeviceService that belong to a context: streams, memory, events."""

from __future__ import annotations

from collections.abc import Callable

from aclnn.errors import InvalidParameterError, NotReadyError, UnsupportedError, WaitTimeoutError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.backends.base import Memory
from aclnn_server.service.calls import Call, duration, encode_usage, seconds
from aclnn_server.sessions.context import Event, Session
from aclnn_server.sessions.execution import INLINE_BYTES
from aclnn_server.sessions.memory import Buffer
from aclnn_server.sessions.streams import Mark, Work


class DeviceCalls:
    """Streams, memory and events of a context."""

    # --- streams ----------------------------------------------------------------------------------

    def create_stream(self, call: Call, request: pb.CreateStreamRequest) -> pb.CreateStreamResponse:
        """A new stream in the request's context."""
        session = call.registry.create_stream(call.context(request))
        return pb.CreateStreamResponse(stream_id=session.id, context_id=session.context.id)

    def synchronize_stream(
        self, call: Call, request: pb.SynchronizeStreamRequest
    ) -> pb.SynchronizeStreamResponse:
        """Waits for one stream, or for all of a context."""
        timeout = seconds(request.timeout, "timeout") if request.HasField("timeout") else None
        if request.stream_id:
            sessions = [call.session(request)]
        else:
            sessions = list(call.context(request).sessions.values())
        for session in sessions:
            session.stream.synchronize(timeout)
            session.context.device.synchronize(session.device_stream)
        return pb.SynchronizeStreamResponse()

    def query_stream(self, call: Call, request: pb.QueryStreamRequest) -> pb.QueryStreamResponse:
        """Whether all work of a stream is done."""
        return pb.QueryStreamResponse(complete=call.session(request).stream.depth == 0)

    def destroy_stream(
        self, call: Call, request: pb.DestroyStreamRequest
    ) -> pb.DestroyStreamResponse:
        """Ends a stream."""
        call.registry.destroy_stream(call.session(request))
        return pb.DestroyStreamResponse()

    def renew_context(self, call: Call, request: pb.RenewContextRequest) -> pb.RenewContextResponse:
        """Renews the lease and tells what the context holds."""
        context = call.context(request)
        context.renew()
        return pb.RenewContextResponse(
            lease=duration(context.lease), usage=encode_usage(context.usage)
        )

    # --- memory -----------------------------------------------------------------------------------

    def malloc(self, call: Call, request: pb.MallocRequest) -> pb.MallocResponse:
        """A new buffer."""
        if request.segment_id:
            raise UnsupportedError("this server offers no shared memory", parameter="segment_id")
        buffer = call.context(request).add_buffer(request.buffer_id, request.bytes)
        return pb.MallocResponse(buffer_id=buffer.id)

    def free(self, call: Call, request: pb.FreeRequest) -> pb.FreeResponse:
        """Frees a buffer."""
        call.context(request).buffers.take(request.buffer_id).free()
        return pb.FreeResponse()

    def memset(self, call: Call, request: pb.MemsetRequest) -> pb.MemsetResponse:
        """Fills bytes."""
        if request.value > 255:
            raise InvalidParameterError(
                f"value is {request.value}; a byte is 0 to 255", parameter="value"
            )
        context = call.context(request)
        buffer = context.buffers.find(request.buffer_id)
        buffer.check_range(request.offset, request.bytes, "bytes")

        def fill(memory: Memory) -> None:
            region = context.device.slice(memory, request.offset, request.bytes)
            context.device.fill(region, request.value)

        _in_order(call.session_or_none(request), buffer, fill, request.bytes)
        return pb.MemsetResponse()

    def memcpy(self, call: Call, request: pb.MemcpyRequest) -> pb.MemcpyResponse:
        """Copies bytes between buffers."""
        context, size = call.context(request), request.bytes
        target = context.buffers.find(request.destination_buffer_id, "destination_buffer_id")
        source = context.buffers.find(request.source_buffer_id, "source_buffer_id")
        target.check_range(request.destination_offset, size, "destination_offset")
        source.check_range(request.source_offset, size, "source_offset")
        device = context.device

        def copy() -> None:
            device.copy(
                device.slice(target.memory, request.destination_offset, size),
                device.slice(source.memory, request.source_offset, size),
            )

        session = call.session_or_none(request)
        if session is None:
            with source.held(), target.held():
                copy()
        else:
            session.stream.enqueue(Work(copy, (source, target)), inline=size <= INLINE_BYTES)
        return pb.MemcpyResponse()

    def write_buffer(self, call: Call, request: pb.WriteBufferRequest) -> pb.WriteBufferResponse:
        """Writes one message's bytes."""
        data = memoryview(request.data)
        if request.total_bytes not in (0, len(data)):
            raise InvalidParameterError(
                f"data has {len(data)} bytes; total_bytes declares {request.total_bytes}",
                parameter="data",
            )
        context = call.context(request)
        buffer = context.buffers.find(request.buffer_id)
        buffer.check_range(request.offset, len(data), "data")

        def write(memory: Memory) -> None:
            context.device.write(context.device.slice(memory, request.offset, len(data)), data)

        _in_order(call.session_or_none(request), buffer, write, len(data))
        return pb.WriteBufferResponse()

    def read_buffer(self, call: Call, request: pb.ReadBufferRequest) -> pb.ReadBufferResponse:
        """Reads bytes into one message."""
        context = call.context(request)
        limit = context.limits.message_bytes - 1024
        if request.bytes > limit:
            raise InvalidParameterError(
                f"bytes is {request.bytes}; one message carries at most {limit}", parameter="bytes"
            )
        buffer = context.buffers.find(request.buffer_id)
        buffer.check_range(request.offset, request.bytes, "bytes")
        session = call.session_or_none(request)
        if session is not None:
            session.stream.wait()
        with buffer.held() as memory:
            region = context.device.slice(memory, request.offset, request.bytes)
            return pb.ReadBufferResponse(data=bytes(context.device.read(region)))

    def attach_shared_memory(
        self, call: Call, request: pb.AttachSharedMemoryRequest
    ) -> pb.AttachSharedMemoryResponse:
        """Refused: not offered yet."""
        call.context(request)
        raise UnsupportedError("this server offers no shared memory")

    def detach_shared_memory(
        self, call: Call, request: pb.DetachSharedMemoryRequest
    ) -> pb.DetachSharedMemoryResponse:
        """Refused: not offered yet."""
        call.context(request)
        raise UnsupportedError("this server offers no shared memory")

    # --- events -----------------------------------------------------------------------------------

    def create_event(self, call: Call, request: pb.CreateEventRequest) -> pb.CreateEventResponse:
        """A new event."""
        event = call.context(request).events.add(request.event_id, Event)
        return pb.CreateEventResponse(event_id=event.id)

    def destroy_event(self, call: Call, request: pb.DestroyEventRequest) -> pb.DestroyEventResponse:
        """Ends an event."""
        call.context(request).events.take(request.event_id)
        return pb.DestroyEventResponse()

    def record_event(self, call: Call, request: pb.RecordEventRequest) -> pb.RecordEventResponse:
        """Queues a mark."""
        event = call.context(request).events.find(request.event_id)
        session = call.session(request)
        mark = Mark()
        work = Work(
            lambda: session.context.device.synchronize(session.device_stream),
            on_end=mark.set_passed,
        )
        session.stream.enqueue(work, inline=True)
        event.mark = mark
        return pb.RecordEventResponse()

    def wait_event(self, call: Call, request: pb.WaitEventRequest) -> pb.WaitEventResponse:
        """Queues a wait for a mark."""
        event = call.context(request).events.find(request.event_id)
        session = call.session(request)
        if event.mark is not None and not event.mark.passed:
            session.stream.enqueue(Work(_nothing, mark=event.mark), inline=True)
        return pb.WaitEventResponse()

    def synchronize_event(
        self, call: Call, request: pb.SynchronizeEventRequest
    ) -> pb.SynchronizeEventResponse:
        """Waits for a mark."""
        timeout = seconds(request.timeout, "timeout") if request.HasField("timeout") else None
        event = call.context(request).events.find(request.event_id)
        if event.mark is not None and not event.mark.wait(timeout):
            raise WaitTimeoutError(
                f"event {event.id} was not reached within {timeout:g} seconds", code=507047
            )
        return pb.SynchronizeEventResponse()

    def query_event(self, call: Call, request: pb.QueryEventRequest) -> pb.QueryEventResponse:
        """Whether a mark has been passed."""
        mark = call.context(request).events.find(request.event_id).mark
        return pb.QueryEventResponse(complete=mark is None or mark.passed)

    def get_event_elapsed_time(
        self, call: Call, request: pb.GetEventElapsedTimeRequest
    ) -> pb.GetEventElapsedTimeResponse:
        """The time between two marks."""
        events = call.context(request).events
        start = _passed_ns(events.find(request.start_event_id, "start_event_id"), "start_event_id")
        end = _passed_ns(events.find(request.end_event_id, "end_event_id"), "end_event_id")
        return pb.GetEventElapsedTimeResponse(elapsed_ns=end - start)


def _in_order(
    session: Session | None, buffer: Buffer, act: Callable[[Memory], None], size: int
) -> None:
    """Acts on a buffer in the stream's order, or at once, after queued work that uses it."""
    if session is None:
        with buffer.held() as memory:
            act(memory)
    else:
        work = Work(lambda: act(buffer.memory), (buffer,))
        session.stream.enqueue(work, inline=size <= INLINE_BYTES)


def _passed_ns(event: Event, parameter: str) -> int:
    if event.mark is None or not event.mark.passed:
        state = "was never recorded" if event.mark is None else "has not been reached yet"
        raise NotReadyError(f"event {event.id} {state}", parameter=parameter)
    return event.mark.passed_ns


def _nothing() -> None:
    """The work of a wait: the mark holds it up."""
