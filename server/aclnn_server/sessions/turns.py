"""Queues whose owners take turns: whoever waits for much keeps nobody waiting who waits for little."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """A queue for each owner; the queues are served in turn. Not thread-safe."""

    def __init__(self) -> None:
        self._queues: OrderedDict[Hashable, deque[T]] = OrderedDict()
        """The owner whose turn is next is first."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, owner: Hashable, item: T) -> None:
        """Puts an item at the end of its owner's queue."""
        self._queues.setdefault(owner, deque()).append(item)
        self._count += 1

    def take(self, may: Callable[[Hashable], bool] = lambda _: True) -> T | None:
        """Takes the oldest item of the owner whose turn it is, of those that may have theirs."""
        for owner in self._queues:
            if may(owner):
                self._queues.move_to_end(owner)
                return self._remove(owner, self._queues[owner].popleft)
        return None

    def take_newest(self) -> T:
        """Takes the newest item of the owner that has most."""
        owner = max(self._queues, key=lambda one: len(self._queues[one]))
        return self._remove(owner, self._queues[owner].pop)

    def _remove(self, owner: Hashable, take: Callable[[], T]) -> T:
        item = take()
        self._count -= 1
        if not self._queues[owner]:
            del self._queues[owner]
        return item
