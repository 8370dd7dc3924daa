"""Calls that are recognised by their bytes: what was decoded and planned once is not decoded again.

Of an argument of phase one, only a tensor's storage changes from call to call, and it stands at the end
of the argument. So two calls are equal but for their memory where all that stands before is equal, byte
by byte. What does not look that way, for whatever reason, is decoded as usual.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from google.protobuf.message import DecodeError

from aclnn import wire
from aclnn.arguments import TensorArgument, encode_tensor
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as operator_pb
from aclnn.v1 import raw_pb2, tensor_pb2
from aclnn_server.service.calls import Call
from aclnn_server.service.failures import encode_failure
from aclnn_server.service.operator_calls import workspace_of
from aclnn_server.service.seen_calls import take_apart
from aclnn_server.sessions import at_once
from aclnn_server.sessions.at_once import Given, KnownCall, queue_run, run_at_once
from aclnn_server.sessions.context import Session
from aclnn_server.sessions.execution import Workspace
from aclnn_server.sessions.executors import Executor, Slot
from aclnn_server.sessions.meters import AT_ONCE

CAPACITY = 4096
"""Calls that are remembered; they are forgotten together when there are more."""
KEPT_BYTES = 16 << 20
"""Bytes of the remembered calls, as they stood in their requests."""
_PHASE_ONE = wire.command_tag("get_workspace_size")
_PHASE_TWO = wire.command_tag("execute")
_SYNCHRONIZE = wire.command_tag("synchronize_stream")
_BUFFER_ID = wire.tag(tensor_pb2.Tensor, "buffer_id")
_BUFFER_OFFSET = wire.tag(tensor_pb2.Tensor, "buffer_offset")


class _Stored(enum.Enum):
    """Where the storage of a tensor is."""

    BUFFER = enum.auto()
    INLINE = enum.auto()
    RETURNED = enum.auto()


@dataclass(frozen=True, slots=True)
class _Layout:
    """The bytes of a call that do not change, and what is known of it."""

    heads: tuple[bytes, ...]
    """What each argument begins with: all of it, or all before its tensor's storage."""
    tensors: tuple[_Stored, ...]
    """Where the storage of each tensor is."""
    stored: tuple[tuple[int, int], ...]
    """Of each tensor that has a storage in the request: position of the argument, length of its head."""
    call: KnownCall
    planned: bytes
    """Result of phase one, behind the executor's id."""
    segments: tuple[bytes, ...]
    """Result of phase two, cut where the bytes of the returned outputs belong."""


@dataclass(frozen=True, slots=True)
class _Recognised:
    """A call that is known, in its stream."""

    layout: _Layout
    session: Session
    stream_id: str
    """As it stands in the request."""
    workspace: Workspace | None


class KnownCalls:
    """The calls that are remembered. Used by many threads."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[object, ...], tuple[_Layout, ...]] = {}
        self._bytes = 0

    def run(
        self,
        call: Call,
        phase_one: bytes | memoryview,
        phase_two: bytes | memoryview,
        following: bytes | memoryview = b"",
        *,
        quick: bool = False,
    ) -> tuple[bytes, bytes] | None:
        """Makes both phases of a call, if it is known and nothing stands against doing so at once.

        The run of a large call that nobody waits for yet is only queued.

        Args:
            call: of the Submit call that carries the two commands.
            phase_one: a command, encoded.
            phase_two: the command after it, encoded.
            following: the command after both, encoded; empty where there is none.
            quick: only if it was quick the last time, or is only queued.

        Returns:
            The encoded results of both; ``None``: nothing was done.
        """
        if phase_one[:1] != _PHASE_ONE or phase_two[:1] != _PHASE_TWO:
            return None
        found = self._recognise(call, phase_one, phase_two)
        if found is None:
            return None
        executor_id, known, given = found
        layout = known.layout
        step = _run_at_once
        kept = layout.call
        if not (kept.small or kept.waited or _is_waited_for(known.stream_id, following)):
            step = _queue_run
        elif quick and not kept.quick:
            return None
        ran = step(call, known.session, executor_id, layout, given, known.workspace)
        return None if ran is None else (_planned(executor_id, layout.planned), ran)

    def _recognise(
        self, call: Call, phase_one: bytes | memoryview, phase_two: bytes | memoryview
    ) -> tuple[int, _Recognised, list[Given]] | None:
        """A call's executor, what is known of it, and its tensors' storages; ``None``: it is not known."""
        seen = call.seen
        apart = None if seen is None else take_apart(phase_one, phase_two)
        if seen is not None and apart is not None:
            found = seen.find(apart)
            if found is not None:
                given = _given(found[0].layout, iter(found[1]))
                return None if given is None else (apart.executor_id, found[0], given)
        first, second = _read(phase_one), _read(phase_two)
        if first is None or second is None:
            return None
        plan, run = first.get_workspace_size, second.execute
        arguments = list(plan.arguments)
        layout = self._find(call, plan.operator, arguments)
        if layout is None or plan.repeatable or plan.traceparent:
            return None
        if run.executor_id != plan.executor_id or run.bindings or _is_followed(run):
            return None
        given = _given(layout, (arguments[place][length:] for place, length in layout.stored))
        if given is None:
            return None
        call.session(plan)
        known = _Recognised(layout, call.session(run), run.stream_id, workspace_of(run))
        if seen is not None and apart is not None:
            seen.keep(apart, plan.operator, arguments, layout.stored, known)
        return run.executor_id, known, given

    def run_again(
        self,
        call: Call,
        phase_two: bytes | memoryview,
        following: bytes | memoryview = b"",
        *,
        quick: bool = False,
    ) -> bytes | None:
        """Runs a repeatable executor, if nothing stands against doing so at once.

        A large run that nobody waits for yet is only queued.

        Args:
            call: of the Submit call that carries the command.
            phase_two: a command, encoded.
            following: the command after it.
            quick: as for :meth:`run`.

        Returns:
            The encoded result; ``None``: nothing was done.
        """
        if phase_two[:1] != _PHASE_TWO or call.submitted is None:
            return None
        command = _read(phase_two)
        if command is None:
            return None
        run = command.execute
        executor = call.submitted.executors.get(run.executor_id)
        if executor is None or not executor.repeatable or _is_followed(run):
            return None
        bound: dict[int, tuple[int, int]] = {}
        for binding in run.bindings:
            if not binding.buffer_id or binding.element or binding.argument in bound:
                return None
            bound[binding.argument] = binding.buffer_id, binding.buffer_offset
        known = at_once.known_again(executor, call.submitted)
        if known is None:
            return None
        step = at_once.run_again
        if not (known.small or _is_waited_for(run.stream_id, following)):
            step = at_once.queue_again
        elif quick and not known.quick:
            return None
        if not step(call.session(run), executor, known, bound, workspace_of(run)):
            return None
        if step is at_once.queue_again and call.tally is not None:
            call.tally.methods["execute"] += 1
        return _QUEUED

    def _find(self, call: Call, operator: str, arguments: list[bytes]) -> _Layout | None:
        for layout in self._layouts.get(_key(call, operator, arguments), ()):
            if all(map(bytes.startswith, arguments, layout.heads)):
                return layout
        return None

    # --- remembering ------------------------------------------------------------------------------

    def remember(
        self,
        call: Call,
        command: bytes | memoryview,
        executor_id: int,
    ) -> None:
        """Remembers a call that has just been planned, if others like it can be made at once."""
        assert call.submitted is not None
        executor = call.submitted.executors.get(executor_id)
        if executor is None or executor.repeatable:
            return
        known = KnownCall.of(executor, call.submitted)
        if known is None:
            return
        planned = _read(command)
        if planned is None:
            return
        arguments = list(planned.get_workspace_size.arguments)
        layout = _layout(known, executor, arguments)
        if layout is None:
            return
        key = _key(call, executor.signature.name, arguments)
        others = self._layouts.get(key, ())
        if layout in others:
            return
        kept = (layout, *others[:7])
        more = _bytes_of(kept) - _bytes_of(others)
        if len(self._layouts) >= CAPACITY or self._bytes + more > KEPT_BYTES:
            self._layouts.clear()
            self._bytes, kept, more = 0, (layout,), _bytes_of((layout,))
        if more <= KEPT_BYTES:
            self._layouts[key] = kept
            self._bytes += more


def _run_at_once(
    call: Call,
    session: Session,
    executor_id: int,
    layout: _Layout,
    given: Sequence[Given],
    workspace: Workspace | None,
) -> bytes | None:
    """The result of a phase two that is run; ``None``: nothing was done."""
    made = run_at_once(session, executor_id, layout.call, given, workspace)
    if made is None:
        return None
    if made.failure is not None:
        call.note_error("execute", made.failure)
        return encode_failure(made.failure)
    if not made.outputs:
        return layout.segments[0]
    parts: Iterator[bytes | bytearray] = chain.from_iterable(
        zip(layout.segments, made.outputs, strict=False)  # behind the last output is nothing
    )
    return b"".join(parts)


def _queue_run(
    call: Call,
    session: Session,
    executor_id: int,
    layout: _Layout,
    given: Sequence[Given],
    workspace: Workspace | None,
) -> bytes | None:
    """The same, of one whose run is queued."""
    if not queue_run(session, executor_id, layout.call, given, workspace):
        return None
    if call.tally is not None:
        for method in AT_ONCE:
            call.tally.methods[method] += 1
    return layout.segments[0]


def _bytes_of(layouts: Sequence[_Layout]) -> int:
    return sum(len(head) for layout in layouts for head in layout.heads)


def _read(command: bytes | memoryview) -> raw_pb2.RawCommand | None:
    """A command, its arguments still encoded; ``None`` where it is none, which who decodes it will tell."""
    try:
        size, begin = wire.read_varint(command, 1)
        if begin + size != len(command):  # of several in one, the last counts
            return None
        return raw_pb2.RawCommand.FromString(bytes(command))
    except (DecodeError, wire.OtherForm):
        return None


def _is_waited_for(stream_id: str, following: bytes | memoryview) -> bool:
    """Whether the command after a run waits for it, so that nothing is lost if it is run at once."""
    if following[: len(_SYNCHRONIZE)] != _SYNCHRONIZE:
        return False
    wait = pb.Command.FromString(bytes(following)).synchronize_stream
    return wait.stream_id in ("", stream_id)


def _is_followed(run: operator_pb.ExecuteRequest) -> bool:
    """Whether somebody wants to know where the time of a run goes."""
    return run.report_timing or bool(run.traceparent)


def _key(call: Call, operator: str, arguments: list[bytes]) -> tuple[object, ...]:
    return (call.device.index, operator, *map(len, arguments))


def _given(layout: _Layout, stored: Iterator[bytes]) -> list[Given] | None:
    """The storages of a call's tensors; ``None`` where one is not written as usual."""
    given: list[Given] = []
    for kind in layout.tensors:
        if kind is _BUFFER:
            place = _place(next(stored))
            if place is None:
                return None
            given.append(place)
        else:
            given.append(None if kind is _RETURNED else next(stored))
    return given


_BUFFER, _RETURNED = _Stored.BUFFER, _Stored.RETURNED


def _place(encoded: bytes) -> tuple[int, int] | None:
    """Reads a buffer's id, and the offset in it if there is one."""
    if len(encoded) == 1 and encoded[0] < 128:
        return encoded[0], 0
    try:
        buffer_id, position = wire.read_varint(encoded, 0)
        if position == len(encoded):
            return buffer_id, 0
        if encoded[position : position + 1] != _BUFFER_OFFSET:
            return None
        offset, position = wire.read_varint(encoded, position + 1)
    except wire.OtherForm:
        return None
    return (buffer_id, offset) if position == len(encoded) else None


def _layout(known: KnownCall, executor: Executor, arguments: list[bytes]) -> _Layout | None:
    heads = list(arguments)
    tensors, stored = [], []
    slots = executor.slots
    for slot in slots:
        encoded = arguments[slot.argument]
        head = _head(slot, encoded)
        if head is None:
            return None
        heads[slot.argument] = encoded[:head]
        if slot.returned:
            tensors.append(_Stored.RETURNED)
            continue
        tensors.append(_Stored.BUFFER if slot.buffer is not None else _Stored.INLINE)
        stored.append((slot.argument, head))
    returned = [slot for slot in slots if slot.returned]
    size = executor.plan.workspace_bytes
    planned = operator_pb.GetWorkspaceSizeResponse(workspace_bytes=size).SerializeToString()
    return _Layout(
        tuple(heads),
        tuple(tensors),
        tuple(stored),
        known,
        planned,
        _segments(returned),
    )


def _head(slot: Slot, encoded: bytes) -> int | None:
    """Length of what stands before a tensor's storage; ``None`` where it is not written as usual."""
    tensor = slot.tensor
    argument = tensor_pb2.Argument.FromString(encoded)
    argument.DiscardUnknownFields()
    if argument.SerializeToString(deterministic=True) != encoded:
        return None
    if tensor.data is not None:
        return len(encoded) - len(tensor.data)
    if tensor.buffer_id is None:
        return len(encoded)
    tail = wire.varint(tensor.buffer_id)
    if tensor.buffer_offset:
        tail += _BUFFER_OFFSET + wire.varint(tensor.buffer_offset)
    head = len(encoded) - len(tail)
    return head if encoded[head - 1 : head] == _BUFFER_ID and encoded[head:] == tail else None


def _planned(executor_id: int, rest: bytes) -> bytes:
    body = _EXECUTOR_ID + wire.varint(executor_id) + rest
    return _PLANNED + wire.varint(len(body)) + body


_PLANNED = wire.tag(pb.Result, "get_workspace_size")
_EXECUTOR_ID = wire.tag(operator_pb.GetWorkspaceSizeResponse, "executor_id")


_QUEUED = pb.Result(execute=operator_pb.ExecuteResponse()).SerializeToString()


def _segments(returned: Sequence[Slot]) -> tuple[bytes, ...]:
    """The result of a phase two, without the bytes of the outputs that it returns."""
    encoded = []
    for slot in returned:
        spec = slot.tensor.spec
        tensor = encode_tensor(TensorArgument(spec, bytes(spec.storage_bytes)))
        output = operator_pb.Output(argument=slot.argument, element=slot.element, tensor=tensor)
        encoded.append(operator_pb.ExecuteResponse(outputs=[output]).SerializeToString())
    size = sum(map(len, encoded))
    segments, segment = [], wire.field_head(pb.Result, "execute", size)
    for slot, whole in zip(returned, encoded, strict=True):
        segments.append(segment + whole[: len(whole) - slot.tensor.spec.storage_bytes])
        segment = b""
    return (*segments, segment) if returned else (segment,)
