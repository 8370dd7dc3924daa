"""Rates: what was counted between two looks at a server."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aclnn.overview import Activity, Latency
from aclnn_server.sessions.meters import (
    CELL,
    COPY_IN,
    COPY_OUT,
    QUEUE,
    RUN,
    SUM,
    WHOLE,
    Tally,
)

WINDOW_SECONDS = 10.0
"""Time that rates are of, where somebody looks often enough."""
LONGEST_SECONDS = 60.0
"""Longest time between two looks of which the later one tells what was done since the earlier."""
SHORTEST_SECONDS = 0.5
"""Shortest time that rates are of."""
KEEP_SECONDS = 2.0
"""Time between two looks that are kept."""


@dataclass(slots=True)
class Sample:
    """Counts of one thing at one time."""

    calls: int = 0
    errors: int = 0
    received: int = 0
    sent: int = 0
    failures: int = 0
    cell: list[int] = field(default_factory=lambda: [0] * CELL)
    """Distributions of times, of all operators."""

    @classmethod
    def of(cls, tally: Tally) -> Sample:
        """The counts of a tally."""
        return cls(
            sum(tally.methods.values()),
            sum(tally.errors.values()),
            tally.received,
            tally.sent,
            sum(tally.failures.values()),
            _sum(tally.cells.values()),
        )

    def since(self, earlier: Sample | None) -> Sample:
        """What was counted since an earlier time."""
        if earlier is None:
            return self
        return Sample(
            self.calls - earlier.calls,
            self.errors - earlier.errors,
            self.received - earlier.received,
            self.sent - earlier.sent,
            self.failures - earlier.failures,
            [now - before for now, before in zip(self.cell, earlier.cell, strict=True)],
        )

    @property
    def busy(self) -> tuple[int, int]:
        """What is compared to find the busiest: nanoseconds of running, then calls."""
        return self.cell[RUN + SUM], self.calls

    def activity(self, seconds: float) -> Activity:
        """These counts as rates over so many seconds."""
        return Activity(
            calls_per_second=self.calls / seconds,
            runs_per_second=(_count(self.cell, WHOLE) + self.failures) / seconds,
            errors_per_second=self.errors / seconds,
            received_per_second=self.received / seconds,
            sent_per_second=self.sent / seconds,
            latency=self._latency(),
        )

    def _latency(self) -> Latency:
        runs = _count(self.cell, WHOLE)
        if not runs:
            return Latency()
        queue, copy_in, run, copy_out = (
            self.cell[part + SUM] / runs / 1e9 for part in (QUEUE, COPY_IN, RUN, COPY_OUT)
        )
        whole = self.cell[WHOLE : WHOLE + SUM]
        return Latency(
            runs, queue, copy_in, run, copy_out, quantile(whole, 0.5), quantile(whole, 0.99)
        )


def _sum(cells: Iterable[list[int]]) -> list[int]:
    total = [0] * CELL
    for cell in cells:
        total = [a + b for a, b in zip(total, cell, strict=True)]
    return total


def _count(cell: list[int], part: int) -> int:
    return sum(cell[part : part + SUM])


def quantile(counts: list[int], fraction: float) -> float:
    """Seconds that a fraction of the times did not exceed, evenly spread inside of each power of two.

    Args:
        counts: how many took up to 2^n ns, and more than the power before it.
        fraction: 0 to 1.
    """
    wanted = fraction * sum(counts)
    before = 0
    for exponent, count in enumerate(counts):
        if count and before + count >= wanted:
            high, low = 2.0**exponent, 2.0 ** (exponent - 1)
            return (low + (high - low) * (wanted - before) / count) / 1e9
        before += count
    return 0.0


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    samples: Mapping[object, Sample]


class Windows:
    """The last looks at a server. Thread-safe."""

    def __init__(self, started: float) -> None:
        """Begins with a look at a server that has done nothing, at its start."""
        self._start = _Look(started, {})
        self._looks: deque[_Look] = deque()
        self._lock = threading.Lock()

    def look(
        self, now: float, samples: Mapping[object, Sample]
    ) -> tuple[float, dict[object, Sample]]:
        """Keeps a look, and gives what was counted since an earlier one.

        Args:
            now: when it was.
            samples: what was counted by then.

        Returns:
            Seconds since the earlier look, and the counts since then.
        """
        with self._lock:
            earlier = self._earlier(now)
            if not self._looks or now - self._looks[-1].at >= KEEP_SECONDS:
                self._looks.append(_Look(now, samples))
        seconds = max(now - earlier.at, 1e-3)
        since = {key: now_.since(earlier.samples.get(key)) for key, now_ in samples.items()}
        return seconds, since

    def _earlier(self, now: float) -> _Look:
        """The oldest look of the window; without one the last before it; without one the start."""
        while len(self._looks) > 1 and now - self._looks[1].at > WINDOW_SECONDS:
            self._looks.popleft()
        while self._looks and now - self._looks[0].at > LONGEST_SECONDS:
            self._looks.popleft()
        fitting = [look for look in self._looks if now - look.at >= SHORTEST_SECONDS]
        inside = [look for look in fitting if now - look.at <= WINDOW_SECONDS]
        return (inside or fitting[-1:] or [self._start])[0]
