"""The C library's encoder: the bytes that protobuf has for the same message."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import Message

from aclnn.v1 import device_service_pb2 as device
from aclnn.v1 import operator_service_pb2 as operator
from aclnn.v1 import tensor_pb2 as tensor
from tests.cpp import building

MESSAGES = 300
UNSIGNED = {Field.CPPTYPE_UINT32: 32, Field.CPPTYPE_UINT64: 64}
SIGNED = {Field.CPPTYPE_INT32: 32, Field.CPPTYPE_INT64: 64}
EDGES = (0, 1, 127, 128, 2**31 - 1)
DEEPEST = 4
"""Messages inside each other."""


def value_of(field: Any, choose: random.Random) -> object:  # noqa: ANN401 - a field's descriptor
    """A value of a plain field, of any size."""
    kind = field.cpp_type
    if kind in UNSIGNED:
        return choose.choice((*EDGES, choose.getrandbits(choose.randint(1, UNSIGNED[kind]))))
    if kind in SIGNED:
        bits = SIGNED[kind]
        return choose.choice((*EDGES, -1, choose.getrandbits(bits) - 2 ** (bits - 1)))
    if kind == Field.CPPTYPE_BOOL:
        return choose.random() < 0.5
    if kind == Field.CPPTYPE_ENUM:
        return choose.choice(field.enum_type.values).number
    if kind in (Field.CPPTYPE_FLOAT, Field.CPPTYPE_DOUBLE):
        return choose.choice((0.0, -0.0, 0.5, -(2.0**70)))
    size = choose.choice((0, 1, 127, 128, 300, 20_000))
    return choose.randbytes(size) if field.type == Field.TYPE_BYTES else "x" * size


def fill(message: Any, choose: random.Random, depth: int = 0) -> None:  # noqa: ANN401 - a message
    """Sets some of the fields of a message, and of those in it."""
    for field in message.DESCRIPTOR.fields:
        if choose.random() < 0.4:
            continue
        nested = field.cpp_type == Field.CPPTYPE_MESSAGE
        if nested and (depth == DEEPEST or field.message_type.file.package != "aclnn.v1"):
            continue
        if field.is_repeated:
            for _ in range(choose.choice((0, 1, 3, 200 if not nested else 2))):
                if nested:
                    fill(getattr(message, field.name).add(), choose, depth + 1)
                else:
                    getattr(message, field.name).append(value_of(field, choose))
        elif nested:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), choose, depth + 1)
        else:
            setattr(message, field.name, value_of(field, choose))


def lines(message: Message) -> Iterator[str]:
    """What the program is told of a message, in the order of the fields' numbers."""
    for field, value in sorted(message.ListFields(), key=lambda row: row[0].number):
        kind, number = field.cpp_type, field.number
        if kind == Field.CPPTYPE_MESSAGE:
            for part in value if field.is_repeated else (value,):
                yield f"begin {number}"
                yield from lines(part)
                yield "end"
        elif field.is_repeated and kind != Field.CPPTYPE_STRING:
            yield f"packed {number} {' '.join(str(int(item)) for item in value)}"
        else:
            for item in value if field.is_repeated else (value,):
                yield f"{_word(kind)} {number} {_text(kind, item)}"


def _word(kind: int) -> str:
    if kind == Field.CPPTYPE_STRING:
        return "bytes"
    if kind in (Field.CPPTYPE_FLOAT, Field.CPPTYPE_DOUBLE):
        return "float" if kind == Field.CPPTYPE_FLOAT else "double"
    return "varint" if kind in UNSIGNED or kind == Field.CPPTYPE_BOOL else "signed"


def _text(kind: int, item: Any) -> str:  # noqa: ANN401 - of any plain field
    if kind == Field.CPPTYPE_STRING:
        return (item.encode() if isinstance(item, str) else bytes(item)).hex()
    return repr(item) if isinstance(item, float) else str(int(item))


def fits(message: Message) -> bool:
    """Whether the encoder has what the message needs: no members of a oneof that are default values, which
    its put_ functions leave out, no empty bytes in a list, no floats in a list."""
    for field, value in message.ListFields():
        parts = value if field.is_repeated else (value,)
        if field.cpp_type == Field.CPPTYPE_MESSAGE:
            if not all(map(fits, parts)):
                return False
        elif field.is_repeated:
            if field.cpp_type == Field.CPPTYPE_STRING and not all(parts):
                return False
            if field.cpp_type in (Field.CPPTYPE_FLOAT, Field.CPPTYPE_DOUBLE):
                return False
        elif field.containing_oneof is not None and not value:
            return False
    return True


def test_messages_have_the_bytes_that_protobuf_gives_them() -> None:
    choose = random.Random(7)
    kinds = (
        operator.GetWorkspaceSizeRequest, operator.ExecuteRequest, tensor.Argument, tensor.Tensor,
        device.MallocRequest, device.MemcpyRequest, device.WriteBufferRequest, device.Command,
        device.SubmitRequest,
    )  # fmt: skip
    messages: list[Message] = []
    while len(messages) < MESSAGES:
        message = choose.choice(kinds)()
        fill(message, choose)
        if fits(message):
            messages.append(message)
    told = "".join(f"{line}\n" for message in messages for line in (*lines(message), "done"))
    source = Path(__file__).parent / "programs/write_fields.cc"
    program = building.program(source, f"-I{building.LIBRARY / 'src'}")
    printed = subprocess.run(
        (str(program),), input=told, capture_output=True, text=True, check=True, timeout=50
    ).stdout
    expected = [message.SerializeToString(deterministic=True).hex() for message in messages]
    assert printed.splitlines() == expected
    assert sum(map(len, expected)) > 100 * MESSAGES
