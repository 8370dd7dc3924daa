"""Calls of DeviceService that belong to a context: streams, memory, events."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aclnn.errors import InvalidParameterError, NotReadyError, WaitTimeoutError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.wire import BulkRead, BulkWrite
from aclnn_server.backends.base import DeviceStream, Memory
from aclnn_server.service.calls import Call, duration, encode_timing, encode_usage, seconds
from aclnn_server.sessions.context import Event, Session, synchronize
from aclnn_server.sessions.execution import INLINE_BYTES
from aclnn_server.sessions.marks import Mark
from aclnn_server.sessions.memory import Buffer
from aclnn_server.sessions.streams import Work


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
            context = sessions[0].context
        else:
            context = call.context(request)
            sessions = list(context.sessions.values())
        synchronize(sessions, timeout, call.expired)
        returned = context.segments.take_returned()
        return pb.SynchronizeStreamResponse(returned_buffer_ids=returned)

    def query_stream(self, call: Call, request: pb.QueryStreamRequest) -> pb.QueryStreamResponse:
        """Whether all work of a stream is done."""
        session = call.session(request)
        response = pb.QueryStreamResponse(complete=session.idle)
        if session.last_timing is not None:
            response.timing.CopyFrom(encode_timing(session.last_timing))
        return response

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
        buffer = call.context(request).add_buffer(
            request.buffer_id,
            request.bytes,
            request.segment_id,
            request.segment_offset,
            zeroed=not request.uninitialized,
        )
        return pb.MallocResponse(buffer_id=buffer.id)

    def free(self, call: Call, request: pb.FreeRequest) -> pb.FreeResponse:
        """Frees a buffer."""
        context = call.context(request)
        context.buffers.take(request.buffer_id).free()
        return pb.FreeResponse(returned_buffer_ids=context.segments.take_returned())

    def memset(self, call: Call, request: pb.MemsetRequest) -> pb.MemsetResponse:
        """Fills bytes."""
        if request.value > 255:
            raise InvalidParameterError(
                f"value is {request.value}; a byte is 0 to 255", parameter="value"
            )
        context = call.context(request)
        buffer = context.buffers.find(request.buffer_id)
        buffer.check_range(request.offset, request.bytes, "bytes")

        def fill(memory: Memory, stream: DeviceStream) -> None:
            region = context.device.slice(memory, request.offset, request.bytes)
            context.device.fill(region, request.value, stream)

        _in_order(call, call.session_or_none(request), buffer, fill, request.bytes)
        return pb.MemsetResponse()

    def memcpy(self, call: Call, request: pb.MemcpyRequest) -> pb.MemcpyResponse:
        """Copies bytes between buffers."""
        context, size = call.context(request), request.bytes
        target = context.buffers.find(request.destination_buffer_id, "destination_buffer_id")
        source = context.buffers.find(request.source_buffer_id, "source_buffer_id")
        target.check_range(request.destination_offset, size, "destination_offset")
        source.check_range(request.source_offset, size, "source_offset")
        device = context.device

        session = call.session_or_none(request)

        def copy() -> None:
            device.copy(
                device.slice(target.memory, request.destination_offset, size),
                device.slice(source.memory, request.source_offset, size),
                None if session is None else session.device_stream,
            )

        if session is None:
            with source.held(call.expired), target.held(call.expired):
                copy()
        else:
            session.stream.enqueue(Work(copy, (source, target)), inline=size <= INLINE_BYTES)
        return pb.MemcpyResponse()

    def write_buffer(
        self, call: Call, request: pb.WriteBufferRequest | BulkWrite
    ) -> pb.WriteBufferResponse:
        """Writes one message's bytes."""
        if isinstance(request, pb.WriteBufferRequest):
            request = BulkWrite(request, request.data)
        header, data = request.header, memoryview(request.data)
        if header.total_bytes not in (0, len(data)):
            raise InvalidParameterError(
                f"data has {len(data)} bytes; total_bytes declares {header.total_bytes}",
                parameter="data",
            )
        context = call.context(header)
        buffer = context.buffers.find(header.buffer_id)
        buffer.check_range(header.offset, len(data), "data")

        def write(memory: Memory, stream: DeviceStream) -> None:
            region = context.device.slice(memory, header.offset, len(data))
            context.device.write(region, data, stream)

        _in_order(call, call.session_or_none(header), buffer, write, len(data), kept=len(data))
        return pb.WriteBufferResponse()

    def read_buffer(self, call: Call, request: pb.ReadBufferRequest) -> BulkRead:
        """Reads bytes into one message; they are a view, to be encoded before anything else is done."""
        context = call.context(request)
        limit = context.limits.bulk_bytes
        if request.bytes > limit:
            raise InvalidParameterError(
                f"bytes is {request.bytes}; one message carries at most {limit}", parameter="bytes"
            )
        buffer = context.buffers.find(request.buffer_id)
        buffer.check_range(request.offset, request.bytes, "bytes")
        session = call.session_or_none(request)
        if session is not None:
            session.stream.wait(gone=call.expired)
        with buffer.held(call.expired) as memory:
            region = context.device.slice(memory, request.offset, request.bytes)
            return BulkRead(context.device.read(region))

    def attach_shared_memory(
        self, call: Call, request: pb.AttachSharedMemoryRequest
    ) -> pb.AttachSharedMemoryResponse:
        """A new segment of shared memory."""
        segment = call.context(request).segments.attach(request.bytes)
        return pb.AttachSharedMemoryResponse(
            segment_id=segment.id, path=segment.path, bytes=segment.size, secret=segment.secret
        )

    def detach_shared_memory(
        self, call: Call, request: pb.DetachSharedMemoryRequest
    ) -> pb.DetachSharedMemoryResponse:
        """Ends a segment."""
        call.context(request).segments.detach(request.segment_id)
        return pb.DetachSharedMemoryResponse()

    def attach_data_connection(
        self, call: Call, request: pb.AttachDataConnectionRequest
    ) -> pb.AttachDataConnectionResponse:
        """Where to make a data connection."""
        port, secret = call.context(request).data.offer()
        return pb.AttachDataConnectionResponse(port=port, secret=secret)

    def detach_data_connection(
        self, call: Call, request: pb.DetachDataConnectionRequest
    ) -> pb.DetachDataConnectionResponse:
        """Ends the data connection."""
        call.context(request).data.detach()
        return pb.DetachDataConnectionResponse()

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

        def record() -> None:
            mark.moment = session.context.device.record(session.device_stream)

        session.stream.enqueue(Work(record, on_end=mark.set_passed), inline=True)
        event.mark = mark
        return pb.RecordEventResponse()

    def wait_event(self, call: Call, request: pb.WaitEventRequest) -> pb.WaitEventResponse:
        """Queues a wait for a mark."""
        event = call.context(request).events.find(request.event_id)
        session, mark = call.session(request), event.mark
        if mark is not None and not mark.passed:
            work = Work(partial(_hold, session, mark), mark=mark)
            session.stream.enqueue(work, inline=True)
        return pb.WaitEventResponse()

    def synchronize_event(
        self, call: Call, request: pb.SynchronizeEventRequest
    ) -> pb.SynchronizeEventResponse:
        """Waits for a mark."""
        timeout = seconds(request.timeout, "timeout") if request.HasField("timeout") else None
        mark = call.context(request).events.find(request.event_id).mark
        if mark is not None and not mark.wait(timeout, call.expired):
            raise WaitTimeoutError(
                f"event {request.event_id} was not reached within {timeout:g} seconds", code=507047
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
        start = _passed(events.find(request.start_event_id, "start_event_id"), "start_event_id")
        end = _passed(events.find(request.end_event_id, "end_event_id"), "end_event_id")
        return pb.GetEventElapsedTimeResponse(elapsed_ns=end.nanoseconds_since(start))


def _in_order(
    call: Call,
    session: Session | None,
    buffer: Buffer,
    act: Callable[[Memory, DeviceStream], None],
    size: int,
    kept: int = 0,
) -> None:
    """Acts on a buffer in the stream's order, or at once, after queued work that uses it.

    Args:
        call: whose turn it is.
        session: of the stream; ``None``: at once.
        buffer: the buffer.
        act: acts on its memory.
        size: bytes that it acts on.
        kept: bytes that it keeps until then.
    """
    if session is None:
        with buffer.held(call.expired) as memory:
            act(memory, None)
    else:
        work = Work(lambda: act(buffer.memory, session.device_stream), (buffer,), size=kept)
        session.stream.enqueue(work, inline=size <= INLINE_BYTES)


def _passed(event: Event, parameter: str) -> Mark:
    mark = event.mark
    if mark is None or not mark.passed:
        state = "was never recorded" if mark is None else "has not been reached yet"
        raise NotReadyError(f"event {event.id} {state}", parameter=parameter)
    return mark


def _hold(session: Session, mark: Mark) -> None:
    """The work of a wait: the mark holds it up in the stream, and here in the device's."""
    if mark.moment is not None:
        mark.moment.hold(session.device_stream)
