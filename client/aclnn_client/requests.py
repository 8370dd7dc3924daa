"""The numbered requests of one context, over as many calls as it takes.

A connection that breaks is no end: the call is opened again, and what has not been answered is sent again.
The server knows each request by its number and applies it once. Only when the server is gone, does not
answer for long, or has a reason of its own to end the call, is it over. A server that has no room for one
more call says so when it is opened, and is asked again.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from google.protobuf.message import DecodeError

from aclnn import wire
from aclnn.errors import (
    AclnnError,
    HandleNotFoundError,
    InternalError,
    LimitExceededError,
    ServerUnavailable,
)
from aclnn.v1 import device_service_pb2 as pb

if TYPE_CHECKING:
    from aclnn_client.submit_call import SubmitCall

RESUME_SECONDS = 10.0
"""How long to try to reach the server again."""
PAUSE_SECONDS = 0.05
"""Between the first attempts to reach it; doubled after each, up to a second."""
JITTER = 0.25
"""Part by which a pause may be longer, so that those who were refused together do not come back together."""
_FULL = "as many calls in hand"
"""What gRPC's own refusal of one more call means, in :mod:`aclnn.status`'s words."""
_NOBODY_THERE = ("nothing listens there", "there is no such socket")


class OpenCall(Protocol):
    """Opens Submit."""

    def __call__(self, *, anew: bool) -> SubmitCall:
        """Never waits; ``anew`` over another connection than before."""


class EndedByServer(ServerUnavailable):
    """The server ended the call without giving a reason."""


class _Sent(NamedTuple):
    """A request that has not been answered."""

    number: int
    message: bytes
    commands: int


class Requests:
    """Sends requests and reads answers; `send` by one thread at a time, `next` by one at a time."""

    def __init__(
        self,
        open_call: OpenCall,
        context_id: str,
        patience: float = RESUME_SECONDS,
    ) -> None:
        """Opens nothing yet.

        Args:
            open_call: opens Submit, without waiting; ``anew`` over another connection.
            context_id: context of every command.
            patience: seconds to ask a server again that has no room for one more call.
        """
        self._patience = patience
        self._open_call = open_call
        self._head = pb.SubmitRequest(context_id=context_id).SerializeToString()
        self._lock = threading.RLock()
        # All below is guarded by the lock.
        self._call: SubmitCall | None = None
        self._broke = False
        """Whether the connection of the last call did."""
        self._introduced = False
        """Whether the call knows its context, which its first request names."""
        self._sending = False
        self._exchanging = False
        """Whether the response will tell that the request has been sent."""
        self._number = 0
        self._answered = 0
        self._unanswered: deque[_Sent] = deque()
        self._resend: deque[bytes] = deque()
        self._attempts = 0
        self._broken_at = self._open_at = 0.0
        self._over: AclnnError | None = None
        """Why the call is being ended from this side."""

    @property
    def ready(self) -> bool:
        """Whether a request can be sent now."""
        if self._sending or self._resend:
            return False
        return self._call is not None or time.monotonic() >= self._open_at

    def send(self, commands: Sequence[wire.Part], count: int, *, exchange: bool = False) -> None:
        """Starts sending a request; it must be ready.

        Args:
            commands: encoded, in parts.
            count: how many they are.
            exchange: whether nothing is to be sent before the answer has come.
        """
        with self._lock:
            self._number += 1
            message = wire.join_request("", self._number, commands, self._answered)
            self._unanswered.append(_Sent(self._number, message, count))
            self._transmit(message, exchange=exchange)

    def _transmit(self, message: bytes, *, exchange: bool = False) -> None:
        call = self._opened()
        self._sending = True
        # Fields of one message that come in two parts are read as one.
        whole = message if self._introduced else self._head + message
        self._exchanging = call.send(whole, exchange=exchange)
        self._introduced = True

    def _opened(self) -> SubmitCall:
        if self._call is None:
            self._call, self._introduced = self._open_call(anew=self._broke), False
        return self._call

    def next(self, timeout: float) -> wire.RawAnswer | AclnnError | None:
        """Waits for what happens next.

        Returns:
            The answer to the oldest request; why all has ended; or ``None``: another can be sent.

        Raises:
            TimeoutError: nothing of the kind happened in `timeout` seconds, or :meth:`wake` was called.
        """
        call = self._connected(timeout)
        if call is None:
            assert self._over is not None
            return self._over
        happening = call.next(timeout)
        with self._lock:
            if happening is None:
                self._sent()
                return None
            if isinstance(happening, bytes):
                if self._exchanging:
                    self._sending = self._exchanging = False
                return self._read(happening)
            return self._ended(happening)

    def _connected(self, timeout: float) -> SubmitCall | None:
        """The call, opened if it is time; ``None`` where it never will be."""
        if self._call is not None and not self._resend:
            return self._call
        pause = self._open_at - time.monotonic()
        if self._call is None and self._over is None and pause > 0:
            time.sleep(min(pause, timeout))
            raise TimeoutError
        with self._lock:
            if self._call is None and self._over is not None:
                return None
            call = self._opened()
            if self._resend and not self._sending:
                self._transmit(self._resend.popleft())
            return call

    def _sent(self) -> None:
        self._sending = False
        if self._resend:
            self._transmit(self._resend.popleft())
            raise TimeoutError

    def _read(self, response: bytes) -> wire.RawAnswer:
        try:
            answer = wire.split_response(response)
        except DecodeError:
            answer = wire.RawAnswer(0, [])
        asked = self._unanswered[0] if self._unanswered else None
        if asked is None or (answer.sequence, len(answer.results)) != (
            asked.number,
            asked.commands,
        ):
            self.cancel(InternalError("the server's answers do not fit what was asked"))
            raise TimeoutError
        self._unanswered.popleft()
        self._answered = answer.sequence
        self._attempts = 0
        return answer

    # --- the end, or not ----------------------------------------------------------------------------

    def _ended(self, error: AclnnError) -> AclnnError:
        """What to do about a call that has ended: begin anew, or give the reason why not."""
        pause = None if self._over is not None else self._pause_before_another(error)
        if pause is None:
            if self._attempts and isinstance(error, ServerUnavailable):
                error = ServerUnavailable(
                    f"the connection broke, and could not be made again: {error.message}"
                )
            self._over = self._over or error
            return self._over
        self._open_at = time.monotonic() + pause
        self._attempts += 1
        self._broke = isinstance(error, ServerUnavailable)
        self._call, self._sending, self._exchanging = None, False, False
        self._resend = deque(sent.message for sent in self._unanswered)
        raise TimeoutError

    def _pause_before_another(self, error: AclnnError) -> float | None:
        """Seconds before the call is opened again; ``None`` where there is no use in it."""
        pause = min(1.0, PAUSE_SECONDS * 2 ** (self._attempts - 1)) if self._attempts else 0.0
        if isinstance(error, LimitExceededError):
            if not error.retry_after_ms and _FULL not in error.message:
                return None
            pause = max(pause, PAUSE_SECONDS, error.retry_after_ms / 1000)
            pause *= 1 + random.random() * JITTER
            patience = self._patience - pause
        elif isinstance(error, ServerUnavailable) and not isinstance(error, EndedByServer):
            if any(words in error.message for words in _NOBODY_THERE):
                return None
            patience = RESUME_SECONDS
        else:
            return None
        now = time.monotonic()
        if not self._attempts:
            self._broken_at = now
        return pause if now - self._broken_at < patience else None

    def cancel(self, reason: AclnnError | None = None) -> None:
        """Ends all from this side; `next` tells it."""
        with self._lock:
            if self._over is None:
                self._over = reason or HandleNotFoundError("the context is closed")
            if self._call is not None:
                self._call.cancel()

    def wake(self) -> None:
        """Ends a wait in `next` early. For signal handlers."""
        call = self._call
        if call is not None:
            call.wake()
