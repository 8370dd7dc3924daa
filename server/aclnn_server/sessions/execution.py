"""Phase two: checks the workspace, binds what is left to bind, and queues the work in its stream."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aclnn.arguments import TensorArgument
from aclnn.errors import InvalidParameterError, NullPointerError
from aclnn.tensors import TensorSpec
from aclnn_server.backends.base import Memory, Shapes
from aclnn_server.sessions.context import Session
from aclnn_server.sessions.executors import Executor, Slot, storages_of
from aclnn_server.sessions.memory import Buffer
from aclnn_server.sessions.planning import bind_buffer, take_in
from aclnn_server.sessions.requests import REQUEST_ID
from aclnn_server.sessions.streams import Work
from aclnn_server.sessions.timing import Timing

_LOG = logging.getLogger(__name__)

INLINE_BYTES = 2**20
"""Work on at most this many bytes is run by the thread that queues it: a second thread costs more."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Scratch memory that the client provides."""

    buffer_id: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Binding:
    """Another storage for one tensor of a repeatable executor."""

    argument: int
    element: int
    data: bytes | None
    buffer_id: int | None
    buffer_offset: int


@dataclass(slots=True)
class Returned:
    """An output tensor whose bytes go back in the response."""

    argument: int
    element: int
    spec: TensorSpec
    data: bytes


@dataclass(slots=True)
class Execution:
    """One run of an executor."""

    session: Session
    executor: Executor
    slots: list[Slot]
    """Tensors of this run: the executor's, some with another storage."""
    workspace: Memory | None = None
    buffers: list[Buffer] = field(default_factory=list)
    """Buffers that the work uses."""
    owned: list[tuple[Memory, int]] = field(default_factory=list)
    """Memory that ends with the run."""
    lent: Buffer | None = None
    """The session's workspace, where it lends it."""
    outputs: list[Returned] = field(default_factory=list)
    shapes: Shapes = field(default_factory=dict)
    """Of outputs whose elements tell it, once it has run."""
    timing: Timing = field(default_factory=Timing)
    report: bool = False
    """Whether the client wants to know the timing."""
    request_id: str = field(default_factory=REQUEST_ID.get)
    """Of the phase two that it is of, where calls are logged."""
    traceparent: str = ""
    """Span of the caller, who follows the run; empty where nobody does."""
    done: bool = False
    """Whether it has run, and ended well."""
    work: Work | None = None

    @property
    def returns(self) -> bool:
        """Whether outputs go back in the response."""
        return any(slot.returned for slot in self.slots)

    def wait(self) -> None:
        """Waits until the work is done; raises what it failed with."""
        assert self.work is not None
        self.session.stream.wait(self.work.number, gone=self.work.expired)
        self.work.raise_failure()

    def run(self) -> None:
        """Computes; called by the stream."""
        assert self.work is not None
        tally, timing, name = self.session.tally, self.timing, self.executor.signature.name
        try:
            self._compute(self.work)
        except BaseException as error:
            if tally is not None:
                tally.note_failure(name, error)
            self._trace(error)
            self._log_failure(error)
            raise
        self._trace(None)
        if self.request_id:
            self._log(0)
        self.done = True
        if self.report:
            self.session.last_timing = timing
        if tally is not None:
            tally.note_run(name, timing.queue, timing.copy_in, timing.run, timing.copy_out)

    def _trace(self, error: BaseException | None) -> None:
        """Tells whoever follows the run how it went; it has just ended."""
        context, name = self.session.context, self.executor.signature.name
        if self.traceparent and (traces := context.environment.traces) is not None:
            traces.note_run(self.traceparent, name, context.label, self.timing, error)

    def _log_failure(self, error: BaseException) -> None:
        """Logs how it failed, and raises in its place what the client is told, under its request's id."""
        if self.request_id:
            before = REQUEST_ID.set(self.request_id)
            try:
                told = self.session.context.environment.told(error)
            finally:
                REQUEST_ID.reset(before)
            self._log(told.code)
            raise told from None

    def _log(self, code: int) -> None:
        context, timing = self.session.context, self.timing
        _LOG.debug(
            "run",
            extra={
                "request_id": self.request_id,
                "context": context.label,
                "owner": context.owner,
                "operator": self.executor.signature.name,
                "code": code,
                "queue_seconds": timing.queue / 1e9,
                "copy_in_seconds": timing.copy_in / 1e9,
                "run_seconds": timing.run / 1e9,
                "copy_out_seconds": timing.copy_out / 1e9,
            },
        )

    def _compute(self, work: Work) -> None:
        device, stream, executor = (
            self.session.context.device,
            self.session.device_stream,
            self.executor,
        )
        begin = time.monotonic_ns()
        self.timing.queue = begin - work.queued_ns
        self.timing.copy_in += executor.copy_in_ns
        executor.copy_in_ns = 0
        if work.waited:
            self.session.settle()  # so that what failed before is not taken for this run's failure
        storages = storages_of(executor.signature, executor.arguments, self.slots)
        self.shapes = device.run(executor.plan, storages, self.workspace, stream) or {}
        if work.waited:
            device.synchronize(stream)
        end = time.monotonic_ns()
        self.timing.run = end - begin
        if self.returns:
            self._take_out()
            self.timing.copy_out = time.monotonic_ns() - end

    def _take_out(self) -> None:
        device = self.session.context.device
        for slot in self.slots:
            if slot.returned:
                empty = slot.memory is None
                data = b"" if empty else bytes(device.read(slot.memory))
                spec = slot.tensor.spec
                self.outputs.append(Returned(slot.argument, slot.element, spec, data))

    def release(self) -> None:
        """Gives back what ends with the run."""
        account = self.session.context.account
        try:  # what fails to go keeps nothing else from going
            account.release_all(self.owned)
        finally:
            try:
                if self.lent is not None:
                    self.lent.end_use()
            finally:
                self.executor.end_run(account)


def execute(
    session: Session,
    executor_id: int,
    workspace: Workspace | None,
    bindings: Sequence[Binding] = (),
    *,
    wait: bool | None,
    expired: Callable[[], bool] | None = None,
    report: bool = False,
    traceparent: str = "",
) -> Execution:
    """Runs an executor on the session's stream; a one-shot one is freed, on success or failure.

    A queue that is full leaves it as it is.

    Args:
        session: of the stream.
        executor_id: from phase one.
        workspace: the client's scratch memory; ``None``: the session lends its own.
        bindings: new storages, for a repeatable executor.
        wait: whether to return when the work is done; ``None``: only where outputs are returned, or the work
            tells their shape.
        expired: tells, just before the work is run, that nobody wants it any more.
        report: whether the stream is to remember the timing.
        traceparent: span of the caller, who follows the run.

    Raises:
        NullPointerError: 161001, a workspace is needed and null; an input has no storage.
        InvalidParameterError: 161002, the workspace is smaller than planned; a binding does not fit; the
            outputs to return do not fit one message.
        HandleNotFoundError, ExecutorUsedError: no such executor; run before.
        OutOfMemoryError, LimitExceededError: memory for workspace or outputs; queue full.
        AclnnError: what the work failed with, where it is waited for.
    """
    session.stream.check_not_full()  # first: what is refused for now only is not spent
    executor = session.context.take_executor(executor_id)
    execution = Execution(
        session, executor, list(executor.slots), report=report, traceparent=traceparent
    )
    try:
        _bind(execution, bindings)
        if wait is None:
            wait = execution.returns or executor.shaped_by_data
        if not wait and execution.returns:
            raise InvalidParameterError(
                "asynchronous is set, but an output has no buffer and goes back in the response",
                operator=executor.signature.name,
                parameter="asynchronous",
            )
        _check_answer(execution)
        _provide_workspace(execution, workspace)
        _provide_storages(execution)
        execution.work = Work(
            execution.run,
            tuple(execution.buffers),
            waited=wait,
            # Nobody waits for the answer of what was only queued.
            expired=expired if wait else None,
            on_end=execution.release,
        )
        session.stream.enqueue(execution.work, inline=wait or is_small(executor))
    except BaseException:
        if execution.work is None or not execution.work.number:
            execution.release()
        raise
    if wait:
        execution.wait()
    return execution


def _check_answer(execution: Execution) -> None:
    limit = execution.session.context.limits.bulk_bytes
    returned = [slot for slot in execution.slots if slot.returned]
    if not returned:
        return
    size = sum(slot.tensor.spec.storage_bytes for slot in returned)
    if size > limit:
        names = ", ".join(slot.parameter.name for slot in returned)
        raise InvalidParameterError(
            f"{names} would be returned with {size} bytes; one message carries at most {limit}: "
            "give a buffer",
            operator=execution.executor.signature.name,
            parameter=returned[0].parameter.name,
        )


def is_small(executor: Executor) -> bool:
    """Whether its work is run by the thread that queues it."""
    return sum(slot.tensor.spec.storage_bytes for slot in executor.slots) <= INLINE_BYTES


def _provide_workspace(execution: Execution, workspace: Workspace | None) -> None:
    needed, operator = execution.executor.plan.workspace_bytes, execution.executor.signature.name
    context = execution.session.context
    if workspace is None:
        if needed:
            execution.lent = execution.session.lend_workspace(needed)
            execution.workspace = execution.lent.memory
        return
    if not workspace.buffer_id and workspace.size:
        raise NullPointerError(
            f"workspace is null with a workspaceSize of {workspace.size}",
            operator=operator,
            parameter="workspace",
        )
    if workspace.size < needed:
        raise InvalidParameterError(
            f"workspaceSize is {workspace.size}; phase one planned {needed}",
            operator=operator,
            parameter="workspaceSize",
        )
    if workspace.buffer_id:
        buffer = context.buffers.find(workspace.buffer_id, "workspace", operator)
        buffer.check_range(workspace.offset, workspace.size, "workspace", operator)
        execution.buffers.append(buffer)
        execution.workspace = context.device.slice(buffer.memory, workspace.offset, workspace.size)


def _bind(execution: Execution, bindings: Sequence[Binding]) -> None:
    executor = execution.executor
    if not bindings:
        return
    if not executor.repeatable:
        raise InvalidParameterError(
            "bindings are given, but the executor is not repeatable",
            operator=executor.signature.name,
            parameter="bindings",
        )
    positions = {(slot.argument, slot.element): i for i, slot in enumerate(executor.slots)}
    for binding in bindings:
        index = positions.get((binding.argument, binding.element))
        if index is None:
            raise InvalidParameterError(
                f"bindings name tensor {binding.element} of argument {binding.argument}, which there is not",
                operator=executor.signature.name,
                parameter="bindings",
            )
        execution.slots[index] = _rebound(execution, executor.slots[index], binding)


def _rebound(execution: Execution, slot: Slot, binding: Binding) -> Slot:
    context, operator = execution.session.context, execution.executor.signature.name
    spec, name = slot.tensor.spec, slot.parameter.name
    if binding.data is not None and len(binding.data) != spec.storage_bytes:
        raise InvalidParameterError(
            f"{name} is bound to {len(binding.data)} bytes; its storage needs {spec.storage_bytes}",
            operator=operator,
            parameter=name,
        )
    tensor = TensorArgument(spec, binding.data, binding.buffer_id, binding.buffer_offset)
    bound = slot.over(tensor)
    begin = time.monotonic_ns()
    bind_buffer(context, bound, operator)
    try:
        take_in(context, bound)
    finally:
        if bound.owned_bytes:
            execution.owned.append((bound.memory, bound.owned_bytes))
    execution.timing.copy_in += time.monotonic_ns() - begin
    return bound


def _provide_storages(execution: Execution) -> None:
    executor, account = execution.executor, execution.session.context.account
    for index, slot in enumerate(execution.slots):
        slot.check_not_freed(executor.signature.name)
        if slot.buffer is not None:
            execution.buffers.append(slot.buffer)
        spec, name = slot.tensor.spec, slot.parameter.name
        if slot.memory is not None or not spec.storage_bytes:
            continue
        if slot.parameter.output:
            memory = account.allocate(spec.storage_bytes, name)
            execution.owned.append((memory, spec.storage_bytes))
            execution.slots[index] = slot.over(slot.tensor, memory)
        elif spec.elements:
            raise NullPointerError(
                f"{name} has no storage: bind one",
                operator=executor.signature.name,
                parameter=name,
            )
