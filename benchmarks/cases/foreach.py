"""Operators over lists of tensors, beside loops over the lists: few large tensors, and many small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.cases.case import ELEMENTS, Array, Case, f, floats, scalar

Functions = tuple[tuple[str, np.ufunc], ...]
List = list[Array]

_HALF = f(0.5)
_SIGNS: Functions = (
    ("Add", np.add),
    ("Sub", np.subtract),
    ("Mul", np.multiply),
    ("Div", np.divide),
)
_OTHERS: Functions = (("Maximum", np.maximum), ("Minimum", np.minimum), ("Pow", np.power))
_ONE = (
    ("Abs", np.abs),
    ("Exp", np.exp),
    ("Neg", np.negative),
    ("Reciprocal", np.reciprocal),
    ("Sqrt", np.sqrt),
    ("Copy", np.copy),
)
MANY = (
    "ForeachCopy",
    "ForeachAddScalarV2",
    "ForeachAddListV2",
    "ForeachLerpList",
    "ForeachNorm",
    "ForeachZeroInplace",
    "ForeachNonFiniteCheckAndUnscale",
)
"""One operator of each kind, to be called with many small tensors too."""


def cases() -> Iterator[Case]:
    yield from _of_tensors("8 tensors", 8)
    for case in _of_tensors("256 tensors", 256):
        if case.operator in MANY:
            yield case


def _each(function: Callable[..., Array], *lists: List) -> Callable[[], List]:
    return lambda: [function(*row) for row in zip(*lists, strict=True)]


def _lists(count: int) -> list[List]:
    return [list(x.reshape(count, -1)) for x in floats(ELEMENTS, count=3)]


def _of_tensors(title: str, count: int) -> Iterator[Case]:
    x, y, z = _lists(count)
    out = [np.empty_like(part) for part in x]
    for name, function in _ONE:
        yield Case(f"Foreach{name}", (x, out), _each(function, x), title)
    yield from _with_numbers(title, x, out)
    yield from _pairs(title, x, y, z, out)
    yield from _threes(title, x, y, z, out)
    yield from _others(title, x)


def _with_numbers(title: str, x: List, out: List) -> Iterator[Case]:
    half, number = np.full((), _HALF), scalar(0.5)
    numbers = (number,) * len(x)
    for name, function in _SIGNS:
        expression = _each(partial(_with_half, function), x)
        yield Case(f"Foreach{name}ScalarV2", (x, number, out), expression, title)
        yield Case(f"Foreach{name}Scalar", (x, half, out), expression, title)
        yield Case(f"Foreach{name}ScalarList", (x, numbers, out), expression, title)
    for name, function in _OTHERS:
        expression = _each(partial(_with_half, function), x)
        yield Case(f"Foreach{name}ScalarV2", (x, number, out), expression, title)


def _with_half(function: np.ufunc, x: Array) -> Array:
    found: Array = function(x, _HALF)
    return found


def _pairs(title: str, x: List, y: List, z: List, out: List) -> Iterator[Case]:
    def scaled(function: np.ufunc) -> Callable[[], List]:
        return _each(lambda a, b: function(a, _HALF * b), x, y)

    half, number = np.full((), _HALF), scalar(0.5)
    for name, function in (
        ("Mul", np.multiply),
        ("Div", np.divide),
        ("Maximum", np.maximum),
        ("Minimum", np.minimum),
    ):
        yield Case(f"Foreach{name}List", (x, y, out), _each(function, x, y), title)
    yield Case("ForeachAddList", (x, y, half, out), scaled(np.add), title)
    yield Case("ForeachAddListV2", (x, y, number, out), scaled(np.add), title)
    yield Case("ForeachSubListV2", (x, y, number, out), scaled(np.subtract), title)
    yield Case(
        "ForeachLerpScalar",
        (x, y, number, out),
        _each(lambda a, b: a + _HALF * (b - a), x, y),
        title,
    )
    yield Case(
        "ForeachLerpList", (x, y, z, out), _each(lambda a, b, w: a + w * (b - a), x, y, z), title
    )


def _threes(title: str, x: List, y: List, z: List, out: List) -> Iterator[Case]:
    one, halves, number = np.full((), _HALF), np.full(len(x), _HALF), scalar(0.5)
    for name, expression in (
        ("Addcmul", _each(lambda a, b, c: a + _HALF * b * c, x, y, z)),
        ("Addcdiv", _each(lambda a, b, c: a + _HALF * b / c, x, y, z)),
    ):
        yield Case(f"Foreach{name}ScalarV2", (x, y, z, number, out), expression, title)
        yield Case(f"Foreach{name}Scalar", (x, y, z, one, out), expression, title)
        yield Case(f"Foreach{name}ScalarList", (x, y, z, halves, out), expression, title)


def _others(title: str, x: List) -> Iterator[Case]:
    norms: List = [np.empty((), f) for _ in x]
    ours, theirs = ([part.copy() for part in x] for _ in range(2))
    yield Case("ForeachNorm", (x, scalar(2), norms), _each(np.linalg.norm, x), title)

    def zero() -> None:
        for part in theirs:
            part.fill(0)

    yield Case("ForeachZeroInplace", (ours,), zero, title)
    found, one = np.zeros(1, f), np.ones(1, f)

    def unscale() -> bool:
        finite = True
        for part in theirs:
            finite &= bool(np.isfinite(part).all())
            part *= one
        return finite

    yield Case("ForeachNonFiniteCheckAndUnscale", (ours, found, one), unscale, title)
