"""Phase one: validates a call, plans it and keeps it as an executor."""

from __future__ import annotations

import time

from aclnn.arguments import ArgumentValue
from aclnn.errors import HandleExistsError
from aclnn.signatures import Signature
from aclnn_server.sessions.context import Context, Session
from aclnn_server.sessions.executors import (
    Executor,
    Slot,
    check_bytes,
    check_storage,
    slots_of,
    storages_of,
    values_of,
)
from aclnn_server.sessions.handles import check_room


def plan(
    session: Session,
    executor_id: int,
    signature: Signature,
    arguments: tuple[ArgumentValue, ...],
    *,
    repeatable: bool,
) -> Executor:
    """Plans a call. Nothing is allocated before all checks have passed.

    Args:
        session: stream whose session holds the executor.
        executor_id: id chosen by the client, or 0.
        signature: of the operator.
        arguments: decoded, as many as the signature has and of the right kinds.
        repeatable: whether the executor outlives its first run.

    Raises:
        AclnnError: what is wrong with the arguments, with the vendor's code.
        HandleExistsError: the id names another plan.
        LimitExceededError, OutOfMemoryError: executors of the context; memory for inline tensors.
    """
    context, operator = session.context, signature.name
    existing = context.executors.get(executor_id)
    if existing is not None:
        return _same_plan(existing, session, signature, arguments, repeatable=repeatable)
    check_room(len(context.executors), context.limits.executors, "executors")
    slots = list(slots_of(signature, arguments))
    for slot in slots:
        check_bytes(slot, context.limits.tensor_bytes, operator)
        bind_buffer(context, slot, operator)
    planned = context.device.plan(
        operator,
        values_of(arguments),
        storages_of(signature, arguments, slots),
        repeatable=repeatable,
    )
    executor = Executor(executor_id, signature, arguments, planned, slots, repeatable, session.id)
    _take_in(context, executor)
    kept = context.keep_executor(executor)
    if kept is not executor:
        return _same_plan(kept, session, signature, arguments, repeatable=repeatable)
    return executor


def bind_buffer(context: Context, slot: Slot, operator: str) -> None:
    """Finds the buffer that a tensor lies in, if it lies in one.

    Raises:
        HandleNotFoundError: no such buffer in this context.
        InvalidParameterError: 161002, the storage reaches outside it.
    """
    tensor, name = slot.tensor, slot.parameter.name
    if tensor.buffer_id is None:
        return
    size = tensor.spec.storage_bytes
    slot.buffer = context.buffers.find(tensor.buffer_id, name, operator)
    slot.buffer.check_range(tensor.buffer_offset, size, name, operator)
    slot.memory = context.device.slice(slot.buffer.memory, tensor.buffer_offset, size)


def take_in(context: Context, slot: Slot) -> None:
    """Makes device memory of a tensor's inline bytes; a copy where the operator writes it.

    Raises:
        OutOfMemoryError: 207001.
    """
    data = slot.tensor.data
    if data is None or not len(data):
        return
    name = slot.parameter.name
    if slot.parameter.output:
        slot.memory = context.account.allocate(len(data), name)
        slot.owned_bytes = len(data)
        context.device.write(slot.memory, memoryview(data))
    else:
        slot.memory = context.account.wrap(memoryview(data), name)
        slot.owned_bytes = len(data)


def _take_in(context: Context, executor: Executor) -> None:
    try:
        for slot in executor.slots:
            check_storage(slot, executor.signature.name, repeatable=executor.repeatable)
        begin = time.monotonic_ns()
        for slot in executor.slots:
            take_in(context, slot)
        if any(slot.owned_bytes for slot in executor.slots):
            executor.copy_in_ns = time.monotonic_ns() - begin
    except BaseException:
        executor.end(context.account)
        raise


def _same_plan(
    existing: Executor,
    session: Session,
    signature: Signature,
    arguments: tuple[ArgumentValue, ...],
    *,
    repeatable: bool,
) -> Executor:
    same = (
        existing.stream_id == session.id
        and existing.signature == signature
        and existing.arguments == arguments
        and existing.repeatable == repeatable
    )
    if not same:
        raise HandleExistsError(
            f"executor {existing.id} exists for another plan",
            operator=signature.name,
            parameter="executor_id",
        )
    return existing
