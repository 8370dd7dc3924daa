"""The schema keeps its own rules: comments, names, numbers, Submit in step with the unary calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    MethodDescriptorProto,
)

Field = FieldDescriptorProto
# A shape is one thing, although it is a list.
COLLECTIVE_NOUNS = {"shape", "storage_shape"}


@dataclass(frozen=True)
class Element:
    """A named part of the schema, with the comment above it."""

    name: str
    comment: str


def elements(file: FileDescriptorProto) -> Iterator[Element]:
    """Everything that must have a comment. Paths are those of descriptor.proto's SourceCodeInfo."""
    comments = {tuple(at.path): at.leading_comments for at in file.source_code_info.location}

    def element(name: str, *path: int) -> Element:
        return Element(f"{file.package}.{name}", comments.get(path, "").strip())

    for i, message in enumerate(file.message_type):
        yield element(message.name, 4, i)
        for j, field in enumerate(message.field):
            yield element(f"{message.name}.{field.name}", 4, i, 2, j)
        for j, oneof in enumerate(message.oneof_decl):
            if not oneof.name.startswith("_"):  # proto3's own, for an optional field
                yield element(f"{message.name}.{oneof.name}", 4, i, 8, j)
    for i, enum in enumerate(file.enum_type):
        yield element(enum.name, 5, i)
        for j, value in enumerate(enum.value):
            yield element(f"{enum.name}.{value.name}", 5, i, 2, j)
    for i, service in enumerate(file.service):
        yield element(service.name, 6, i)
        for j, method in enumerate(service.method):
            yield element(f"{service.name}.{method.name}", 6, i, 2, j)


@pytest.fixture(scope="module")
def documented(schema: list[FileDescriptorProto]) -> dict[str, str]:
    return {element.name: element.comment for file in schema for element in elements(file)}


@pytest.fixture(scope="module")
def messages(schema: list[FileDescriptorProto]) -> dict[str, DescriptorProto]:
    return {message.name: message for file in schema for message in file.message_type}


@pytest.fixture(scope="module")
def enums(schema: list[FileDescriptorProto]) -> list[EnumDescriptorProto]:
    return [enum for file in schema for enum in file.enum_type]


@pytest.fixture(scope="module")
def methods(schema: list[FileDescriptorProto]) -> dict[str, MethodDescriptorProto]:
    return {
        f"{file.package}.{service.name}.{method.name}": method
        for file in schema
        for service in file.service
        for method in service.method
    }


@pytest.fixture(scope="module")
def fields(messages: dict[str, DescriptorProto]) -> list[tuple[str, FieldDescriptorProto]]:
    return [(message.name, field) for message in messages.values() for field in message.field]


def kind(field: FieldDescriptorProto) -> str:
    """The last part of the name of a field's message type."""
    return field.type_name.rpartition(".")[2]


def commands_of(command: DescriptorProto) -> list[FieldDescriptorProto]:
    """The fields of a command of which one is set: what goes with any command is left out."""
    return [field for field in command.field if field.HasField("oneof_index")]


def snake(name: str) -> str:
    """CamelCase as snake_case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def test_the_package_is_the_path(schema: list[FileDescriptorProto]) -> None:
    assert {file.name.rpartition("/")[0] for file in schema} == {"aclnn/v1"}
    assert {file.package for file in schema} == {"aclnn.v1"}
    assert {file.syntax for file in schema} == {"proto3"}


def test_nothing_is_nested(messages: dict[str, DescriptorProto]) -> None:
    """`documented` looks at the top level only; a nested message would escape it."""
    assert [m.name for m in messages.values() if m.nested_type or m.enum_type] == []


def test_everything_has_a_comment(documented: dict[str, str]) -> None:
    assert [name for name, comment in documented.items() if not comment] == []


def test_comments_are_sentences(documented: dict[str, str]) -> None:
    assert [name for name, text in documented.items() if not text.endswith((".", "…"))] == []


@pytest.mark.parametrize("word", ["Repeat:", "Status:", "Retry:"])
def test_an_rpc_tells_its_contract(
    word: str, methods: dict[str, MethodDescriptorProto], documented: dict[str, str]
) -> None:
    assert [name for name in methods if word not in documented[name]] == []


def test_each_rpc_has_a_request_and_a_response_of_its_own(
    methods: dict[str, MethodDescriptorProto],
) -> None:
    for method in methods.values():
        assert method.input_type == f".aclnn.v1.{method.name}Request"
        assert method.output_type == f".aclnn.v1.{method.name}Response"
    assert len({method.name for method in methods.values()}) == len(methods)


def test_requests_and_responses_belong_to_an_rpc(
    messages: dict[str, DescriptorProto], methods: dict[str, MethodDescriptorProto]
) -> None:
    pairs = {f"{m.name}{end}" for m in methods.values() for end in ("Request", "Response")}
    assert {name for name in messages if name.endswith(("Request", "Response"))} == pairs


def test_services_are_named_as_such(schema: list[FileDescriptorProto]) -> None:
    services = {service.name for file in schema for service in file.service}
    assert services == {"AdminService", "DeviceService", "OperatorService"}


def test_enum_values_carry_the_enums_name_and_zero_is_unspecified(
    enums: list[EnumDescriptorProto],
) -> None:
    for enum in enums:
        prefix = snake(enum.name).upper() + "_"
        assert (enum.value[0].name, enum.value[0].number) == (f"{prefix}UNSPECIFIED", 0)
        assert [value.name for value in enum.value if not value.name.startswith(prefix)] == []


def test_enum_values_are_numbered_without_gaps(enums: list[EnumDescriptorProto]) -> None:
    for enum in enums:
        assert not enum.options.allow_alias
        reserved = [n for r in enum.reserved_range for n in range(r.start, r.end + 1)]
        assert_contiguous([value.number for value in enum.value], reserved, 0, enum.name)


def test_fields_are_numbered_without_gaps(messages: dict[str, DescriptorProto]) -> None:
    for message in messages.values():
        reserved = [n for r in message.reserved_range for n in range(r.start, r.end)]
        assert_contiguous([field.number for field in message.field], reserved, 1, message.name)


def assert_contiguous(used: Sequence[int], reserved: Sequence[int], first: int, name: str) -> None:
    numbers = sorted([*used, *reserved])
    assert numbers == list(range(first, first + len(numbers))), name
    assert all(a < b for a, b in pairwise(used)), f"{name}: numbers are not in order"


def test_field_names_are_snake_case(fields: list[tuple[str, FieldDescriptorProto]]) -> None:
    pattern = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
    assert [f"{of}.{field.name}" for of, field in fields if not pattern.fullmatch(field.name)] == []


def test_repeated_fields_have_plural_names(fields: list[tuple[str, FieldDescriptorProto]]) -> None:
    repeated = [(of, field) for of, field in fields if field.label == Field.LABEL_REPEATED]
    assert repeated
    assert [
        f"{of}.{field.name}"
        for of, field in repeated
        if not field.name.endswith("s") and field.name not in COLLECTIVE_NOUNS
    ] == []


def test_ids_are_numbers_of_the_client_or_strings_of_the_server(
    fields: list[tuple[str, FieldDescriptorProto]],
) -> None:
    strings = {"context_id", "stream_id", "request_id"}
    ids = [(of, field) for of, field in fields if field.name.endswith("_id")]
    assert ids
    for of, field in ids:
        expected = Field.TYPE_STRING if field.name in strings else Field.TYPE_UINT64
        assert field.type == expected, f"{of}.{field.name}"


def test_sizes_in_bytes_are_unsigned_64_bit(
    fields: list[tuple[str, FieldDescriptorProto]],
) -> None:
    sizes = [(of, field) for of, field in fields if re.search(r"(^|_)bytes$", field.name)]
    assert sizes
    assert [f"{of}.{field.name}" for of, field in sizes if field.type != Field.TYPE_UINT64] == []


def test_a_command_is_the_request_of_the_rpc_that_it_is_named_after(
    messages: dict[str, DescriptorProto], methods: dict[str, MethodDescriptorProto]
) -> None:
    by_command = {snake(method.name): method.name for method in methods.values()}
    for field in commands_of(messages["Command"]):
        assert kind(field) == f"{by_command[field.name]}Request"


def test_each_command_has_the_result_of_the_same_name(
    messages: dict[str, DescriptorProto],
) -> None:
    commands = {field.name: kind(field) for field in commands_of(messages["Command"])}
    results = {field.name: kind(field) for field in messages["Result"].field}
    assert results.pop("error") == "Error"
    assert results == {
        name: request.removesuffix("Request") + "Response" for name, request in commands.items()
    }


def test_what_submit_leaves_out_is_listed(
    messages: dict[str, DescriptorProto], methods: dict[str, MethodDescriptorProto]
) -> None:
    """A new RPC is either a command of Submit or named here, not forgotten."""
    commands = {field.name for field in commands_of(messages["Command"])}
    assert {method.name for method in methods.values() if snake(method.name) not in commands} == {
        "CreateContext",
        "DestroyContext",
        "GetOperator",
        "GetOverview",
        "GetServerInfo",
        "ListDevices",
        "ListOperators",
        "Submit",
    }
