"""How time is taken: in rounds, with every subject once in each, so that noise hits all of them alike."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar

import numpy as np

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    quick: bool = False
    tell: Callable[[str], object] = field(default=lambda _: None)
    """Told what happens now."""

    def pick(self, full: V, quick: V) -> V:
        """One of two values."""
        return quick if self.quick else full

    def rounds(self, full: int, quick: int) -> Iterator[int]:
        """Numbers of the rounds, told as they begin."""
        count = self.pick(full, quick)
        for number in range(count):
            self.tell(f"round {number + 1} of {count}")
            yield number


def interleaved(
    rounds: Iterator[int], subjects: Mapping[K, Callable[[], V]]
) -> dict[K, tuple[V, ...]]:
    """Measures each subject once a round.

    Each round begins with another one, so that none always runs in the wake of the same neighbour.

    Returns:
        What the subjects gave, by round.
    """
    keys = list(subjects)
    found: dict[K, list[V]] = {key: [] for key in keys}
    for number in rounds:
        turn = number % max(1, len(keys))
        for key in keys[turn:] + keys[:turn]:
            gc.collect()
            found[key].append(subjects[key]())
    return {key: tuple(values) for key, values in found.items()}


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of single calls."""

    p50: float
    p99: float
    count: int


@dataclass(frozen=True, slots=True)
class Processor:
    """Seconds of processor time, of all threads: hardly touched by what else the machine does."""

    client: float
    server: float

    @classmethod
    def used(cls, server: int) -> Self:
        """What this process and the server's have used so far."""
        # Linux: the clock of another process's processor time; see clock_getcpuclockid(3).
        other = time.clock_gettime((~server << 3) | 2) if server != os.getpid() else 0.0
        return cls(time.process_time(), other)

    def per_call(self, earlier: Processor, calls: int) -> Processor:
        """What each call has used since an earlier reading."""
        return Processor(
            (self.client - earlier.client) / calls, (self.server - earlier.server) / calls
        )


def time_calls(call: Callable[[], object], *, seconds: float, fewest: int = 1) -> Times:
    """Calls again and again.

    Args:
        call: what is timed; it was called before, so that nothing is first now.
        seconds: for how long.
        fewest: calls to make even if that takes longer.
    """
    taken: list[float] = []
    until = time.perf_counter() + seconds
    while len(taken) < fewest or time.perf_counter() < until:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    p50, p99 = np.percentile(taken, (50, 99))
    return Times(float(p50), float(p99), len(taken))


def time_once(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
