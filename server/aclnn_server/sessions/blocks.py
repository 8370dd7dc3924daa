"""Large blocks of memory that contexts have freed, kept a while for their next buffers.

Memory that is fresh from the system is cleared page by page when it is first written, which takes longer than
to copy a tensor into it. A block goes back only to the context that freed it, so nobody sees another's data.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from aclnn_server.backends.base import Device, Memory

LARGE_BYTES = 1 << 20
"""Bytes from which a block is kept; smaller ones the process keeps itself."""
KEPT_BYTES = 1 << 30
"""Bytes that are kept at most, of all contexts; more end the oldest."""
KEPT_SECONDS = 5.0
"""Longest time that one is kept."""

Owner = Hashable
"""Whose a block is."""
_Key = tuple[Owner, int]


class Blocks:
    """The blocks of all contexts. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Guarded by the lock.
        self._kept: OrderedDict[int, tuple[_Key, Device, Memory, float]] = OrderedDict()
        """By number, the oldest first."""
        self._by_key: dict[_Key, list[int]] = {}
        self._number = 0
        self.bytes = 0
        """Bytes that are kept now."""

    def keep(self, owner: Owner, device: Device, memory: Memory, size: int) -> bool:
        """Keeps a block of which no work is left, where it is worth it; else it is to be released."""
        if not device.keeps_blocks or not LARGE_BYTES <= size <= KEPT_BYTES:
            return False
        key = owner, size
        with self._lock:
            self._number += 1
            self._kept[self._number] = key, device, memory, self._clock()
            self._by_key.setdefault(key, []).append(self._number)
            self.bytes += size
            surplus = self._oldest_above(KEPT_BYTES)
        _release(surplus)
        return True

    def take(self, owner: Owner, size: int) -> Memory | None:
        """Gives the block of that size that its owner freed last; it holds what it held then."""
        if size < LARGE_BYTES:
            return None
        key = owner, size
        with self._lock:
            numbers = self._by_key.get(key)
            return None if numbers is None else self._remove(numbers[-1])[1]

    def forget(self, owner: Owner) -> None:
        """Releases an owner's blocks; nobody else ever gets them."""
        with self._lock:
            mine = [number for number, each in self._kept.items() if each[0][0] is owner]
            removed = [self._remove(number) for number in mine]
        _release(removed)

    def release_old(self, seconds: float = KEPT_SECONDS) -> None:
        """Releases those that were kept for longer."""
        before = self._clock() - seconds
        with self._lock:
            old = [number for number, each in self._kept.items() if each[3] <= before]
            removed = [self._remove(number) for number in old]
        _release(removed)

    def _oldest_above(self, limit: int) -> list[tuple[Device, Memory]]:
        removed = []
        while self.bytes > limit:
            removed.append(self._remove(next(iter(self._kept))))
        return removed

    def _remove(self, number: int) -> tuple[Device, Memory]:
        """Takes one out. The lock is held."""
        key, device, memory, _ = self._kept.pop(number)
        numbers = self._by_key[key]
        numbers.remove(number)
        if not numbers:
            del self._by_key[key]
        self.bytes -= key[1]
        return device, memory


def _release(removed: list[tuple[Device, Memory]]) -> None:
    for device, memory in removed:
        device.release(memory)
