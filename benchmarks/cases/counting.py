"""Operators that count: how often elements or intervals occur, and which elements differ."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.cases.case import SIDE, Array, Case, f, floats, scalar

_COUNT = 1 << 18
"""Elements; fewer than elsewhere, since to order them takes long."""
_FLAT = 1000
"""Dimension of UniqueConsecutive that means none."""


def cases() -> Iterator[Case]:
    yield from _histograms()
    yield from _distinct()


def _histograms() -> Iterator[Case]:
    (x, weights) = floats(_COUNT, count=2)
    numbers = np.random.default_rng(1).integers(0, SIDE, _COUNT)
    counts, bounds = np.empty(SIDE, np.int64), (scalar(0), scalar(1))
    yield Case(
        "Histc",
        (x, 100, *bounds, np.empty(100, f)),
        lambda: np.histogram(x, 100, (0, 1))[0].astype(f),
    )
    yield Case("Bincount", (numbers, None, SIDE, counts), partial(np.bincount, numbers))
    yield Case(
        "Bincount",
        (numbers, weights, SIDE, np.empty(SIDE, f)),
        lambda: np.bincount(numbers, weights).astype(f),
        "with weights",
    )


def _distinct() -> Iterator[Case]:
    numbers = np.random.default_rng(1).integers(0, SIDE, _COUNT)
    values, inverse, counts = (np.empty_like(numbers) for _ in range(3))
    ordered = np.sort(numbers)

    def runs() -> tuple[Array, Array, Array]:
        first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        starts = np.flatnonzero(first)
        return ordered[starts], np.cumsum(first) - 1, np.diff(starts, append=_COUNT)

    yield Case(
        "Unique2",
        (numbers, True, True, True, values, inverse, counts),
        lambda: np.unique(numbers, return_inverse=True, return_counts=True),
    )
    yield Case("UniqueConsecutive", (ordered, True, True, _FLAT, values, inverse, counts), runs)
