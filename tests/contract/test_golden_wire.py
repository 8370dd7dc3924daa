"""The bytes of the protocol: a renumbered, retyped or dropped field fails here.

Bytes that a released client sends must mean the same to every later server, so a line of
golden_messages.py changes only together with the protocol's version; new fields get new lines.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from aclnn.v1 import admin_service_pb2 as admin
from aclnn.v1 import device_service_pb2 as device
from aclnn.v1 import error_pb2 as error
from aclnn.v1 import operator_service_pb2 as operator
from aclnn.v1 import tensor_pb2 as tensor
from tests.contract import golden_admin, golden_messages

GOLDEN = [*golden_messages.GOLDEN, *golden_admin.GOLDEN]

# In the order of their numbers, from 0.
DATA_TYPES = """
    UNSPECIFIED FLOAT FLOAT16 INT8 INT32 UINT8 INT16 UINT16 UINT32 INT64 UINT64 DOUBLE BOOL STRING
    COMPLEX64 COMPLEX128 BF16 INT4 UINT1 COMPLEX32 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E8M0
    FLOAT6_E3M2 FLOAT6_E2M3 FLOAT4_E2M1 FLOAT4_E1M2
"""
FORMATS = """
    UNSPECIFIED ND NCHW NHWC NC1HWC0 FRACTAL_Z NC1HWC0_C04 HWCN NDHWC FRACTAL_NZ NCDHW NDC1HWC0
    FRACTAL_Z_3D NC NCL FRACTAL_NZ_C0_16 FRACTAL_NZ_C0_32 FRACTAL_NZ_C0_2 FRACTAL_NZ_C0_4
    FRACTAL_NZ_C0_8
"""

table = pytest.mark.parametrize(
    ("message", "expected"),
    [pytest.param(message, expected, id=name) for name, message, expected in GOLDEN],
)


@table
def test_message_encodes_to_its_golden_bytes(message: Message, expected: str) -> None:
    assert message.SerializeToString(deterministic=True).hex() == bytes.fromhex(expected).hex()


@table
def test_golden_bytes_decode_to_their_message(message: Message, expected: str) -> None:
    assert type(message).FromString(bytes.fromhex(expected)) == message


@pytest.mark.parametrize(
    ("enum", "prefix", "names"),
    [
        pytest.param(tensor.DataType, "DATA_TYPE_", DATA_TYPES, id="DataType"),
        pytest.param(tensor.Format, "FORMAT_", FORMATS, id="Format"),
    ],
)
def test_enum_numbers(enum: type[tensor.DataType], prefix: str, names: str) -> None:
    golden = {prefix + name: number for number, name in enumerate(names.split())}
    assert dict(enum.items()) == golden


def messages_in(message: Message) -> Iterator[Message]:
    """The message and all messages inside it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                yield from messages_in(part)


def test_every_field_of_the_schema_is_in_the_table() -> None:
    schema: list[Descriptor] = [
        descriptor
        for file in (tensor, error, operator, device, admin)
        for descriptor in file.DESCRIPTOR.message_types_by_name.values()
    ]
    every_field: set[FieldDescriptor] = {field for message in schema for field in message.fields}
    in_table = {
        field
        for _, golden, _ in GOLDEN
        for message in messages_in(golden)
        for field, _ in message.ListFields()
    }
    assert sorted(field.full_name for field in every_field - in_table) == []
