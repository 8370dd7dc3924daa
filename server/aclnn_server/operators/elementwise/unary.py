"""Functions of one tensor, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.pythonic import Result
from aclnn_server.operators.checking.checks import (
    NotNull,
    PlainFormat,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import SameFormat
from aclnn_server.operators.definition import Check, Family, OneLine, prototype
from aclnn_server.operators.engines.common_type import CommonType, Meets
from aclnn_server.operators.engines.error_function import erf
from aclnn_server.operators.engines.pointwise import (
    COMPLEX,
    FLOATING,
    FLOATS,
    HOST_CODE,
    INTEGERS,
    NUMBERS,
    ROUNDED,
    STRIDED,
    UNSIGNED,
    KernelOf,
    Pointwise,
    described,
    fixed,
    ufunc,
)
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]

UNARY = Family()

_ALL_FLOATS = (*FLOATS, dtypes.DOUBLE)
_EXPONENTIAL = (*_ALL_FLOATS, dtypes.INT64, dtypes.BOOL)


@dataclass(frozen=True, slots=True)
class Row:
    """A function out = f(self)."""

    name: str
    """C name without the aclnn prefix."""
    summary: str
    formula: str
    kernel: KernelOf
    python: str
    """Name in Python."""
    source: str
    """Folder of the host code in ops-math."""
    types: tuple[DType, ...] = NUMBERS
    floating: bool = True
    """Whether integers and BOOL are computed in FLOAT, and the output may be of any type that the result
    casts to."""
    same: tuple[str, ...] = ()
    """What of the output must be as of the input: ``"type"``, ``"format"``."""
    ranked: bool = True
    """Whether there may be 8 dimensions at most."""
    plain: bool = False
    """Whether private formats are refused."""
    names: tuple[str, str] = ("self", "out")
    """Names of input and output in C."""
    notes: tuple[str, ...] = ()
    const_out: bool = False
    """Whether C declares the output const."""
    origin: str = HOST_CODE
    """What the formula and the checks were taken from."""

    @property
    def common(self) -> CommonType:
        """The type that is computed in."""
        return CommonType(self.names[:1], floating=self.floating)

    def checks(self) -> tuple[Check, ...]:
        """What phase one checks."""
        given, out = self.names
        return (
            NotNull(self.names),
            TypeIn((given,), self.types),
            SameType((out,), given) if "type" in self.same else Meets(self.common, out),
            *([RankUpTo((given,))] if self.ranked else []),
            SameShape((out,), given),
            *([SameFormat(self.names)] if "format" in self.same else []),
            *([PlainFormat(self.names)] if self.plain else []),
        )

    def text(self) -> str:
        """The documentation."""
        rounding = f"{FLOATING} {ROUNDED}" if self.floating else ROUNDED
        source = self.origin.format(f"aclnn{self.name}", f"ops-math, math/{self.source}")
        return described(self.summary, self.formula, *self.notes, rounding, STRIDED, source=source)

    def define(self, family: Family) -> None:
        """Adds the operator to a family."""
        given, out = self.names
        written = f"{'const ' if self.const_out else ''}aclTensor* {out}"
        family.add(
            prototype(f"aclnn{self.name}", f"const aclTensor* {given}, {written}"),
            Pointwise((given,), out, self.common, self.kernel),
            self.text(),
            outputs=(out,),
            checks=self.checks(),
            python=OneLine(
                self.python, result=Result(dtype="floating" if self.floating else "promoted")
            ),
        )


def of_floats(function: Any) -> KernelOf:  # noqa: ANN401 - a NumPy ufunc
    """The kernel that calls a ufunc, and leaves integers as they are."""
    rounding = ufunc(function)
    return lambda _call, dtype: rounding if dtype.kind == "f" else ufunc(np.positive)


def _reciprocal_root(x: Array, *, out: Array, scratch: Scratch) -> None:
    np.sqrt(x, out=out)
    np.reciprocal(out, out=out)


def _sign(x: Array, *, out: Array, scratch: Scratch) -> None:
    np.copyto(out, x) if x.dtype.kind == "b" else np.sign(x, out=out)


ROWS = (
    Row(
        "Neg",
        "Negative of each element.",
        "out = -self",
        fixed(ufunc(np.negative)),
        "neg",
        "neg",
        (*_ALL_FLOATS, dtypes.INT8, dtypes.INT32, dtypes.INT64, *COMPLEX),
        floating=False,
        notes=("The smallest integer stays as it is.",),
    ),
    Row(
        "Abs",
        "Magnitude of each element.",
        "out = |self|",
        fixed(ufunc(np.abs)),
        "abs",
        "abs",
        (*_ALL_FLOATS, *INTEGERS, dtypes.BOOL),
        floating=False,
        same=("type", "format"),
        notes=("The smallest integer stays as it is.",),
    ),
    Row(
        "Sign",
        "Sign of each element.",
        "result = \\begin{cases} 1 & self > 0 \\\\ 0 & self = 0 \\\\ -1 & self < 0 \\end{cases}",
        fixed(_sign),
        "sign",
        "sign",
        (*_ALL_FLOATS, dtypes.INT32, dtypes.INT64, dtypes.BOOL, *COMPLEX),
        floating=False,
        same=("type",),
        ranked=False,
        names=("self", "result"),
        notes=(
            "NaN gives NaN; a complex number gives itself divided by its magnitude, and 0 for 0.",
        ),
    ),
    Row(
        "Exp",
        "Exponential of each element.",
        "out = e^{self}",
        fixed(ufunc(np.exp)),
        "exp",
        "exp",
        (*_EXPONENTIAL, *COMPLEX),
    ),
    Row(
        "Expm1",
        "Exponential of each element, less 1.",
        "out = e^{self} - 1",
        fixed(ufunc(np.expm1)),
        "expm1",
        "expm1",
        _EXPONENTIAL,
        notes=("Exact near 0, where the exponential is near 1.",),
    ),
    Row(
        "Log",
        "Natural logarithm of each element.",
        "out = \\ln self",
        fixed(ufunc(np.log)),
        "log",
        "log",
        notes=("0 gives negative infinity; negative real numbers give NaN.",),
    ),
    Row(
        "Log1p",
        "Natural logarithm of each element plus 1.",
        "out = \\ln(1 + self)",
        fixed(ufunc(np.log1p)),
        "log1p",
        "log1p",
        notes=("Exact near 0. -1 gives negative infinity; smaller real numbers give NaN.",),
    ),
    Row(
        "Sqrt",
        "Square root of each element.",
        "out = \\sqrt{self}",
        fixed(ufunc(np.sqrt)),
        "sqrt",
        "sqrt",
        notes=("Negative real numbers give NaN.",),
    ),
    Row(
        "Rsqrt",
        "Reciprocal of the square root of each element.",
        "out = \\frac{1}{\\sqrt{self}}",
        fixed(_reciprocal_root),
        "rsqrt",
        "rsqrt",
        notes=("0 gives infinity; negative real numbers give NaN.",),
    ),
    Row(
        "Reciprocal",
        "Reciprocal of each element.",
        "out = \\frac{1}{self}",
        fixed(ufunc(np.reciprocal)),
        "reciprocal",
        "reciprocal",
        plain=True,
        notes=("0 gives infinity with its sign.",),
    ),
    Row(
        "Square",
        "Square of each element.",
        "out = self^2",
        fixed(ufunc(np.square)),
        "square",
        "square",
        (*_ALL_FLOATS, dtypes.INT32, dtypes.INT64),
        floating=False,
        same=("type", "format"),
        notes=("Integers wrap around.",),
    ),
    Row("Sin", "Sine of each element.", "out = \\sin self", fixed(ufunc(np.sin)), "sin", "sin"),
    Row(
        "Cos",
        "Cosine of each element.",
        "out = \\cos input",
        fixed(ufunc(np.cos)),
        "cos",
        "cos",
        names=("input", "out"),
    ),
    Row(
        "Tanh",
        "Hyperbolic tangent of each element.",
        "out = \\tanh self",
        fixed(ufunc(np.tanh)),
        "tanh",
        "tanh",
    ),
    Row(
        "Erf",
        "Error function of each element.",
        "out = \\frac{2}{\\sqrt{\\pi}} \\int_0^{self} e^{-t^2} dt",
        fixed(erf),
        "erf",
        "erf",
        _EXPONENTIAL,
    ),
    Row(
        "Floor",
        "Each element rounded down.",
        "out = \\lfloor self \\rfloor",
        of_floats(np.floor),
        "floor",
        "floor",
        (*_ALL_FLOATS, *INTEGERS, *UNSIGNED),
        floating=False,
        same=("type",),
        plain=True,
    ),
    Row(
        "Ceil",
        "Each element rounded up.",
        "out = \\lceil self \\rceil",
        of_floats(np.ceil),
        "ceil",
        "ceil",
        _ALL_FLOATS,
        floating=False,
        same=("type",),
    ),
    Row(
        "Round",
        "Each element rounded to the nearest whole number.",
        "out = round(self)",
        of_floats(np.rint),
        "round",
        "round",
        (*_ALL_FLOATS, dtypes.INT32, dtypes.INT64),
        floating=False,
        same=("type",),
        plain=True,
        notes=("Halfway cases go to the even neighbour.",),
    ),
    Row(
        "Trunc",
        "Each element rounded towards 0.",
        "out = trunc(self)",
        of_floats(np.trunc),
        "trunc",
        "trunc",
        FLOATS,
        floating=False,
        same=("type",),
    ),
)
for _row in ROWS:
    _row.define(UNARY)
