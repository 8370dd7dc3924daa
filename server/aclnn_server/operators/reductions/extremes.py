"""The greatest and least of all elements, and along a dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
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


# --- along a dimension -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """An extreme along a dimension: the operator of its position, and that of both."""

    name: str
    """Max or Min."""
    word: str
    """What it is."""
    than: str
    """What NaN is, beside any number."""
    places: tuple[DType, ...]
    """Types of elements whose position can be asked for."""
    only_on_950: tuple[DType, ...]
    """Those of them that only one product has."""
    sources: tuple[str, str]
    """Of the position, and of both."""

    def define(self) -> None:
        """Adds the operators."""
        name = self.name.lower()
        EXTREMES.add(
            prototype(
                f"aclnnArg{self.name}",
                "const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out",
            ),
            self._plan_position,
            self._described(f"Position of the {self.word} element along a dimension.", 0),
            outputs=("out",),
            checks=(
                NotNull(("self", "out")),
                TypeIn(("self",), self.places),
                *([OnlyOn950(("self",), self.only_on_950)] if self.only_on_950 else []),
                RankUpTo(("self", "out")),
                DIM_OF_SELF,
                TypeIn(("out",), INDEXES),
                WhereNotEmpty(("self", "out"), _reduced("out")),
            ),
            python=OneLine(f"arg_{name}", _DEFAULTS, result=Result("along", "index")),
        )
        EXTREMES.add(
            prototype(
                f"aclnn{self.name}Dim",
                "const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out, aclTensor* indices",
            ),
            self._plan_both,
            self._described(
                f"{self.word.capitalize()} element along a dimension, and its position.", 1
            ),
            outputs=("out", "indices"),
            checks=(
                NotNull(("self", "out", "indices")),
                TypeIn(("self",), (*FLOATS, dtypes.INT64, dtypes.INT32, dtypes.BOOL)),
                OnlyOn950(("self",), (dtypes.INT32,)),
                SameType(("out",), "self"),
                RankUpTo(("self", "out", "indices")),
                DIM_OF_SELF,
                TypeIn(("indices",), INDEXES),
                WhereNotEmpty(("self",), _reduced("indices")),
                WhereNotEmpty(("self",), _reduced("out")),
            ),
            python=OneLine(
                f"{name}_dim",
                _DEFAULTS,
                result=Result("along", "first"),
                results={"indices": Result("along", "index")},
            ),
        )

    def _described(self, summary: str, which: int) -> str:
        return f"""{summary}

        - Of several, the first. NaN is {self.than} than any number.
        - keepdim keeps the dimension, with size 1.
        - Of an empty self nothing is computed.

        Source: {self.sources[which]}.
        """

    @property
    def _least(self) -> bool:
        return self.name == "Min"

    def _plan_position(self, call: Call) -> Work:
        if is_empty(call) or call.tensor("out").elements == 0:
            return Nothing()
        fold = Peak(computed(call.tensor("self").dtype), _position, least=self._least)
        return plan_reduction(call, fold, AXES(call), ("out",))

    def _plan_both(self, call: Call) -> Work:
        if is_empty(call):
            return Nothing()
        fold = Peak(computed(call.tensor("self").dtype), least=self._least)
        return plan_reduction(call, fold, AXES(call), ("out", "indices"))


_DEFAULTS = {"dim": 0, "keepdim": False}


def _position(value: Array, position: Array) -> tuple[Array, ...]:
    return (position,)


def _reduced(output: str) -> ShapeIsReduced:
    return ShapeIsReduced(output, "self", AXES, keepdim, lenient=True)


ROWS = (
    Row(
        "Max",
        "greatest",
        "greater",
        (*NUMBERS, dtypes.UINT16),
        (dtypes.UINT16,),
        (
            "host code of aclnnArgMax (hicann/ops-math, math/arg_max_v2); that out is INT32 or INT64 is from "
            "its public documentation",
            "host code of aclnnMaxDim (hicann/ops-math, math/arg_max_with_value); that indices is INT32 or "
            "INT64 is from its public documentation",
        ),
    ),
    Row(
        "Min",
        "least",
        "less",
        NUMBERS,
        (),
        (
            "the public documentation of aclnnArgMin (hicann/ops-math, math/arg_min)",
            "the public documentation of aclnnMinDim (hicann/ops-math, math/arg_min_with_value)",
        ),
    ),
)
for _row in ROWS:
    _row.define()
