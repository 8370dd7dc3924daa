"""Operators that compute each element of the output from one of each input."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.cases.case import ELEMENTS, Array, Case, f, floats, scalar

_ROOT, _CUBE = f(math.sqrt(2 / math.pi)), f(0.044715)

Functions = tuple[tuple[str, np.ufunc], ...]

POSITIVE: Functions = (
    ("Exp", np.exp),
    ("Expm1", np.expm1),
    ("Log", np.log),
    ("Log1p", np.log1p),
    ("Sqrt", np.sqrt),
    ("Reciprocal", np.reciprocal),
    ("Sin", np.sin),
    ("Cos", np.cos),
    ("Tanh", np.tanh),
    ("Tan", np.tan),
    ("Asin", np.arcsin),
    ("Acos", np.arccos),
    ("Atan", np.arctan),
    ("Sinh", np.sinh),
    ("Cosh", np.cosh),
    ("Asinh", np.arcsinh),
    ("Atanh", np.arctanh),
    ("Exp2", np.exp2),
    ("Log2", np.log2),
    ("Log10", np.log10),
)
SIGNED: Functions = (
    ("Abs", np.abs),
    ("Neg", np.negative),
    ("Sign", np.sign),
    ("Square", np.square),
    ("Floor", np.floor),
    ("Ceil", np.ceil),
    ("Round", np.rint),
    ("Trunc", np.trunc),
)
COMPARISONS: Functions = (
    ("Eq", np.equal),
    ("Ne", np.not_equal),
    ("Lt", np.less),
    ("Le", np.less_equal),
    ("Gt", np.greater),
    ("Ge", np.greater_equal),
)


def cases() -> Iterator[Case]:
    x, y, z = floats(ELEMENTS, count=3)
    yield from _arithmetic(x, y, z)
    yield from _in_place(x)
    yield from _unary(x)
    yield from _activations(x, y)
    yield from _gradients(x, y)
    yield from _truth(x, y)


def _arithmetic(x: Array, y: Array, z: Array) -> Iterator[Case]:
    out, one, half = np.empty_like(x), scalar(1), scalar(0.5)
    yield Case("Add", (x, y, one, out), lambda: x + y)
    yield Case("Add", (x, y, half, out), lambda: x + f(0.5) * y, "alpha 0.5")
    yield Case("Adds", (x, half, one, out), lambda: x + f(0.5))
    yield Case("Sub", (x, y, one, out), lambda: x - y)
    yield Case("Subs", (x, half, one, out), lambda: x - f(0.5))
    yield Case("Mul", (x, y, out), lambda: x * y)
    yield Case("Muls", (x, half, out), lambda: x * f(0.5))
    yield Case("Div", (x, y, out), lambda: x / y)
    yield Case("Divs", (x, half, out), lambda: x / f(0.5))
    yield Case("DivMod", (x, y, 2, out), lambda: np.floor(x / y))
    yield Case("Addcmul", (x, y, z, half, out), lambda: x + f(0.5) * y * z)
    yield Case("Addcdiv", (x, y, z, half, out), lambda: x + f(0.5) * y / z)
    yield Case("Lerp", (x, y, z, out), lambda: x + z * (y - x))
    yield Case("PowTensorTensor", (x, y, out), lambda: x**y)
    yield Case("PowTensorScalar", (x, scalar(2.5), out), lambda: x ** f(2.5))
    yield Case("Maximum", (x, y, out), lambda: np.maximum(x, y))
    yield Case("Minimum", (x, y, out), lambda: np.minimum(x, y))
    yield Case("Clamp", (x, scalar(0.3), half, out), lambda: np.clip(x, f(0.3), f(0.5)))
    yield Case("ClampMax", (x, half, out), lambda: np.minimum(x, f(0.5)))


def _in_place(x: Array) -> Iterator[Case]:
    """What is added is 0 and what is multiplied by is 1, so that no number grows or fades by repeating."""
    ours, theirs = x.copy(), x.copy()
    none, same, one = np.zeros_like(x), np.ones_like(x), scalar(1)
    add, multiply = partial(np.add, out=theirs), partial(np.multiply, out=theirs)
    yield Case("InplaceAdd", (ours, none, one), lambda: add(theirs, none))
    yield Case("InplaceAdds", (ours, scalar(0), one), lambda: add(theirs, f(0)))
    yield Case("InplaceSub", (ours, none, one), lambda: np.subtract(theirs, none, out=theirs))
    yield Case("InplaceMul", (ours, same), lambda: multiply(theirs, same))
    yield Case("InplaceMuls", (ours, one), lambda: multiply(theirs, f(1)))
    yield Case("InplaceDiv", (ours, same), lambda: np.divide(theirs, same, out=theirs))
    yield Case("InplaceAddcmul", (ours, none, same, one), lambda: add(theirs, none * same))
    yield Case("InplaceAddcdiv", (ours, none, same, one), lambda: add(theirs, none / same))
    yield Case("InplaceRelu", (ours,), lambda: np.maximum(theirs, f(0), out=theirs))


def _unary(x: Array) -> Iterator[Case]:
    out, signed = np.empty_like(x), (x - f(0.5)) * f(8)
    for name, function in POSITIVE:
        yield Case(name, (x, out), partial(function, x))
    for name, function in SIGNED:
        yield Case(name, (signed, out), partial(function, signed))
    above = x + 1
    yield Case("Acosh", (above, out), lambda: np.arccosh(above))
    yield Case("Frac", (signed, out), lambda: signed - np.trunc(signed))
    yield Case("Rsqrt", (x, out), lambda: 1 / np.sqrt(x))
    yield Case("Erf", (x, out), lambda: erf(x))


def erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), f)


def _activations(x: Array, y: Array) -> Iterator[Case]:
    out, signed = np.empty_like(x), x - y
    one, twenty = scalar(1), scalar(20)
    yield Case("Relu", (signed, out), lambda: np.maximum(signed, 0))
    yield Case(
        "LeakyRelu",
        (signed, scalar(0.1), out),
        lambda: np.where(signed > 0, signed, f(0.1) * signed),
    )
    yield Case("Sigmoid", (signed, out), lambda: 1 / (1 + np.exp(-signed)))
    yield Case("Silu", (signed, out), lambda: signed / (1 + np.exp(-signed)))
    yield Case(
        "Softplus",
        (signed, one, twenty, out),
        lambda: np.where(signed > f(20), signed, np.log1p(np.exp(signed))),
    )
    yield Case("LogSigmoid", (signed, out), lambda: -np.logaddexp(f(0), -signed))
    yield Case(
        "Gelu", (signed, out), lambda: f(0.5) * signed * (1 + erf(signed * f(math.sqrt(0.5))))
    )
    yield Case(
        "GeluV2",
        (signed, 1, out),
        lambda: (
            f(0.5) * signed * (1 + np.tanh(_ROOT * (signed + _CUBE * signed * signed * signed)))
        ),
    )


def _gradients(x: Array, y: Array) -> Iterator[Case]:
    out, signed = np.empty_like(x), x - y

    def silu() -> object:
        share = 1 / (1 + np.exp(-signed))
        return x * share * (1 + signed * (1 - share))

    def gelu() -> object:
        slope = f(0.5) * (1 + erf(signed * f(math.sqrt(0.5))))
        return x * (slope + signed * np.exp(f(-0.5) * signed * signed) * f(0.3989423))

    yield Case(
        "ThresholdBackward",
        (x, y, scalar(0.5), out),
        lambda: np.where(y > f(0.5), x, f(0)),
    )
    yield Case(
        "LeakyReluBackward",
        (x, signed, scalar(0.1), False, out),
        lambda: np.where(signed > 0, x, f(0.1) * x),
    )
    yield Case("SigmoidBackward", (x, y, out), lambda: x * y * (1 - y))
    yield Case("TanhBackward", (x, y, out), lambda: x * (1 - y * y))
    yield Case("SiluBackward", (x, signed, out), silu)
    yield Case("GeluBackward", (x, signed, out), gelu)


def _truth(x: Array, y: Array) -> Iterator[Case]:
    out, half = np.empty(x.shape, bool), scalar(0.5)
    for name, function in COMPARISONS:
        yield Case(f"{name}Tensor", (x, y, out), partial(function, x, y))
        yield Case(f"{name}Scalar", (x, half, out), partial(function, x, f(0.5)))
    yield Case("LogicalAnd", (x, y, out), lambda: np.logical_and(x, y))
    yield Case("LogicalOr", (x, y, out), lambda: np.logical_or(x, y))
    yield Case("LogicalNot", (x, out), lambda: np.logical_not(x))
    yield Case("IsFinite", (x, out), lambda: np.isfinite(x))
    yield Case("IsPosInf", (x, out), lambda: np.isposinf(x))
    yield Case("IsNegInf", (x, out), lambda: np.isneginf(x))
    chosen = x < y
    yield Case("SWhere", (chosen, x, y, np.empty_like(x)), lambda: np.where(chosen, x, y))
