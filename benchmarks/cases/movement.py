"""Operators that move, repeat, choose or make data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import ml_dtypes
import numpy as np

from aclnn import dtypes
from aclnn.tensors import Scalar
from benchmarks.cases.case import SIDE, Array, Case, floats, scalar


def cases() -> Iterator[Case]:
    (x,) = floats(SIDE, SIDE)
    out = np.empty_like(x)
    yield from _casts(x)
    yield from _views(x, out)
    yield from _joined(x, out)
    yield from _filled(out)
    yield from _cut(x, out)
    yield from _rearranged(x, out)
    yield from _made(out)


def _casts(x: Array) -> Iterator[Case]:
    for dtype, target in (
        (dtypes.FLOAT16, np.float16),
        (dtypes.BF16, ml_dtypes.bfloat16),
        (dtypes.INT32, np.int32),
        (dtypes.DOUBLE, np.float64),
    ):
        own = x.astype(target)
        yield Case("Cast", (x, dtype, own), partial(x.astype, target), f"to {dtype.name}")
        back = partial(own.astype, np.float32)
        yield Case("Cast", (own, dtypes.FLOAT, x.copy()), back, f"from {dtype.name}")


def _views(x: Array, out: Array) -> Iterator[Case]:
    wide, padded = np.repeat(x, 2, 1), np.pad(x, 1)
    yield Case("InplaceCopy", (out, x), lambda: np.copyto(out, x))
    yield Case("Permute", (x, (1, 0), out), lambda: np.copyto(out, x.T))
    yield Case("Expand", (x[:1], x.shape, out), lambda: np.copyto(out, x[:1]))
    yield Case(
        "Slice", (wide, 1, 0, 2 * SIDE, 2, out), lambda: np.copyto(out, wide[:, ::2]), "step 2"
    )
    yield Case(
        "ConstantPadNd",
        (x, (1, 1, 1, 1), scalar(1), padded),
        lambda: np.pad(x, 1, constant_values=1),
    )


def _joined(x: Array, out: Array) -> Iterator[Case]:
    for dim in (0, 1):
        parts = np.split(x, 2, dim)
        yield Case("Cat", (parts, dim, out), partial(np.concatenate, parts, dim), f"dim {dim}")
    for count in (8, SIDE):
        rows = x.reshape(count, -1)
        parts = list(rows)
        yield Case(
            "Cat",
            ([*x.reshape(count, 1, -1)], 0, rows.copy()),
            partial(np.concatenate, [*x.reshape(count, 1, -1)]),
            f"{count} tensors",
        )
        yield Case("Stack", (parts, 0, rows.copy()), partial(np.stack, parts), f"{count} tensors")


def _filled(out: Array) -> Iterator[Case]:
    yield Case("InplaceZero", (out,), lambda: out.fill(0))
    yield Case("InplaceOne", (out,), lambda: out.fill(1))
    yield Case("InplaceFillScalar", (out, scalar(2)), lambda: out.fill(2))
    bounds = [Scalar(number, np.int64) for number in (0, out.size, 1)]
    for dtype in (np.int64, np.float32):
        numbers = np.empty(out.size, dtype)
        arange = partial(np.arange, out.size, dtype=dtype)
        yield Case("Arange", (*bounds, numbers), arange, numbers.dtype.name)


def _cut(x: Array, out: Array) -> Iterator[Case]:
    yield Case("Triu", (x, 0, out), lambda: np.triu(x))
    yield Case("Tril", (x, 0, out), lambda: np.tril(x))


def _rearranged(x: Array, out: Array) -> Iterator[Case]:
    wide = np.repeat(x, 2, 1)
    for dim in (0, 1):
        turned = np.flip(x, dim)
        yield Case("Flip", (x, (dim,), out), turned.copy, f"dim {dim}")
        yield Case("Roll", (x, (7,), (dim,), out), partial(np.roll, x, 7, dim), f"dim {dim}")
    yield Case("Repeat", (x, (1, 2), wide.copy()), partial(np.tile, x, (1, 2)))
    cut = ((0, 0), (SIDE, 2 * SIDE), (0, 1), (1, 2))
    yield Case("SliceV2", (wide, *cut, out), lambda: wide[:, ::2].copy())


def _made(out: Array) -> Iterator[Case]:
    line, ends = out.reshape(-1), (scalar(0), scalar(1))
    yield Case("Eye", (SIDE, SIDE, out), partial(np.eye, SIDE, dtype=np.float32))
    yield Case(
        "Linspace",
        (*ends, line.size, line),
        partial(np.linspace, 0, 1, line.size, dtype=np.float32),
    )
    classes = np.random.default_rng(2).integers(0, SIDE, SIDE)
    one, zero, columns = np.ones(1, np.float32), np.zeros(1, np.float32), np.arange(SIDE)
    yield Case(
        "OneHot",
        (classes, SIDE, one, zero, -1, out),
        lambda: (classes[:, None] == columns).astype(np.float32),
    )
    real, imaginary = np.ones((2, SIDE, SIDE), np.float32)
    whole = np.empty((SIDE, SIDE), np.complex64)
    yield Case("Complex", (real, imaginary, whole), lambda: real + np.complex64(1j) * imaginary)
