"""The requests of the two phases, encoded by hand: most of them is the same in each call.

protobuf's classes take as long for one request as all else that the client does for a call. What stands
in a request for a tensor never changes, and so is encoded once in its life.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

from aclnn import arguments, wire
from aclnn.arguments import ArgumentValue, TensorArgument
from aclnn.dtypes import DType
from aclnn.signatures import Parameter
from aclnn.tensors import TensorSpec
from aclnn.v1 import device_service_pb2, tensor_pb2
from aclnn.v1 import operator_service_pb2 as pb
from aclnn_client.pending import Pending

_TENSOR = wire.tag(tensor_pb2.Argument, "tensor")
_BUFFER_ID = wire.tag(tensor_pb2.Tensor, "buffer_id")
_ARGUMENT = wire.tag(pb.GetWorkspaceSizeRequest, "arguments")
_EXECUTOR_ID = wire.tag(pb.GetWorkspaceSizeRequest, "executor_id")
_RUN_EXECUTOR_ID = wire.tag(pb.ExecuteRequest, "executor_id")
_REPEATABLE = pb.GetWorkspaceSizeRequest(repeatable=True).SerializeToString()
_WORKSPACE = wire.tag(pb.ExecuteRequest, "workspace")
_BINDING = wire.tag(pb.ExecuteRequest, "bindings")
_ASYNCHRONOUS = pb.ExecuteRequest(asynchronous=True).SerializeToString()


@functools.lru_cache(4096)
def described(spec: TensorSpec) -> bytes:
    """A tensor as it travels, but for its storage: what tensors have in common that are planned alike."""
    return arguments.encode_tensor(TensorArgument(spec)).SerializeToString()


def in_buffer(spec: TensorSpec, buffer_id: int) -> bytes:
    """A tensor as it stands in a request of phase one, if its storage begins a buffer."""
    tensor = described(spec) + _BUFFER_ID + wire.varint(buffer_id)
    return argument_field(_TENSOR + wire.varint(len(tensor)) + tensor)


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
    return _encoded(parameter, value, operator)


_EXACT = (int, bool, str, type(None), DType)


@functools.lru_cache(1024, typed=True)
def _plain_argument(parameter: Parameter, value: ArgumentValue, operator: str) -> bytes:
    return _encoded(parameter, value, operator)


def _encoded(parameter: Parameter, value: ArgumentValue, operator: str) -> bytes:
    return argument_field(arguments.encode(parameter, value, operator).SerializeToString())


def phase_one(
    operator: str, executor_id: int, encoded: Sequence[bytes], *, repeatable: bool
) -> list[bytes]:
    """Encodes a GetWorkspaceSizeRequest, in parts.

    Args:
        operator: C name.
        executor_id: id for the executor.
        encoded: the arguments, as they stand in a request, in order.
        repeatable: whether the executor is to outlive its first run.
    """
    parts = [executor_field(executor_id), _operator(operator), *encoded]
    if repeatable:
        parts.append(_REPEATABLE)
    return parts


def executor_field(executor_id: int) -> bytes:
    """The executor's id as it stands in a GetWorkspaceSizeRequest."""
    return _EXECUTOR_ID + wire.varint(executor_id)


@functools.cache
def _operator(name: str) -> bytes:
    return pb.GetWorkspaceSizeRequest(operator=name).SerializeToString()


def phase_two(
    stream: bytes,
    executor_id: int,
    workspace: bytes = b"",
    bindings: Sequence[pb.Binding] = (),
    *,
    asynchronous: bool,
) -> list[bytes]:
    """Encodes an ExecuteRequest, in parts.

    Args:
        stream: what :func:`on_stream` gives for the stream.
        executor_id: from phase one.
        workspace: the client's scratch memory, as :func:`scratch` gives it.
        bindings: other storages of tensors.
        asynchronous: whether the answer does not wait for the work.
    """
    parts = [stream, _RUN_EXECUTOR_ID + wire.varint(executor_id), workspace]
    for binding in bindings:
        given = binding.SerializeToString()
        parts.append(_BINDING + wire.varint(len(given)) + given)
    if asynchronous:
        parts.append(_ASYNCHRONOUS)
    return parts


def scratch(workspace: pb.Workspace) -> bytes:
    """Scratch memory as it stands in an ExecuteRequest."""
    given = workspace.SerializeToString()
    return _WORKSPACE + wire.varint(len(given)) + given


@functools.lru_cache(256)
def on_stream(stream_id: str, report_timing: bool = False) -> bytes:
    """The stream as it stands in an ExecuteRequest, and whether to tell where the time goes."""
    request = pb.ExecuteRequest(stream_id=stream_id, report_timing=report_timing)
    return request.SerializeToString()


class BothPhases(Pending):
    """Both phases of a call, which go in one request: what phase two answers, or what failed first."""

    __slots__ = ()

    commands = 2

    def __init__(
        self,
        plan: Sequence[bytes],
        run: Sequence[bytes],
        *,
        answer_bytes: int = 0,
        on_error: Callable[[Pending], None] | None = None,
    ) -> None:
        """Encodes the two commands.

        Args:
            plan: what :func:`phase_one` gives.
            run: what :func:`phase_two` gives.
            answer_bytes: size that the answer will about have.
            on_error: told of the failure in place of who waits.
        """
        first, second = b"".join(plan), b"".join(run)
        self.patience = 0.0
        self._into = None
        encoded = b"".join(
            (
                wire.command_head("get_workspace_size", len(first)),
                first,
                wire.command_head("execute", len(second)),
                second,
            )
        )
        self._begin((encoded,), max(len(encoded), answer_bytes), on_error)

    def read(self, results: Iterator[bytes | memoryview]) -> None:
        """Takes both results."""
        planned = next(results)
        if planned[:1] != _PLANNED:
            self._read(planned)
        failure = self.error
        self.read_run(next(results))
        self.error = failure or self.error

    def read_run(self, ran: bytes | memoryview) -> None:
        """Takes the result of phase two."""
        self._read(ran)


_PLANNED = wire.tag(device_service_pb2.Result, "get_workspace_size")
