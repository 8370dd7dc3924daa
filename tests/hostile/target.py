"""What is fuzzed: the decoders of the wire, and batches of Submit applied in this process, without gRPC.

Called with any bytes, it raises only where something is wrong: a decoder that reads a message otherwise than
protobuf's classes do, an error that no request may bring about, memory or a context that stays.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any, Self

from google.protobuf.message import DecodeError, Message

from aclnn import wire
from aclnn.errors import AclnnError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.config import ServerConfig
from aclnn_server.operators.catalogue import operators
from aclnn_server.server import Server
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


class Target:
    """A server that nobody can connect to, and a context of it."""

    def __init__(self) -> None:
        config = ServerConfig(
            max_context_bytes=1 << 26,
            workers=1,
            threads=1,
            client_context_rate=0.0,
            context_rate=0.0,
        )
        self._server = Server(config)
        self._held = ExitStack()
        self._inputs = 0
        self.results = self.refused = 0
        """Commands that were answered, and those of them that were answered with an error."""

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()
        self._server.stop(0)

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
        if self._inputs % INPUTS == 0 or self._context.closed:
            self._close()
            self._open()
        self._apply(batch, data)

    def _apply(self, batch: wire.RawBatch, sent: bytes) -> None:
        # The client's own numbers now and then; else the next, so that quick commands are applied at once.
        numbered = batch.sequence % 8 != 7
        if numbered:
            number: int = self._context.batches._applied
            batch = replace(batch, sequence=number + 1, acknowledged=number)
        try:
            begun = self._submit.begin(batch)
            answer = pb.SubmitResponse.FromString(begun if isinstance(begun, bytes) else begun())
        except AclnnError as error:
            if numbered:
                raise
            check_error(error, sent)
            return
        assert not numbered or len(answer.results) == len(batch.commands)
        for result in answer.results:
            assert result.WhichOneof("result") is not None
            self.results += 1
            if result.HasField("error"):
                self.refused += 1
                check_in_band(result.error, sent)

    def _open(self) -> None:
        self._context = self._server.registry.create_context(None, 60.0)
        calls = self._server._service._submit_calls
        first = wire.RawBatch(self._context.id, 0, ())
        begun = calls.begun(first, ANYONE, lambda: False, lambda _: True)
        self._submit: OpenSubmit = self._held.enter_context(begun)
        self._apply(wire.split_request(batch_of(_BUFFER)), b"")

    def _close(self) -> None:
        self._held.close()
        self._server.registry.destroy_context(self._context)
        left = {kind: count for kind, count in asdict(self._server.registry.usage).items() if count}
        assert not left, left


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
    if hasattr(value, "__slots__"):
        return [_plain(getattr(value, name)) for name in value.__slots__]
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


def seeds() -> Iterator[bytes]:
    """Batches that are right: both phases of each operator, and what moves bytes."""
    yield batch_of(
        pb.WriteBufferRequest(buffer_id=BUFFER, total_bytes=4, data=b"abcd"),
        pb.MemsetRequest(buffer_id=BUFFER, offset=4, bytes=4, value=7),
        pb.ReadBufferRequest(buffer_id=BUFFER, bytes=8),
        pb.SynchronizeStreamRequest(),
    )
    for number, name in enumerate(sorted(operators())):
        planned = call_of(operators()[name], random.Random(name))
        planned.executor_id = number + 1
        yield batch_of(planned, run(number + 1))


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
    body = b"".join(wire.field_head(pb.SubmitRequest, "commands", len(c)) + c for c in commands)
    return head.SerializeToString() + body


def spoilt(data: bytes, choose: random.Random) -> bytes:
    """An input, damaged in one place or several."""
    return changed(data, choose, lambda part: damaged(part, choose))
