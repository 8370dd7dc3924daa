"""Calls of OperatorService."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from aclnn import one_line
from aclnn.arguments import TensorArgument, decode_all, encode_tensor
from aclnn.errors import OperatorNotFoundError, UnsupportedError
from aclnn.v1 import operator_service_pb2 as pb
from aclnn_server.backends.base import Backend, OperatorInfo
from aclnn_server.service.calls import Call, encode_timing
from aclnn_server.sessions.context import Session
from aclnn_server.sessions.execution import Binding, Execution, Workspace, execute
from aclnn_server.sessions.planning import plan

MAX_NAME = 128
"""Characters of a name that are told."""


class OperatorCalls:
    """Plans, runs and describes operators."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def get_workspace_size(
        self, call: Call, request: pb.GetWorkspaceSizeRequest
    ) -> pb.GetWorkspaceSizeResponse:
        """Phase one."""
        session = call.session(request)
        with _followed(session, request.traceparent, f"{request.operator}GetWorkspaceSize"):
            signature = self._runnable(request.operator).signature
            executor = plan(
                session,
                request.executor_id,
                signature,
                decode_all(signature, request.arguments),
                repeatable=request.repeatable,
            )
        return pb.GetWorkspaceSizeResponse(
            executor_id=executor.id, workspace_bytes=executor.plan.workspace_bytes
        )

    def execute(self, call: Call, request: pb.ExecuteRequest) -> pb.ExecuteResponse:
        """Phase two."""
        wait = not request.asynchronous
        execution = execute(
            call.session(request),
            request.executor_id,
            workspace_of(request),
            [_binding(binding) for binding in request.bindings],
            wait=None if call.submitted is not None else wait,
            expired=call.expired,
            report=request.report_timing,
            traceparent=request.traceparent,
        )
        if call.tell is not None and execution.done:
            call.tell("server-timing", execution.timing.as_header())
        return _response(execution, timing=request.report_timing and execution.done)

    def destroy_executor(
        self, call: Call, request: pb.DestroyExecutorRequest
    ) -> pb.DestroyExecutorResponse:
        """Frees an executor that will not be run."""
        context = call.context(request)
        context.executors.take(request.executor_id).end(context.account)
        return pb.DestroyExecutorResponse()

    def list_operators(self, request: pb.ListOperatorsRequest) -> pb.ListOperatorsResponse:
        """The catalogue."""
        chosen = [
            _encode(info, self._backend.name, whole=False)
            for name, info in self._backend.operators.items()
            if name.startswith(request.prefix)
        ]
        return pb.ListOperatorsResponse(operators=chosen)

    def get_operator(self, request: pb.GetOperatorRequest) -> pb.GetOperatorResponse:
        """One operator."""
        info = self._find(request.operator)
        return pb.GetOperatorResponse(operator=_encode(info, self._backend.name, whole=True))

    def _runnable(self, name: str) -> OperatorInfo:
        info = self._find(name)
        if info.refused_because:
            reason = info.refused_because.removeprefix(f"{name} ")
            raise UnsupportedError(reason, operator=name)
        return info

    def _find(self, name: str) -> OperatorInfo:
        found = self._backend.operators.get(name)
        if found is None:
            raise OperatorNotFoundError(
                f"{name!r} is no operator of this server's {self._backend.name} backend, which has "
                f"{len(self._backend.operators)}; ListOperators tells them",
                parameter="operator",
            )
        return found


@contextmanager
def _followed(session: Session, traceparent: str, name: str) -> Iterator[None]:
    """Tells whoever follows the call how the block went."""
    traces = session.context.environment.traces
    if traces is None or not traceparent:
        yield
        return
    begin = time.monotonic_ns()
    failure: BaseException | None = None
    try:
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        took = time.monotonic_ns() - begin
        traces.note_call(traceparent, name[:MAX_NAME], session.context.label, took, failure)


def workspace_of(request: pb.ExecuteRequest) -> Workspace | None:
    """The client's scratch memory, if it gives some."""
    if not request.HasField("workspace"):
        return None
    given = request.workspace
    return Workspace(given.buffer_id, given.offset, given.bytes)


def _binding(message: pb.Binding) -> Binding:
    storage = message.WhichOneof("storage")
    return Binding(
        message.argument,
        message.element,
        message.data if storage == "data" else None,
        message.buffer_id if storage == "buffer_id" else None,
        message.buffer_offset,
    )


def _response(execution: Execution, *, timing: bool) -> pb.ExecuteResponse:
    response = pb.ExecuteResponse()
    for output in execution.outputs:
        response.outputs.add(
            argument=output.argument,
            element=output.element,
            tensor=encode_tensor(TensorArgument(output.spec, output.data)),
        )
    signature = execution.executor.signature
    for position, parameter in enumerate(signature.parameters):
        if parameter.name in execution.shapes:
            response.shapes.add(argument=position, shape=execution.shapes[parameter.name])
    if timing:
        response.timing.CopyFrom(encode_timing(execution.timing))
    return response


def _encode(info: OperatorInfo, backend: str, *, whole: bool) -> pb.OperatorInfo:
    allowed = info.dtypes or {}
    parameters = [
        pb.Parameter(
            name=parameter.name,
            c_type=parameter.c_type,
            output=parameter.output,
            optional=parameter.optional,
            data_types=[dtype.number for dtype in allowed.get(parameter.name, ())],  # type: ignore[misc]
            shaped_by_data=parameter.shaped_by_data,
        )
        for parameter in info.signature.parameters
    ]
    return pb.OperatorInfo(
        name=info.signature.name,
        parameters=parameters,
        summary=info.summary,
        description=info.description if whole else "",
        backends=[*([] if info.refused_because else [backend]), *info.others],
        refused_because=info.refused_because,
        one_line=one_line.encode(info.python) if info.python else "",
    )
