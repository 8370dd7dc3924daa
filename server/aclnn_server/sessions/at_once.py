"""Both phases of a call in one step, where everything about it is known.

A call that equals an earlier one but for its memory need not be planned again, nor kept as an executor.
It need not be queued either, if its stream has nothing to do and its caller waits for it, or it is small;
else only its run is. What this cannot do, or what might fail, is left to
:mod:`~aclnn_server.sessions.planning` and :mod:`~aclnn_server.sessions.execution`, which do the same
step by step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field

from aclnn.errors import (
    AclnnError,
    HandleNotFoundError,
    LimitExceededError,
    StreamDestroyedError,
)
from aclnn.signatures import Kind
from aclnn_server.backends.base import Device, Memory, Plan, Storage
from aclnn_server.sessions.blocks import LARGE_BYTES
from aclnn_server.sessions.context import Context, Session
from aclnn_server.sessions.execution import Workspace, is_small
from aclnn_server.sessions.executors import Executor
from aclnn_server.sessions.memory import Buffer, hold_all
from aclnn_server.sessions.streams import Work, bare

Given = bytes | memoryview | tuple[int, int] | None
"""Storage of one tensor: its bytes, a buffer's id and the offset in it, or ``None`` for an output that is
returned."""


QUICK_NS = 300_000
"""Nanoseconds up to which a call is quick: others wait no longer for it than for a change of threads."""


@dataclass(slots=True)
class KnownCall:
    """A call that was planned before, without its memory."""

    operator: str
    plan: Plan
    arguments: int
    """How many arguments it has."""
    tensors: tuple[tuple[int, int], ...]
    """Of each tensor: position of the argument, bytes of its storage."""
    charge: int
    """Bytes of device memory that a run takes and gives back."""
    waited: bool
    """Whether outputs are returned, so that the failure goes to the caller."""
    small: bool
    """Whether it may be run at once also where its caller goes on meanwhile."""
    quick: bool = field(default=False, compare=False)
    """Whether it was quick when it was last run, or before; one run that took long may be the machine's."""
    _slow: bool = field(default=False, compare=False)
    """Whether the last run took long."""

    def note_time(self, took: int) -> None:
        """Notes how long a run took, in nanoseconds."""
        slow = took > QUICK_NS
        self.quick = not slow or (self.quick and not self._slow)
        self._slow = slow

    @classmethod
    def of(cls, executor: Executor, context: Context) -> KnownCall | None:
        """The call of an executor, if others like it can be run at once."""
        slots = executor.slots
        returned = [slot.tensor.spec.storage_bytes for slot in slots if slot.returned]
        if (
            not context.device.shares_plans
            or not (is_small(executor) or returned or _is_in_buffers(executor))
            or sum(returned) > context.limits.bulk_bytes
            or executor.shaped_by_data
            or any(slot.parameter.kind is Kind.TENSOR_LIST for slot in slots)
            or any(slot.parameter.output and slot.tensor.data is not None for slot in slots)
        ):
            return None
        return cls(
            executor.signature.name,
            executor.plan,
            len(executor.arguments),
            tuple((slot.argument, slot.tensor.spec.storage_bytes) for slot in slots),
            sum(slot.tensor.spec.storage_bytes for slot in slots if slot.tensor.buffer_id is None),
            bool(returned),
            is_small(executor),
        )


def _is_in_buffers(executor: Executor) -> bool:
    return all(slot.buffer is not None for slot in executor.slots)


@dataclass(slots=True)
class Run:
    """What came of running a call at once."""

    outputs: Sequence[bytearray]
    """The bytes of the outputs that are returned, in order."""
    failure: AclnnError | None


def run_at_once(
    session: Session,
    executor_id: int,
    call: KnownCall,
    given: Sequence[Given],
    workspace: Workspace | None,
) -> Run | None:
    """Plans and runs a call in the calling thread.

    Args:
        session: of the stream.
        executor_id: that the client has chosen for the call; it is spent afterwards.
        call: what is known of it.
        given: storage of each of the call's tensors.
        workspace: the client's scratch memory; ``None``: the session lends its own.

    Returns:
        What came of it; ``None`` where nothing was done, because it has to be done step by step.
    """
    context = session.context
    found = _storages(context, call, given)
    if found is None or not context.has_room_for_executor(executor_id):
        return None
    storages, outputs, buffers = found
    account = context.account
    if call.charge and not account.try_charge(call.charge):
        return None
    try:
        with _held(call, buffers):
            ran, failure = _run(session, call, storages, workspace, again=False)
    except HandleNotFoundError:
        return None
    finally:
        if call.charge:
            account.credit(call.charge)
    if not ran:
        return None
    context.note_spent(executor_id, call.operator)
    return Run(outputs, failure if call.waited else None)


def queue_run(
    session: Session,
    executor_id: int,
    call: KnownCall,
    given: Sequence[Given],
    workspace: Workspace | None,
) -> bool:
    """Plans a call all of whose tensors lie in buffers, and queues its run in the stream.

    Args:
        session, executor_id, call, given, workspace: as for :func:`run_at_once`.

    Returns:
        Whether it is queued; a failure of the run is kept for whoever synchronises. If not, nothing was
        done, because it has to be done step by step.
    """
    context = session.context
    if call.charge or not context.has_room_for_executor(executor_id):
        return False
    if not _queue(session, call, given, workspace, lambda: None):
        return False
    context.note_spent(executor_id, call.operator)
    return True


def _queue(
    session: Session,
    call: KnownCall,
    given: Sequence[Given],
    workspace: Workspace | None,
    on_end: Callable[[], None],
) -> bool:
    """Queues a run, if nothing stands against it; `on_end` is called when it is over, run or dropped."""
    context = session.context
    found = _storages(context, call, given)
    if found is None:
        return False
    scratch = _scratch(session, call.plan.workspace_bytes, workspace)
    if scratch is None:
        return False

    def run() -> None:
        _run_queued(session, call, found[0], scratch.memory, work)

    def end() -> None:
        try:
            scratch.end()
        finally:
            on_end()

    try:
        client_s = () if workspace is None or scratch.buffer is None else (scratch.buffer,)
        work = Work(run, (*found[2], *client_s), on_end=end)
        session.stream.enqueue(work, inline=False)
    except (HandleNotFoundError, LimitExceededError, StreamDestroyedError):
        scratch.end()
        return False
    return True


def _run_queued(
    session: Session, call: KnownCall, storages: list[Storage], workspace: Memory | None, work: Work
) -> None:
    context, tally = session.context, session.tally
    begin = time.monotonic_ns()
    try:
        context.device.run(call.plan, storages, workspace, session.device_stream)
    except BaseException as error:
        if tally is not None:
            tally.note_failure(call.operator, error)
        raise
    took = time.monotonic_ns() - begin
    call.note_time(took)
    if tally is not None:
        tally.note_run(call.operator, begin - work.queued_ns, 0, took, 0)


def known_again(executor: Executor, context: Context) -> KnownCall | None:
    """The call of a repeatable executor, if it can be made again without looking at it anew."""
    if executor.known is None:
        executor.known = KnownCall.of(executor, context) or False
    return executor.known or None


def run_again(
    session: Session,
    executor: Executor,
    call: KnownCall,
    bound: Mapping[int, tuple[int, int]],
    workspace: Workspace | None,
) -> bool:
    """Runs a repeatable executor in the calling thread, where all of its outputs lie in buffers.

    Args:
        session: of the stream.
        executor: of the session's context.
        call: what :func:`known_again` gives of it.
        bound: buffer and offset in it of tensors that lie elsewhere than phase one said, by position of
            the argument.
        workspace: as for :func:`run_at_once`.

    Returns:
        Whether it was run; a failure is kept for whoever synchronises.
    """
    context = session.context
    given = _given_again(executor, bound)
    found = None if given is None else _storages(context, call, given)
    if given is None or found is None:
        return False
    try:
        executor.begin_run()
    except HandleNotFoundError:
        return False
    try:
        with _held(call, found[2]):
            ran, _ = _run(session, call, found[0], workspace, again=True)
    except HandleNotFoundError:
        return False
    finally:
        executor.end_run(context.account)
    return ran


def queue_again(
    session: Session,
    executor: Executor,
    call: KnownCall,
    bound: Mapping[int, tuple[int, int]],
    workspace: Workspace | None,
) -> bool:
    """Queues a run of a repeatable executor; arguments as for :func:`run_again`.

    Returns:
        Whether it is queued; a failure is kept for whoever synchronises.
    """
    account = session.context.account
    given = _given_again(executor, bound)
    if given is None:
        return False
    try:
        executor.begin_run()
    except HandleNotFoundError:
        return False
    if _queue(session, call, given, workspace, lambda: executor.end_run(account)):
        return True
    executor.end_run(account)
    return False


def _given_again(executor: Executor, bound: Mapping[int, tuple[int, int]]) -> list[Given] | None:
    """The storages of an executor's tensors; ``None`` where one has none, or a binding has no tensor."""
    given: list[Given] = []
    places = dict(bound)
    for slot in executor.slots:
        place = places.pop(slot.argument, None)
        if place is None and slot.buffer is not None:
            place = slot.buffer.id, slot.tensor.buffer_offset
        given.append(slot.tensor.data if place is None else place)
    return None if places or None in given else given


def _held(call: KnownCall, buffers: Sequence[Buffer]) -> AbstractContextManager[object]:
    """Keeps buffers from ending while a run uses them, where their memory would be used again.

    Raises:
        HandleNotFoundError: one was freed meanwhile.
    """
    if call.small:  # other memory stays as long as the run refers to it
        buffers = [each for each in buffers if each.size >= LARGE_BYTES or each.place is not None]
    if not buffers:
        return _NOTHING_HELD
    hold_all(buffers)
    held = ExitStack()
    for buffer in buffers:
        held.callback(buffer.end_use)
    return held


_NOTHING_HELD = nullcontext()


def _run(
    session: Session,
    call: KnownCall,
    storages: list[Storage],
    workspace: Workspace | None,
    *,
    again: bool,
) -> tuple[bool, AclnnError | None]:
    """Runs a call if its stream has nothing to do; tells whether it did, and how the call failed.

    Args:
        session: of the stream.
        call: what is known of it.
        storages: memory of its arguments.
        workspace: the client's scratch memory.
        again: whether it is phase two only, of a repeatable executor; nobody waits for that one.
    """
    scratch = _scratch(session, call.plan.workspace_bytes, workspace)
    if scratch is None:
        return False, None
    try:
        if not session.stream.begin_now():
            return False, None
        failure = _compute(session, call, storages, scratch.memory, again=again)
        session.stream.end_now(None if call.waited and not again else failure)
    finally:
        scratch.end()
    return True, failure


def _compute(
    session: Session,
    call: KnownCall,
    storages: list[Storage],
    workspace: Memory | None,
    *,
    again: bool,
) -> AclnnError | None:
    """Runs a call; returns how it failed."""
    context, tally = session.context, session.tally
    begin = time.monotonic_ns()
    try:
        context.device.run(call.plan, storages, workspace, session.device_stream)
    except BaseException as error:
        if tally is not None and again:
            tally.methods["execute"] += 1
            tally.note_failure(call.operator, error)
        elif tally is not None:
            tally.note_failure_at_once(call.operator, error)
        return bare(context.environment.told(error))
    took = time.monotonic_ns() - begin
    call.note_time(took)
    if tally is not None and again:
        tally.methods["execute"] += 1
        tally.note_run(call.operator, 0, 0, took, 0)
    elif tally is not None:
        tally.note_at_once(call.operator, took)
    return None


def _storages(
    context: Context, call: KnownCall, given: Sequence[Given]
) -> tuple[list[Storage], list[bytearray], list[Buffer]] | None:
    """Memory of the arguments, bytes for outputs that are returned, and the buffers that it is of."""
    device, find = context.device, context.buffers.get
    buffers: list[Buffer] = []
    storages: list[Storage] = [None] * call.arguments
    outputs: list[bytearray] = []
    for (position, size), value in zip(call.tensors, given, strict=True):
        if isinstance(value, tuple):
            buffer = find(value[0])
            memory = _region(device, buffer, value[1], size)
            if buffer is None or memory is None:
                return None
            buffers.append(buffer)
            storages[position] = memory
        elif value is None:
            output = bytearray(size)
            outputs.append(output)
            storages[position] = device.wrap(memoryview(output)) if size else None
        elif size:
            storages[position] = device.wrap(memoryview(value))
    return storages, outputs, buffers


def _region(device: Device, buffer: Buffer | None, offset: int, size: int) -> Memory | None:
    """A part of a buffer; ``None`` where it has no such part, or has ended."""
    if buffer is None or buffer.freed or offset + size > buffer.size:
        return None
    return buffer.memory if size == buffer.size else device.slice(buffer.memory, offset, size)


@dataclass(slots=True)
class _Scratch:
    """Scratch memory of one run."""

    memory: Memory | None = None
    buffer: Buffer | None = None
    """It is of this one, the session's or the client's, which is held."""

    def end(self) -> None:
        if self.buffer is not None:
            self.buffer.end_use()


_NO_SCRATCH = _Scratch()


def _scratch(session: Session, needed: int, given: Workspace | None) -> _Scratch | None:
    if not needed and (given is None or not (given.buffer_id or given.size)):
        return _NO_SCRATCH
    if given is None:
        try:
            lent = session.lend_workspace(needed)
        except AclnnError:
            return None
        return _Scratch(lent.memory, lent)
    if given.size < needed:
        return None
    context = session.context
    buffer = context.buffers.get(given.buffer_id)
    memory = _region(context.device, buffer, given.offset, given.size)
    if buffer is None or memory is None:
        return None
    try:
        buffer.hold()
    except HandleNotFoundError:
        return None
    return _Scratch(memory, buffer)
