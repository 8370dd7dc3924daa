"""Submit: batches of commands over an open call, applied in order, once each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
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
from aclnn_server.service.open_calls import OpenCalls, WhenOver
from aclnn_server.sessions.context import Context
from aclnn_server.sessions.meters import Tally
from aclnn_server.sessions.registry import Registry
from aclnn_server.sessions.tenants import Caller

RESULT_HEAD_BYTES = 32
"""Bytes that a result takes in an answer besides its own, at most."""
SMALL_RESULT_BYTES = 512
"""Bytes that are kept free in an answer for each result to come."""
UNREADABLE = "the message cannot be decoded: it is not of this schema"

Commands = Mapping[str, Callable[[Call, Any], Any]]
"""What serves each command, by its name in ``Command``."""


class SubmitCalls:
    """Serves Submit."""

    def __init__(
        self, registry: Registry, commands: Commands, in_hand: InHand, open_calls: int
    ) -> None:
        self._registry = registry
        self._commands = commands
        self._in_hand = in_hand
        self._known = KnownCalls()
        self._logged = is_kept()
        self.open = OpenCalls(open_calls)

    def serve(
        self,
        requests: Iterator[RawBatch],
        caller: Caller,
        over: Callable[[], bool],
        when_over: WhenOver,
    ) -> Iterator[bytes]:
        """Serves one call, from its first request to its last; gives the encoded answers.

        Args:
            requests: as they come.
            caller: whose call it is.
            over: tells that the client is gone.
            when_over: calls back when it is; tells whether it is not gone yet.
        """
        with self.open.counted():
            yield from self._serve(requests, caller, over, when_over)

    def _serve(
        self,
        requests: Iterator[RawBatch],
        caller: Caller,
        over: Callable[[], bool],
        when_over: WhenOver,
    ) -> Iterator[bytes]:
        first = next(requests, None)
        if first is None:
            return
        if not first.context_id:
            raise InvalidParameterError(
                "the first request names no context", parameter="context_id"
            )
        context = self._registry.context(first.context_id, caller.tenant)
        with self.open.counted_in(context, when_over), _tallied(context) as tally:
            call = Call(self._registry, context, tally=tally)
            for batch in chain((first,), requests):
                if caller.ended_because or caller.tenant.calls:
                    caller.proceed(over)
                context.renew()
                yield context.batches.once(
                    batch.sequence, batch.acknowledged, partial(self.answer, call, batch), over
                )

    def answer(self, call: Call, batch: RawBatch) -> bytes:
        """Applies a batch and gives its encoded answer."""
        results: list[bytes | BulkRead] = []
        room = call.message_bytes
        commands = batch.commands
        count = len(commands)
        with self._in_hand:
            while len(results) < count:
                if results and isinstance(results[-1], BulkRead):
                    # A view of a buffer that the next command may write.
                    results[-1] = BulkRead(bytes(results[-1].data))
                for result in self._next(call, commands, len(results)):
                    left = count - len(results) - 1
                    size = len(result.data if isinstance(result, BulkRead) else result)
                    if size > max(SMALL_RESULT_BYTES, room - left * SMALL_RESULT_BYTES):
                        result = _no_room(size, call.message_bytes)
                        size = SMALL_RESULT_BYTES
                    results.append(result)
                    room -= size + RESULT_HEAD_BYTES
        answer = wire.join_response(batch.sequence, results)
        if (tally := call.tally) is not None:
            tally.received += sum(map(len, commands))
            tally.sent += len(answer)
        return answer

    def _next(
        self, call: Call, commands: Sequence[bytes | memoryview], position: int
    ) -> tuple[bytes | BulkRead, ...]:
        """Results of the command at a position, or of both phases of a call that begins there."""
        command = commands[position]
        try:
            if self._logged:
                with logged(call, wire.command_name(command)):
                    return (self._result(call, command),)
            if position + 1 < len(commands):
                both = self._known.run(call, command, commands[position + 1])
                if both is not None:
                    return both
            again = self._known.run_again(call, command)
            if again is not None:
                return (again,)
            result = self._result(call, command)
        except Exception as error:
            failure = foreseen(error)
            call.note_error(wire.command_name(command), failure)
            return (encode_failure(failure),)
        return (result,)

    def _result(self, call: Call, encoded: bytes | memoryview) -> bytes | BulkRead:
        try:
            command = wire.decode_command(encoded)
        except DecodeError:
            raise InvalidParameterError(UNREADABLE, parameter="command") from None
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
            self._known.remember(call, encoded, response.executor_id)
        return pb.Result(**{name: response}).SerializeToString()


@contextmanager
def _tallied(context: Context) -> Iterator[Tally | None]:
    """What counts the commands of a call, where that is counted."""
    if (meter := context.meter) is None:
        yield None
        return
    tally = meter.open()
    try:
        yield tally
    finally:
        meter.close(tally)


def _no_room(size: int, limit: int) -> bytes:
    return encode_failure(
        LimitExceededError(
            f"the result has {size} bytes and does not fit the batch's answer, which has at most {limit}: "
            "ask for it in another batch"
        )
    )
