"""A call of every operator beside the NumPy expression that one would write, by families."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cases import losses, movement, pointwise, products, reductions, rows
from benchmarks.cases.case import Case

FAMILIES = (pointwise, losses, reductions, rows, products, movement)


def cases() -> Iterator[Case]:
    """All of them; one at a time, since each has arrays of its own."""
    for family in FAMILIES:
        yield from family.cases()
