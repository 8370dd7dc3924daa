"""Calls that came before over one Submit call, found by their bytes: no message is decoded.

From one such call to the next, the executor's id and the storages of the tensors change. Requests of one
operator and length have the storages at the same few places; what stands between these is the key. The
executor's id is cut out where protobuf's own encoders write it: first, or behind the stream's id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from aclnn import wire
from aclnn.v1 import operator_service_pb2 as pb

T = TypeVar("T")

CAPACITY = 1024
"""Calls that are kept; they are forgotten together when there are more."""
KEPT_BYTES = 1 << 20
"""Bytes of their keys."""
SHAPES = 8
"""Ways in which storages may be placed in requests of one operator and length; the oldest is forgotten."""
_STREAM_ID = wire.tag(pb.ExecuteRequest, "stream_id")[0]
_EXECUTOR_ID = wire.tag(pb.ExecuteRequest, "executor_id")[0]
_OPERATOR = wire.tag(pb.GetWorkspaceSizeRequest, "operator")
_ARGUMENT = wire.tag(pb.GetWorkspaceSizeRequest, "arguments")


class Apart(NamedTuple):
    """Both phases of a call, with the executor's id cut out."""

    executor_id: int
    plan: bytes
    """Of phase one, what follows the id; nothing is before it."""
    run: tuple[bytes, bytes]
    """Of phase two, what stands before the id and what follows it."""


def take_apart(phase_one: bytes | memoryview, phase_two: bytes | memoryview) -> Apart | None:
    """Cuts the executor's id out of both phases of a call, each a command with a tag of one byte.

    Returns:
        ``None`` where they are not written in the usual way, or are not of one executor.
    """
    planned, ran = _cut(phase_one), _cut(phase_two)
    if planned is None or ran is None or planned[0] or planned[1] != ran[1]:
        return None
    return Apart(planned[1], planned[2], (ran[0], ran[2]))


def _cut(command: bytes | memoryview) -> tuple[bytes, int, bytes] | None:
    """What stands before the executor's id, the id, and what follows it."""
    if type(command) is not bytes:
        return None
    try:
        size, start = command[1], 2
        if size > 127:
            size, start = wire.read_varint(command, 1)
        if start + size != len(command):
            return None
        place = start
        if command[place] == _STREAM_ID:
            length = command[place + 1]
            if length > 127:
                return None
            place += 2 + length
        if command[place] != _EXECUTOR_ID:
            return None
        number, end = command[place + 1], place + 2
        if number > 127:
            number, end = wire.read_varint(command, place + 1)
            if number >= 1 << 64:  # protobuf's classes leave the rest out
                return None
    except (IndexError, wire.OtherForm):
        return None
    return command[start:place], number, command[end:]


_Shape = tuple[tuple[slice, ...], tuple[slice, ...]]
"""What of a request does not change, and where the storages stand."""


class SeenCalls(Generic[T]):
    """What is known of the calls of one Submit call. Used by one thread at a time."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[int, bytes], tuple[_Shape, ...]] = {}
        self._calls: dict[tuple[bytes, bytes, bytes], T] = {}
        self._bytes = 0

    def find(self, call: Apart) -> tuple[T, list[bytes]] | None:
        """What is known of a call, and the storages of its tensors, as they stand in the request."""
        plan = call.plan
        for lasting, storages in self._shapes.get(_kind(plan), ()):
            found = self._calls.get((b"".join([plan[part] for part in lasting]), *call.run))
            if found is not None:
                return found, [plan[part] for part in storages]
        return None

    def keep(
        self,
        call: Apart,
        operator: str,
        arguments: Sequence[bytes],
        storages: Sequence[tuple[int, int]],
        known: T,
    ) -> None:
        """Keeps what is known of a call, if its phase one is written in the usual way.

        Args:
            call: the two phases.
            operator: C name.
            arguments: of the call, encoded.
            storages: position of each argument that is a tensor with a storage, in order, and length of
                what stands before the storage in it.
            known: what is known.
        """
        usual, starts = _usual(operator, arguments)
        if usual != call.plan:
            return
        places = [(starts[at] + length, starts[at] + len(arguments[at])) for at, length in storages]
        ends = [0, *(end for _, end in places)]
        begins = [*(begin for begin, _ in places), len(usual)]
        lasting = tuple(map(slice, ends, begins))
        key = (b"".join([usual[part] for part in lasting]), *call.run)
        size = sum(map(len, key))
        if len(self._calls) >= CAPACITY or self._bytes + size > KEPT_BYTES:
            self._shapes.clear()
            self._calls.clear()
            self._bytes = 0
        shape = lasting, tuple(slice(*place) for place in places)
        others = self._shapes.get(_kind(usual), ())
        if shape not in others:
            self._shapes[_kind(usual)] = (shape, *others[: SHAPES - 1])
        self._calls[key] = known
        self._bytes += size


def _kind(plan: bytes) -> tuple[int, bytes]:
    """Length of a request, and its operator."""
    return len(plan), plan[: 2 + plan[1]] if len(plan) > 1 else plan


def _usual(operator: str, arguments: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """What follows the executor's id in phase one, as protobuf's encoders write it, and where the arguments
    begin in it."""
    name = operator.encode()
    encoded = _OPERATOR + wire.varint(len(name)) + name
    starts = []
    for argument in arguments:
        encoded += _ARGUMENT + wire.varint(len(argument))
        starts.append(len(encoded))
        encoded += argument
    return encoded, starts
