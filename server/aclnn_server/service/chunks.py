"""Writes and reads that travel in chunks: WriteBuffer and ReadBuffer outside Submit."""

from __future__ import annotations

from collections.abc import Iterator

from aclnn.errors import InvalidParameterError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.wire import BulkRead, BulkWrite
from aclnn_server.service.calls import Call

CHUNK_BYTES = 2**20
"""Bytes of a chunk where the client does not choose: measured fastest on loopback."""


def write_chunks(call: Call, requests: Iterator[BulkWrite]) -> pb.WriteBufferResponse:
    """Writes chunks into a buffer as they arrive.

    Raises:
        InvalidParameterError: 161002, no message, more or fewer bytes than declared, range outside the
            buffer.
        HandleNotFoundError: no such context, stream or buffer.
    """
    first = next(requests, None)
    if first is None:
        raise InvalidParameterError("the call has no message", parameter="buffer_id")
    header, total = first.header, first.header.total_bytes
    context = call.context(header)
    buffer = context.buffers.find(header.buffer_id)
    buffer.check_range(header.offset, total, "data")
    session = call.session_or_none(header)
    if session is not None:
        session.stream.wait(gone=call.expired)
    written = 0
    with buffer.held(call.expired) as memory:
        message: BulkWrite | None = first
        while message is not None:
            size = len(message.data)
            if written + size > total:
                raise _wrong_total(written + size, total, "so far")
            place = context.device.slice(memory, header.offset + written, size)
            context.device.write(place, memoryview(message.data))
            written += size
            call.note_bytes(size, 0)
            with call.client_is_asked(context):
                message = next(requests, None)
    if written != total:
        raise _wrong_total(written, total, "in all")
    return pb.WriteBufferResponse()


def _wrong_total(written: int, total: int, when: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"data has {written} bytes {when}; total_bytes declares {total}", parameter="data"
    )


def read_chunks(call: Call, request: pb.ReadBufferRequest) -> Iterator[BulkRead]:
    """Reads a range of a buffer in chunks; errors as :func:`write_chunks`."""
    context = call.context(request)
    buffer = context.buffers.find(request.buffer_id)
    buffer.check_range(request.offset, request.bytes, "bytes")
    session = call.session_or_none(request)
    if session is not None:
        session.stream.wait(gone=call.expired)
    step = min(request.chunk_bytes or CHUNK_BYTES, context.limits.bulk_bytes)
    end = request.offset + request.bytes
    with buffer.held(call.expired) as memory:
        for offset in range(request.offset, end, step):
            size = min(step, end - offset)
            region = context.device.slice(memory, offset, size)
            with call.client_is_asked(context):
                yield BulkRead(context.device.read(region))
            call.note_bytes(0, size)
