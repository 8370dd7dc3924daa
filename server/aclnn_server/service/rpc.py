"""gRPC's side: a handler for every method of the schema, all served from one table of calls."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from aclnn.errors import AclnnError, InvalidParameterError, LimitExceededError
from aclnn.status import to_status
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2
from aclnn_server.service.calls import Call
from aclnn_server.service.chunks import read_chunks, write_chunks
from aclnn_server.service.device_calls import DeviceCalls
from aclnn_server.service.failures import foreseen
from aclnn_server.service.operator_calls import OperatorCalls
from aclnn_server.service.server_calls import ServerCalls
from aclnn_server.sessions.registry import Registry

SERVICES = tuple(
    service
    for file in (operator_service_pb2, pb)
    for service in file.DESCRIPTOR.services_by_name.values()
)
"""Descriptors of the services that are served."""


class Service:
    """Every call of the schema, unary and inside Submit."""

    def __init__(
        self, registry: Registry, operators: OperatorCalls, server: ServerCalls, submit_calls: int
    ) -> None:
        self._registry = registry
        self._operators = operators
        self._server = server
        self._limit = submit_calls
        self._open = 0
        self._lock = threading.Lock()
        # A Submit call holds a thread for as long as it is open: in a pool of its own, so that it never
        # keeps a unary call waiting. The few threads above the limit are there to refuse.
        self._submit_threads = ThreadPoolExecutor(submit_calls + 8, "aclnn-submit")
        device = DeviceCalls()
        self._commands: dict[str, Callable[[Call, Any], Message]] = {
            field.name: getattr(operators if hasattr(operators, field.name) else device, field.name)
            for field in pb.Command.DESCRIPTOR.fields
        }

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """Handlers for a gRPC server."""
        return [
            grpc.method_handlers_generic_handler(
                service.full_name, {m.name: self._handler(m) for m in service.methods}
            )
            for service in SERVICES
        ]

    def close(self) -> None:
        """Ends the threads of Submit calls; the calls have ended."""
        self._submit_threads.shutdown(wait=False)

    # --- unary and chunked calls ------------------------------------------------------------------

    def _handler(self, method: MethodDescriptor) -> grpc.RpcMethodHandler[Any, Any]:
        name = _snake(method.name)
        codec = (GetMessageClass(method.input_type).FromString, _serialize)
        if name == "submit":
            return grpc.stream_stream_rpc_method_handler(self._in_own_threads(), *codec)
        if name == "write_buffer":
            return grpc.stream_unary_rpc_method_handler(self._guarded(write_chunks), *codec)
        if name == "read_buffer":
            return grpc.unary_stream_rpc_method_handler(self._read_chunks, *codec)
        if name == "create_stream":
            return grpc.unary_unary_rpc_method_handler(self._guarded(self._create_stream), *codec)
        if name in self._commands:
            return grpc.unary_unary_rpc_method_handler(self._guarded(self._commands[name]), *codec)
        act = getattr(self._server if hasattr(self._server, name) else self._operators, name)
        return grpc.unary_unary_rpc_method_handler(
            self._guarded(lambda _, request: act(request)), *codec
        )

    def _guarded(
        self, act: Callable[[Call, Any], Message]
    ) -> Callable[[Any, grpc.ServicerContext], Message]:
        def handle(request: Any, rpc: grpc.ServicerContext) -> Message:  # noqa: ANN401
            try:
                return act(self._unary(rpc), request)
            except Exception as error:
                _abort(rpc, foreseen(error))

        return handle

    def _unary(self, rpc: grpc.ServicerContext) -> Call:
        return Call(self._registry, expired=lambda: not rpc.is_active())

    def _create_stream(self, call: Call, request: pb.CreateStreamRequest) -> Message:
        if request.context_id:
            return self._commands["create_stream"](call, request)
        return self._server.create_lone_stream(request)

    def _read_chunks(
        self, request: pb.ReadBufferRequest, rpc: grpc.ServicerContext
    ) -> Iterator[pb.ReadBufferResponse]:
        try:
            yield from read_chunks(self._unary(rpc), request)
        except Exception as error:
            _abort(rpc, foreseen(error))

    # --- Submit -----------------------------------------------------------------------------------

    def _in_own_threads(
        self,
    ) -> Callable[[Iterator[pb.SubmitRequest], grpc.ServicerContext], Iterator[pb.SubmitResponse]]:
        def submit(
            requests: Iterator[pb.SubmitRequest], rpc: grpc.ServicerContext
        ) -> Iterator[pb.SubmitResponse]:
            return self._submit(requests, rpc)

        submit.experimental_thread_pool = self._submit_threads  # type: ignore[attr-defined]
        return submit

    def _submit(
        self, requests: Iterator[pb.SubmitRequest], rpc: grpc.ServicerContext
    ) -> Iterator[pb.SubmitResponse]:
        with self._lock:
            self._open += 1
        try:
            yield from self._batches(requests)
        except grpc.RpcError:
            return  # the client is gone; its context waits for it, for the time of its lease
        except AclnnError as error:
            _abort(rpc, error)
        finally:
            with self._lock:
                self._open -= 1

    def _batches(self, requests: Iterator[pb.SubmitRequest]) -> Iterator[pb.SubmitResponse]:
        if self._open > self._limit:
            raise LimitExceededError(
                f"the server has {self._limit} open Submit calls, as many as allowed",
                retry_after_ms=1000,
            )
        first = next(requests, None)
        if first is None:
            return
        if not first.context_id:
            raise InvalidParameterError(
                "the first request names no context", parameter="context_id"
            )
        context = self._registry.context(first.context_id)
        context.begin_call()
        try:
            call = Call(self._registry, context)
            yield self._answer(call, first)
            for request in requests:
                yield self._answer(call, request)
        finally:
            context.end_call()

    def _answer(self, call: Call, request: pb.SubmitRequest) -> pb.SubmitResponse:
        return pb.SubmitResponse(
            sequence=request.sequence,
            results=[self._result(call, command) for command in request.commands],
        )

    def _result(self, call: Call, command: pb.Command) -> pb.Result:
        name = command.WhichOneof("command")
        try:
            if name is None:
                raise InvalidParameterError("the command is empty", parameter="command")
            response = self._commands[name](call, getattr(command, name))
        except Exception as error:
            return pb.Result(error=foreseen(error).to_proto())
        return pb.Result(**{name: response})  # type: ignore[arg-type]


def _abort(rpc: grpc.ServicerContext, error: AclnnError) -> NoReturn:
    rpc.abort_with_status(to_status(error))


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
