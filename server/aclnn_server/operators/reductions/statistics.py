"""Spread and running sums along dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import codes
from aclnn.pythonic import Result
from aclnn_server.operators.checking.axis_checks import (
    DIM_OF_SELF,
    DimsOf,
    ShapeIsReduced,
    TypeIsGiven,
)
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    RankUpTo,
    SameShape,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import COMPLEX
from aclnn_server.operators.definition import Call, Family, OneLine, Work
from aclnn_server.operators.engines.axes import Grid
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.folds import Spread, computed, modular
from aclnn_server.operators.engines.reducing import Scan, Source
from aclnn_server.operators.reductions.reductions import (
    AXES,
    FLOATS,
    NUMBERS,
    fill_out,
    is_empty,
    keepdim,
    plan_reduction,
)

Array = npt.NDArray[Any]

STATISTICS = Family()


# --- variance and standard deviation ----------------------------------------------------------------


def _spread(call: Call, correction: int, *, root: bool) -> Work:
    if is_empty(call):
        return fill_out(call, np.nan)
    return plan_reduction(call, Spread(correction, root), AXES(call), ("out",))


def _has_dims(call: Call) -> bool:
    return bool(call["dim"])


def _check_std_shape(call: Call) -> None:
    if _has_dims(call):
        ShapeIsReduced("out", "self", AXES, keepdim)(call)


def _check_std_one(call: Call) -> None:
    out = call.tensor("out")
    if not _has_dims(call) and out.elements != 1 and not is_empty(call):
        raise call.invalid(
            "out",
            f"out has shape {list(out.shape)}; where dim is empty it must have one element",
            code=codes.ACLNN_ERR_INNER_NULLPTR,
        )


@STATISTICS.operator(
    """
    aclnnStatus aclnnStdGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* dim, const int64_t correction, bool keepdim,
        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    optional=("dim",),
    checks=(
        NotNull(("self", "out")),
        TypeIn(("self", "out"), FLOATS),
        DimsOf("dim", "self"),
        RankUpTo(("self", "out")),
        Holds(
            "out has the shape that is left of self, where dim names dimensions", _check_std_shape
        ),
        Holds(
            "out has one element, where dim is null or empty",
            _check_std_one,
            codes.ACLNN_ERR_INNER_NULLPTR,
        ),
    ),
    python=OneLine(
        "std", {"dim": (), "correction": 1, "keepdim": False}, result=Result("along", "first")
    ),
)
def std(call: Call) -> Work:
    """Standard deviation along dimensions.

    $$out = \\sqrt{\\frac{1}{n - correction} \\sum_{dim} (self - mean)^2}$$

    - dim may be null; null or empty is all dims. keepdim keeps them, with size 1.
    - NaN for a single element and a correction of 1 or more; infinite for a correction above 1 that n
      does not exceed. Of an empty self, NaN.
    - Distances are FLOAT, their sums DOUBLE.
    - Deterministic, at any number of threads.

    Source: host code of aclnnStd (hicann/ops-math, math/reduce_std_v2).
    """
    return _spread(call, call["correction"], root=True)


@STATISTICS.operator(
    """
    aclnnStatus aclnnVarGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* dim, bool unbiased, bool keepdim,
        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    optional=("dim",),
    checks=(
        NotNull(("self", "out")),
        TypeIn(("self", "out"), FLOATS),
        DimsOf("dim", "self"),
        RankUpTo(("self",)),
        ShapeIsReduced("out", "self", AXES, keepdim),
    ),
    python=OneLine(
        "var", {"dim": (), "unbiased": True, "keepdim": False}, result=Result("along", "first")
    ),
)
def var(call: Call) -> Work:
    """Variance along dimensions.

    $$out = \\frac{1}{n - c} \\sum_{dim} (self - mean)^2$$

    where c is 1 if unbiased is true, else 0.

    - dim may be null; null or empty is all dims. keepdim keeps them, with size 1.
    - NaN for a single element if unbiased is true, and for an empty self.
    - Distances are FLOAT, their sums DOUBLE.
    - Deterministic, at any number of threads.

    Source: host code of aclnnVar (hicann/ops-math, math/reduce_var).
    """
    return _spread(call, int(call["unbiased"]), root=False)


# --- running sums -----------------------------------------------------------------------------------

_SCANNED = 1 << 16
"""Elements of a block that is summed up."""
_CUMSUM = (*NUMBERS, *COMPLEX)


@STATISTICS.operator(
    """
    aclnnStatus aclnnCumsumGetWorkspaceSize(
        const aclTensor* self, int64_t dim, aclDataType dtype, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "out")),
        TypeIn(("out",), _CUMSUM),
        TypeIsGiven("out"),
        SameShape(("out",), "self"),
        RankUpTo(("self",)),
        DIM_OF_SELF,
    ),
    python=OneLine("cumsum", {"dim": 0, "dtype": None}, result=Result("same", "given")),
)
def cumsum(call: Call) -> Work:
    """Running sums along a dimension.

    $$out_i = \\sum_{j \\le i} self_j$$

    - Elements are cast to dtype first. Floats are added in DOUBLE; integers overflow.
    - Deterministic, at any number of threads.

    Source: host code of aclnnCumsum (hicann/ops-math, math/cumsum).
    """
    if is_empty(call):
        return Nothing()
    spec, out = call.tensors(("self", "out"))
    grid = Grid.of(spec.shape, AXES(call), block=_SCANNED)
    assert out.dtype.numpy is not None, "a check covers it"
    source = Source(grid.operand("self", spec), out.dtype.numpy, computed(out.dtype))
    return Scan(source, grid.operand("out", out), grid, modular(out.dtype))
