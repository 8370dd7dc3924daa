"""Norms along dimensions, logarithms of sums, and spread by a correction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aclnn.pythonic import Result
from aclnn_server.operators.checking.axis_checks import (
    DimsOf,
    GivenTypeIn,
    ShapeIsReduced,
    TypeIsGiven,
    axes_of,
)
from aclnn_server.operators.checking.checks import NotNull, RankUpTo, SameType, TypeIn
from aclnn_server.operators.definition import Call, Family, OneLine, Work
from aclnn_server.operators.engines.axes import Axes
from aclnn_server.operators.engines.copies import constant, fill, movement
from aclnn_server.operators.engines.folds import LogSum, Norm, Spread, SpreadAndMean, exponent_of
from aclnn_server.operators.reductions.reductions import (
    AXES,
    FLOATS,
    is_empty,
    keepdim,
    plan_reduction,
)

NORMS = Family()

_DIMS = axes_of("self", "dims")


def _keep_dims(call: Call) -> bool:
    keep: bool = call["keepDims"]
    return keep


def _keep_dim(call: Call) -> bool:
    keep: bool = call["keepDim"]
    return keep


def _filled(call: Call, value: float, *outputs: str) -> Work:
    """Outputs whose every element is one value, of which there are one or two."""
    specs = [(name, call.tensor(name)) for name in outputs]
    (name, first), *others = specs
    steps = [
        fill((key, spec), constant(value, spec.dtype)) for key, spec in [(name, first), *others]
    ]
    return movement(name, first, steps)


def _norm(call: Call, order: str, axes: Callable[[Call], Axes]) -> Work:
    if is_empty(call):
        return _filled(call, 0, "out")
    return plan_reduction(call, Norm(exponent_of(call[order])), axes(call), ("out",))


@NORMS.operator(
    """
    aclnnStatus aclnnLinalgVectorNormGetWorkspaceSize(
        const aclTensor* self, const aclScalar* ord, const aclIntArray* dims, bool keepDims,
        const aclDataType dtype, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "ord", "dims", "out")),
        TypeIn(("self", "out"), FLOATS),
        GivenTypeIn("dtype", FLOATS),
        TypeIsGiven("out"),
        RankUpTo(("self",)),
        DimsOf("dims", "self"),
        ShapeIsReduced("out", "self", _DIMS, _keep_dims, lenient=True),
    ),
    python=OneLine(
        "linalg_vector_norm",
        {"ord": 2, "dims": (), "keepDims": False, "dtype": None},
        result=Result("along", "given"),
    ),
)
def linalg_vector_norm(call: Call) -> Work:
    """Norm of vectors, along dimensions.

    $$out = \\left(\\sum_{dims} |self|^{ord}\\right)^{1 / ord}$$

    - Of ord 0 the number of elements that are not 0; of infinity the largest magnitude, of minus infinity the
      least.
    - No dims are all dims. keepDims keeps them, with size 1.
    - Powers are of FLOAT, their sums DOUBLE; the root is rounded once, to the type of out.
    - Of an empty self it is 0.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnLinalgVectorNorm (hicann/ops-math, math/lp_norm_v2).
    """
    return _norm(call, "ord", _DIMS)


@NORMS.operator(
    """
    aclnnStatus aclnnNormGetWorkspaceSize(
        const aclTensor* self, const aclScalar* pScalar, const aclIntArray* dim, bool keepdim,
        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "pScalar", "dim", "out")),
        TypeIn(("self", "out"), FLOATS),
        RankUpTo(("self",)),
        DimsOf("dim", "self"),
        ShapeIsReduced("out", "self", AXES, keepdim, lenient=True),
    ),
    python=OneLine(
        "norm", {"pScalar": 2, "dim": (), "keepdim": False}, result=Result("along", "first")
    ),
)
def norm(call: Call) -> Work:
    """Norm of vectors, along dimensions, in the type of its output.

    $$out = \\left(\\sum_{dim} |self|^{p}\\right)^{1 / p}$$

    - Of p 0 the number of elements that are not 0; of infinity the largest magnitude, of minus infinity the
      least.
    - No dim are all dims. keepdim keeps them, with size 1.
    - Powers are of FLOAT, their sums DOUBLE; the root is rounded once, to the type of out.
    - Of an empty self it is 0.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnNorm (hicann/ops-math, math/lp_norm_v2).
    """
    return _norm(call, "pScalar", AXES)


@NORMS.operator(
    """
    aclnnStatus aclnnLogSumExpGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "dim", "out")),
        TypeIn(("self", "out"), FLOATS),
        SameType(("out",), "self"),
        RankUpTo(("self",)),
        DimsOf("dim", "self"),
        ShapeIsReduced("out", "self", AXES, _keep_dim, lenient=True),
    ),
    python=OneLine("log_sum_exp", {"dim": (), "keepDim": False}, result=Result("along", "first")),
)
def log_sum_exp(call: Call) -> Work:
    """Logarithm of the sum of exponentials, along dimensions.

    $$out = \\ln \\sum_{dim} e^{self}$$

    - Exact where the exponentials would overflow: they are relative to the greatest element, in FLOAT, and
      their sums DOUBLE.
    - No dim are all dims. keepDim keeps them, with size 1. Of an empty self it is negative infinity.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnLogSumExp (hicann/ops-math, math/reduce_log_sum_exp).
    """
    if is_empty(call):
        return _filled(call, -np.inf, "out")
    return plan_reduction(call, LogSum(), AXES(call), ("out",))


@NORMS.operator(
    """
    aclnnStatus aclnnVarCorrectionGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* dim, int64_t correction, bool keepdim,
        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    optional=("dim",),
    checks=(
        NotNull(("self", "out")),
        TypeIn(("self", "out"), FLOATS),
        DimsOf("dim", "self"),
        RankUpTo(("self",)),
        ShapeIsReduced("out", "self", AXES, keepdim, lenient=True),
    ),
    python=OneLine(
        "var_correction",
        {"dim": (), "correction": 1, "keepdim": False},
        result=Result("along", "first"),
    ),
)
def var_correction(call: Call) -> Work:
    """Variance along dimensions, by a correction of the number of elements.

    $$out = \\frac{1}{n - correction} \\sum_{dim} (self - mean)^2$$

    - dim may be null; null or empty is all dims. keepdim keeps them, with size 1.
    - NaN for a single element and a correction of 1 or more; infinite for a correction above 1 that n
      does not exceed. Of an empty self, NaN.
    - Distances are FLOAT, their sums DOUBLE.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnVarCorrection (hicann/ops-math, math/reduce_var).
    """
    if is_empty(call):
        return _filled(call, np.nan, "out")
    return plan_reduction(call, Spread(call["correction"], root=False), AXES(call), ("out",))


_STD_MEAN = ("stdOut", "meanOut")


@NORMS.operator(
    """
    aclnnStatus aclnnStdMeanCorrectionGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* dim, int64_t correction, bool keepdim,
        aclTensor* stdOut, aclTensor* meanOut, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=_STD_MEAN,
    optional=("dim",),
    checks=(
        NotNull(("self", *_STD_MEAN)),
        TypeIn(("self", *_STD_MEAN), FLOATS),
        DimsOf("dim", "self"),
        RankUpTo(("self",)),
        *(ShapeIsReduced(name, "self", AXES, keepdim, lenient=True) for name in _STD_MEAN),
    ),
)
def std_mean_correction(call: Call) -> Work:
    """Standard deviation and mean along dimensions.

    $$stdOut = \\sqrt{\\frac{1}{n - correction} \\sum_{dim} (self - mean)^2}, \\quad meanOut = mean$$

    - dim may be null; null or empty is all dims. keepdim keeps them, with size 1.
    - stdOut is NaN for a single element and a correction of 1 or more; infinite for a correction above 1
      that n does not exceed.
    - Distances are FLOAT, their sums DOUBLE. Of an empty self, NaN.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnStdMeanCorrection (hicann/ops-math, math/reduce_std_v2).
    """
    if is_empty(call):
        return _filled(call, np.nan, *_STD_MEAN)
    fold = SpreadAndMean(call["correction"], root=True)
    return plan_reduction(call, fold, AXES(call), _STD_MEAN)
