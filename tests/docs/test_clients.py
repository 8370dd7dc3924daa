"""The pages of the clients: their programs run, and what they say of the protocol is so."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

from aclnn import errors
from aclnn.data_connection import REFUSED
from aclnn.signatures import Kind
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import error_pb2, tensor_pb2
from aclnn.v1 import operator_service_pb2 as op
from aclnn.v1.device_service_pb2_grpc import DeviceServiceStub
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.service.transferring import Transferring


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        yield server.address


@pytest.fixture
def page(project: Path) -> str:
    """The page on writing a client."""
    return (project / "docs/clients/write-your-own.md").read_text("utf-8")


def test_the_program_of_the_python_page_prints_what_it_says(
    project: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (project / "docs/clients/python.md").read_text("utf-8")
    found = re.match(r"# Python\n\n```python\n(.*?)^```\n\n```text\n(.*?)^```$", text, re.S | re.M)
    assert found is not None, "the page begins with a program and what it prints"
    exec(compile(found[1].replace("localhost:50051", address), "python.md", "exec"), {})
    assert capsys.readouterr().out == found[2]


def example() -> pb.SubmitRequest:
    """Both phases of aclnnRelu, as the page shows them."""
    data = struct.pack("<2f", 1.5, -2)
    x = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_FLOAT, shape=[2], data=data)
    out = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_FLOAT, shape=[2])
    plan = op.GetWorkspaceSizeRequest(
        executor_id=1,
        operator="aclnnRelu",
        arguments=[tensor_pb2.Argument(tensor=x), tensor_pb2.Argument(tensor=out)],
    )
    run = op.ExecuteRequest(executor_id=1)
    commands = [pb.Command(get_workspace_size=plan), pb.Command(execute=run)]
    return pb.SubmitRequest(context_id="c", sequence=1, commands=commands)


def dumped(page: str) -> list[bytes]:
    """The bytes of each block that shows some, without the words beside them."""
    dumps = re.findall(r"^```text\n((?: *(?:[0-9a-f]{2} )+.*\n)+)```$", page, re.M)
    lines = [re.findall(r"^ *((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  |$)", d, re.M) for d in dumps]
    return [bytes.fromhex(" ".join(rows)) for rows in lines]


def test_the_bytes_are_those_of_the_messages(page: str, address: str) -> None:
    request, answer = dumped(page)
    assert request == example().SerializeToString()
    with grpc.insecure_channel(address) as channel:
        stub = DeviceServiceStub(channel)
        opened = stub.CreateContext(pb.CreateContextRequest(protocol_version=1))
        sent = pb.SubmitRequest.FromString(request)
        sent.context_id = opened.context_id
        (response,) = stub.Submit(iter([sent]))
        stub.DestroyContext(pb.DestroyContextRequest(context_id=opened.context_id))
    assert answer == response.SerializeToString()


def test_a_data_connection_is_made_and_used_as_it_says(page: str, address: str) -> None:
    block = page.split("## Large tensors, faster")[1].split("```")[1]
    heads = re.findall(r"^send ((?:[0-9a-f]{2} ){7}[0-9a-f]{2}), buffer_id, ", block, re.M)
    answers = re.findall(r"→ (?:(\d\d)|the bytes)", block)
    write, read, create = (bytes.fromhex(head) for head in heads)
    assert answers == ["01", "01", "", "01"]
    assert f"; {REFUSED.hex()} without room for it" in block

    with grpc.insecure_channel(address) as channel:
        stub = DeviceServiceStub(channel)
        assert "data-connection" in stub.GetServerInfo(pb.GetServerInfoRequest()).features
        opened = stub.CreateContext(pb.CreateContextRequest(protocol_version=1))
        of_context = {"context_id": opened.context_id}
        with Transferring(
            stub.AttachDataConnection(pb.AttachDataConnectionRequest(**of_context))
        ) as data:
            data.socket.sendall(create + struct.pack("<3Q", 1, 0, 4) + b"abcd")
            data.socket.sendall(write + struct.pack("<3Q", 1, 1, 2) + b"yz")
            assert data.received(2) == bytes.fromhex(answers[3] + answers[1])
            data.socket.sendall(read + struct.pack("<3Q", 1, 0, 4))
            assert data.received(4) == b"ayzd"
            stub.DetachDataConnection(pb.DetachDataConnectionRequest(**of_context))
            assert data.over
        stub.DestroyContext(pb.DestroyContextRequest(**of_context))


def test_the_reasons_are_those_that_there_are(page: str) -> None:
    rows = re.findall(r"^\| ([A-Z_]+) \| (\d+) \| ([A-Z_]+) \| \S", page, re.M)
    names = {code.value[0]: code.name for code in grpc.StatusCode}
    assert rows == [
        (cls.reason, str(cls.default_code), names[cls.status]) for cls in errors.BY_REASON.values()
    ]


def test_every_kind_of_argument_is_named(page: str) -> None:
    table = page.split("### Arguments")[1].split("### ")[0]
    named = set(re.findall(r"`([a-z0-9_]+)`", table))
    assert {kind.value for kind in Kind} | {"null"} <= named


def test_calls_and_fields_that_are_named_exist(page: str) -> None:
    calls = {
        method.name
        for file in (pb, op)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    messages: list[type[Message]] = [
        value
        for file in (pb, op, tensor_pb2, error_pb2)
        for value in vars(file).values()
        if _is_message(value)
    ]
    fields = {field.name for message in messages for field in message.DESCRIPTOR.fields}
    for name in re.findall(r"`([A-Z][A-Za-z]+)`", page):
        assert name in calls or name in {message.DESCRIPTOR.name for message in messages}, name
    for name in re.findall(r"`([a-z][a-z]*_[a-z_]+)`", page):
        if name not in ("acl_code", "device_service", "error"):
            assert name in fields or name == "request_id", name


def _is_message(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Message)
