"""Numbered batches of a context: each is applied once, however often and over however many calls it comes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from aclnn.errors import InvalidParameterError, SessionLostError

KEPT_BYTES = 64 * 2**20
"""Bytes of answers that are kept until the client has acknowledged them."""
KEPT_ANSWERS = 4096


class Batches:
    """The batches of one context, applied in the order of their numbers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._applied = 0
        self._answers: OrderedDict[int, bytes] = OrderedDict()
        self._bytes = 0

    def once(self, number: int, acknowledged: int, apply: Callable[[], bytes]) -> bytes:
        """Applies a batch, or gives what it answered when it was applied.

        Args:
            number: of the batch; 0: not numbered, and always applied.
            acknowledged: number up to which the client asks for no answer any more.
            apply: applies the batch and gives the encoded answer.

        Raises:
            InvalidParameterError: 161002, a batch before this one is missing.
            SessionLostError: the answer is not kept any more.
        """
        if not number:
            return apply()
        with self._lock:
            self._forget(lambda oldest: oldest <= acknowledged)
            if number <= self._applied:
                return self._answered(number)
            if number != self._applied + 1:
                raise InvalidParameterError(
                    f"sequence is {number}; the next batch is {self._applied + 1}",
                    parameter="sequence",
                )
            answer = self._answers[number] = apply()
            self._applied = number
            self._bytes += len(answer)
            self._forget(self._too_much)
            return answer

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
            _, answer = self._answers.popitem(last=False)
            self._bytes -= len(answer)
