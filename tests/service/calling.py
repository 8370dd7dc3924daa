"""Three ways of making the same call: a unary RPC, a command inside Submit, and without gRPC at all.

Each takes the request and gives the response, or raises the error that a client would rebuild. What a
failure must look like on the wire is checked at every failure, in passing.
"""

from __future__ import annotations

import queue
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from aclnn import errors, status
from aclnn.errors import AclnnError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import device_service_pb2_grpc, operator_service_pb2_grpc
from aclnn_server.backends.base import Backend
from aclnn_server.service.calls import Call
from aclnn_server.service.device_calls import DeviceCalls
from aclnn_server.service.operator_calls import OperatorCalls
from aclnn_server.sessions.registry import Registry

PROTOCOL = 1
DEADLINE = 50.0
"""Seconds after which a call counts as hung."""

_NAMES = {
    field.message_type.full_name: field.name
    for field in pb.Command.DESCRIPTOR.fields
    if field.message_type is not None
}
_COUNTS = tuple(field.name for field in pb.Usage.DESCRIPTOR.fields)


def command_name(request: Message) -> str:
    """Name of the command that a request is for."""
    return _NAMES[request.DESCRIPTOR.full_name]


class Caller(ABC):
    """A client with a context of its own."""

    context_id: str
    stream_id: str

    @abstractmethod
    def __call__(self, request: Message) -> Any:  # noqa: ANN401 - the response of the request
        """Makes the call; raises the :class:`AclnnError` that it fails with."""

    @abstractmethod
    def usage(self) -> dict[str, int]:
        """What the server holds."""

    @abstractmethod
    def close(self) -> None:
        """Ends the context, where it is still there."""


class Stubs:
    """The services over one channel."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self.device = device_service_pb2_grpc.DeviceServiceStub(channel)
        self.operator = operator_service_pb2_grpc.OperatorServiceStub(channel)

    def create_context(self, **rest: Any) -> pb.CreateContextResponse:  # noqa: ANN401
        """Opens a context."""
        request = pb.CreateContextRequest(protocol_version=PROTOCOL, **rest)
        return self.device.CreateContext(request, timeout=DEADLINE)

    def usage(self) -> dict[str, int]:
        """What the server holds, by kind."""
        info = self.device.GetServerInfo(pb.GetServerInfoRequest(), timeout=DEADLINE)
        return {name: getattr(info.usage, name) for name in _COUNTS}

    def unary(self, request: Message, timeout: float = DEADLINE) -> Any:  # noqa: ANN401
        """Makes a unary call exactly as given; writes and reads travel as one message or many."""
        name = "".join(part.title() for part in command_name(request).split("_"))
        stub = self.operator if hasattr(self.operator, name) else self.device
        method = getattr(stub, name)
        try:
            if isinstance(request, pb.WriteBufferRequest):
                return method(iter([request]), timeout=timeout)
            if isinstance(request, pb.ReadBufferRequest):
                return pb.ReadBufferResponse(
                    data=b"".join(chunk.data for chunk in method(request, timeout=timeout))
                )
            return method(request, timeout=timeout)
        except grpc.RpcError as error:
            in_chunks = isinstance(request, pb.WriteBufferRequest | pb.ReadBufferRequest)
            raise (_interrupted(error) if in_chunks else None) or checked(error) from None


class RemoteCaller(Caller):
    """A caller over gRPC."""

    def __init__(self, stubs: Stubs) -> None:
        self.stubs = stubs
        created = stubs.create_context(client_name="tests")
        self.context_id, self.stream_id = created.context_id, created.stream_id

    def usage(self) -> dict[str, int]:
        return self.stubs.usage()

    def close(self) -> None:
        request = pb.DestroyContextRequest(context_id=self.context_id)
        future = self.stubs.device.DestroyContext.future(request, timeout=DEADLINE)
        error = future.exception()
        assert error is None or isinstance(checked(error), errors.HandleNotFoundError)


class Unary(RemoteCaller):
    """Every call is an RPC. Requests that leave their context out get this one."""

    @classmethod
    def adopt(cls, stubs: Stubs, context_id: str, stream_id: str) -> Unary:
        """A client that goes on with a context that another one opened."""
        client = cls.__new__(cls)
        client.stubs, client.context_id, client.stream_id = stubs, context_id, stream_id
        return client

    def __call__(self, request: Message) -> Any:  # noqa: ANN401
        return self.stubs.unary(self.addressed(request))

    def addressed(self, request: Message) -> Message:
        """The request with this context, where it names none."""
        addressed = type(request)()
        addressed.CopyFrom(request)
        if not getattr(request, "context_id", "named"):
            addressed.context_id = self.context_id  # type: ignore[attr-defined]
        if isinstance(addressed, pb.WriteBufferRequest) and not addressed.total_bytes:
            addressed.total_bytes = len(addressed.data)
        if isinstance(addressed, pb.QueryStreamRequest) and not addressed.stream_id:
            addressed.stream_id = self.stream_id
        return addressed


class Submitting(RemoteCaller):
    """Every call is a command in one open Submit call."""

    def __init__(self, stubs: Stubs) -> None:
        super().__init__(stubs)
        self._requests: queue.SimpleQueue[pb.SubmitRequest | None] = queue.SimpleQueue()
        self._responses = stubs.device.Submit(iter(self._requests.get, None), timeout=600)
        self.send()
        assert self.receive() == []

    def __call__(self, request: Message) -> Any:  # noqa: ANN401
        (result,) = self.batch([request])
        if isinstance(result, AclnnError):
            raise result
        return result

    def batch(self, requests: Sequence[Message]) -> list[Any]:
        """Sends one batch; gives a response or an error for each command."""
        self.send(*requests)
        return self.receive()

    def send(self, *requests: Message, sequence: int = 0) -> None:
        """Sends a batch without waiting for its answer."""
        commands = [pb.Command(**{command_name(r): r}) for r in requests]  # type: ignore[arg-type]
        self._requests.put(
            pb.SubmitRequest(context_id=self.context_id, sequence=sequence, commands=commands)
        )

    def receive(self) -> list[Any]:
        """Waits for the next batch's answer."""
        return [_opened(result) for result in next(self._responses).results]

    def hang_up(self) -> None:
        """Breaks the call off, as a client that dies does."""
        self._responses.cancel()
        self._requests.put(None)
        self._responses = iter(())  # type: ignore[assignment]

    def close(self) -> None:
        self._requests.put(None)
        super().close()
        for _ in self._responses:
            pass


class InProcess(Caller):
    """Every call goes straight to the sessions; no gRPC, no thread of a server's."""

    def __init__(self, registry: Registry, backend: Backend) -> None:
        self._registry = registry
        self._context = registry.create_context(None, 60.0)
        self.context_id, self.stream_id = self._context.id, self._context.default_session.id
        self._operators, self._device = OperatorCalls(backend), DeviceCalls()

    def __call__(self, request: Message) -> Any:  # noqa: ANN401
        name = command_name(request)
        calls = self._operators if hasattr(self._operators, name) else self._device
        return getattr(calls, name)(Call(self._registry, self._context), request)

    def usage(self) -> dict[str, int]:
        usage = self._registry.usage
        return {name: getattr(usage, name) for name in _COUNTS}

    def close(self) -> None:
        self._registry.destroy_context(self._context)


def _interrupted(error: grpc.RpcError) -> errors.CancelledError | None:
    """What became of a transfer whose context ended in the middle, by another client or its lease.

    The server breaks such a call off without a word: telling would wait for a client that may take nothing.
    """
    call: Any = error
    told = "grpc-status-details-bin" in dict(call.trailing_metadata() or ())
    if call.code() is not grpc.StatusCode.CANCELLED or told:
        return None
    return errors.CancelledError("the context ended in the middle of a transfer")


def _opened(result: pb.Result) -> Any:  # noqa: ANN401 - a response or an error
    kind = result.WhichOneof("result")
    assert kind is not None
    if kind != "error":
        return getattr(result, kind)
    error = errors.from_proto(result.error)
    assert result.error.status_code == error.status
    assert result.error.reason == error.reason
    return error


def code_of(rpc_error: grpc.RpcError) -> grpc.StatusCode:
    """The gRPC status that an RPC ended with."""
    call: Any = rpc_error
    code: grpc.StatusCode = call.code()
    return code


def checked(rpc_error: Exception) -> AclnnError:
    """The error of a failed RPC, after checking what the schema promises about its wire form."""
    assert isinstance(rpc_error, grpc.RpcError)
    error = status.from_rpc_error(rpc_error)
    assert code_of(rpc_error).value[0] == error.status, rpc_error
    call: Any = rpc_error  # gRPC's own errors are calls as well, which their type does not say
    encoded = dict(call.trailing_metadata() or ()).get("grpc-status-details-bin")
    assert isinstance(encoded, bytes), f"no details: {call.details()}"
    details = {d.TypeName(): d for d in status_pb2.Status.FromString(encoded).details}
    info = error_details_pb2.ErrorInfo()
    assert details["google.rpc.ErrorInfo"].Unpack(info)
    assert (info.domain, info.reason) == (status.DOMAIN, error.reason)
    assert info.metadata["acl_code"] == str(error.code)
    if error.parameter and error.status == grpc.StatusCode.INVALID_ARGUMENT.value[0]:
        request = error_details_pb2.BadRequest()
        assert details["google.rpc.BadRequest"].Unpack(request)
        assert [v.field for v in request.field_violations] == [error.parameter]
    return error


def refused(
    caller: Caller,
    request: Message,
    kind: type[AclnnError],
    *,
    parameter: str,
    says: Sequence[str] = (),
    code: int | None = None,
) -> AclnnError:
    """Makes a call that must fail, with exactly this error, and leave nothing behind."""
    before = caller.usage()
    with pytest.raises(AclnnError) as caught:
        caller(request)
    error = caught.value
    assert type(error) is kind, error
    assert error.code == (kind.default_code if code is None else code)
    assert error.parameter == parameter, error
    for text in says:
        assert text in error.message
    assert caller.usage() == before
    return error


def submit(stubs: Stubs, *requests: pb.SubmitRequest) -> list[pb.SubmitResponse]:
    """One Submit call with these requests and no more; raises as :class:`Unary` does."""
    try:
        return list(stubs.device.Submit(iter(requests), timeout=DEADLINE))
    except grpc.RpcError as error:
        raise checked(error) from None


def failed(call: Callable[..., Any], request: Message) -> AclnnError:
    """The error of a call of a stub that must fail, checked as :func:`checked` does."""
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=DEADLINE)
    return checked(caught.value)
