"""Reductions along dimensions, and running sums."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from aclnn import dtypes
from benchmarks.cases.case import ELEMENTS, SIDE, Array, Case, f, floats, scalar

_LAYOUTS: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
    ("all", (ELEMENTS,), ()),
    ("rows", (SIDE, SIDE), (1,)),
    ("columns", (SIDE, SIDE), (0,)),
    ("short rows", (1 << 16, 16), (1,)),
    ("two dims", (64, 16, SIDE), (0, 2)),
    ("middle", (64, 128, 128), (1,)),
)
"""What is reduced: its name, the shape and the dimensions."""


def cases() -> Iterator[Case]:
    for name, shape, dims in _LAYOUTS:
        (x,) = floats(*shape)
        yield from _folds(name, x, dims)
        yield from _norms(name, x, dims)
        if len(dims) < 2:
            yield from _along_one(name, x, dims[0] if dims else 0, whole=not dims)
    yield from _types()


def _folds(name: str, x: Array, dims: tuple[int, ...]) -> Iterator[Case]:
    axis = dims or None
    out: Array = np.empty(np.shape(x.sum(axis)), f)
    truth, own, type_of = np.empty(out.shape, bool), (x, dims, False), dtypes.FLOAT
    yield Case("ReduceSum", (*own, type_of, out), partial(x.sum, axis), name)
    yield Case("Mean", (*own, type_of, out), partial(x.mean, axis), name)
    yield Case("Amax", (*own, out), partial(x.max, axis), name)
    yield Case("Amin", (*own, out), partial(x.min, axis), name)
    yield Case("Var", (x, dims, True, False, out), partial(x.var, axis, ddof=1), name)
    yield Case("Std", (x, dims, 1, False, out), partial(x.std, axis, ddof=1), name)
    yield Case("All", (*own, truth), partial(x.all, axis), name)
    yield Case("Any", (*own, truth), partial(x.any, axis), name)
    if not dims:
        yield Case("Prod", (x, type_of, out), x.prod)
        yield Case("Max", (x, out), x.max)
        yield Case("Min", (x, out), x.min)


def _norms(name: str, x: Array, dims: tuple[int, ...]) -> Iterator[Case]:
    axis = dims or None
    out: Array = np.empty(np.shape(x.sum(axis)), f)
    own, mean = (x, dims, 1, False), np.empty_like(out)

    def norm() -> object:
        return np.sqrt((x * x).sum(axis))

    def log_sum() -> object:
        most = x.max(axis, keepdims=True)
        return np.squeeze(most, axis) + np.log(np.exp(x - most).sum(axis))

    yield Case("Norm", (x, scalar(2), dims, False, out), norm, name)
    yield Case("LinalgVectorNorm", (x, scalar(2), dims, False, dtypes.FLOAT, out), norm, name)
    yield Case("LogSumExp", (x, dims, False, out), log_sum, name)
    yield Case("VarCorrection", (*own, out), partial(x.var, axis, ddof=1), name)
    yield Case(
        "StdMeanCorrection", (*own, out, mean), lambda: (x.std(axis, ddof=1), x.mean(axis)), name
    )


def _along_one(name: str, x: Array, dim: int, *, whole: bool) -> Iterator[Case]:
    out: Array = np.empty(np.shape(x.max(dim)), f)
    place, sums, type_of = np.empty(out.shape, np.int64), np.empty_like(x), dtypes.FLOAT
    yield Case("ArgMax", (x, dim, False, place), partial(x.argmax, dim), name)
    yield Case("ArgMin", (x, dim, False, place), partial(x.argmin, dim), name)
    yield Case("MaxDim", (x, dim, False, out, place), lambda: (x.max(dim), x.argmax(dim)), name)
    yield Case("MinDim", (x, dim, False, out, place), lambda: (x.min(dim), x.argmin(dim)), name)
    yield Case("Cumsum", (x, dim, type_of, sums), partial(np.cumsum, x, dim), name)
    if not whole:
        yield Case("ProdDim", (x, dim, False, type_of, out), partial(x.prod, dim), name)


def _types() -> Iterator[Case]:
    truth, lies = np.ones(ELEMENTS, bool), np.zeros(ELEMENTS, bool)
    yield Case("All", (truth, (), False, np.empty((), bool)), truth.all, "BOOL")
    yield Case("Any", (lies, (), False, np.empty((), bool)), lies.any, "BOOL")
    whole = (floats(ELEMENTS)[0] * 100).astype(np.int32)
    one = np.empty((), np.int32)
    yield Case(
        "ReduceSum",
        (whole, (), False, dtypes.INT32, one),
        partial(whole.sum, dtype=np.int32),
        "INT32",
    )
    yield Case("Amax", (whole, (), False, one), whole.max, "INT32")
    half = floats(SIDE, SIDE)[0].astype(np.float16)
    sums = np.empty(SIDE, np.float16)
    yield Case(
        "ReduceSum", (half, (1,), False, dtypes.FLOAT16, sums), partial(half.sum, 1), "FLOAT16"
    )
