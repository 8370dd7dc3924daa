"""Comparisons and logic: operators whose results are BOOL, and the choice by a condition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.pythonic import Result
from aclnn_server.operators.checking.checks import (
    Broadcasts,
    NotNull,
    RankUpTo,
    SameShape,
    TypeIn,
    broadcast_shape,
)
from aclnn_server.operators.definition import Call, Check, Family, OneLine, Work, prototype
from aclnn_server.operators.elementwise.arithmetic_kernels import with_number
from aclnn_server.operators.engines.blocks import Kernel, Types, elementwise
from aclnn_server.operators.engines.common_type import CommonType, Meets
from aclnn_server.operators.engines.pointwise import (
    BROADCAST,
    FLOATS,
    HOST_CODE,
    IN_PLACE,
    NUMBERS,
    REAL,
    STRIDED,
    UNSIGNED,
    KernelOf,
    Pointwise,
    described,
    fixed,
    number,
    select,
    ufunc,
)

COMPARISON = Family()

_TWO = ("self", "other")
_ORDERED = (*REAL, *UNSIGNED)
_ANYTHING = (*NUMBERS, *UNSIGNED)
_CONDITION = (dtypes.BOOL, dtypes.UINT8)
_RESULT = "The result, 1 or 0, is cast to the type of out."
_OTHERS = {"Tensor": "those of another tensor", "Scalar": "a number"}
_NAN = "A comparison with NaN is false, but for its being unequal."


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison, with a tensor and with a number."""

    prefix: str
    """C names without the aclnn prefix, less Tensor or Scalar."""
    words: str
    symbol: str
    """In LaTeX."""
    function: Any
    """NumPy ufunc."""
    types: tuple[DType, ...]
    folder: str
    """Folder of the host code in ops-math."""

    def define(self) -> None:
        """Adds both operators."""
        self._add("Tensor", "aclTensor", _TWO, CommonType(_TWO), fixed(ufunc(self.function)))
        common = CommonType(("self",), ("other",), widening=True)
        self._add("Scalar", "aclScalar", ("self",), common, self._with_number)

    def _with_number(self, call: Call, dtype: np.dtype[Any]) -> Kernel:
        return with_number(self.function, number(call["other"], dtype))

    def _add(
        self, kind: str, other: str, inputs: tuple[str, ...], common: CommonType, kernel: KernelOf
    ) -> None:
        name = f"aclnn{self.prefix}{kind}"
        COMPARISON.add(
            prototype(name, f"const aclTensor* self, const {other}* other, aclTensor* out"),
            Pointwise(inputs, "out", common, kernel, produces=dtypes.BOOL),
            described(
                f"Whether elements are {self.words} {_OTHERS[kind]}.",
                f"out = \\begin{{cases}} 1 & self {self.symbol} other \\\\ 0 & \\text{{otherwise}} "
                "\\end{cases}",
                "Both are compared in their common type.",
                _NAN,
                _RESULT,
                BROADCAST if len(inputs) > 1 else STRIDED,
                source=HOST_CODE.format(name, f"ops-math, math/{self.folder}"),
            ),
            outputs=("out",),
            checks=self._checks(inputs, common),
            python=OneLine(
                f"{self.prefix.lower()}{'' if len(inputs) > 1 else '_scalar'}",
                {"other": 0},
                result=Result("broadcast", "bool"),
            ),
        )

    def _checks(self, inputs: tuple[str, ...], common: CommonType) -> tuple[Check, ...]:
        shape: Check = (
            Broadcasts(_TWO, to="out") if len(inputs) > 1 else SameShape(("out",), "self")
        )
        return (
            NotNull((*_TWO, "out")),
            TypeIn(_TWO, self.types),
            TypeIn(("out",), _ANYTHING),
            Meets(common, within=self.types),
            RankUpTo(inputs),
            shape,
        )


COMPARISONS = (
    Comparison("Eq", "equal to", "=", np.equal, NUMBERS, "equal"),
    Comparison("Ne", "unequal to", "\\ne", np.not_equal, NUMBERS, "not_equal"),
    Comparison("Lt", "less than", "<", np.less, _ORDERED, "less"),
    Comparison("Le", "at most", "\\le", np.less_equal, _ORDERED, "less_equal"),
    Comparison("Gt", "greater than", ">", np.greater, _ORDERED, "greater"),
    Comparison("Ge", "at least", "\\ge", np.greater_equal, _ORDERED, "greater_equal"),
)
for _comparison in COMPARISONS:
    _comparison.define()


@dataclass(frozen=True, slots=True)
class Logic:
    """A function of truth values, or a test of numbers."""

    name: str
    """C name without the aclnn prefix."""
    summary: str
    formula: str
    function: Any
    """NumPy ufunc."""
    python: str
    folder: str
    inputs: tuple[str, ...]
    types: tuple[DType, ...] = NUMBERS
    out_types: tuple[DType, ...] = _ANYTHING
    truth: bool = True
    """Whether it is of truth values: anything but 0 is true, NaN too."""
    ranked: bool = True
    """Whether there may be 8 dimensions at most."""

    def define(self) -> None:
        """Adds the operator."""
        rows = [f"const aclTensor* {name}" for name in self.inputs]
        self._add(self.name, [*rows, "aclTensor* out"], self.inputs, "out")

    def define_in_place(self) -> None:
        """Adds the form that writes its first tensor."""
        inputs = ("selfRef", *self.inputs[1:])
        rows = ["aclTensor* selfRef", *(f"const aclTensor* {name}" for name in inputs[1:])]
        self._add(f"Inplace{self.name}", rows, inputs, "selfRef")

    def _add(self, name: str, rows: list[str], inputs: tuple[str, ...], out: str) -> None:
        name = f"aclnn{name}"
        one, own = len(inputs) == 1, out == "out"
        loads = dtypes.BOOL if self.truth else None
        kernel = fixed(ufunc(self.function))
        summary, formula = self.summary, self.formula
        if not own:
            summary = f"In place: {summary[0].lower()}{summary[1:]}"
            formula = re.sub(r"\b(self|out)\b", out, formula)
        COMPARISON.add(
            prototype(name, ", ".join(rows)),
            Pointwise(inputs, out, CommonType(inputs), kernel, dtypes.BOOL, loads),
            described(
                summary,
                formula,
                *(["Anything but 0 is true, NaN too."] if self.truth else []),
                _RESULT if own else IN_PLACE.format(out),
                STRIDED if one else BROADCAST,
                source=HOST_CODE.format(name, f"ops-math, math/{self.folder}"),
            ),
            outputs=(out,),
            checks=(
                NotNull(tuple(dict.fromkeys((*inputs, out)))),
                TypeIn(inputs, self.types),
                *([TypeIn(("out",), self.out_types)] if own else []),
                *([RankUpTo(inputs)] if self.ranked else []),
                SameShape((out,), inputs[0]) if one else Broadcasts(inputs, to=out),
            ),
            python=OneLine(self.python, result=Result("broadcast", "bool")) if own else None,
        )


LOGIC = (
    Logic(
        "LogicalAnd",
        "Whether elements of both tensors are true.",
        "out = self \\land other",
        np.logical_and,
        "logical_and",
        "logical_and",
        _TWO,
    ),
    Logic(
        "LogicalOr",
        "Whether an element of either tensor is true.",
        "out = self \\lor other",
        np.logical_or,
        "logical_or",
        "logical_or",
        _TWO,
    ),
    Logic(
        "LogicalNot",
        "Whether elements are not true.",
        "out = \\lnot self",
        np.logical_not,
        "logical_not",
        "logical_not",
        ("self",),
        ranked=False,
    ),
    Logic(
        "IsFinite",
        "Whether elements are neither infinite nor NaN.",
        "out = \\begin{cases} 1 & |self| < \\infty \\\\ 0 & \\text{otherwise} \\end{cases}",
        np.isfinite,
        "is_finite",
        "is_finite",
        ("self",),
        _ANYTHING,
        (dtypes.BOOL,),
        truth=False,
    ),
    *(
        Logic(
            name,
            f"Whether elements are {sign} infinity.",
            f"out = \\begin{{cases}} 1 & self = {symbol}\\infty \\\\ 0 & \\text{{otherwise}} \\end{{cases}}",
            partial(np.equal, infinity),
            python,
            "is_inf",
            ("self",),
            FLOATS,
            (dtypes.BOOL,),
            truth=False,
        )
        for name, sign, symbol, infinity, python in (
            ("IsPosInf", "positive", "", np.float32(np.inf), "isposinf"),
            ("IsNegInf", "negative", "-", np.float32(-np.inf), "isneginf"),
        )
    ),
)
for _logic in LOGIC:
    _logic.define()
    if _logic.truth:
        _logic.define_in_place()


@COMPARISON.operator(
    """
    aclnnStatus aclnnSWhereGetWorkspaceSize(
        const aclTensor* condition, const aclTensor* self, const aclTensor* other, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("condition", *_TWO, "out")),
        TypeIn(("condition",), _CONDITION),
        TypeIn(_TWO, _ANYTHING),
        Meets(CommonType(_TWO), "out"),
        RankUpTo(("condition", *_TWO)),
        Broadcasts(("condition", *_TWO), to="out"),
    ),
    python=OneLine("where"),
)
def s_where(call: Call) -> Work:
    """Elements of one tensor where a condition holds, of another elsewhere.

    $$out = \\begin{cases} self & condition \\ne 0 \\\\ other & \\text{otherwise} \\end{cases}$$

    - self and other are cast to their common type, and that to the type of the output.
    - Inputs broadcast to exactly the shape of the output, and may be strided, as it may.

    Source: the public documentation of aclnnSWhere, and for the order of checks its host code
    (hicann/ops-math, math/select).
    """
    inputs = ("condition", *_TWO)
    dtype = CommonType(_TWO).known(call).numpy
    assert dtype is not None
    types = Types(dtype, dtype, first=np.dtype(np.bool_))
    return elementwise(call, select, inputs, "out", broadcast_shape(call, inputs), types)
