"""The greatest and least of all elements, and the least along a dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.pythonic import Result
from aclnn_server.operators.checking.axis_checks import DIM_OF_SELF, ShapeIsReduced, WhereNotEmpty
from aclnn_server.operators.checking.checks import NotNull, RankUpTo, SameType, TypeIn
from aclnn_server.operators.checking.layout_checks import BASIC, INDEXES, OnlyOn950
from aclnn_server.operators.definition import Call, Family, OneLine, Planner, Work, prototype
from aclnn_server.operators.engines.axes import Axes
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.folds import Gather, Peak, computed
from aclnn_server.operators.reductions.reductions import (
    AXES,
    FLOATS,
    NUMBERS,
    is_empty,
    keepdim,
    plan_reduction,
)

Array = npt.NDArray[Any]

EXTREMES = Family()


def _all_axes(call: Call) -> Axes:
    return tuple(range(len(call.tensor("self").shape)))


def _dropped(call: Call) -> bool:
    return False


def _of_all(ufunc: np.ufunc) -> Planner:
    def plan(call: Call) -> Work:
        if is_empty(call):
            return Nothing()
        own = computed(call.tensor("self").dtype)
        return plan_reduction(call, Gather(ufunc, own, own), _all_axes(call), ("out",))

    return plan


for _name, _word, _ufunc in (("Max", "greatest", np.maximum), ("Min", "least", np.minimum)):
    EXTREMES.add(
        prototype(f"aclnn{_name}", "const aclTensor* self, aclTensor* out"),
        _of_all(_ufunc),
        f"""The {_word} of all elements.

        - NaN, where there is one, is the result. It is cast to the type of out.
        - Of an empty self nothing is computed.
        - Deterministic, at any number of threads.

        Source: host code of aclnn{_name} (hicann/ops-math, math/reduce_{_name.lower()}).
        """,
        outputs=("out",),
        checks=(
            NotNull(("self", "out")),
            TypeIn(("self", "out"), BASIC),
            RankUpTo(("self", "out")),
            WhereNotEmpty(
                ("self", "out"), ShapeIsReduced("out", "self", _all_axes, _dropped, lenient=True)
            ),
        ),
    )


def _position(value: Array, position: Array) -> tuple[Array, ...]:
    return (position,)


@EXTREMES.operator(
    """
    aclnnStatus aclnnArgMinGetWorkspaceSize(
        const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "out")),
        TypeIn(("self",), NUMBERS),
        RankUpTo(("self", "out")),
        DIM_OF_SELF,
        TypeIn(("out",), INDEXES),
        WhereNotEmpty(("self", "out"), ShapeIsReduced("out", "self", AXES, keepdim, lenient=True)),
    ),
    python=OneLine("arg_min", {"dim": 0, "keepdim": False}, result=Result("along", "index")),
)
def arg_min(call: Call) -> Work:
    """Position of the least element along a dimension.

    - Of several, the first. NaN is less than any number.
    - keepdim keeps the dimension, with size 1.
    - Of an empty self nothing is computed.

    Source: the public documentation of aclnnArgMin (hicann/ops-math, math/arg_min).
    """
    if is_empty(call) or call.tensor("out").elements == 0:
        return Nothing()
    fold = Peak(computed(call.tensor("self").dtype), _position, least=True)
    return plan_reduction(call, fold, AXES(call), ("out",))


_MIN_DIM = (*FLOATS, dtypes.INT64, dtypes.INT32, dtypes.BOOL)


@EXTREMES.operator(
    """
    aclnnStatus aclnnMinDimGetWorkspaceSize(
        const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out, aclTensor* indices,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out", "indices"),
    checks=(
        NotNull(("self", "out", "indices")),
        TypeIn(("self",), _MIN_DIM),
        OnlyOn950(("self",), (dtypes.INT32,)),
        SameType(("out",), "self"),
        RankUpTo(("self", "out", "indices")),
        DIM_OF_SELF,
        TypeIn(("indices",), INDEXES),
        WhereNotEmpty(("self",), ShapeIsReduced("indices", "self", AXES, keepdim, lenient=True)),
        WhereNotEmpty(("self",), ShapeIsReduced("out", "self", AXES, keepdim, lenient=True)),
    ),
    python=OneLine(
        "min_dim",
        {"dim": 0, "keepdim": False},
        result=Result("along", "first"),
        results={"indices": Result("along", "index")},
    ),
)
def min_dim(call: Call) -> Work:
    """Least element along a dimension, and its position.

    - Of several, the first. NaN is less than any number.
    - keepdim keeps the dimension, with size 1.
    - Of an empty self nothing is computed.

    Source: the public documentation of aclnnMinDim (hicann/ops-math, math/arg_min_with_value).
    """
    if is_empty(call):
        return Nothing()
    fold = Peak(computed(call.tensor("self").dtype), least=True)
    return plan_reduction(call, fold, AXES(call), ("out", "indices"))
