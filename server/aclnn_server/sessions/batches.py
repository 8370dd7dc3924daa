"""Numbered batches of a context: each is applied once, however often and over however many calls it comes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from aclnn.errors import InvalidParameterError, SessionLostError
from aclnn_server.sessions.waiting import Gone, Patience

KEPT_BYTES = 64 * 2**20
"""Bytes of answers that are kept of a context until the client has acknowledged them."""
KEPT_ANSWERS = 4096
SMALL_BYTES = 64 * 2**10
"""Bytes of answers that a context may keep in any case: what comes back to small calls is never lost."""


class KeptAnswers:
    """Room for the answers that all contexts of a server keep, beyond the small ones. Thread-safe."""

    def __init__(self, limit: int = 2**30) -> None:
        self.limit = limit
        self.used = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Takes bytes, if there are as many free."""
        with self._lock:
            room = size <= self.limit - self.used
            self.used += size if room else 0
            return room

    def give_back(self, size: int) -> None:
        """Gives bytes back."""
        with self._lock:
            self.used -= size


class Batches:
    """The batches of one context, applied in the order of their numbers."""

    def __init__(self, kept: KeptAnswers) -> None:
        self._lock = threading.Lock()
        self._applied = 0
        self._answers: OrderedDict[int, bytes] = OrderedDict()
        self._bytes = 0
        self._kept = kept
        self._settling = threading.Lock()
        self._taken = 0
        """Bytes taken of what all contexts may keep."""
        self._closed = False

    def once(
        self,
        number: int,
        acknowledged: int,
        apply: Callable[[], bytes],
        gone: Gone | None = None,
    ) -> bytes:
        """Applies a batch, or gives what it answered when it was applied.

        Args:
            number: of the batch; 0: not numbered, and always applied.
            acknowledged: number up to which the client asks for no answer any more.
            apply: applies the batch and gives the encoded answer.
            gone: tells that the caller is gone, and waits no more for a batch that another call applies.

        Raises:
            CancelledError: the caller is gone, and the batch was not applied.
            InvalidParameterError: 161002, a batch before this one is missing.
            SessionLostError: the answer is not kept any more.
        """
        if not number:
            return apply()
        if not self.try_turn():
            Patience(gone=gone).wait_for(self._take_turn)
        try:
            answer = self.kept(number, acknowledged)
            if answer is None:
                answer = apply()
                self.keep(number, answer)
            return answer
        finally:
            self.end_turn()

    # --- the steps of `once`, for who cannot wait -------------------------------------------------

    def try_turn(self) -> bool:
        """Takes the turn, if no batch is being applied; :meth:`end_turn` has to follow, in any thread."""
        return self._lock.acquire(blocking=False)

    def end_turn(self) -> None:
        """Lets the next batch have its turn."""
        self._lock.release()

    def kept(self, number: int, acknowledged: int) -> bytes | None:
        """What a batch answered when it was applied; ``None``: it is to be applied now.

        Raises:
            InvalidParameterError, SessionLostError: as :meth:`once`.
        """
        self._forget(lambda oldest: oldest <= acknowledged)
        if number <= self._applied:
            return self._answered(number)
        if number != self._applied + 1:
            raise InvalidParameterError(
                f"sequence is {number}; the next batch is {self._applied + 1}", parameter="sequence"
            )
        return None

    def keep(self, number: int, answer: bytes) -> None:
        """Notes that a batch was applied, and keeps its answer."""
        self._answers[number] = answer
        self._applied = number
        self._bytes += len(answer)
        self._forget(self._too_much)
        if self._taken or self._bytes > SMALL_BYTES:
            self._settle()

    def _take_turn(self, pause: float | None) -> bool:
        return self._lock.acquire(timeout=-1 if pause is None else pause)

    def close(self) -> None:
        """Gives back what is taken; the context has ended. Never waits for a batch."""
        with self._settling:
            self._closed = True
            self._kept.give_back(self._taken)
            self._taken = 0

    def _settle(self) -> None:
        """Takes as many bytes of the common room as the answers need, and keeps fewer where there is none."""
        with self._settling:
            while True:
                needed = 0 if self._closed else max(0, self._bytes - SMALL_BYTES)
                more = needed - self._taken
                if more <= 0:
                    self._kept.give_back(-more)
                elif not self._kept.take(more):
                    self._forget_oldest()
                    continue
                self._taken = needed
                return

    def _answered(self, number: int) -> bytes:
        answer = self._answers.get(number)
        if answer is None:
            raise SessionLostError(f"the answer to batch {number} is not kept any more")
        return answer

    def _too_much(self, oldest: int) -> bool:
        too_much = self._bytes > KEPT_BYTES or len(self._answers) > KEPT_ANSWERS
        return too_much and oldest != self._applied

    def _forget(self, droppable: Callable[[int], bool]) -> None:
        while self._answers and droppable(next(iter(self._answers))):
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, answer = self._answers.popitem(last=False)
        self._bytes -= len(answer)
