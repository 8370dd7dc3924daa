"""The two phases of an operator: plan it and size its workspace, then queue it on a stream.

The functions of :mod:`aclnn_client.ops` are typed forms of the two here. What they take for a parameter of
the C prototype, by its type:

=====================  =========================================================================
``aclTensor*``         a tensor; for an input also an array, which then travels with the call
``aclTensorList*``     a sequence of those
``aclScalar*``         a ``Scalar``, or a number: an int is INT64, a float FLOAT, a bool BOOL, a
                       complex COMPLEX64; a NumPy scalar keeps its dtype
``aclIntArray*`` …     a sequence of numbers
``aclDataType``        a dtype: NumPy's or ACL's name
``char*``              text
numbers                a number that converts exactly
any pointer            ``None`` for null
=====================  =========================================================================
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from aclnn.errors import InvalidParameterError
from aclnn.signatures import Kind, Signature
from aclnn_client.arrays import DTypeLike, as_array, tight
from aclnn_client.buffer import AnyBuffer, Buffer
from aclnn_client.context import AnyContext, Context
from aclnn_client.executors import Bindings, Executor, encode_workspace, plan
from aclnn_client.stream import AnyStream, Stream
from aclnn_client.tensor import AnyTensor
from aclnn_client.values import ScalarLike, TensorLike, plain_key, tensors_of

__all__ = [
    "Buffer",
    "Context",
    "DTypeLike",
    "Executor",
    "ScalarLike",
    "Stream",
    "TensorLike",
    "execute",
    "get_workspace_size",
]

INLINE_BYTES = 1 << 15
"""Bytes of an array up to which it travels with the call; a larger one is uploaded first."""

_Context = AnyContext[Any, Any, Any, Any]


def get_workspace_size(
    operator: str,
    arguments: Sequence[object],
    *,
    named: Mapping[str, object] | None = None,
    repeatable: bool = False,
    context: _Context | None = None,
) -> tuple[int, Executor]:
    """Phase one: validates a call, plans it and tells the scratch memory that it needs.

    A call that is equal to one before, with other buffers or not, is answered from memory, and goes to the
    server with phase two; the server validates it all the same, and a failure is told by the next wait.

    Args:
        operator: C name, with the aclnn prefix.
        arguments: those of the C prototype, in order; see the top of this module.
        named: the rest of them, by the prototype's names.
        repeatable: whether the executor may be run more than once.
        context: context to plan in; needed where no argument is a tensor of one.

    Returns:
        Bytes of workspace that phase two needs, and the executor; for asyncio, an awaitable of both.

    Raises:
        NullPointerError: 161001, an argument that must not be null is.
        InvalidParameterError: 161002, an argument cannot be; the text says why.
        ViewOutsideStorageError: 561103, a tensor's view reaches outside its storage.
        OperatorNotFoundError: 100024, the server has no such operator.
    """
    steps = None if named else _planned_before(operator, arguments, context, repeatable=repeatable)
    if steps is None:
        given = named or {}
        context = _context_of(operator, (*arguments, *given.values()), context)
        steps = context, _plan(context, operator, arguments, given, repeatable=repeatable)
    planned: tuple[int, Executor] = steps[0].drive(steps[1])
    return planned


Steps = Coroutine[Any, Any, tuple[int, Executor]]


def _planned_before(
    operator: str, arguments: Sequence[object], context: _Context | None, *, repeatable: bool
) -> tuple[_Context, Steps] | None:
    """Phase one of a call that equals one before but for its memory; ``None`` of any other."""
    plain = plain_key(operator, arguments)
    if plain is None:
        return None
    key, tensors = plain
    for tensor in tensors:
        if context is None:
            context = tensor.buffer.context
        elif tensor.buffer.context is not context:
            return None
    call = None if context is None else context.plans.recall(tuple(key), tensors)
    if context is None or call is None:
        return None
    return context, plan(context, call, repeatable=repeatable)


async def _plan(
    context: _Context,
    operator: str,
    arguments: Sequence[object],
    named: Mapping[str, object],
    *,
    repeatable: bool,
) -> tuple[int, Executor]:
    signature = await context.find_signature(operator)
    arguments = _ordered(signature, arguments, named)
    call = context.plans.prepare(signature, await _uploaded(context, signature, arguments))
    return await plan(context, call, repeatable=repeatable)


def _ordered(
    signature: Signature, arguments: Sequence[object], named: Mapping[str, object]
) -> Sequence[object]:
    """All arguments in the prototype's order."""
    if not named:
        return arguments
    names = [parameter.name for parameter in signature.parameters]
    rest = names[len(arguments) :]
    strangers = sorted(set(named) - set(rest))
    if strangers or len(named) < len(rest):
        raise InvalidParameterError(
            f"the arguments by name must be {', '.join(rest) or 'none'}, and are {', '.join(named)}",
            operator=signature.name,
            parameter=(strangers or [name for name in rest if name not in named])[0],
        )
    return [*arguments, *(named[name] for name in rest)]


async def _uploaded(
    context: _Context, signature: Signature, arguments: Sequence[object]
) -> list[object]:
    """The arguments, with arrays that are too large to travel with the call uploaded."""
    values = list(arguments)
    for index, parameter in enumerate(signature.parameters[: len(values)]):
        value = values[index]
        if parameter.output or isinstance(value, AnyTensor):
            continue
        if parameter.kind is Kind.TENSOR:
            values[index] = await place(context, value, parameter.name)
        elif parameter.kind is Kind.TENSOR_LIST and isinstance(value, list | tuple):
            values[index] = [await place(context, item, parameter.name) for item in value]
    return values


async def place(context: _Context, value: object, name: str) -> object:
    """An array of an input where it goes with the call; a tensor where it was uploaded."""
    if value is None or isinstance(value, AnyTensor | str):
        return value
    array = as_array(value, parameter=name)
    limit = min(INLINE_BYTES, context.commands.inline_bytes // 8)
    return tight(array) if array.nbytes <= limit else (await context.present([array]))[0]


def _context_of(operator: str, arguments: Sequence[object], context: _Context | None) -> _Context:
    for tensor in tensors_of(arguments):
        if context is None:
            context = tensor.context
        elif tensor.context is not context:
            raise InvalidParameterError(
                "the arguments belong to different contexts; copy them into one",
                operator=operator,
                parameter="context",
            )
    if context is None:
        raise InvalidParameterError(
            "no argument is a tensor of a context; name one with context=…",
            operator=operator,
            parameter="context",
        )
    return context


def execute(
    operator: str,
    workspace: AnyBuffer | None,
    workspace_size: int,
    executor: Executor,
    stream: AnyStream | None = None,
    *,
    bindings: Bindings | None = None,
) -> Any:  # noqa: ANN401 - None, or for asyncio an awaitable
    """Phase two: queues a planned call on a stream, without waiting for it.

    Failures are told by the next wait, for example ``stream.synchronize()``.

    Args:
        operator: C name, with the aclnn prefix; the executor's.
        workspace: scratch memory; ``None`` is a null pointer.
        workspace_size: its size in bytes.
        executor: from phase one.
        stream: default the context's default stream.
        bindings: for a repeatable executor, tensors in place of those of phase one, by the
            prototype's names; of the same spec.

    Raises:
        InvalidParameterError: 161002, an argument is of another kind, operator or context.
    """
    if not isinstance(executor, Executor):
        raise InvalidParameterError(
            f"executor is {executor!r}, which is no Executor",
            operator=operator,
            parameter="executor",
        )
    if executor.operator != operator:
        raise InvalidParameterError(
            f"executor was planned for {executor.operator}",
            operator=operator,
            parameter="executor",
        )
    given = encode_workspace(executor, workspace, workspace_size)
    return executor.context.drive(executor.execute(stream, given, bindings))
