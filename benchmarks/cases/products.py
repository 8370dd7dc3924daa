"""Products of matrices and vectors, and distances of rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.cases.case import ELEMENTS, SIDE, Array, Case, f, floats, scalar

_KEEP = 0
"""cubeMathType."""


def cases() -> Iterator[Case]:
    x, y = floats(SIDE, SIDE, count=2)
    out = np.empty_like(x)
    yield Case("Matmul", (x, y, out, _KEEP), lambda: x @ y)
    yield Case("Mm", (x, y.T, out, _KEEP), lambda: x @ y.T)
    yield from _others(x, y, out)
    one, two = floats(ELEMENTS, count=2)
    yield Case("Dot", (one, two, np.empty((), f)), lambda: np.dot(one, two))


def _others(x: Array, y: Array, out: Array) -> Iterator[Case]:
    row, batch = x[0].copy(), x.reshape(64, 128, 128)
    half = x.astype(np.float16)

    def of_half() -> Array:
        return (half.astype(f) @ half.astype(f)).astype(np.float16)

    yield Case("Mm", (half, half, np.empty_like(half), _KEEP), of_half, "FLOAT16")
    yield Case("Addmm", (row, x, y, scalar(1), scalar(1), out, _KEEP), lambda: row + x @ y)
    yield Case("Mv", (x, row, np.empty_like(row), _KEEP), lambda: x @ row)
    yield Case("BatchMatMul", (batch, batch, np.empty_like(batch), _KEEP), lambda: batch @ batch)
    yield Case(
        "Baddbmm",
        (batch, batch, batch, scalar(1), scalar(1), np.empty_like(batch), _KEEP),
        lambda: batch + batch @ batch,
    )
    yield Case(
        "Addbmm",
        (x[:128, :128].copy(), batch, batch, scalar(1), scalar(1), np.empty((128, 128), f), _KEEP),
        lambda: x[:128, :128] + (batch @ batch).sum(0),
    )
    addmv = (row, x, row, scalar(1), scalar(1), np.empty_like(row), _KEEP)
    yield Case("Addmv", addmv, lambda: row + x @ row)
    yield from _distances()


def _distances() -> Iterator[Case]:
    first, second = floats(128, 64, count=2)
    out, grad = np.empty((128, 128), f), floats(128, 128)[0]

    def distances() -> Array:
        found: Array = np.sqrt(((first[:, None] - second) ** 2).sum(-1))
        return found

    given = distances()

    def gradient() -> object:
        return (grad[..., None] * (first[:, None] - second) / given[..., None]).sum(1)

    yield Case("Cdist", (first, second, 2.0, 0, out), distances)
    arguments = (grad, first, second, given, 2.0, np.empty_like(first))
    yield Case("CdistBackward", arguments, gradient)
