"""Operators that put rows in order, or find what is greatest so far."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.cases.case import SIDE, Array, Case, f

_LAYOUTS = (("short rows", (1 << 13, 16)), ("rows", (64, SIDE)))
"""Name and shape; fewer elements than elsewhere, since to order them takes long."""


def cases() -> Iterator[Case]:
    for name, shape in _LAYOUTS:
        x = np.random.default_rng(1).random(shape, f)
        yield from _sorted(name, x)
        yield from _so_far(name, x)


def _sorted(name: str, x: Array) -> Iterator[Case]:
    values, places = np.empty_like(x), np.empty(x.shape, np.int64)

    def ordered() -> tuple[Array, Array]:
        found = np.argsort(x, kind="stable")
        return np.take_along_axis(x, found, -1), found

    def most() -> tuple[Array, Array]:
        found = np.argsort(-x, kind="stable")[:, :8]
        return np.take_along_axis(x, found, -1), found

    yield Case("Sort", (x, True, 1, False, values, places), ordered, name)
    yield Case("Argsort", (x, 1, False, places), partial(np.argsort, x, kind="stable"), name)
    few = (np.empty((len(x), 8), f), np.empty((len(x), 8), np.int64))
    yield Case("Topk", (x, 8, 1, True, True, *few), most, name)


def _so_far(name: str, x: Array) -> Iterator[Case]:
    values, places = np.empty_like(x), np.empty(x.shape, np.int64)

    def running(extreme: np.ufunc) -> tuple[Array, Array]:
        found = extreme.accumulate(x, 1)
        here = np.where(x == found, np.arange(x.shape[1]), 0)
        return found, np.maximum.accumulate(here, 1)

    yield Case("Cummax", (x, 1, values, places), partial(running, np.maximum), name)
    yield Case("Cummin", (x, 1, values, places), partial(running, np.minimum), name)
