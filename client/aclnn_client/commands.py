"""What the objects of a context send their commands through."""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from google.protobuf.message import Message

from aclnn import wire
from aclnn.errors import AclnnError, HandleNotFoundError, WaitTimeoutError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as operator_pb
from aclnn_client.pending import CONTEXT, Failures, Pending, run
from aclnn_client.submit import Submitter

INLINE_BYTES = 3 << 19
"""Bytes of a call's arrays, inputs and results, up to which one request with all of them is faster than
several with chunks; above it, what it copies more counts. Measured."""
CHUNK_BYTES = 1 << 20
"""Bytes of one chunk of a large transfer."""


class Commands:
    """Sends commands, waits for those that must be waited for, and keeps failures of the others.

    Thread-safe. Several failures in a row mostly follow from the first; it is the one that is told.
    """

    def __init__(self, submitter: Submitter, *, blocking: bool, message_bytes: int) -> None:
        """Wraps an engine.

        Args:
            submitter: the engine.
            blocking: whether a caller may be blocked while too much is under way.
            message_bytes: the server's limit of one message; 0 where there is none.
        """
        self.submitter = submitter
        self.failures = Failures()
        self.chunk_bytes = min(CHUNK_BYTES, message_bytes - 4096) if message_bytes else CHUNK_BYTES
        self.inline_bytes = min(INLINE_BYTES, message_bytes // 2) if message_bytes else INLINE_BYTES
        """Bytes of arrays up to which a call carries them itself."""
        self.blocking = blocking
        """Whether a caller may be blocked while too much is under way."""
        self._ids = itertools.count(1)
        self._abandoned: deque[tuple[str, int | str]] = deque()
        self.returned: deque[int] | None = None
        """Takes the buffers that the server uses no more, where there is shared memory."""

    def next_id(self) -> int:
        """An id for a buffer, an executor or an event, unique in the context."""
        return next(self._ids)

    # --- sending ------------------------------------------------------------------------------------

    def submit(self, *commands: Pending, hold: bool = False, linger: bool = False) -> None:
        """Sends commands, together and in order.

        Args:
            commands: in order.
            hold: whether they can go with whatever is sent next, because nothing happens before.
            linger: whether they can wait a moment for something to go with.

        Raises:
            AclnnError: the context is closed, or the server is gone.
        """
        if self._abandoned:
            commands = (*self._clearing(), *commands)
        self.submitter.submit(commands, hold=hold, linger=linger)

    def post(
        self,
        name: str,
        request: Message,
        data: wire.Part | None = None,
        *,
        place: str = CONTEXT,
        hold: bool = False,
    ) -> Pending:
        """Sends a command whose answer nobody waits for; its failure is kept for `place`."""
        pending = self.posted(name, request, data, place=place)
        self.submit(pending, hold=hold)
        if self.blocking and self.submitter.congestion() is not None:
            run(self.room())
        return pending

    def posted(
        self,
        name: str,
        request: Message | Sequence[wire.Part],
        data: wire.Part | None = None,
        *,
        place: str = CONTEXT,
    ) -> Pending:
        """Prepares what :meth:`post` sends."""
        return Pending(name, request, data, on_error=self.keeping(name, place))

    def keeping(self, name: str, place: str) -> Callable[[Pending], None]:
        """What keeps the failure of a command for `place`."""
        return lambda pending: self._keep_of(name, place, pending.error)

    def _keep_of(self, name: str, place: str, error: AclnnError | None) -> None:
        if error is not None and not error.operator:
            # It is told later, by a call that has nothing to do with it.
            error.message = f"{name}, earlier: {error.message}"
        self._keep(place, error)

    def _keep(self, place: str, error: AclnnError | None) -> None:
        if error is not None:
            self.failures.keep(place, error)

    async def room(self) -> None:
        """Waits while too much is under way."""
        while (pending := self.submitter.congestion()) is not None:
            # Its failure is for whoever asked for it.
            with contextlib.suppress(AclnnError):
                await pending

    def end(self, command: str, handle: int) -> None:
        """Ends an object, without waiting; without effect in a closed context, where it has ended."""
        self.abandon(command, handle)
        if not self.submitter.closed:
            self.submit()

    # --- waiting ------------------------------------------------------------------------------------

    async def ask(self, pending: Pending, *places: str, keep_at: str | None = None) -> Any:  # noqa: ANN401
        """Sends a command and waits for its answer; see :meth:`answer`."""
        self.submit(pending, hold=self.blocking)
        return await self.answer(pending, *places, keep_at=keep_at)

    async def answer(self, pending: Pending, *places: str, keep_at: str | None = None) -> Any:  # noqa: ANN401
        """Waits for the answer to a command.

        Args:
            pending: the command.
            places: failures kept for them are told here, even if this command did not fail.
            keep_at: place to keep its failure for, where the wait is broken off before it comes;
                needed for commands whose failure the server tells only once.

        Raises:
            AclnnError: the first failure: one that was kept, else the command's own.
        """
        try:
            answer = await pending
        except BaseException as error:
            if not isinstance(error, AclnnError) or error is not pending.error:
                self._give_up(pending, keep_at)
                raise
            raise (self.failures.take(CONTEXT, *places) or error) from None
        if places and (failure := self.failures.take(*places)):
            raise failure from None
        return answer

    def _give_up(self, pending: Pending, place: str | None) -> None:
        """Lets the failure of a command that is still under way be told to somebody else."""

        def keep() -> None:
            if not isinstance(pending.error, WaitTimeoutError):
                self._keep(place or CONTEXT, pending.error)

        if place is not None:
            pending.call_back(keep)

    # --- shared memory ------------------------------------------------------------------------------

    def watched(self, pending: Pending, freed: int = 0) -> Pending:
        """Lets the shared memory know which buffers the answer to a command tells are used no more.

        Args:
            pending: frees a buffer or synchronises.
            freed: the buffer; where it could not be made, nobody uses it either.
        """
        if (returned := self.returned) is not None:

            def note() -> None:
                answer: Any = pending.answer
                if answer is not None:
                    returned.extend(answer.returned_buffer_ids)
                elif freed and isinstance(pending.error, HandleNotFoundError):
                    returned.append(freed)

            pending.call_when_done(note)
        return pending

    # --- what was abandoned -------------------------------------------------------------------------

    @property
    def abandoned(self) -> deque[tuple[str, int | str]]:
        """What :meth:`abandon` notes in, for who must not keep these commands alive."""
        return self._abandoned

    def abandon(self, command: str, handle: int | str) -> None:
        """Notes an object that nobody refers to any more; the next command tells the server.

        Safe in a finalizer, which may run at any time in any thread: it takes no lock.
        """
        self._abandoned.append((command, handle))

    def _clearing(self) -> Iterable[Pending]:
        while True:
            try:
                command, handle = self._abandoned.popleft()
            except IndexError:
                return
            yield from self._end(command, handle)

    def _end(self, command: str, handle: int | str) -> Iterable[Pending]:
        if command == "destroy_stream":
            # To destroy a stream drops its work, which others may be waiting for.
            stream_id = str(handle)
            yield self.posted(
                "synchronize_stream", pb.SynchronizeStreamRequest(stream_id=stream_id)
            )
            yield Pending(command, pb.DestroyStreamRequest(stream_id=stream_id), on_error=_ignore)
        elif command == "free":
            pending = Pending(command, pb.FreeRequest(buffer_id=int(handle)), on_error=_ignore)
            yield self.watched(pending, int(handle))
        elif command == "destroy_event":
            request = pb.DestroyEventRequest(event_id=int(handle))
            yield Pending(command, request, on_error=_ignore)
        else:
            destroy = operator_pb.DestroyExecutorRequest(executor_id=int(handle))
            yield Pending(command, destroy, on_error=_ignore)


def _ignore(pending: Pending) -> None:
    """What was abandoned may have ended before."""
