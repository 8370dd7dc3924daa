"""gRPC's side: a handler for every method of the schema, all served from one table of calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from aclnn import wire
from aclnn.errors import AclnnError, InvalidParameterError
from aclnn.status import to_status
from aclnn.v1 import admin_service_pb2, operator_service_pb2
from aclnn.v1 import device_service_pb2 as pb
from aclnn.wire import BulkWrite, RawBatch
from aclnn_server.service.admin_calls import AdminCalls
from aclnn_server.service.applying import UNREADABLE
from aclnn_server.service.at_arrival import ArrivalPool
from aclnn_server.service.calls import Call
from aclnn_server.service.chunks import read_chunks, write_chunks
from aclnn_server.service.device_calls import DeviceCalls
from aclnn_server.service.failures import foreseen
from aclnn_server.service.in_hand import InHand
from aclnn_server.service.logbook import is_kept, logged
from aclnn_server.service.operator_calls import OperatorCalls
from aclnn_server.service.pools import FairPool, check_admitted, note_arrival
from aclnn_server.service.request_ids import RequestIds
from aclnn_server.service.server_calls import ServerCalls
from aclnn_server.service.submit import SubmitCalls
from aclnn_server.sessions.registry import Registry
from aclnn_server.sessions.tenants import ANYONE, Caller

_R = TypeVar("_R")
Act = Callable[[Call, Any], Any]
"""Serves a call: gives the response to a request."""

SERVICES = tuple(
    service
    for file in (operator_service_pb2, pb, admin_service_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
)
"""Descriptors of the services that are served."""
CHUNK_THREADS = 64
"""Writes and reads in chunks that are served at the same time; more wait."""
WAITING_CALLS = 1024
"""Calls that may wait for a thread, of unary ones and of those in chunks; more are refused at once."""


class Service:
    """Every call of the schema, unary and inside Submit."""

    def __init__(
        self,
        registry: Registry,
        operators: OperatorCalls,
        server: ServerCalls,
        admin: AdminCalls,
        submit_calls: int,
        identify: Callable[[grpc.ServicerContext], Caller] = lambda _: ANYONE,
    ) -> None:
        """Prepares the calls.

        Args:
            registry: contexts.
            operators: calls of OperatorService.
            server: calls that belong to the server.
            admin: calls of AdminService.
            submit_calls: Submit calls that may be open.
            identify: tells who calls, and has been let in already.
        """
        self._identify = identify
        self._registry = registry
        self._operators = operators
        self._server = server
        self._admin = admin
        self.in_hand = InHand()
        self._logged = is_kept()
        # Open calls and those in chunks hold a thread for as long as their clients like: in pools of their
        # own, they never keep a unary call waiting.
        self._chunk_threads = FairPool(CHUNK_THREADS, "aclnn-chunks", WAITING_CALLS)
        self._request_ids = RequestIds(registry)
        device = DeviceCalls()
        self._commands: dict[str, Act] = {
            field.name: getattr(operators if hasattr(operators, field.name) else device, field.name)
            for field in pb.Command.DESCRIPTOR.oneofs_by_name["command"].fields
        }
        self._submit_calls = SubmitCalls(registry, self._commands, self.in_hand, submit_calls)
        # The few threads above the limit are there to refuse.
        self._submit_threads = ArrivalPool(
            submit_calls + 8, "aclnn-submit", self._submit_calls, identify
        )

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """Handlers for a gRPC server."""
        return [
            grpc.method_handlers_generic_handler(
                service.full_name, {m.name: self._handler(m) for m in service.methods}
            )
            for service in SERVICES
        ]

    @property
    def open_submit_calls(self) -> int:
        """Submit calls that are open."""
        return self._submit_calls.open.count

    def break_off_silent(self) -> int:
        """Ends calls in chunks that hold threads and send nothing; see :class:`FairPool`."""
        return self._chunk_threads.break_off_silent()

    def close(self) -> None:
        """Ends the threads; the calls have ended."""
        self._submit_threads.shutdown()
        self._chunk_threads.shutdown()

    # --- unary and chunked calls ------------------------------------------------------------------

    def _handler(self, method: MethodDescriptor) -> grpc.RpcMethodHandler[Any, Any]:
        name = _snake(method.name)
        codec = (_lenient(GetMessageClass(method.input_type).FromString), _serialize)
        if name == "submit":
            return grpc.stream_stream_rpc_method_handler(
                _in(self._submit_threads, self._submit), _lenient(wire.split_request), None
            )
        if name == "write_buffer":
            return grpc.stream_unary_rpc_method_handler(
                _in(self._chunk_threads, self._write_chunks),
                _lenient(wire.decode_write),
                _serialize,
            )
        if name == "read_buffer":
            return grpc.unary_stream_rpc_method_handler(
                _in(self._chunk_threads, self._read_chunks), codec[0], None
            )
        return grpc.unary_unary_rpc_method_handler(self._guarded(name), *codec)

    def _act(self, name: str) -> Act:
        """What serves a unary call."""
        if name == "create_stream":
            return self._create_stream
        if name in self._commands:
            return self._commands[name]
        for calls in (self._server, self._admin):
            if hasattr(calls, name):
                act: Act = getattr(calls, name)
                return act
        tell = getattr(self._operators, name)
        return lambda _, request: tell(request)

    def _guarded(self, name: str) -> Callable[[Any, grpc.ServicerContext], Message]:
        act = self._act(name)

        def handle(request: Any, rpc: grpc.ServicerContext) -> Message:  # noqa: ANN401
            note_arrival()
            with self._unary(rpc, name) as call:
                response = self._request_ids.once(rpc, name, act, call, _readable(request))
                if call.meter is not None:  # sizes are not told for nothing
                    call.note_bytes(request.ByteSize(), response.ByteSize())
                return response

        return handle

    @contextmanager
    def _unary(self, rpc: grpc.ServicerContext, method: str) -> Iterator[Call]:
        """One call, from its beginning to its end; what it fails with is told to the client."""
        call = Call(
            self._registry,
            expired=lambda: not rpc.is_active(),
            cancel=rpc.cancel,
            tenant=self._identify(rpc).tenant,
            peer=rpc.peer,
            tell=lambda key, value: rpc.set_trailing_metadata(((key, value),)),
        )
        try:
            check_admitted()
            with self.in_hand, logged(call, method) if self._logged else nullcontext():
                yield call
        except grpc.RpcError:
            raise  # the client broke its call off; gRPC knows
        except Exception as error:
            # No name is bound here: this frame is the error's, and memory would stay in their cycle.
            _abort(rpc, _noted(call, method, foreseen(error)))
        finally:
            call.end()
            call.note_end(method)

    def _create_stream(self, call: Call, request: pb.CreateStreamRequest) -> Message:
        if request.context_id:
            response: Message = self._commands["create_stream"](call, request)
            return response
        return self._server.create_lone_stream(call, request)

    def _write_chunks(
        self, requests: Iterator[BulkWrite], rpc: grpc.ServicerContext
    ) -> pb.WriteBufferResponse:
        with self._unary(rpc, "write_buffer") as call:
            return write_chunks(call, map(_arrived, requests))

    def _read_chunks(
        self, request: pb.ReadBufferRequest, rpc: grpc.ServicerContext
    ) -> Iterator[bytes]:
        note_arrival()
        with self._unary(rpc, "read_buffer") as call:
            for chunk in read_chunks(call, _readable(request)):
                yield wire.encode_read(chunk.data)

    # --- Submit ---------------------------------------------------------------------------------

    def _submit(self, requests: Iterator[RawBatch], rpc: grpc.ServicerContext) -> Iterator[bytes]:
        try:
            caller = self._identify(rpc)
            with caller.keeping_open(rpc.cancel):
                yield from self._submit_calls.serve(
                    map(_readable, requests),
                    caller,
                    lambda: not rpc.is_active(),
                    rpc.add_callback,
                )
        except grpc.RpcError:
            return  # the client is gone; its context waits for it, for the time of its lease
        except Exception as error:
            _abort(rpc, foreseen(error))


def _in(threads: ThreadPoolExecutor, serve: Callable[[Any, Any], _R]) -> Callable[[Any, Any], _R]:
    """The same handler, served in threads of its own."""

    def handle(request: Any, rpc: grpc.ServicerContext) -> _R:  # noqa: ANN401
        return serve(request, rpc)

    handle.experimental_thread_pool = threads  # type: ignore[attr-defined]
    return handle


class _Malformed:
    """What stands for a message that cannot be decoded."""


def _lenient(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    # gRPC may answer twice where a decoder fails, and then never forgets the call, nor ever stops.
    def read(encoded: bytes) -> Any:  # noqa: ANN401 - a message
        try:
            return decode(encoded)
        except Exception:
            return _Malformed()

    return read


def _readable(message: Any) -> Any:  # noqa: ANN401 - a message, or an iterator of messages
    if isinstance(message, _Malformed):
        raise InvalidParameterError(UNREADABLE)
    return message


def _arrived(message: Any) -> Any:  # noqa: ANN401 - as of _readable
    note_arrival()
    return _readable(message)


def _noted(call: Call, method: str, error: AclnnError) -> AclnnError:
    call.note_error(method, error)
    return error


def _abort(rpc: grpc.ServicerContext, error: AclnnError) -> NoReturn:
    rpc.abort_with_status(to_status(error))


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
