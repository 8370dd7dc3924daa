"""The engine: commands go out in order over one open Submit call, and their results come back in order.

No thread of its own sends or reads, but for commands that linger (:mod:`~aclnn_client.linger`). Whoever
submits sends, if nothing is being sent; whoever needs a result reads, if nobody reads, and hands out what
comes to the others (the leader; those who wait for it are followers). When the leader has what it waited
for, a follower takes its place. So a lock-step call costs no step through another thread.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from aclnn import wire
from aclnn.errors import (
    AclnnError,
    HandleNotFoundError,
    ServerUnavailable,
    from_proto,
)
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client.interrupts import NO_INTERRUPTS, Interrupts, held_back
from aclnn_client.linger import LINGER
from aclnn_client.pending import Pending
from aclnn_client.requests import RESUME_SECONDS, OpenCall, Requests

MAX_OUTSTANDING = 4096
"""Commands that may be under way before the one who submits more waits for some."""
MAX_OUTSTANDING_BYTES = 64 << 20
"""Bytes of them, requests or answers, whichever are more."""
REQUEST_BYTES = (1 << 20) + (1 << 16)
"""Bytes of one request, or of its answer, that no further command may exceed: a chunk and small ones."""
WAIT_SECONDS = 0.2
"""Longest wait at once."""
LINGERING_COMMANDS = 64
"""Commands that may be held back; with more of them, the request is worth sending."""


class _Follower:
    """A thread that waits while another one reads."""

    __slots__ = ("promoted", "thread", "wake")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.promoted = False
        """Whether it is to read now."""
        self.wake = threading.Lock()
        self.wake.acquire()


class _Limit:
    """How long a wait may go on: to a time limit, or an interrupt."""

    def __init__(self, seconds: float | None, interrupts: Interrupts = NO_INTERRUPTS) -> None:
        self._limit = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self.interrupts = interrupts
        """What has been held back."""

    @property
    def seconds(self) -> float:
        """How long to wait at once: what comes just before a wait is seen only after it."""
        if self._deadline is None:
            return WAIT_SECONDS
        return min(WAIT_SECONDS, max(0.0, self._deadline - time.monotonic()))

    def reached(self, explain: Callable[[AclnnError], AclnnError]) -> bool:
        """Whether there was an interrupt.

        Raises:
            ServerUnavailable: the time is over.
        """
        if self._deadline is not None and time.monotonic() >= self._deadline:
            error = ServerUnavailable(f"no answer within {self._limit:g} seconds")
            raise explain(error) from None
        return self.interrupts.noted


class Submitter:
    """Sends the commands of one context. Thread-safe."""

    def __init__(
        self,
        open_call: OpenCall,
        context_id: str,
        timeout: float | None = None,
        explain: Callable[[AclnnError], AclnnError] = lambda error: error,
    ) -> None:
        """Opens nothing yet; the first command does.

        Args:
            open_call: opens Submit, without waiting; ``anew`` over another connection.
            context_id: context of every command.
            timeout: seconds that a result may take; ``None`` for any time.
            explain: completes the error that the call ended with.
        """
        self.requests_sent = 0
        """Requests, of one or more commands each, that were sent."""
        self.responses_waited = 0
        """Times that somebody had to wait for a result."""
        self._requests = Requests(open_call, context_id, timeout or RESUME_SECONDS)
        self._timeout = timeout
        self._explain = explain
        self._lock = threading.Lock()
        # All below is guarded by the lock.
        self._broken: AclnnError | None = None
        self._outbox: deque[Pending] = deque()
        self.held = 0
        """Commands in it."""
        self._awaiting: deque[Pending] = deque()
        """Sent, in order. Only the leader takes from it."""
        self.lingers = False
        """Whether commands are held back for a moment."""
        self._outstanding_bytes = 0
        self._exchanging = False
        """Whether nothing is sent until the answer comes that the leader waits for."""
        self._leader: int | None = None
        """The thread that reads. An interrupt may have kept it from saying that it has ended."""
        self._followers: dict[_Follower, None] = {}
        self._end = Pending("renew_context", pb.RenewContextRequest())
        """Never sent; done when the call has ended."""
        self._end.submitted(self)

    # --- submitting ---------------------------------------------------------------------------------

    def submit(
        self, commands: Sequence[Pending], *, hold: bool = False, linger: bool = False
    ) -> None:
        """Sends commands, together and in order, as soon as what was submitted before is sent.

        Waits at most until the connection has taken what was submitted before.

        Args:
            commands: in order.
            hold: whether they can go with whatever is submitted next: one request less.
            linger: whether they can be held back for a moment, to go with what is submitted next.

        Raises:
            AclnnError: the context is closed, or the server is gone.
        """
        if hold or linger:
            with self._lock:  # An interrupt does no harm here.
                self._put(commands)
                if hold or self.held < LINGERING_COMMANDS:
                    if not hold and not self.lingers:
                        self.lingers = True
                        LINGER.watch(self)
                    return
            commands = ()
        with held_back(self._requests.wake) as interrupts:
            with self._lock:
                self._put(commands)
                lead = self._flush_or_lead()
            if lead:
                self._empty_outbox(interrupts)

    def _put(self, commands: Sequence[Pending]) -> None:
        """Puts commands behind those that are to be sent. The lock is held."""
        if self._broken is not None:
            raise _another(self._broken) from None
        for pending in commands:
            pending.submitted(self)
            self._outbox.append(pending)
            self.held += pending.commands
            self._outstanding_bytes += pending.weight

    def send_lingering(self) -> None:
        """Sends what lingers, where nobody else has by now; never waits."""
        left = False
        with self._lock:
            if self.lingers:
                self._flush()
                left = bool(self._outbox) and self._leader is None
        if left:  # the connection has not told that the last request is gone
            threading.Thread(target=self._send_left, name="aclnn-left", daemon=True).start()

    def _send_left(self) -> None:
        # Failures are told to those whose commands they are.
        with contextlib.suppress(AclnnError):
            with self._lock:
                lead = self._flush_or_lead()
            if lead:
                self._empty_outbox(NO_INTERRUPTS)

    def _flush_or_lead(self) -> bool:
        """Sends what it can; whether the caller has the lead, to send the rest. The lock is held."""
        self._flush()
        return bool(self._outbox) and self._take_lead()

    def _empty_outbox(self, interrupts: Interrupts) -> None:
        self._lead(lambda: not self._outbox, _Limit(self._timeout, interrupts))

    @property
    def closed(self) -> bool:
        """Whether nothing can be submitted any more."""
        return self._broken is not None

    @property
    def settled(self) -> bool:
        """Whether every command has been answered."""
        return not (self._awaiting or self._outbox)

    def congestion(self) -> Pending | None:
        """The command to wait for before more is submitted, where too much is under way."""
        if (
            len(self._awaiting) + len(self._outbox) <= MAX_OUTSTANDING
            and self._outstanding_bytes <= MAX_OUTSTANDING_BYTES
        ):
            return None
        with self._lock:
            under_way = self._awaiting or self._outbox
            return under_way[len(under_way) // 2] if under_way else None

    def _flush(self, *, wait: bool = False) -> None:
        """Sends the next request, if there is one and the last one is gone. The lock is held.

        Args:
            wait: whether the caller will wait for the answer, and read it.
        """
        self.lingers = False
        if not self._outbox or self._broken is not None or not self._requests.ready:
            return
        self.requests_sent += 1
        exchange = wait and not self._awaiting
        parts: list[wire.Part] = []
        weight = count = 0
        while self._outbox and (not weight or weight + self._outbox[0].weight <= REQUEST_BYTES):
            pending = self._outbox.popleft()
            parts += pending.take_parts()
            weight += pending.weight
            count += pending.commands
            self._awaiting.append(pending)
        self.held -= count
        self._exchanging = exchange and not self._outbox
        self._requests.send(parts, count, exchange=self._exchanging)

    # --- waiting ------------------------------------------------------------------------------------

    def wait(self, pending: Pending) -> None:
        """Blocks until a result is there: reads it, or lets the thread read it that is reading.

        Raises:
            ServerUnavailable: it took longer than the time limit.
        """
        self.responses_waited += pending is not self._end and not pending.done
        limit = _Limit(None if self._timeout is None else self._timeout + pending.patience)
        while not pending.done:
            with held_back(self._requests.wake) as limit.interrupts:
                self._wait(pending, limit)

    def _wait(self, pending: Pending, limit: _Limit) -> None:
        """Waits, but only until an interrupt."""
        follower = None
        with self._lock:
            if pending.done:
                return
            lead = self._take_lead()
            self._flush(wait=lead)
            if not lead:
                follower = _Follower()
                self._followers[follower] = None
                pending.call_when_done(lambda: self._release(follower))
        if follower is None or self._follow(follower, limit):
            self._lead(lambda: pending.done, limit)

    def when_done(self, pending: Pending, callback: Callable[[], None]) -> None:
        """Calls back once a result is there: from the reader's thread, or at once."""
        with self._lock:
            if not pending.done:
                pending.call_when_done(callback)
                return
        callback()

    def start_reader(self) -> None:
        """Starts a thread that reads for everyone, for callers that must not block."""
        threading.Thread(
            target=self.wait, args=(self._end,), name="aclnn-reader", daemon=True
        ).start()

    def close(self) -> None:
        """Ends the call and waits for its end; everything that is under way fails."""
        with self._lock:
            if self._broken is None:
                self._broken = HandleNotFoundError("the context is closed")
        self._requests.cancel()
        self._timeout = None
        self.wait(self._end)

    def _follow(self, follower: _Follower, limit: _Limit) -> bool:
        """Waits for the leader to bring the result; returns whether to become the leader instead."""
        try:
            while not follower.wake.acquire(timeout=limit.seconds):
                if limit.reached(self._explain):
                    self._leave(follower)
                    return False
        except BaseException:
            self._leave(follower)
            raise
        return follower.promoted

    def _leave(self, follower: _Follower) -> None:
        with self._lock:
            self._followers.pop(follower, None)
            if follower.promoted:
                self._hand_over()

    def _release(self, follower: _Follower) -> None:
        """Wakes a follower whose result is there, if it still waits. The lock is held."""
        if follower in self._followers:
            del self._followers[follower]
            follower.wake.release()

    # --- reading, by one thread at a time -----------------------------------------------------------

    def _lead(self, reached: Callable[[], bool], limit: _Limit) -> None:
        """Reads until the leader has what it wants. The caller has the lead."""
        try:
            while not reached() and not limit.interrupts.noted:
                self._step(limit)
        finally:
            with self._lock:
                self._hand_over()

    def _take_lead(self) -> bool:
        """Becomes the leader, unless another thread is. The lock is held."""
        me = threading.get_ident()
        if self._leader not in (None, me):
            return False
        self._leader = me
        return True

    def _hand_over(self) -> None:
        """Ends the leadership; a follower takes it. The lock is held."""
        if self._followers:
            follower = next(iter(self._followers))
            del self._followers[follower]
            follower.promoted = True
            self._leader = follower.thread
            follower.wake.release()
        else:
            self._leader = None

    def _step(self, limit: _Limit) -> None:
        """Waits for what happens next and takes note of it."""
        try:
            happening = self._requests.next(limit.seconds)
        except TimeoutError:
            limit.reached(self._explain)
            happening = None
        if happening is None:
            with self._lock:
                self._flush()
        elif isinstance(happening, AclnnError):
            self._break(self._explain(happening))
        else:
            self._take(happening)

    def _take(self, answer: wire.RawAnswer) -> None:
        """Hands out the results of one request."""
        answered: deque[Pending] = deque()
        left, results = len(answer.results), iter(answer.results)
        while left:
            answered.append(self._awaiting.popleft())
            answered[-1].read(results)
            left -= answered[-1].commands
        with self._lock:
            self._finish(answered)
            if self._exchanging:  # what was submitted meanwhile could not be sent
                self._exchanging = False
                self._flush()

    def _break(self, error: AclnnError) -> None:
        """Ends everything that is under way, and the context for good."""
        with self._lock:
            if self._broken is None:
                self._broken = error
            left = (*self._awaiting, *self._outbox, self._end)
            ended = deque(_failed(each, self._broken) for each in left if not each.done)
            del left
            self._awaiting.clear()
            self._outbox.clear()
            self._finish(ended)
            self._outstanding_bytes = self.held = 0

    def _finish(self, commands: deque[Pending]) -> None:
        """Tells everyone who waits for these commands, which are taken away. The lock is held.

        Who is told has the only reference to a failure, and so to what its traceback refers to.
        """
        callbacks: deque[Callable[[], None]] = deque()
        while commands:
            self._outstanding_bytes -= commands[0].weight
            callbacks += commands.popleft().finish()
        while callbacks:
            callbacks.popleft()()


def _failed(pending: Pending, error: AclnnError) -> Pending:
    pending.error = _another(error)
    return pending


def _another(error: AclnnError) -> AclnnError:
    """The same error again: each thread that raises it adds its own traceback."""
    return from_proto(error.to_proto())
