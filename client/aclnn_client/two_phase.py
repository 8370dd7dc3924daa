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

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from aclnn.errors import AclnnError, InvalidParameterError
from aclnn.signatures import Kind, Signature
from aclnn.v1 import operator_service_pb2 as pb
from aclnn_client.arrays import DTypeLike, as_array, tight
from aclnn_client.buffer import AnyBuffer, Buffer
from aclnn_client.context import AnyContext, Context
from aclnn_client.pending import Pending
from aclnn_client.phases import on_stream, phase_one, phase_two
from aclnn_client.stream import AnyStream, Stream
from aclnn_client.tensor import AnyTensor
from aclnn_client.tracing import follow
from aclnn_client.values import Call, ScalarLike, TensorLike, encode, tensors_of

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
Bindings = Mapping[str, AnyTensor[Any] | Sequence[AnyTensor[Any]]]
"""Tensors by the prototype's names."""


class Executor:
    """A planned call. One-shot, unless it was made repeatable: then it lives until :meth:`destroy`."""

    def __init__(
        self, context: _Context, call: Call, executor_id: int, *, repeatable: bool
    ) -> None:
        """Made by phase one."""
        self._ended = True
        self.context = context
        """Context that it belongs to."""
        self.executor_id = executor_id
        """Its id, unique in its context."""
        self.operator = call.signature.name
        """C name of its operator."""
        self.repeatable = repeatable
        """Whether it may be run more than once."""
        self.workspace_size = 0
        """Scratch memory that it needs, in bytes."""
        self._call = call
        self._place: str | None = None
        self._plan: Pending | None = None
        self._ended = False

    def run(
        self,
        /,
        stream: AnyStream | None = None,
        workspace: AnyBuffer | None = None,
        **tensors: AnyTensor[Any] | Sequence[AnyTensor[Any]],
    ) -> Any:  # noqa: ANN401 - None, or for asyncio an awaitable
        """Queues it on a stream; phase two in another form.

        Args:
            stream: default the context's default stream.
            workspace: scratch memory; without it the server lends its own.
            tensors: other tensors in place of those of phase one, by the prototype's names; of the
                same spec, and for a repeatable executor only.

        Raises:
            InvalidParameterError: 161002, a tensor does not fit.
        """
        lent = None if workspace is None else _workspace(self, workspace, workspace.size)
        return self.context.drive(self.execute(stream, lent, tensors))

    def destroy(self) -> None:
        """Ends it; without effect where that is done. Work that it queued still runs."""
        if not self._ended:
            self._ended = True
            self.context.commands.end("destroy_executor", self.executor_id)

    # --- phase one ----------------------------------------------------------------------------------

    async def plan(self, *, wait: bool = True) -> int:
        """Sends phase one, and waits for its answer where it is wanted and not known.

        Returns:
            The workspace size in bytes; 0 where it is neither wanted nor known.
        """
        with follow(f"{self.operator}GetWorkspaceSize") as followed:
            return await self._planned(followed.phase_one, wait=wait)

    async def _planned(self, followed: tuple[bytes, ...], *, wait: bool) -> int:
        context, call = self.context, self._call
        request = phase_one(
            self.operator, self.executor_id, call.arguments, repeatable=self.repeatable
        )
        request += followed
        known = context.plans.find(call.key)
        if known is None and wait:
            try:
                answer = await context.commands.ask(Pending("get_workspace_size", request))
            except AclnnError:
                self._ended = True
                raise
            known = int(answer.workspace_bytes)
            context.plans.keep(call.key, known)
        else:
            self._plan = Pending("get_workspace_size", request, on_error=self._note_failure)
            context.commands.submit(self._plan, hold=True)
        call.arguments.clear()
        self.workspace_size = known or 0
        return self.workspace_size

    def _note_failure(self, pending: Pending) -> None:
        """Keeps the failure of a plan that was not waited for, where the executor has been run."""
        self._ended = True
        if self._place is not None and pending.error is not None:
            self.context.commands.failures.keep(self._place, pending.error)

    # --- phase two ----------------------------------------------------------------------------------

    async def execute(
        self,
        stream: AnyStream | None,
        workspace: pb.Workspace | None = None,
        others: Bindings | None = None,
        *,
        hold: bool = False,
    ) -> None:
        """Sends phase two; see :func:`execute`. Without `workspace` the server lends its own.

        With `hold`, it goes with what the caller sends next.
        """
        context = self.context
        stream = context.default_stream if stream is None else stream
        if stream.context is not context:
            raise InvalidParameterError(
                "stream belongs to another context than the executor",
                operator=self.operator,
                parameter="stream",
            )
        bound: dict[tuple[int, int], AnyTensor[Any]] = {}
        for name, given in (others or {}).items():
            bound |= self._bind(name, given)
        self._place = stream.stream_id
        if self._plan is not None and self._plan.error is not None:
            context.commands.failures.take(self._place)
            raise self._plan.error from None
        bindings = [
            pb.Binding(argument=argument, element=element, buffer_id=tensor.buffer.buffer_id)
            for (argument, element), tensor in bound.items()
        ]
        request = phase_two(
            on_stream(stream.stream_id, stream.report_timing),
            self.executor_id,
            workspace,
            bindings,
            asynchronous=True,
        )
        with follow(self.operator) as followed:
            self._send([*request, *followed.phase_two], stream, bound, hold=hold)
        if context.commands.submitter.congestion() is not None:
            await context.commands.room()

    def _send(
        self,
        request: list[bytes],
        stream: AnyStream,
        bound: dict[tuple[int, int], AnyTensor[Any]],
        *,
        hold: bool,
    ) -> None:
        commands = self.context.commands
        posted = commands.posted("execute", request, place=stream.stream_id)
        tensors = self._call.tensors | bound
        if shaped := _shaped(self._call.signature, tensors):
            posted.call_when_done(lambda: _take_shapes(posted, shaped))
        for tensor in shaped.values():
            tensor.shaping = posted
        commands.submit(posted, hold=hold, linger=True)
        stream.note_work(*(tensor.buffer for tensor in tensors.values()))
        if not self.repeatable:
            self._ended = True
            self._call.tensors = {}  # the queued work holds their memory now

    def _bind(
        self, name: str, given: AnyTensor[Any] | Sequence[AnyTensor[Any]]
    ) -> dict[tuple[int, int], AnyTensor[Any]]:
        position = self._position(name)
        tensors = [given] if isinstance(given, AnyTensor) else list(given)
        slots = [(position, element) for element in range(len(tensors))]
        planned = [slot for slot in self._call.specs if slot[0] == position]
        if planned != slots:
            self._refuse(name, f"has {len(tensors)} tensors; phase one had {len(planned)}")
        for slot, tensor in zip(slots, tensors, strict=True):
            self._check_bound(name, slot, tensor)
        return dict(zip(slots, tensors, strict=True))

    def _position(self, name: str) -> int:
        try:
            return self._call.signature.index(name)
        except ValueError as error:
            self._refuse(name, f"cannot be bound: {error}")

    def _check_bound(self, name: str, slot: tuple[int, int], tensor: AnyTensor[Any]) -> None:
        if not isinstance(tensor, AnyTensor):
            self._refuse(name, f"is a {type(tensor).__name__}; only a tensor can be bound")
        if tensor.context is not self.context:
            self._refuse(name, "belongs to another context than the executor")
        if tensor.spec != self._call.specs[slot]:
            self._refuse(
                name, f"is {tensor!r}; phase one planned {self._call.specs[slot]}, and plans hold"
            )

    def _refuse(self, name: str, problem: str) -> NoReturn:
        raise InvalidParameterError(f"{name} {problem}", operator=self.operator, parameter=name)

    def __repr__(self) -> str:
        kind = "repeatable " if self.repeatable else ""
        return f"<{kind}Executor {self.executor_id} of {self.operator}>"

    def __del__(self) -> None:
        if not self._ended:
            self.context.commands.abandon("destroy_executor", self.executor_id)


_Tensors = dict[tuple[int, int], AnyTensor[Any]]


def _shaped(signature: Signature, tensors: _Tensors) -> _Tensors:
    """The outputs whose shape only the run tells."""
    rows = enumerate(signature.parameters)
    positions = [position for position, row in rows if row.shaped_by_data]
    return {(position, 0): tensors[position, 0] for position in positions}


def _take_shapes(phase_two: Pending, outputs: _Tensors) -> None:
    """Gives outputs the shapes that phase two tells; where it failed they stay as they are."""
    for told in () if phase_two.answer is None else phase_two.answer.shapes:  # type: ignore[attr-defined]
        outputs[told.argument, told.element].take_shape(tuple(told.shape))
    for tensor in outputs.values():
        if tensor.shaping is phase_two:
            tensor.shaping = None


def get_workspace_size(
    operator: str,
    arguments: Sequence[object],
    *,
    named: Mapping[str, object] | None = None,
    repeatable: bool = False,
    context: _Context | None = None,
) -> tuple[int, Executor]:
    """Phase one: validates a call, plans it and tells the scratch memory that it needs.

    A call that is equal to one before, with other buffers or not, is answered from memory; the server
    validates it all the same, and a failure is told by phase two or the next wait.

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
    given = named or {}
    found = _context_of(operator, (*arguments, *given.values()), context)
    planned: tuple[int, Executor] = found.drive(
        _plan(found, operator, arguments, given, repeatable=repeatable)
    )
    return planned


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
    call = encode(signature, await _uploaded(context, signature, arguments))
    executor = Executor(context, call, context.commands.next_id(), repeatable=repeatable)
    return await executor.plan(), executor


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
    return tight(array) if array.nbytes <= limit else await context.present(array)


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
    given = _workspace(executor, workspace, workspace_size)
    return executor.context.drive(executor.execute(stream, given, bindings))


_NULL = pb.Workspace()


def _workspace(executor: Executor, workspace: object, size: object) -> pb.Workspace:
    def refuse(parameter: str, problem: str) -> NoReturn:
        raise InvalidParameterError(
            f"{parameter} {problem}", operator=executor.operator, parameter=parameter
        )

    if not isinstance(size, int) or not 0 <= size < 2**64:
        refuse("workspaceSize", f"is {size!r}; it must be a size in bytes, at least 0")
    if workspace is None:
        return pb.Workspace(bytes=size) if size else _NULL
    if not isinstance(workspace, AnyBuffer):
        refuse("workspace", f"is a {type(workspace).__name__}; it must be a buffer or None")
    if workspace.context is not executor.context:
        refuse("workspace", "belongs to another context than the executor")
    return pb.Workspace(buffer_id=workspace.buffer_id, bytes=size)
