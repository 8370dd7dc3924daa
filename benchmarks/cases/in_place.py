"""Functions and comparisons that write their first tensor.

Repeated, they end at numbers that are not those of other cases, but at the same as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.cases.case import ELEMENTS, Array, Case, f, floats, scalar
from benchmarks.cases.pointwise import COMPARISONS, POSITIVE, SIGNED, erf

_WITHOUT = ("Abs", "Sign", "Square")
"""Functions that have no such form."""


def cases() -> Iterator[Case]:
    x, y = floats(ELEMENTS, count=2)
    for name, function in (*POSITIVE, *SIGNED):
        if name not in _WITHOUT:
            ours, theirs = x.copy(), x.copy()
            yield Case(f"Inplace{name}", (ours,), partial(function, theirs, out=theirs))
    for name, compute in (
        ("Acosh", np.arccosh),
        ("Frac", lambda own: own - np.trunc(own)),
        ("Rsqrt", lambda own: 1 / np.sqrt(own)),
        ("Erf", erf),
        ("Sigmoid", lambda own: 1 / (1 + np.exp(-own))),
    ):
        yield Case(f"Inplace{name}", (x.copy(),), _assigned(compute, x.copy()))
    yield _leaky_relu(x - y)
    yield from _comparisons(x, y)


def _assigned(compute: Callable[[Array], Array], own: Array) -> Callable[[], None]:
    return lambda: np.copyto(own, compute(own))


def _leaky_relu(x: Array) -> Case:
    """With the slope 1, so that no number fades."""
    expression = _assigned(lambda own: np.where(own > 0, own, f(1) * own), x.copy())
    return Case("InplaceLeakyRelu", (x.copy(), scalar(1)), expression)


def _comparisons(x: Array, y: Array) -> Iterator[Case]:
    for name, function in COMPARISONS:
        of_tensor = _assigned(partial(_compared, function, y), x.copy())
        yield Case(f"Inplace{name}Tensor", (x.copy(), y), of_tensor)
        of_number = _assigned(partial(_compared, function, f(0.5)), x.copy())
        yield Case(f"Inplace{name}Scalar", (x.copy(), scalar(0.5)), of_number)


def _compared(function: np.ufunc, other: Array | np.float32, own: Array) -> Array:
    found: Array = function(own, other)
    return found
