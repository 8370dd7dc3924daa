"""Further functions of one tensor: of angles and hyperbolas, logarithms and powers to other bases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.definition import Family
from aclnn_server.operators.elementwise.unary import Row
from aclnn_server.operators.engines.pointwise import (
    DOCUMENTED,
    FLOATS,
    INTEGERS,
    NUMBERS,
    REAL,
    fixed,
    ufunc,
)
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]

MORE_UNARY = Family()

_TWO = np.float32(2)


def _fraction(x: Array, *, out: Array, scratch: Scratch) -> None:
    """What is left of each element without its whole part."""
    if x.dtype.kind != "f":
        np.copyto(out, 0)
        return
    whole = scratch.like(out)
    np.trunc(x, out=whole)
    np.subtract(x, whole, out=out)


def _power_of_two(x: Array, *, out: Array, scratch: Scratch) -> None:
    if x.dtype.kind == "c":
        np.power(_TWO, x, out=out)
    else:
        np.exp2(x, out=out)


def _logarithm(base: float, function: np.ufunc) -> Any:  # noqa: ANN401 - a kernel
    """A logarithm to a base, of complex numbers by the natural one."""

    def kernel(x: Array, *, out: Array, scratch: Scratch) -> None:
        if x.dtype.kind == "c":
            np.log(x, out=out)
            np.divide(out, out.dtype.type(np.log(base)), out=out)
        else:
            function(x, out=out)

    return kernel


ROWS = (
    Row(
        "Tan",
        "Tangent of each element.",
        "out = \\tan self",
        fixed(ufunc(np.tan)),
        "tan",
        "tan",
    ),
    Row(
        "Asin",
        "Angle between -π/2 and π/2 of which each element is the sine.",
        "out = \\arcsin self",
        fixed(ufunc(np.arcsin)),
        "asin",
        "asin",
        REAL,
        notes=("Beyond 1 and -1 it is NaN.",),
    ),
    Row(
        "Acos",
        "Angle between 0 and π of which each element is the cosine.",
        "out = \\arccos input",
        fixed(ufunc(np.arccos)),
        "acos",
        "acos",
        REAL,
        names=("input", "out"),
        notes=("Beyond 1 and -1 it is NaN.",),
    ),
    Row(
        "Atan",
        "Angle between -π/2 and π/2 of which each element is the tangent.",
        "out = \\arctan input",
        fixed(ufunc(np.arctan)),
        "atan",
        "atan",
        REAL,
        names=("input", "out"),
    ),
    Row(
        "Sinh",
        "Hyperbolic sine of each element.",
        "out = \\sinh self",
        fixed(ufunc(np.sinh)),
        "sinh",
        "sinh",
    ),
    Row(
        "Cosh",
        "Hyperbolic cosine of each element.",
        "out = \\cosh self",
        fixed(ufunc(np.cosh)),
        "cosh",
        "cosh",
    ),
    Row(
        "Asinh",
        "Number of which each element is the hyperbolic sine.",
        "out = \\text{arsinh}\\ input",
        fixed(ufunc(np.arcsinh)),
        "asinh",
        "asinh",
        names=("input", "out"),
    ),
    Row(
        "Acosh",
        "Number of which each element is the hyperbolic cosine.",
        "out = \\text{arcosh}\\ self",
        fixed(ufunc(np.arccosh)),
        "acosh",
        "acosh",
        notes=("Real numbers below 1 give NaN.",),
    ),
    Row(
        "Atanh",
        "Number of which each element is the hyperbolic tangent.",
        "out = \\text{artanh}\\ input",
        fixed(ufunc(np.arctanh)),
        "atanh",
        "atanh",
        names=("input", "out"),
        notes=("1 and -1 give infinity; real numbers beyond give NaN.",),
    ),
    Row(
        "Log2",
        "Logarithm to base 2 of each element.",
        "out = \\log_2 self",
        fixed(_logarithm(2, np.log2)),
        "log2",
        "log",
        NUMBERS,
        notes=("0 gives negative infinity; negative real numbers give NaN.",),
        const_out=True,
    ),
    Row(
        "Log10",
        "Logarithm to base 10 of each element.",
        "out = \\log_{10} self",
        fixed(_logarithm(10, np.log10)),
        "log10",
        "log",
        NUMBERS,
        notes=("0 gives negative infinity; negative real numbers give NaN.",),
    ),
    Row(
        "Exp2",
        "Power of 2 of each element.",
        "out = 2^{self}",
        fixed(_power_of_two),
        "exp2",
        "exp2",
        REAL,
    ),
    Row(
        "Frac",
        "What is left of each element without its whole part.",
        "out = input - trunc(input)",
        fixed(_fraction),
        "frac",
        "frac",
        (*FLOATS, *INTEGERS),
        floating=False,
        same=("type",),
        names=("input", "out"),
        notes=("It has the sign of the element; of integers it is 0.",),
    ),
)
for _row in ROWS:
    replace(_row, origin=DOCUMENTED).define(MORE_UNARY)
