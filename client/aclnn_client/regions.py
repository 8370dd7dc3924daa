"""The regions of one segment that are free, and those in use."""

from __future__ import annotations

from bisect import bisect_left

ALIGNMENT = 64
"""Bytes that a region begins at a multiple of."""


class Regions:
    """Gives out regions of a segment: the smallest that is large enough, so that warm ones come first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = [(0, size)]  # start and end of each, by start; no two are neighbours
        self._fresh_from = 0

    def take(self, size: int) -> tuple[int, bool] | None:
        """Takes a region.

        Returns:
            Where it begins, and whether it was never in use, and so is zeros; ``None``: none is as large.
        """
        size = -(-size // ALIGNMENT) * ALIGNMENT
        fitting = [
            (end - start, index)
            for index, (start, end) in enumerate(self._free)
            if end - start >= size
        ]
        if not fitting:
            return None
        _, index = min(fitting)
        start, end = self._free[index]
        if start + size < end:
            self._free[index] = (start + size, end)
        else:
            del self._free[index]
        fresh = start >= self._fresh_from
        self._fresh_from = max(self._fresh_from, start + size)
        return start, fresh

    def give_back(self, start: int, size: int) -> None:
        """Gives a region back that :meth:`take` gave."""
        end = start + -(-size // ALIGNMENT) * ALIGNMENT
        index = bisect_left(self._free, (start, start))
        if index < len(self._free) and self._free[index][0] == end:
            end = self._free.pop(index)[1]
        if index and self._free[index - 1][1] == start:
            index -= 1
            start = self._free.pop(index)[0]
        self._free.insert(index, (start, end))

    @property
    def unused(self) -> bool:
        """Whether nothing is taken."""
        return self._free == [(0, self.size)]
