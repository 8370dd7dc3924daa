"""What is fuzzed: the decoders of the wire, and batches of Submit applied in this process, without gRPC.

Called with any bytes, it raises only where something is wrong: a decoder that reads a message otherwise than
protobuf's classes do, a call that is recognised and answered otherwise than one that is planned, an error
that no request may bring about, memory or a context that stays.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields, is_dataclass
from types import TracebackType
from typing import Any, Self

from google.protobuf.message import DecodeError, Message

from aclnn import wire
from aclnn.errors import AclnnError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn_server.config import ServerConfig
from aclnn_server.operators.catalogue import operators
from aclnn_server.server import Server
from aclnn_server.service.known_calls import KnownCalls
from aclnn_server.service.submit import OpenSubmit
from aclnn_server.sessions.tenants import ANYONE
from tests.hostile.arguments import BUFFER, BUFFER_BYTES, call_of
from tests.hostile.judging import check_error, check_in_band
from tests.hostile.messages import damaged
from tests.service.requests import run

INPUTS = 200
"""Inputs of one context; then it ends, and nothing of it may be left."""
DECODERS: tuple[Callable[[bytes], Any], ...] = (
    wire.decode_write,
    wire.decode_read,
    wire.decode_request,
    wire.split_request,
    wire.decode_command,
    wire.decode_response,
    wire.split_response,
    wire.decode_result,
)
NEVER = 1 << 62


class _Forgetful(KnownCalls):
    """Knows no call, so that each is decoded, checked and planned."""

    def run(self, *_: object, **__: object) -> None:
        return None

    def run_again(self, *_: object, **__: object) -> None:
        return None

    def remember(self, *_: object) -> None:
        pass


class _Side:
    """A server that nobody can connect to, and a context of it."""

    def __init__(self) -> None:
        config = ServerConfig(
            max_context_bytes=1 << 26,
            workers=1,
            threads=1,
            client_context_rate=0.0,
            context_rate=0.0,
        )
        self.server = Server(config)
        self.calls = self.server._service._submit_calls
        self._held = ExitStack()

    def open(self) -> None:
        """Opens a context, with a buffer."""
        self.context = self.server.registry.create_context(None, 60.0)
        first = wire.RawBatch(self.context.id, 0, ())
        begun = self.calls.begun(first, ANYONE, lambda: False, lambda _: True)
        self._submit: OpenSubmit = self._held.enter_context(begun)
        self.apply(wire.split_request(batch_of(_BUFFER)))

    def apply(self, batch: wire.RawBatch) -> pb.SubmitResponse | AclnnError:
        """Applies a batch as a message that has arrived."""
        try:
            begun = self._submit.begin(batch)
            return pb.SubmitResponse.FromString(begun if isinstance(begun, bytes) else begun())
        except AclnnError as error:
            return error

    def close(self) -> None:
        """Ends the context; nothing of it may be left."""
        self._held.close()
        self.server.registry.destroy_context(self.context)
        left = {kind: count for kind, count in asdict(self.server.registry.usage).items() if count}
        assert not left, left


class Target:
    """Two servers, whose answers are equal: one recognises calls by their bytes, and one does not."""

    def __init__(self) -> None:
        self._sides = _Side(), _Side()
        self._sides[1].calls._applier.known = _Forgetful()
        self._inputs = 0
        self.results = self.refused = 0
        """Commands that were answered, and those of them that were answered with an error."""

    def __enter__(self) -> Self:
        for side in self._sides:
            side.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for side in self._sides:
            side.close()
            side.server.stop(0)

    def __call__(self, data: bytes) -> None:
        """Takes one input.

        Raises:
            AssertionError: what it brought about may not be.
        """
        for decode in DECODERS:
            check_decoder(decode, data)
        try:
            batch = wire.split_request(data)
        except DecodeError:
            return
        self._inputs += 1
        if self._inputs % INPUTS == 0:
            for side in self._sides:
                side.close()
                side.open()
        self._apply(batch, data)

    def _apply(self, batch: wire.RawBatch, sent: bytes) -> None:
        # The client's own numbers now and then; else the next, so that quick commands are applied at once.
        numbered = batch.sequence % 8 != 7
        if numbered:
            last: int = self._sides[0].context.batches._applied
            batch = batch._replace(sequence=last + 1, acknowledged=last)
        answer, plain = (side.apply(batch) for side in self._sides)
        if isinstance(answer, AclnnError):
            if numbered:
                raise answer
            check_error(answer, sent)
            assert str(answer) == str(plain)
            return
        assert isinstance(plain, pb.SubmitResponse), plain
        assert not numbered or len(answer.results) == len(batch.commands)
        for result, other in zip(answer.results, plain.results, strict=True):
            assert result.WhichOneof("result") is not None
            self.results += 1
            if result.HasField("error"):
                self.refused += 1
                check_in_band(result.error, sent)
            assert _steady(result) == _steady(other), f"{result} otherwise {other}"


_CHANGING = {
    "attach_shared_memory": ("path", "secret"),
    "create_stream": ("stream_id", "context_id"),
    "execute": ("timing",),
    "get_event_elapsed_time": ("elapsed_ns",),
    "query_event": ("complete",),
    "query_stream": ("complete", "timing"),
}
"""Fields of results that may be others at each run."""


def _steady(result: pb.Result) -> bytes:
    """A result without what may be another at each run."""
    kind = result.WhichOneof("result")
    for field in _CHANGING.get(kind or "", ()):
        getattr(result, kind or "").ClearField(field)
    return result.SerializeToString(deterministic=True)


_BUFFER = pb.MallocRequest(buffer_id=BUFFER, bytes=BUFFER_BYTES)


@contextmanager
def read_by_hand(smallest: int) -> Iterator[None]:
    """Lets the decoders read messages of so many bytes by hand."""
    before, wire.BULK_BYTES = wire.BULK_BYTES, smallest
    try:
        yield
    finally:
        wire.BULK_BYTES = before


def check_decoder(decode: Callable[[bytes], Any], data: bytes) -> None:
    """Checks that a message is the same one, or none, read by hand and by protobuf's classes."""
    read = []
    for smallest in (0, NEVER):
        with read_by_hand(smallest):
            try:
                read.append(_plain(decode(data)))
            except DecodeError:
                read.append(None)
    assert read[0] == read[1], f"{decode.__name__}: {read[0]!r} by hand, {read[1]!r} by protobuf"


def _plain(value: Any) -> Any:  # noqa: ANN401 - what a decoder gives
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    if isinstance(value, wire.BulkWrite):
        return pb.Command(write_buffer=_whole(value)).SerializeToString(deterministic=True)
    if isinstance(value, wire.BulkRead):
        answer = pb.ReadBufferResponse(data=bytes(value.data))
        return pb.Result(read_buffer=answer).SerializeToString(deterministic=True)
    if isinstance(value, Message):
        return value.SerializeToString(deterministic=True)
    if isinstance(value, str | int):
        return value
    if is_dataclass(value):
        return [_plain(getattr(value, each.name)) for each in fields(value)]
    return [_plain(each) for each in value]


def _whole(write: wire.BulkWrite) -> pb.WriteBufferRequest:
    whole = pb.WriteBufferRequest()
    whole.CopyFrom(write.header)
    whole.data = bytes(write.data)
    return whole


# --- inputs ---------------------------------------------------------------------------------------


def batch_of(*requests: Message) -> bytes:
    """A batch of commands."""
    named = {
        field.message_type.full_name: field.name
        for field in pb.Command.DESCRIPTOR.fields
        if field.message_type is not None
    }
    commands = [
        pb.Command(**{named[request.DESCRIPTOR.full_name]: request})  # type: ignore[arg-type]
        for request in requests
    ]
    return pb.SubmitRequest(commands=commands).SerializeToString()


def joined(commands: Sequence[bytes]) -> bytes:
    """A batch of encoded commands."""
    return b"".join(wire.field_head(pb.SubmitRequest, "commands", len(c)) + c for c in commands)


def seeds() -> Iterator[bytes]:
    """Batches that are right: each operator, on tensors that travel and on those in a buffer; bytes moved."""
    yield batch_of(
        pb.WriteBufferRequest(buffer_id=BUFFER, total_bytes=4, data=b"abcd"),
        pb.MemsetRequest(buffer_id=BUFFER, offset=4, bytes=4, value=7),
        pb.ReadBufferRequest(buffer_id=BUFFER, bytes=8),
        pb.SynchronizeStreamRequest(),
    )
    for number, name in enumerate(sorted(operators())):
        planned = call_of(operators()[name], random.Random(name))
        planned.executor_id = number + 1
        yield batch_of(planned, run(planned.executor_id))
        _lay_into_buffer(planned)
        wait = pb.SynchronizeStreamRequest()
        yield batch_of(planned, run(planned.executor_id, asynchronous=True), wait)
        if number % 8 == 0:
            planned.repeatable = True
            again = [run(planned.executor_id, asynchronous=True)] * 2
            yield batch_of(planned, *again, wait, op.DestroyExecutorRequest(executor_id=number + 1))


def _lay_into_buffer(planned: op.GetWorkspaceSizeRequest) -> None:
    """Lets the tensors of a call lie one behind the other in the buffer."""
    offset = 0
    for argument in planned.arguments:
        if argument.HasField("tensor"):
            size = max(len(argument.tensor.data), 8 * math.prod(argument.tensor.shape))
            argument.tensor.buffer_id, argument.tensor.buffer_offset = BUFFER, offset
            offset += -(-size // 64) * 64


def changed(data: bytes, choose: random.Random, change: Callable[[bytes], bytes]) -> bytes:
    """An input with a change in one of its commands, whose lengths are right around it; or anywhere."""
    try:
        batch = wire.split_request(data)
    except DecodeError:
        return change(data)
    commands = [bytes(command) for command in batch.commands]
    if not commands or choose.random() < 0.2:
        return change(data)
    place = choose.randrange(len(commands))
    commands[place] = change(commands[place])
    if choose.random() < 0.1:
        commands.insert(choose.randint(0, len(commands)), choose.choice(commands))
    head = pb.SubmitRequest(sequence=batch.sequence, acknowledged=batch.acknowledged)
    return head.SerializeToString() + joined(commands)


def spoilt(data: bytes, choose: random.Random) -> bytes:
    """An input, damaged in one place or several."""
    return changed(data, choose, lambda part: damaged(part, choose))
