"""Operators that take elements from, write them to, or add them to the places that indexes name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.cases.case import SIDE, Array, Case, f, floats, scalar

_NONE, _ADD = 0, 1
"""What a scatter does with what is there."""


def cases() -> Iterator[Case]:
    (x,) = floats(SIDE, SIDE)
    out = np.empty_like(x)
    yield from _slices(x, out)
    yield from _elements(x, out)
    yield from _scattered(x, out)
    yield from _together(x, out)


def _slices(x: Array, out: Array) -> Iterator[Case]:
    index = np.random.default_rng(2).integers(0, SIDE, SIDE)
    for dim in (0, 1):
        yield Case(
            "IndexSelect", (x, dim, index, out), partial(np.take, x, index, dim), f"dim {dim}"
        )
    square, room = index.reshape(32, 32), np.empty((32, 32, SIDE), f)
    yield Case("GatherV2", (x, 0, square, room), lambda: np.take(x, square, 0), "rows")
    flat, many = x.reshape(-1), np.random.default_rng(3).integers(0, x.size, x.size)
    one = np.empty_like(flat)
    yield Case("GatherV2", (flat, 0, many, one), lambda: np.take(flat, many), "elements")
    yield Case("Embedding", (x, index, out), lambda: x[index])

    def added() -> Array:
        sums = x.copy()
        np.add.at(sums, index, x)
        return sums

    yield Case("IndexAdd", (x, 0, index, x, scalar(1), out), added)


def _elements(x: Array, out: Array) -> Iterator[Case]:
    places = np.random.default_rng(4).integers(0, SIDE, x.shape)
    for dim in (0, 1):
        take = partial(np.take_along_axis, x, places, dim)
        yield Case("Gather", (x, dim, places, out), take, f"dim {dim}")


def _scattered(x: Array, out: Array) -> Iterator[Case]:
    places, columns = np.random.default_rng(4).integers(0, SIDE, x.shape), np.arange(SIDE)[None]
    ours, theirs = x.copy(), x.copy()

    def added() -> Array:
        sums = x.copy()
        np.add.at(sums, (places, columns), x)
        return sums

    def written(source: Array | np.float32) -> Array:
        found = x.copy()
        np.put_along_axis(found, places, source, 0)
        return found

    def put(source: Array | np.float32) -> None:
        np.put_along_axis(theirs, places, source, 0)

    half, number = scalar(0.5), f(0.5)
    yield Case("ScatterAdd", (x, 0, places, x, out), added)
    yield Case("Scatter", (x, 0, places, x, _NONE, out), lambda: written(x))
    yield Case("Scatter", (x, 0, places, x, _ADD, out), added, "add")
    yield Case("ScatterValue", (x, 0, places, half, _NONE, out), lambda: written(number))
    yield Case("InplaceScatter", (ours, 0, places, x, _NONE), lambda: put(x))
    yield Case("InplaceScatterValue", (ours, 0, places, half, _NONE), lambda: put(number))


def _together(x: Array, out: Array) -> Iterator[Case]:
    rows, columns = np.random.default_rng(5).integers(0, SIDE, (2, SIDE, SIDE))
    ours, theirs, line = x.copy(), x.copy(), rows[0].copy()

    def write(*places: Array) -> Callable[[], None]:
        return lambda: theirs.__setitem__(places, x)

    def add() -> None:
        np.add.at(theirs, (rows, columns), x)

    yield Case("Index", (x, [rows, columns], out), lambda: x[rows, columns], "elements")
    yield Case("Index", (x, [line], out), lambda: x[line], "rows")
    put = ("IndexPutImpl", "elements", "rows", "added")
    yield Case(put[0], (ours, [rows, columns], x, False, False), write(rows, columns), put[1])
    yield Case(put[0], (ours, [line], x, False, False), write(line), put[2])
    yield Case(put[0], (ours, [rows, columns], x, True, False), add, put[3])
