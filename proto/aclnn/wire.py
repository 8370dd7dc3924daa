"""Messages that carry bulk data, encoded and decoded by hand: a tensor is copied once per side.

protobuf's classes copy a ``bytes`` field when it is set, when it is serialised, when it is parsed and when
it is read. The functions here write the same bytes with one copy, and read them with none: what comes out
is a view of the message. A message of another form than protobuf's own encoder writes (unknown, repeated
or reordered fields) is still ordinary protobuf, and is read by protobuf's classes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from google.protobuf.message import Message

from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import raw_pb2

BULK_BYTES = 16 * 1024
"""Messages of fewer bytes are read by protobuf's classes: looking at each field costs more."""

Part = bytes | bytearray | memoryview

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True)
class BulkWrite:
    """A WriteBufferRequest whose bytes are a view: ``header.data`` is empty."""

    header: pb.WriteBufferRequest
    data: Part


@dataclass(frozen=True, slots=True)
class BulkRead:
    """A ReadBufferResponse whose bytes are a view."""

    data: Part


@dataclass(frozen=True, slots=True)
class Batch:
    """A SubmitRequest."""

    context_id: str
    sequence: int
    commands: list[pb.Command | BulkWrite]
    acknowledged: int = 0


class RawBatch(NamedTuple):
    """A SubmitRequest whose commands are encoded; :func:`decode_command` decodes them."""

    context_id: str
    sequence: int
    commands: Sequence[bytes | memoryview]
    acknowledged: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A SubmitResponse."""

    sequence: int
    results: list[pb.Result | BulkRead]


class RawAnswer(NamedTuple):
    """A SubmitResponse whose results are encoded; :func:`decode_result` decodes them."""

    sequence: int
    results: Sequence[bytes | memoryview]


_SHORT = [bytes((value,)) for value in range(128)]


def tag(message: type[Message], field: str) -> bytes:
    """Tag of a length-delimited field, or of a varint field where it is one."""
    descriptor = message.DESCRIPTOR.fields_by_name[field]
    number = descriptor.cpp_type in (descriptor.CPPTYPE_UINT64, descriptor.CPPTYPE_INT64)
    return varint(descriptor.number << 3 | (0 if number else 2))


def varint(value: int) -> bytes:
    """Encodes a number of at least 0."""
    if value < 128:
        return _SHORT[value]
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    if value < 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_CONTEXT_ID = tag(pb.SubmitRequest, "context_id")
_REQUEST_SEQUENCE = tag(pb.SubmitRequest, "sequence")
_ACKNOWLEDGED = tag(pb.SubmitRequest, "acknowledged")
_COMMANDS = tag(pb.SubmitRequest, "commands")
_COMMAND_TAGS = {field.name: tag(pb.Command, field.name) for field in pb.Command.DESCRIPTOR.fields}
_COMMAND_NAMES = {
    field.number: field.name for field in pb.Command.DESCRIPTOR.oneofs_by_name["command"].fields
}
_WRITE_BUFFER = tag(pb.Command, "write_buffer")
_WRITE_DATA = tag(pb.WriteBufferRequest, "data")
_RESPONSE_SEQUENCE = tag(pb.SubmitResponse, "sequence")
_RESULTS = tag(pb.SubmitResponse, "results")
_READ_BUFFER = tag(pb.Result, "read_buffer")
_READ_DATA = tag(pb.ReadBufferResponse, "data")


# --- encoding -----------------------------------------------------------------------------------


def encode_write(header: pb.WriteBufferRequest, data: Part) -> bytes:
    """Encodes a chunk of WriteBuffer; `header` has no data."""
    return b"".join(_write(header, data))


def encode_read(data: Part) -> bytes:
    """Encodes a chunk of ReadBuffer."""
    return b"".join(_field(_READ_DATA, (data,)))


def encode_request(batch: Batch) -> bytes:
    """Encodes a SubmitRequest."""
    parts: list[Part] = []
    for command in batch.commands:
        if isinstance(command, BulkWrite):
            body = [*_field(_WRITE_BUFFER, _write(command.header, command.data), empty=True)]
        else:
            body = [command.SerializeToString()]
        parts += _field(_COMMANDS, body, empty=True)
    return join_request(batch.context_id, batch.sequence, parts, batch.acknowledged)


def encode_command(name: str, parts: Sequence[Part]) -> tuple[Part, ...]:
    """Encodes a command as it stands in a SubmitRequest, for :func:`join_request`.

    Args:
        name: of the command in ``Command``.
        parts: the command's message, encoded, in parts.
    """
    return command_head(name, sum(map(len, parts))), *parts


@functools.lru_cache(1024)
def command_head(name: str, size: int) -> bytes:
    """What stands before the `size` bytes of a command's message in a SubmitRequest."""
    head = _COMMAND_TAGS[name] + varint(size)
    return _COMMANDS + varint(len(head) + size) + head


def command_tag(name: str) -> bytes:
    """What a command of that name in ``Command`` begins with."""
    return _COMMAND_TAGS[name]


def command_name(encoded: bytes | memoryview) -> str:
    """Name of an encoded command in ``Command``; empty where it is none."""
    try:
        number = read_varint(encoded, 0)[0] >> 3
    except OtherForm:
        return ""
    return _COMMAND_NAMES.get(number, "")


def join_request(
    context_id: str, sequence: int, commands: Iterable[Part], acknowledged: int = 0
) -> bytes:
    """Encodes a SubmitRequest whose commands are encoded; as :func:`encode_request` otherwise."""
    head: list[Part] = []
    if context_id:
        head += _field(_CONTEXT_ID, (context_id.encode(),))
    if sequence:
        head += _REQUEST_SEQUENCE, varint(sequence)
    if acknowledged:
        head += _ACKNOWLEDGED, varint(acknowledged)
    return b"".join((*head, *commands))


def field_head(message: type[Message], field: str, size: int) -> bytes:
    """What stands before the `size` bytes of a length-delimited field."""
    return tag(message, field) + varint(size)


def encode_response(answer: Answer) -> bytes:
    """Encodes a SubmitResponse."""
    return join_response(
        answer.sequence,
        [r if isinstance(r, BulkRead) else r.SerializeToString() for r in answer.results],
    )


def join_response(sequence: int, results: Iterable[bytes | BulkRead]) -> bytes:
    """Encodes a SubmitResponse whose results are encoded; as :func:`encode_response` otherwise."""
    parts: list[Part] = []
    if sequence:
        parts += (_RESPONSE_SEQUENCE, varint(sequence))
    for result in results:
        if isinstance(result, BulkRead):
            inner = [*_field(_READ_DATA, (result.data,))]
            parts += _field(_RESULTS, _field(_READ_BUFFER, inner, empty=True), empty=True)
        else:
            parts += _RESULTS, varint(len(result)), result
    return b"".join(parts)


def _write(header: pb.WriteBufferRequest, data: Part) -> list[Part]:
    return [header.SerializeToString(), *_field(_WRITE_DATA, (data,))]


def _field(tag: bytes, body: Iterable[Part], *, empty: bool = False) -> Iterator[Part]:
    """A length-delimited field; without content it is left out, unless `empty`."""
    parts = [part for part in body if len(part)]
    size = sum(map(len, parts))
    if size or empty:
        yield tag
        yield varint(size)
        yield from parts


# --- decoding -----------------------------------------------------------------------------------


class OtherForm(Exception):  # noqa: N818 - no error: the message is read by protobuf's classes
    """The message is not of the form that protobuf's own encoder writes."""


def decode_write(encoded: bytes) -> BulkWrite:
    """Decodes a chunk of WriteBuffer.

    Raises:
        google.protobuf.message.DecodeError: it is none.
    """
    if len(encoded) >= BULK_BYTES:
        try:
            return _read_write(memoryview(encoded))
        except OtherForm:
            pass
    message = pb.WriteBufferRequest.FromString(encoded)
    data = message.data
    message.ClearField("data")
    return BulkWrite(message, data)


def decode_read(encoded: bytes) -> BulkRead:
    """Decodes a chunk of ReadBuffer; errors as :func:`decode_write`."""
    if len(encoded) >= BULK_BYTES:
        try:
            return BulkRead(_only(memoryview(encoded), _READ_DATA))
        except OtherForm:
            pass
    return BulkRead(pb.ReadBufferResponse.FromString(encoded).data)


def decode_request(encoded: bytes) -> Batch:
    """Decodes a SubmitRequest; errors as :func:`decode_write`."""
    raw = split_request(encoded)
    commands = [decode_command(command) for command in raw.commands]
    return Batch(raw.context_id, raw.sequence, commands, raw.acknowledged)


def split_request(encoded: bytes) -> RawBatch:
    """Decodes a SubmitRequest but for its commands; errors as :func:`decode_write`."""
    if len(encoded) >= BULK_BYTES:
        try:
            return _split_request(memoryview(encoded))
        except OtherForm:
            pass
    message = raw_pb2.RawBatch.FromString(encoded)
    commands = list(message.commands)
    return RawBatch(message.context_id, message.sequence, commands, message.acknowledged)


def decode_command(encoded: bytes | memoryview) -> pb.Command | BulkWrite:
    """Decodes a command of a SubmitRequest; errors as :func:`decode_write`."""
    if len(encoded) >= BULK_BYTES:
        try:
            return _read_write(_only(memoryview(encoded), _WRITE_BUFFER))
        except OtherForm:
            pass
    return pb.Command.FromString(bytes(encoded))


def decode_response(encoded: bytes) -> Answer:
    """Decodes a SubmitResponse; errors as :func:`decode_write`."""
    raw = split_response(encoded)
    return Answer(raw.sequence, [decode_result(result) for result in raw.results])


def split_response(encoded: bytes) -> RawAnswer:
    """Decodes a SubmitResponse but for its results; errors as :func:`decode_write`."""
    if len(encoded) >= BULK_BYTES:
        try:
            return _split_response(memoryview(encoded))
        except OtherForm:
            pass
    message = raw_pb2.RawAnswer.FromString(encoded)
    return RawAnswer(message.sequence, list(message.results))


def decode_result(encoded: bytes | memoryview) -> pb.Result | BulkRead:
    """Decodes a result of a SubmitResponse; errors as :func:`decode_write`."""
    if len(encoded) >= BULK_BYTES:
        try:
            return BulkRead(_only(_only(memoryview(encoded), _READ_BUFFER), _READ_DATA))
        except OtherForm:
            pass
    return pb.Result.FromString(bytes(encoded))


def _split_request(view: memoryview) -> RawBatch:
    head, items = _split(view, _COMMANDS)
    message = _parse(pb.SubmitRequest, head)
    return RawBatch(message.context_id, message.sequence, items, message.acknowledged)


def _split_response(view: memoryview) -> RawAnswer:
    head, items = _split(view, _RESULTS)
    return RawAnswer(_parse(pb.SubmitResponse, head).sequence, items)


def _read_write(view: memoryview) -> BulkWrite:
    """Reads a WriteBufferRequest whose last field is its data."""
    position = 0
    while position < len(view):
        start = position
        tag, position = read_varint(view, position)
        size, position = read_varint(view, position)
        if tag == _WRITE_DATA[0]:
            if position + size != len(view):
                raise OtherForm
            return BulkWrite(_parse(pb.WriteBufferRequest, view[:start]), view[position:])
        if tag & 7 == 2:
            position += size
        elif tag & 7:
            raise OtherForm
    raise OtherForm


def _only(view: memoryview, tag: bytes) -> memoryview:
    """Content of a message that consists of one length-delimited field."""
    if view[: len(tag)] != tag:
        raise OtherForm
    size, position = read_varint(view, len(tag))
    if position + size != len(view):
        raise OtherForm
    return view[position:]


def _split(view: memoryview, tag: bytes) -> tuple[memoryview, list[memoryview]]:
    """Splits a message into what comes before its repeated field `tag`, and that field's items."""
    position, head, items = 0, -1, []
    while position < len(view):
        start = position
        found, position = read_varint(view, position)
        size, position = read_varint(view, position)
        if found == tag[0]:
            head = start if head < 0 else head
            items.append(view[position : position + size])
        elif head >= 0 or found & 7 not in (0, 2):
            raise OtherForm
        if found & 7 == 2:
            position += size
    if position != len(view):
        raise OtherForm
    return view[: len(view) if head < 0 else head], items


def read_varint(view: bytes | memoryview, position: int) -> tuple[int, int]:
    """Reads a number; gives it and the position behind it.

    Raises:
        OtherForm: there is none.
    """
    value = shift = 0
    for byte in view[position : position + 10]:
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise OtherForm


def _parse(message: type[_M], view: memoryview) -> _M:
    return message.FromString(bytes(view))
