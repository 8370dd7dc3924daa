"""A call of every operator beside the NumPy expression that one would write, by families."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cases import (
    activations,
    attention,
    bits,
    counting,
    drawing,
    foreach,
    forms,
    in_place,
    indexing,
    losses,
    movement,
    networks,
    norm_gradients,
    optimizers,
    ordering,
    pointwise,
    products,
    reductions,
    resampling,
    rows,
)
from benchmarks.cases.case import Case

FAMILIES = (
    pointwise,
    forms,
    in_place,
    activations,
    bits,
    foreach,
    losses,
    reductions,
    rows,
    norm_gradients,
    products,
    networks,
    resampling,
    attention,
    optimizers,
    movement,
    indexing,
    ordering,
    counting,
    drawing,
)


def cases() -> Iterator[Case]:
    """All of them; one at a time, since each has arrays of its own."""
    for family in FAMILIES:
        yield from family.cases()
