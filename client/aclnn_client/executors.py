"""Executors: calls that phase one has planned, and phase two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from aclnn.errors import AclnnError, InvalidParameterError
from aclnn.v1 import operator_service_pb2 as pb
from aclnn_client.buffer import AnyBuffer
from aclnn_client.context import AnyContext
from aclnn_client.pending import Pending
from aclnn_client.phases import BothPhases, on_stream, phase_one, phase_two, scratch
from aclnn_client.stream import AnyStream
from aclnn_client.tensor import AnyTensor
from aclnn_client.tracing import follow
from aclnn_client.values import Call, Slot

_Context = AnyContext[Any, Any, Any, Any]
Bindings = Mapping[str, AnyTensor[Any] | Sequence[AnyTensor[Any]]]
"""Tensors by the prototype's names."""
_Tensors = dict[Slot, AnyTensor[Any]]


async def plan(
    context: _Context, call: Call, *, repeatable: bool = False, wait: bool = True
) -> tuple[int, Executor]:
    """Phase one: asks the server where its answer is wanted and not known, else lets it go with phase two.

    Returns:
        The workspace size in bytes, 0 where it is neither wanted nor known; and the executor.
    """
    executor = Executor(context, call, context.commands.next_id(), repeatable=repeatable)
    return await executor.plan(wait=wait), executor


class Executor:
    """A planned call. One-shot, unless it was made repeatable: then it lives until :meth:`destroy`."""

    def __init__(
        self, context: _Context, call: Call, executor_id: int, *, repeatable: bool
    ) -> None:
        """Made by phase one."""
        self._there = False
        """Whether the server has it."""
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
        self._unsent: list[list[bytes]] = []
        """Phase one, where it goes with the first phase two."""

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
        lent = b"" if workspace is None else encode_workspace(self, workspace, workspace.size)
        return self.context.drive(self.execute(stream, lent, tensors))

    def destroy(self) -> None:
        """Ends it; without effect where that is done. Work that it queued still runs."""
        if self._there:
            self._there = False
            self.context.commands.end("destroy_executor", self.executor_id)

    # --- phase one ----------------------------------------------------------------------------------

    async def plan(self, *, wait: bool = True) -> int:
        """Phase one, see :func:`plan`; gives the workspace size."""
        with follow(f"{self.operator}GetWorkspaceSize") as followed:
            return await self._planned(followed.phase_one, wait=wait)

    async def _planned(self, followed: tuple[bytes, ...], *, wait: bool) -> int:
        call = self._call
        request = phase_one(
            self.operator, self.executor_id, call.arguments, repeatable=self.repeatable
        )
        request += followed
        size = call.workspace_size
        if size is None and wait:
            size = await self._ask(request)
            self.context.plans.keep(call, size)
        else:
            self._unsent.append(request)
        self.workspace_size = size or 0
        return self.workspace_size

    async def _ask(self, request: list[bytes]) -> int:
        self._there = True  # also where the wait is broken off
        try:
            asked = Pending("get_workspace_size", request)
            answer = await self.context.commands.ask(asked)
        except AclnnError:
            self._there = False
            raise
        return int(answer.workspace_bytes)

    # --- phase two ----------------------------------------------------------------------------------

    async def execute(
        self,
        stream: AnyStream | None,
        workspace: bytes = b"",
        others: Bindings | None = None,
        *,
        hold: bool = False,
    ) -> None:
        """Sends phase two; see :func:`aclnn_client.execute`. Without `workspace` the server lends its own.

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
        bound: _Tensors = {}
        for name, given in (others or {}).items():
            bound |= self._bind(name, given)
        request = phase_two(
            on_stream(stream.stream_id, stream.report_timing),
            self.executor_id,
            workspace,
            [
                pb.Binding(argument=argument, element=element, buffer_id=tensor.buffer.buffer_id)
                for (argument, element), tensor in bound.items()
            ],
            asynchronous=True,
        )
        with follow(self.operator) as followed:
            request += followed.phase_two
            self._send(request, stream, bound, hold=hold)
        if context.commands.submitter.congestion() is not None:
            await context.commands.room()

    def _send(
        self, request: list[bytes], stream: AnyStream, bound: _Tensors, *, hold: bool
    ) -> None:
        commands, planning, call = self.context.commands, self._planning(), self._call
        if planning is None:
            queued = commands.posted("execute", request, place=stream.stream_id)
        else:
            keep = commands.keeping(self.operator, stream.stream_id)
            queued = BothPhases(planning, request, on_error=keep)
            self._there = self.repeatable
        tensors = call.tensors | bound if bound else call.tensors
        if call.shaped:
            _take_shapes_of(queued, {slot: tensors[slot] for slot in call.shaped})
        commands.submit(queued, hold=hold, linger=True)
        self._unsent.clear()
        for tensor in tensors.values():
            tensor.buffer.stream = stream
        stream.dirty = True
        if not self.repeatable:
            self._there = False
            call.tensors = {}  # the queued work holds their memory now

    def _planning(self) -> list[bytes] | None:
        """Phase one, if it has not been sent.

        Of threads that run a one-shot executor at the same time, one gets it, as one may run it. One that is
        repeatable all of them send, as any may be first: a repeat makes no other.
        """
        if self.repeatable:
            return next(iter(self._unsent), None)
        try:
            return self._unsent.pop()
        except IndexError:
            return None

    def _bind(self, name: str, given: AnyTensor[Any] | Sequence[AnyTensor[Any]]) -> _Tensors:
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

    def _check_bound(self, name: str, slot: Slot, tensor: AnyTensor[Any]) -> None:
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
        if self._there:
            self.context.commands.abandon("destroy_executor", self.executor_id)


def _take_shapes_of(phase_two: Pending, outputs: _Tensors) -> None:
    """Gives outputs the shapes that phase two will tell; where it fails they stay as they are."""

    def take() -> None:
        answer: Any = phase_two.answer
        for told in () if phase_two.error is not None else answer.shapes:
            outputs[told.argument, told.element].take_shape(tuple(told.shape))
        for tensor in outputs.values():
            if tensor.shaping is phase_two:
                tensor.shaping = None

    phase_two.call_when_done(take)
    for tensor in outputs.values():
        tensor.shaping = phase_two


_NULL = scratch(pb.Workspace())


def encode_workspace(executor: Executor, workspace: object, size: object) -> bytes:
    """The client's scratch memory as it stands in phase two's request.

    Args:
        executor: what is to be run with it.
        workspace: a buffer; ``None`` is a null pointer.
        size: bytes of it.

    Raises:
        InvalidParameterError: 161002, one of them cannot be.
    """

    def refuse(parameter: str, problem: str) -> NoReturn:
        raise InvalidParameterError(
            f"{parameter} {problem}", operator=executor.operator, parameter=parameter
        )

    if not isinstance(size, int) or not 0 <= size < 2**64:
        refuse("workspaceSize", f"is {size!r}; it must be a size in bytes, at least 0")
    if workspace is None:
        return scratch(pb.Workspace(bytes=size)) if size else _NULL
    if not isinstance(workspace, AnyBuffer):
        refuse("workspace", f"is a {type(workspace).__name__}; it must be a buffer or None")
    if workspace.context is not executor.context:
        refuse("workspace", "belongs to another context than the executor")
    return scratch(pb.Workspace(buffer_id=workspace.buffer_id, bytes=size))
