"""Bytes that no client would send: messages of any kind with odd values, and then damaged."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

WORDS = ("", "a", "aclnnAbs", "aclnnCat", "\0", "../../etc/passwd", "%s%n", "x" * 5000, "ä€😀")
_NUMBERS: dict[int, tuple[float, ...]] = {
    FieldDescriptor.CPPTYPE_INT32: (0, 1, -1, 7, 2**31 - 1, -(2**31)),
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 2, 255, 256, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (0, 1, 2, 64, -1, 2**31, 2**62, 2**63 - 1, -(2**63)),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 1, 2, 3, 64, 4096, 2**32, 2**63, 2**64 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: (0.0, 1.0, -1.0, float("nan"), float("inf"), 1e300),
    FieldDescriptor.CPPTYPE_FLOAT: (0.0, 1.0, float("nan"), float("-inf")),
    FieldDescriptor.CPPTYPE_BOOL: (False, True),
    FieldDescriptor.CPPTYPE_ENUM: (0, 1, 2, 16, 99, -1),
}


def message_of(kind: Descriptor, choose: random.Random, known: dict[str, str]) -> Message:
    """A message of a kind whose fields have odd values.

    Args:
        kind: its type.
        choose: what to take the choices from.
        known: strings that mean something in fields of these names; they stand there mostly.
    """
    made: Any = GetMessageClass(kind)()
    fill = choose.choice((0.3, 0.7, 1.0))
    for field in kind.fields:
        if choose.random() > (1.0 if field.name in known else fill):
            continue
        if field.is_repeated:
            for _ in range(choose.choice((1, 1, 2, 3, 40))):
                _add(made, field, choose, known)
        elif field.message_type is not None:
            getattr(made, field.name).CopyFrom(message_of(field.message_type, choose, known))
        else:
            setattr(made, field.name, _value(field, choose, known))
    result: Message = made
    return result


def _add(made: Any, field: FieldDescriptor, choose: random.Random, known: dict[str, str]) -> None:  # noqa: ANN401
    values = getattr(made, field.name)
    if field.message_type is None:
        values.append(_value(field, choose, known))
    else:
        values.add().CopyFrom(message_of(field.message_type, choose, known))


def _value(field: FieldDescriptor, choose: random.Random, known: dict[str, str]) -> Any:  # noqa: ANN401
    if field.type == FieldDescriptor.TYPE_BYTES:
        return choose.randbytes(choose.choice((0, 1, 4, 8, 64, 5000)))
    if field.type == FieldDescriptor.TYPE_STRING:
        return (
            known[field.name]
            if field.name in known and choose.random() < 0.8
            else choose.choice(WORDS)
        )
    return choose.choice(_NUMBERS[field.cpp_type])


# --- damage ---------------------------------------------------------------------------------------


def damaged(encoded: bytes, choose: random.Random) -> bytes:
    """The bytes with something wrong; now and then they are right."""
    for _ in range(choose.choice((0, 1, 1, 2, 4))):
        encoded = choose.choice(_DAMAGES)(encoded, choose)
    return encoded


def _flip(encoded: bytes, choose: random.Random) -> bytes:
    if not encoded:
        return encoded
    changed = bytearray(encoded)
    changed[choose.randrange(len(changed))] ^= 1 << choose.randrange(8)
    return bytes(changed)


def _cut(encoded: bytes, choose: random.Random) -> bytes:
    return encoded[: choose.randint(0, len(encoded))]


def _lie(encoded: bytes, choose: random.Random) -> bytes:
    """Another number in place of a byte, which may be a length."""
    at = choose.randint(0, len(encoded))
    lies = (b"\x00", b"\x7f", b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\xff" * 11)
    return encoded[:at] + choose.choice(lies) + encoded[at + 1 :]


def _twice(encoded: bytes, choose: random.Random) -> bytes:
    begin, end = sorted(choose.randint(0, len(encoded)) for _ in range(2))
    return encoded[:end] + encoded[begin:]


def _turned(encoded: bytes, choose: random.Random) -> bytes:
    """The fields of the message in another order, some of them twice."""
    fields = list(fields_of(encoded))
    choose.shuffle(fields)
    return b"".join((*fields, *fields[: choose.randint(0, 2)]))


def _unknown(encoded: bytes, choose: random.Random) -> bytes:
    tag = choose.choice((15, 99, 2**29 - 1, 0)) << 3 | choose.randrange(8)
    return encoded + _varint(tag) + choose.randbytes(choose.choice((0, 1, 8, 20)))


def _deep(encoded: bytes, choose: random.Random) -> bytes:
    """Groups, or messages of an unknown field, inside of each other."""
    depth = choose.choice((50, 200, 5000))
    if choose.random() < 0.5:
        return encoded + b"\x7b" * depth + (b"\x7c" * depth if choose.random() < 0.5 else b"")
    inner = b""
    for _ in range(min(depth, 500)):
        inner = b"\x7a" + _varint(len(inner)) + inner
    return encoded + inner


def _noise(encoded: bytes, choose: random.Random) -> bytes:
    return choose.randbytes(choose.choice((0, 1, 5, 40, 1000)))


_DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_flip, _flip, _cut, _lie, _lie, _twice, _turned, _unknown, _deep, _noise),
)


def fields_of(encoded: bytes) -> Iterator[bytes]:
    """The fields of an encoded message; what is left of it where it is none."""
    at = 0
    while at < len(encoded):
        begin = at
        tag, at = _read(encoded, at)
        kind = tag & 7
        if kind == 0:
            _, at = _read(encoded, at)
        elif kind == 2:
            size, at = _read(encoded, at)
            at += size
        else:
            at += {1: 8, 5: 4}.get(kind, len(encoded))
        yield encoded[begin:at]


def _read(encoded: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(encoded):
        value |= (encoded[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if encoded[at - 1] < 0x80:
            break
    return value, at


def _varint(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*parts, value))
