"""What calls with a request id answered: a repeat gets the same answer, and nothing is done twice."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from aclnn.errors import AclnnError, CancelledError, InvalidParameterError, SessionLostError
from aclnn_server.sessions.batches import KeptAnswers
from aclnn_server.sessions.waiting import Gone, Patience

KEPT_IDS = 4096
"""Ids that are remembered."""
KEPT_BYTES = 16 * 2**20
"""Bytes of answers that are kept. The oldest are forgotten first; their ids are not."""
SMALL_BYTES = 512
"""Bytes of an answer that takes nothing of the room that all contexts share."""


class _Answer:
    """What becomes of one call."""

    __slots__ = ("call", "changed", "done", "failure", "size", "taken", "value")

    def __init__(self, call: Hashable) -> None:
        self.call = call
        """What was asked."""
        self.size = self.taken = 0
        self.value: Any = None
        self.failure: AclnnError | None = None
        self.done = False
        self.changed = threading.Condition(threading.Lock())

    @property
    def undone(self) -> bool:
        """Whether the call was refused before anything was done: its caller gone, or to be tried again."""
        failure = self.failure
        return failure is not None and (
            isinstance(failure, CancelledError) or failure.retry_after_ms > 0
        )

    def given(self) -> Any:  # noqa: ANN401
        """The answer, or raises the failure that it is."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        return self.value


class Answers:
    """Answers by request id. Thread-safe."""

    def __init__(self, room: KeptAnswers) -> None:
        """Keeps nothing yet; `room` is what all contexts share."""
        self._room = room
        self._lock = threading.Lock()
        self._closed = False
        self._under_way: dict[Hashable, _Answer] = {}
        self._kept: OrderedDict[Hashable, _Answer] = OrderedDict()
        self._forgotten: OrderedDict[Hashable, Hashable] = OrderedDict()
        self._bytes = 0

    def once(
        self,
        request_id: Hashable,
        call: Hashable,
        act: Callable[[], Any],
        size_of: Callable[[Any], int],
        gone: Gone | None = None,
    ) -> Any:  # noqa: ANN401 - what `act` gives
        """Acts, or gives what was answered when the call came before.

        Args:
            request_id: of the call; unique.
            call: what is asked: with the same id it must be the same.
            act: makes the call.
            size_of: bytes of an answer.
            gone: tells that the caller is gone.

        Raises:
            InvalidParameterError: 161002, the id is another call's.
            SessionLostError: the call was made, but its answer is not kept any more.
            AclnnError: what the call failed with.
        """
        while True:
            with self._lock:
                answer = self._find(request_id, call)
                if answer is None:
                    answer = self._under_way[request_id] = _Answer(call)
                    break
            with answer.changed:
                Patience(gone=gone).wait_until(lambda a=answer: a.done, answer.changed)  # type: ignore[misc]
            if not answer.undone:
                return answer.given()
        try:
            answer.value = act()
            answer.size = size_of(answer.value)
        except AclnnError as error:
            answer.failure = error
        except BaseException:
            answer.failure = CancelledError("the call broke off")
            raise
        finally:
            self._end(request_id, answer)
        return answer.given()

    def _find(self, request_id: Hashable, call: Hashable) -> _Answer | None:
        answer = self._under_way.get(request_id) or self._kept.get(request_id)
        known = self._forgotten.get(request_id) if answer is None else answer.call
        if known is not None and known != call:
            raise InvalidParameterError("the request id is another call's", parameter="request_id")
        if answer is None and known is not None:
            raise SessionLostError("the answer to the request with this id is not kept any more")
        return answer

    def _end(self, request_id: Hashable, answer: _Answer) -> None:
        with self._lock:
            del self._under_way[request_id]
            if not answer.undone:
                self._keep(request_id, answer)
        with answer.changed:
            answer.done = True
            answer.changed.notify_all()

    def _keep(self, request_id: Hashable, answer: _Answer) -> None:
        self._kept[request_id] = answer
        self._bytes += answer.size
        if answer.size > SMALL_BYTES and not self._closed:
            if self._room.take(answer.size):
                answer.taken = answer.size
            else:
                self._forget(request_id)
        while self._bytes > KEPT_BYTES and len(self._kept) > 1:
            self._forget(next(iter(self._kept)))
        if len(self._kept) + len(self._forgotten) > KEPT_IDS:
            if not self._forgotten:
                self._forget(next(iter(self._kept)))
            self._forgotten.popitem(last=False)

    def _forget(self, request_id: Hashable) -> None:
        answer = self._kept.pop(request_id)
        self._bytes -= answer.size
        self._room.give_back(answer.taken)
        self._forgotten[request_id] = answer.call

    def close(self) -> None:
        """Forgets all answers; the context has ended."""
        with self._lock:
            self._closed = True
            while self._kept:
                self._forget(next(iter(self._kept)))
