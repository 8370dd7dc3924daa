"""Distances between the rows of two matrices, and their gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.checking.checks import (
    AtLeast,
    Holds,
    NotNull,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import HasShape
from aclnn_server.operators.definition import Call, Family, Work, prototype
from aclnn_server.operators.engines.shapes import Shape, ShapeMismatchError, broadcast
from aclnn_server.operators.engines.staging import Arrays, in_blocks, staged
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.networks.matmul import FLOATS
from aclnn_server.operators.products import ASCEND310B

Array = npt.NDArray[Any]

DISTANCES = Family()


@dataclass(frozen=True, slots=True)
class Norm:
    """The p-norm of differences, which lie along the last dimension."""

    p: float

    def of(self, differences: Array) -> Array:
        """The norms; the differences are overwritten."""
        if self.p == 0:
            return np.asarray(np.count_nonzero(differences, axis=-1), np.float32)
        size = np.abs(differences, out=differences)
        if math.isinf(self.p):
            return np.asarray(np.max(size, axis=-1, initial=0))
        if self.p == 1:
            return np.asarray(np.sum(size, axis=-1))
        if self.p == 2:
            return np.asarray(np.sqrt(np.vecdot(size, size)))
        power = np.power(size, np.float32(self.p), out=size)
        return np.asarray(np.power(np.sum(power, axis=-1), np.float32(1 / self.p)))

    def slopes(self, differences: Array, norms: Array) -> Array:
        """How the norms change with each difference; 0 where a norm or, for p below 1, a difference is 0."""
        if self.p == 0:
            return np.zeros_like(differences)
        if self.p == 1:
            return np.asarray(np.sign(differences))
        divisors = np.where(norms == 0, np.float32(np.inf), norms)[..., np.newaxis]
        if self.p == 2:
            return np.asarray(differences / divisors)
        sign, size = np.sign(differences), np.abs(differences)
        if math.isinf(self.p):
            # The norms may be rounded; the largest differences are not.
            return np.asarray(sign * (size == np.max(size, axis=-1, keepdims=True, initial=0)))
        share = size / divisors
        power = np.power(share, np.float32(self.p - 1), out=np.zeros_like(share), where=share != 0)
        return np.asarray(sign * power)


def _batches(call: Call) -> Shape:
    return broadcast(call.tensor("x1").shape[:-2], call.tensor("x2").shape[:-2])


def _check_rows(call: Call) -> None:
    first, second = call.tensor("x1").shape, call.tensor("x2").shape
    for name, shape in (("x1", first), ("x2", second)):
        if len(shape) < 2:
            raise call.invalid(
                name, f"{name} has shape {list(shape)}; it must have 2 dimensions or more"
            )
    try:
        fits = first[-1] == second[-1]
        _batches(call)
    except ShapeMismatchError:
        fits = False
    if not fits:
        raise call.invalid(
            "x2",
            f"x2 has shape {list(second)}, which does not fit {list(first)} of x1: the last sizes must be "
            "equal, and those before the last two broadcast",
        )


def _pairs(call: Call) -> Shape:
    return *_batches(call), call.tensor("x1").shape[-2], call.tensor("x2").shape[-2]


def _first_rows(call: Call) -> Shape:
    return *_batches(call), *call.tensor("x1").shape[-2:]


_RULES = (
    AtLeast("p", 0),
    Holds("x1 and x2 have rows of one size, and batches that broadcast", _check_rows),
)
_PAIRS = "a number for each row of x1 and of x2"


def _flat(array: Array, batches: Shape) -> Array:
    """The matrices of all batches, in one dimension."""
    sizes = array.shape[-2:]
    return np.broadcast_to(array, (*batches, *sizes)).reshape(math.prod(batches), *sizes)


@DISTANCES.operator(
    prototype(
        "aclnnCdist",
        "const aclTensor* x1, const aclTensor* x2, float p, int64_t compute_mode, aclTensor* out",
    ),
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("x1", "x2", "out")),
        TypeIn(("x1", "x2", "out"), FLOATS),
        SameType(("x2", "out"), "x1"),
        RankUpTo(("x1", "x2")),
        *_RULES,
        HasShape("out", _PAIRS, _pairs),
    ),
)
def cdist(call: Call) -> Work:
    """Distances of each row of a matrix to each row of another.

    $$out_{i,j} = \\left(\\sum_k |x1_{i,k} - x2_{j,k}|^p\\right)^{1 / p}$$

    - For p = 0 it is how many elements differ, for an infinite p the largest difference.
    - Dimensions before the last two broadcast. compute_mode makes no difference: rows are always subtracted.
    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnCdist (hicann/ops-nn); the order of checks is not documented.
    """
    norm, batches = Norm(float(call["p"])), _batches(call)

    def compute(arrays: Arrays, threads: Threads) -> None:
        first, second = (_flat(arrays[name], batches) for name in ("x1", "x2"))
        out = arrays["out"].reshape(len(first), first.shape[1], second.shape[1])
        for batch, target in enumerate(out):
            rows, others = first[batch], second[batch]

            def block(
                cut: slice, rows: Array = rows, others: Array = others, to: Array = target
            ) -> None:
                to[cut] = norm.of(rows[cut, np.newaxis] - others)

            in_blocks(threads, len(rows), others.size, block)

    return staged(call, compute, ("x1", "x2"), ("out",))


@DISTANCES.operator(
    prototype(
        "aclnnCdistBackward",
        "const aclTensor* grad, const aclTensor* x1, const aclTensor* x2, const aclTensor* cdist, "
        "float p, aclTensor* out",
    ),
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("grad", "x1", "x2", "cdist", "out")),
        TypeIn(("grad", "x1", "x2", "cdist", "out"), FLOATS),
        SameType(("grad", "x2", "cdist", "out"), "x1"),
        RankUpTo(("x1", "x2")),
        *_RULES,
        HasShape("grad", _PAIRS, _pairs),
        SameShape(("cdist",), "grad"),
        HasShape("out", "the rows of x1, of all batches", _first_rows),
    ),
)
def cdist_backward(call: Call) -> Work:
    """Gradient of the distances of rows of one matrix to rows of another, for the first matrix.

    $$out_{i,k} = \\sum_j grad_{i,j} \\cdot \\mathrm{sign}(d) \\cdot \\left(\\frac{|d|}{cdist_{i,j}}\\right)^
    {p - 1} \\qquad d = x1_{i,k} - x2_{j,k}$$

    - Equal rows give 0, as do all for p = 0. For an infinite p, the largest differences give grad.
    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnCdistBackward (hicann/ops-nn); the order of checks is not
    documented.
    """
    norm, batches = Norm(float(call["p"])), _batches(call)

    def compute(arrays: Arrays, threads: Threads) -> None:
        first, second = (_flat(arrays[name], batches) for name in ("x1", "x2"))
        grad, norms = (_flat(arrays[name], batches) for name in ("grad", "cdist"))
        out = arrays["out"].reshape(first.shape)
        for batch in range(len(first)):

            def block(cut: slice, batch: int = batch) -> None:
                differences = first[batch, cut, np.newaxis] - second[batch]
                slopes = norm.slopes(differences, norms[batch, cut])
                np.multiply(slopes, grad[batch, cut, :, np.newaxis], out=slopes)
                out[batch, cut] = np.sum(slopes, axis=1)

            in_blocks(threads, first.shape[1], second[batch].size, block)

    return staged(call, compute, ("grad", "x1", "x2", "cdist"), ("out",))
