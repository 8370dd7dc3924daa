"""Commands under way, and coroutines that wait for them in a blocking or an asyncio program alike.

What the client does in several steps is written once, as a coroutine that awaits :class:`Pending` results.
:func:`run` drives it for a program that blocks; :mod:`aclnn_client.aio` drives it on an event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from aclnn import wire
from aclnn.errors import AclnnError, InternalError, from_proto
from aclnn.v1 import device_service_pb2 as pb

T = TypeVar("T")
Steps = Coroutine[Any, Any, T]
"""A coroutine that waits for nothing but pending results."""


class Waiter(Protocol):
    """What a pending result is waited for with."""

    def wait(self, pending: Pending) -> None:
        """Blocks until `pending` is done."""

    def when_done(self, pending: Pending, callback: Callable[[], None]) -> None:
        """Calls back when `pending` is done, from any thread; at once where it is."""


class Pending:
    """One command, and later what it answers. ``await`` gives the answer, or raises its failure."""

    commands = 1
    """How many commands of the protocol it is."""

    __slots__ = (
        "_callbacks",
        "_into",
        "_parts",
        "_waiter",
        "answer",
        "done",
        "error",
        "on_error",
        "patience",
        "weight",
    )

    def __init__(
        self,
        name: str,
        request: Message | Sequence[wire.Part],
        data: wire.Part | None = None,
        *,
        into: memoryview | None = None,
        answer_bytes: int = 0,
        on_error: Callable[[Pending], None] | None = None,
        patience: float = 0.0,
    ) -> None:
        """Encodes the command.

        Args:
            name: of the command in the protocol's ``Command``.
            request: the command's message, or its bytes in parts.
            data: bulk data of a ``write_buffer``.
            into: where the data of a ``read_buffer`` is to be put; of the same length.
            answer_bytes: size that the answer will about have.
            on_error: told of the failure in place of who waits.
            patience: seconds that the command may take in addition to the usual time limit.
        """
        encoded: list[wire.Part] = (
            [request.SerializeToString()] if isinstance(request, Message) else [*request]
        )
        if data:
            encoded += wire.field_head(pb.WriteBufferRequest, "data", len(data)), data
        size = sum(map(len, encoded))
        self.patience = patience
        self._into = into
        answer_bytes = answer_bytes if into is None else len(into)
        self._begin(wire.encode_command(name, encoded), max(size, answer_bytes), on_error)

    def _begin(
        self,
        parts: tuple[wire.Part, ...],
        weight: int,
        on_error: Callable[[Pending], None] | None,
    ) -> None:
        self._parts = parts
        self.weight = weight
        """Bytes of the command, or of its answer, whichever are more."""
        self.on_error = on_error
        self.done = False
        self.answer: Message | None = None
        self.error: AclnnError | None = None
        self._waiter: Waiter | None = None
        self._callbacks: list[Callable[[], None]] | None = None

    # --- for those who wait -------------------------------------------------------------------------

    def __await__(self) -> Generator[Pending, None, Any]:
        if not self.done:
            yield self
        return self.result()

    def result(self) -> Any:  # noqa: ANN401 - which message it is depends on the command
        """The response message of the command; it must be done.

        Raises:
            AclnnError: what it failed with, unless that is told by `on_error`.
        """
        if self.error is not None and self.on_error is None:
            raise self.error from None
        return self.answer

    def wait(self) -> None:
        """Blocks until the result is there."""
        if not self.done:
            assert self._waiter is not None, "the command was not submitted"
            self._waiter.wait(self)

    def call_back(self, callback: Callable[[], None]) -> None:
        """Calls back once the result is there, from any thread; at once where it is."""
        assert self._waiter is not None, "the command was not submitted"
        self._waiter.when_done(self, callback)

    # --- for the Submitter, which holds its lock ----------------------------------------------------

    def submitted(self, waiter: Waiter) -> None:
        """Notes who is to be asked for the result."""
        self._waiter = waiter

    def take_parts(self) -> tuple[wire.Part, ...]:
        """Gives the encoded command away, to be sent."""
        parts, self._parts = self._parts, ()
        return parts

    @property
    def unsent(self) -> bool:
        """Whether the command still refers to its caller's data."""
        return bool(self._parts)

    def call_when_done(self, callback: Callable[[], None]) -> None:
        """Adds a callback; it must be quick and must not submit anything."""
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append(callback)

    def read(self, results: Iterator[bytes | memoryview]) -> None:
        """Takes its results, each encoded, without telling anyone yet."""
        self._read(next(results))

    def _read(self, encoded: bytes | memoryview) -> None:
        if self._into is None and encoded in _EMPTY:
            self.answer = _EMPTY[bytes(encoded)]
            return
        try:
            result = wire.decode_result(encoded)
        except DecodeError:
            self.error = InternalError("the server's answer cannot be read")
            return
        if isinstance(result, wire.BulkRead):
            self._read_data(result.data)
            return
        kind = result.WhichOneof("result")
        if kind is None:
            self.error = InternalError("the server's answer is empty")
        elif kind == "error":
            self.error = from_proto(result.error)
        elif self._into is not None:
            self._read_data(result.read_buffer.data)
        else:
            self.answer = getattr(result, kind)

    def _read_data(self, data: wire.Part) -> None:
        if self._into is None or len(data) != len(self._into):
            wanted = 0 if self._into is None else len(self._into)
            self.error = InternalError(f"asked for {wanted} bytes, and got {len(data)}")
        else:
            self._into[:] = data
        self._into = None

    def finish(self) -> list[Callable[[], None]]:
        """Notes that the result is there; gives what is to be called back."""
        self.done = True
        self._parts, self._into = (), None
        if self.error is not None and self.on_error is not None:
            self.on_error(self)
        callbacks, self._callbacks = self._callbacks, None
        return callbacks or _NONE


_NONE: list[Callable[[], None]] = []


def _empty_answers() -> Iterator[tuple[bytes, Message]]:
    for field in pb.Result.DESCRIPTOR.fields:
        if field.name != "error":
            result = pb.Result()
            answer: Message = getattr(result, field.name)
            answer.SetInParent()
            yield result.SerializeToString(), answer


_EMPTY = dict(_empty_answers())
"""Successes that tell nothing, which most are; they are not decoded each time."""


CONTEXT = ""
"""Place of failures that belong to no stream."""
EVERYWHERE = "*"
"""Every place there is."""


class Failures:
    """Failures of commands that nobody waited for, until somebody can be told. Thread-safe.

    Each belongs to a place: the id of a stream, or :data:`CONTEXT`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[tuple[str, AclnnError]] = []

    def keep(self, place: str, error: AclnnError) -> None:
        """Keeps a failure of `place`, unless it has one: the later ones follow from the first."""
        with self._lock:
            if place not in (known for known, _ in self._kept):
                self._kept.append((place, error))

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._kept)

    def take(self, *places: str) -> AclnnError | None:
        """Takes the failures of some places, and gives the first."""
        if not self._kept:
            return None
        with self._lock:
            taken = [kept for kept in self._kept if kept[0] in places or EVERYWHERE in places]
            self._kept = [kept for kept in self._kept if kept not in taken]
        return taken[0][1] if taken else None


def run(steps: Steps[T]) -> T:
    """Runs a coroutine to its end, blocking where it waits."""
    pending: Pending | None = None
    try:
        pending = steps.send(None)
        while True:
            try:
                pending.wait()
            except BaseException as error:
                pending = steps.throw(error)
            else:
                pending = steps.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    except AclnnError as error:
        # The caller's own lines are what a traceback is read for.
        raise error.with_traceback(None) from None
    finally:
        # It has the error, the error this frame, and that the caller's: tensors would stay in the cycle.
        pending = None
