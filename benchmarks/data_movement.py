"""Times the operators that move data against the obvious NumPy expression, on about a million elements.

usage: ``python -m benchmarks.data_movement [--threads T] [--repeat R]``

The least time of the repeats is shown, and how many times that of NumPy it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.tensors import Scalar, describe
from aclnn_server.backends.numpy import NumpyBackend, NumpyDevice
from benchmarks.kernels import race

Array = npt.NDArray[Any]
Row = tuple[str, str, list[Any], Callable[[], object]]
"""Operator, what is special, its arguments, and the NumPy expression."""

SIDE = 1024
X = np.random.default_rng(0).random((SIDE, SIDE), np.float32)
INDEX = np.random.default_rng(1).integers(0, SIDE, SIDE)


def rows() -> Iterator[Row]:
    out, one = np.empty_like(X), Scalar(1, np.float32)
    half, brain = X.astype(np.float16), X.astype(ml_dtypes.bfloat16)
    for dtype, target in (
        (dtypes.FLOAT16, half),
        (dtypes.BF16, brain),
        (dtypes.INT32, X.astype(np.int32)),
    ):
        yield "Cast", dtype.name, [X, dtype, target.copy()], partial(X.astype, target.dtype)
    yield "InplaceCopy", "", [out, X], lambda: np.copyto(out, X)
    yield "Permute", "", [X, (1, 0), out], lambda: np.copyto(out, X.T)
    yield "Expand", "", [X[:1], X.shape, out], lambda: np.copyto(out, X[:1])
    wide = np.repeat(X, 2, 1)
    yield "Slice", "step 2", [wide, 1, 0, 2 * SIDE, 2, out], lambda: np.copyto(out, wide[:, ::2])
    padded = np.pad(X, 1)
    yield (
        "ConstantPadNd",
        "",
        [X, (1, 1, 1, 1), one, padded],
        lambda: np.pad(X, 1, constant_values=1),
    )
    for dim in (0, 1):
        parts = np.split(X, 2, dim)
        yield "Cat", f"dim {dim}", [parts, dim, out], partial(np.concatenate, parts, dim)
    parts = list(X.reshape(8, -1))
    yield "Stack", "8 tensors", [parts, 0, X.reshape(8, -1).copy()], lambda: np.stack(parts)
    yield "InplaceZero", "", [out], lambda: out.fill(0)
    yield "InplaceFillScalar", "", [out, one], lambda: out.fill(1)
    yield from _counted_and_cut(out)
    yield from _indexed(out)


def _counted_and_cut(out: Array) -> Iterator[Row]:
    bounds = [Scalar(number, np.int64) for number in (0, X.size, 1)]
    for dtype in (np.int64, np.float32):
        numbers = np.empty(X.size, dtype)
        yield (
            "Arange",
            numbers.dtype.name,
            [*bounds, numbers],
            partial(np.arange, X.size, dtype=dtype),
        )
    yield "Triu", "", [X, 0, out], lambda: np.triu(X)
    yield "Tril", "", [X, 0, out], lambda: np.tril(X)


def _indexed(out: Array) -> Iterator[Row]:
    for dim in (0, 1):
        yield "IndexSelect", f"dim {dim}", [X, dim, INDEX, out], partial(np.take, X, INDEX, dim)
    square = INDEX.reshape(32, 32)
    room = np.empty((32, 32, SIDE), np.float32)
    yield "GatherV2", "rows", [X, 0, square, room], lambda: np.take(X, square, 0)
    flat, many = X.reshape(-1), np.random.default_rng(2).integers(0, X.size, X.size)
    yield "GatherV2", "elements", [flat, 0, many, np.empty_like(flat)], lambda: np.take(flat, many)
    yield "Embedding", "", [X, INDEX, out], lambda: X[INDEX]
    places, columns = np.random.default_rng(3).integers(0, SIDE, X.shape), np.arange(SIDE)[None]

    def scatter() -> Array:
        sums = X.copy()
        np.add.at(sums, (places, columns), X)
        return sums

    yield "ScatterAdd", "", [X, 0, places, X, out], scatter


def planned(device: NumpyDevice, operator: str, arguments: list[Any]) -> Callable[[], None]:
    """Plans a call; the function runs it."""
    specs, memory = zip(*map(_described, arguments), strict=True)
    plan = device.plan(f"aclnn{operator}", specs)
    return lambda: device.run(plan, memory, None, None)


def _described(argument: Any) -> tuple[Any, Any]:  # noqa: ANN401
    if isinstance(argument, np.ndarray):
        return describe(argument)
    if isinstance(argument, list):
        specs, memory = zip(*map(describe, argument), strict=True)
        return specs, memory
    return argument, None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    device = NumpyBackend(threads=options.threads).devices[0]
    print(f"{device.name}, {X.size} elements, threads: {options.threads or 'all'}")
    for operator, what, arguments, expression in rows():
        calls = {"ours": planned(device, operator, arguments), "NumPy": expression}
        times = race(calls, options.repeat)
        ours, numpy = times["ours"], times["NumPy"]
        print(
            f"{operator:18} {what:10} {ours * 1e3:6.2f} ms, NumPy {numpy * 1e3:6.2f} ms, "
            f"{ours / numpy:5.2f} times",
            flush=True,
        )


if __name__ == "__main__":
    main()
