"""The requests of the two phases, encoded by hand: most of them is the same in each call.

protobuf's classes take as long for one request as all else that the client does for a call. What stands
in a request for a tensor never changes, and so is encoded once in its life.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from aclnn import arguments, wire
from aclnn.arguments import ArgumentValue
from aclnn.dtypes import DType
from aclnn.signatures import Parameter
from aclnn.v1 import operator_service_pb2 as pb
from aclnn.v1 import tensor_pb2

_ARGUMENT = wire.tag(pb.GetWorkspaceSizeRequest, "arguments")
_EXECUTOR_ID = wire.tag(pb.GetWorkspaceSizeRequest, "executor_id")
_RUN_EXECUTOR_ID = wire.tag(pb.ExecuteRequest, "executor_id")
_REPEATABLE = pb.GetWorkspaceSizeRequest(repeatable=True).SerializeToString()
_WORKSPACE = wire.tag(pb.ExecuteRequest, "workspace")
_BINDING = wire.tag(pb.ExecuteRequest, "bindings")
_ASYNCHRONOUS = pb.ExecuteRequest(asynchronous=True).SerializeToString()


def argument(message: tensor_pb2.Argument) -> bytes:
    """Encodes an argument as it stands in a request of phase one."""
    return argument_field(message.SerializeToString())


def argument_field(encoded: bytes, more: int = 0) -> bytes:
    """An encoded argument as it stands in a request of phase one, up to its last `more` bytes."""
    return _ARGUMENT + wire.varint(len(encoded) + more) + encoded


def plain_argument(parameter: Parameter, value: ArgumentValue, operator: str) -> bytes:
    """Encodes an argument that is no tensor, as :func:`aclnn.arguments.encode` does.

    Raises:
        InvalidParameterError: 161002, the value does not fit the parameter's C type.
    """
    # 0.0 equals -0.0, and NaN nothing; all else that is equal and of one type is encoded alike.
    if type(value) in _EXACT or (type(value) is float and value and value == value):
        return _plain_argument(parameter, value, operator)
    return argument(arguments.encode(parameter, value, operator))


_EXACT = (int, bool, str, type(None), DType)


@functools.lru_cache(1024, typed=True)
def _plain_argument(parameter: Parameter, value: ArgumentValue, operator: str) -> bytes:
    return argument(arguments.encode(parameter, value, operator))


def phase_one(
    operator: str, executor_id: int, encoded: Sequence[bytes], *, repeatable: bool
) -> list[bytes]:
    """Encodes a GetWorkspaceSizeRequest, in parts.

    Args:
        operator: C name.
        executor_id: id for the executor.
        encoded: the arguments, as :func:`argument` gives them, in order.
        repeatable: whether the executor is to outlive its first run.
    """
    head = executor_field(executor_id) + _operator(operator)
    return [head, *encoded, _REPEATABLE] if repeatable else [head, *encoded]


def executor_field(executor_id: int) -> bytes:
    """The executor's id as it stands in a GetWorkspaceSizeRequest."""
    return _EXECUTOR_ID + wire.varint(executor_id)


@functools.cache
def _operator(name: str) -> bytes:
    return pb.GetWorkspaceSizeRequest(operator=name).SerializeToString()


def phase_two(
    stream: bytes,
    executor_id: int,
    workspace: pb.Workspace | None = None,
    bindings: Sequence[pb.Binding] = (),
    *,
    asynchronous: bool,
) -> list[bytes]:
    """Encodes an ExecuteRequest, in parts.

    Args:
        stream: what :func:`on_stream` gives for the stream.
        executor_id: from phase one.
        workspace: the client's scratch memory.
        bindings: other storages of tensors.
        asynchronous: whether the answer does not wait for the work.
    """
    parts = [stream, _RUN_EXECUTOR_ID + wire.varint(executor_id)]
    if workspace is not None:
        given = workspace.SerializeToString()
        parts.append(_WORKSPACE + wire.varint(len(given)) + given)
    for binding in bindings:
        given = binding.SerializeToString()
        parts.append(_BINDING + wire.varint(len(given)) + given)
    if asynchronous:
        parts.append(_ASYNCHRONOUS)
    return parts


@functools.lru_cache(256)
def on_stream(stream_id: str, report_timing: bool = False) -> bytes:
    """The stream as it stands in an ExecuteRequest, and whether to tell where the time goes."""
    request = pb.ExecuteRequest(stream_id=stream_id, report_timing=report_timing)
    return request.SerializeToString()
