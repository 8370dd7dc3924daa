"""What a long run is judged by: latencies by kind of client, and whether memory grows."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

STEPS = 16
"""Buckets of a latency for each doubling: exact to 4 %, and no more of them however long it lasts."""
WINDOWS = 20
"""Parts of a run of which each counts by its least sample: what is in hand for a moment is no growth."""


class Latencies:
    """How long the work of each kind of client took. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Knows nothing yet."""
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: defaultdict[str, Counter[int]] = defaultdict(Counter)

    @contextmanager
    def timed(self, kind: str) -> Iterator[None]:
        """Measures the block."""
        begin = self._clock()
        yield
        bucket = math.floor(math.log2(self._clock() - begin) * STEPS)
        with self._lock:
            self._counts[kind][bucket] += 1

    def count(self, kind: str) -> int:
        """How often it was done."""
        with self._lock:
            return self._counts.get(kind, Counter()).total()

    def quantile(self, kind: str, part: float) -> float:
        """Seconds that so large a part of them took at most."""
        with self._lock:
            counts = sorted(self._counts.get(kind, Counter()).items())
        wanted = part * sum(count for _, count in counts)
        for bucket, count in counts:
            wanted -= count
            if wanted <= 0:
                return float(2 ** ((bucket + 1) / STEPS))
        return math.nan

    def table(self) -> str:
        """All kinds, as a table."""
        lines = [f"{'client':<28}{'done':>9}{'p50 ms':>10}{'p99 ms':>10}"]
        for kind in sorted(self._counts):
            p50, p99 = (self.quantile(kind, part) * 1e3 for part in (0.5, 0.99))
            lines.append(f"{kind:<28}{self.count(kind):>9}{p50:>10.1f}{p99:>10.1f}")
        return "\n".join(lines)


def growth(samples: Sequence[tuple[float, int]]) -> float:
    """Bytes by which memory grew from the first sample to the last, by least squares.

    Args:
        samples: time in seconds and bytes, in order.
    """
    first, last = samples[0][0], samples[-1][0]
    least: dict[int, tuple[float, int]] = {}
    for at, size in samples:
        window = min(WINDOWS - 1, int((at - first) / max(last - first, 1e-9) * WINDOWS))
        if window not in least or size < least[window][1]:
            least[window] = at, size
    times, sizes = np.array(list(least.values())).T
    return float(np.polyfit(times, sizes, 1)[0] * (last - first))
