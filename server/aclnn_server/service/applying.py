"""A batch of Submit, applied command by command: in one go, or as far as that takes no time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from google.protobuf.message import DecodeError

from aclnn import wire
from aclnn.errors import InvalidParameterError, LimitExceededError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.wire import BulkRead, BulkWrite, RawBatch
from aclnn_server.service.calls import Call
from aclnn_server.service.failures import encode_failure, foreseen
from aclnn_server.service.in_hand import InHand
from aclnn_server.service.known_calls import KnownCalls
from aclnn_server.service.logbook import is_kept, logged
from aclnn_server.sessions.waiting import WouldWait, cannot_wait

RESULT_HEAD_BYTES = 32
"""Bytes that a result takes in an answer besides its own, at most."""
SMALL_RESULT_BYTES = 512
"""Bytes that are kept free in an answer for each result to come."""
UNREADABLE = "the message cannot be decoded: it is not of this schema"
QUICK_BYTES = 2**16
"""Bytes of a buffer up to which moving them takes no time to speak of."""
QUICK_COMMANDS = 72
"""Commands of a batch up to which applying them takes none, if each takes none: the 64 that clients gather,
and what comes with the last of them."""

Commands = Mapping[str, Callable[[Call, Any], Any]]
"""What serves each command, by its name in ``Command``."""
Result = bytes | BulkRead


class Applier:
    """Applies commands; shared by all Submit calls of a server."""

    def __init__(self, commands: Commands, in_hand: InHand) -> None:
        self.in_hand = in_hand
        self.logged = is_kept()
        self.known = KnownCalls()
        self._commands = commands

    def apply(self, call: Call, encoded: bytes | memoryview) -> Result:
        """Result of any command."""
        return self._serve(call, encoded, decode(encoded))

    def apply_if_quick(self, call: Call, encoded: bytes | memoryview) -> tuple[Result, ...]:
        """Result of a command that neither waits nor works long; empty: it might, and nothing was done."""
        name = wire.command_name(encoded)
        is_little = _QUICK.get(name)
        if is_little is None or len(encoded) > QUICK_BYTES:
            return ()
        command = decode(encoded)
        if not is_little(call, command):
            return ()
        try:
            return (self._serve(replace(call, expired=cannot_wait), encoded, command),)
        except WouldWait:
            if call.tally is not None:
                call.tally.methods[name] -= 1
            return ()

    def _serve(
        self, call: Call, encoded: bytes | memoryview, command: BulkWrite | pb.Command
    ) -> Result:
        if isinstance(command, BulkWrite):
            if call.tally is not None:
                call.tally.methods["write_buffer"] += 1
            written = self._commands["write_buffer"](call, command)
            return pb.Result(write_buffer=written).SerializeToString()
        name = command.WhichOneof("command")
        if name is None:
            raise InvalidParameterError("the command is empty", parameter="command")
        if call.tally is not None:
            call.tally.methods[name] += 1
        response = self._commands[name](call, getattr(command, name))
        if isinstance(response, BulkRead):
            return response
        if name == "get_workspace_size":
            self.known.remember(call, encoded, response.executor_id)
        return pb.Result(**{name: response}).SerializeToString()


class Applying:
    """One batch, and the answer to it as far as it is made."""

    def __init__(self, applier: Applier, call: Call, batch: RawBatch) -> None:
        self._applier = applier
        self._call = call
        self._batch = batch
        self._results: list[Result] = []
        self._room = call.message_bytes

    def go_on(self, *, quick: bool = False) -> bool:
        """Applies the commands that are left; tells whether none are.

        Args:
            quick: stop before one that might wait, or take longer than it takes to change threads.
        """
        step = self._quickly if quick else self._fully
        count = len(self._batch.commands)
        with self._applier.in_hand:
            while len(self._results) < count:
                self._settle_last()
                made = step(len(self._results))
                if not made:
                    return False
                for result in made:
                    self._add(result)
        return True

    def answer(self) -> bytes:
        """The encoded answer, when all commands are applied."""
        answer = wire.join_response(self._batch.sequence, self._results)
        if (tally := self._call.tally) is not None:
            tally.received += sum(map(len, self._batch.commands))
            tally.sent += len(answer)
        return answer

    def _settle_last(self) -> None:
        # What was read last is a view of a buffer that the next command may write.
        if self._results and isinstance(last := self._results[-1], BulkRead):
            self._results[-1] = BulkRead(bytes(last.data))

    def _add(self, result: Result) -> None:
        size = len(result.data if isinstance(result, BulkRead) else result)
        if size > SMALL_RESULT_BYTES:
            left = len(self._batch.commands) - len(self._results) - 1
            if size > self._room - left * SMALL_RESULT_BYTES:
                result = _no_room(size, self._call.message_bytes)
                size = SMALL_RESULT_BYTES
        self._results.append(result)
        self._room -= size + RESULT_HEAD_BYTES

    def _fully(self, position: int) -> tuple[Result, ...]:
        """Results of the command at a position, or of both phases of a call that begins there."""
        command = self._batch.commands[position]
        call, applier = self._call, self._applier
        try:
            if applier.logged:
                with logged(call, wire.command_name(command)):
                    return (applier.apply(call, command),)
            return self._known(position, quick=False) or (applier.apply(call, command),)
        except Exception as error:
            return (self._failure(command, error),)

    def _quickly(self, position: int) -> tuple[Result, ...]:
        """The same; empty, with nothing done, where that might take time."""
        command = self._batch.commands[position]
        try:
            known = self._known(position, quick=True)
            return known or self._applier.apply_if_quick(self._call, command)
        except Exception as error:
            return (self._failure(command, error),)

    def _known(self, position: int, *, quick: bool) -> tuple[Result, ...]:
        call, known, commands = self._call, self._applier.known, self._batch.commands
        left = len(commands) - position
        first, second = commands[position], commands[position + 1] if left > 1 else b""
        if second:
            third = commands[position + 2] if left > 2 else b""
            both = known.run(call, first, second, third, quick=quick)
            if both is not None:
                return both
        again = known.run_again(call, first, second, quick=quick)
        return () if again is None else (again,)

    def _failure(self, command: bytes | memoryview, error: Exception) -> bytes:
        failure = foreseen(error)
        self._call.note_error(wire.command_name(command), failure)
        return encode_failure(failure)


def decode(encoded: bytes | memoryview) -> BulkWrite | pb.Command:
    """Decodes a command.

    Raises:
        InvalidParameterError: 161002, it is no command.
    """
    try:
        return wire.decode_command(encoded)
    except DecodeError:
        raise InvalidParameterError(UNREADABLE, parameter="command") from None


# ------------------------------------------------------------------------------- what takes no time


def _always(*_: object) -> bool:
    return True


def _reads_little(_: Call, command: pb.Command) -> bool:
    return command.read_buffer.bytes <= QUICK_BYTES


def _allocates_little(_: Call, command: pb.Command) -> bool:
    return command.malloc.bytes <= QUICK_BYTES


def _frees_little(call: Call, command: pb.Command) -> bool:
    assert call.submitted is not None
    buffer = call.submitted.buffers.get(command.free.buffer_id)
    return buffer is None or buffer.size <= QUICK_BYTES


_QUICK: Mapping[str, Callable[[Call, Any], bool]] = {
    "synchronize_stream": _always,
    "query_stream": _always,
    "write_buffer": _always,
    "read_buffer": _reads_little,
    "malloc": _allocates_little,
    "free": _frees_little,
}
"""Commands that take no time unless they have to wait, and whether one of them is of that size."""


def _no_room(size: int, limit: int) -> bytes:
    return encode_failure(
        LimitExceededError(
            f"the result has {size} bytes and does not fit the batch's answer, which has at most {limit}: "
            "ask for it in another batch"
        )
    )
