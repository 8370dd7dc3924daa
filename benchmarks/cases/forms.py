"""Further forms of arithmetic: with bounds, a number first, remainders, or in place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.cases.case import ELEMENTS, Array, Case, f, floats, scalar

_FLOOR = 2
"""Mode of DivMod."""


def cases() -> Iterator[Case]:
    x, y, z = floats(ELEMENTS, count=3)
    yield from _bounds(x, y, z)
    yield from _sums(x, y)
    yield from _remainders(x, y)
    yield from _in_place(x, y)
    yield from _remainders_in_place(x)


def _bounds(x: Array, y: Array, z: Array) -> Iterator[Case]:
    out, half, ours, theirs = np.empty_like(x), scalar(0.5), x.copy(), x.copy()
    least, most = partial(np.maximum, out=theirs), partial(np.minimum, out=theirs)
    yield Case("ClampMin", (x, half, out), lambda: np.maximum(x, f(0.5)))
    yield Case("ClampMinTensor", (x, y, out), lambda: np.maximum(x, y))
    yield Case("ClampMaxTensor", (x, y, out), lambda: np.minimum(x, y))
    yield Case("ClampTensor", (x, y, z, out), lambda: np.clip(x, y, z))
    yield Case("InplaceClampMinTensor", (ours, y), lambda: least(theirs, y))
    yield Case("InplaceClampMaxTensor", (ours, y), lambda: most(theirs, y))
    yield Case("InplaceClampMax", (ours, half), lambda: most(theirs, f(0.5)))


def _sums(x: Array, y: Array) -> Iterator[Case]:
    out, one, half = np.empty_like(x), scalar(1), scalar(0.5)
    yield Case("Rsub", (x, y, one, out), lambda: y - x)
    yield Case("Rsubs", (x, half, one, out), lambda: f(0.5) - x)
    yield Case("Lerps", (x, y, half, out), lambda: x + f(0.5) * (y - x))
    yield Case("PowScalarTensor", (half, x, out), lambda: f(0.5) ** x)


def _remainders(x: Array, y: Array) -> Iterator[Case]:
    out, third = np.empty_like(x), scalar(0.3)
    yield Case("FloorDivide", (x, y, out), lambda: x // y)
    yield Case("FloorDivides", (x, third, out), lambda: x // f(0.3))
    yield Case("DivMods", (x, third, _FLOOR, out), lambda: x // f(0.3))
    yield Case("RemainderTensorTensor", (x, y, out), lambda: x % y)
    yield Case("RemainderTensorScalar", (x, third, out), lambda: x % f(0.3))
    yield Case("RemainderScalarTensor", (third, x, out), lambda: f(0.3) % x)
    yield Case("FmodTensor", (x, y, out), lambda: np.fmod(x, y))
    yield Case("FmodScalar", (x, third, out), lambda: np.fmod(x, f(0.3)))


def _in_place(x: Array, y: Array) -> Iterator[Case]:
    """The numbers that repeating ends in are none that are slow to compute with."""
    ours, theirs, one = x.copy(), x.copy(), scalar(1)
    same = np.ones_like(x)

    def lerp(weight: Array | np.float32) -> None:
        np.add(theirs, weight * (y - theirs), out=theirs)

    yield Case("InplaceSubs", (ours, scalar(0), one), lambda: np.subtract(theirs, 0, out=theirs))
    yield Case("InplaceDivs", (ours, one), lambda: np.divide(theirs, f(1), out=theirs))
    yield Case("InplaceLerp", (ours, y, same), lambda: lerp(same))
    yield Case("InplaceLerps", (ours, y, scalar(0.5)), lambda: lerp(f(0.5)))
    power = partial(np.power, out=theirs)
    yield Case("InplacePowTensorTensor", (ours, same), lambda: power(theirs, same))
    yield Case("InplacePowTensorScalar", (ours, one), lambda: power(theirs, f(1)))


def _remainders_in_place(x: Array) -> Iterator[Case]:
    """By 1, so that whole numbers stay what they are."""
    ours, theirs, one = np.ceil(x * 9), np.ceil(x * 9), scalar(1)
    same = np.ones_like(x)
    floor = partial(np.floor_divide, out=theirs)
    yield Case("InplaceFloorDivide", (ours, same), lambda: floor(theirs, same))
    yield Case("InplaceFloorDivides", (ours, one), lambda: floor(theirs, f(1)))
    yield Case("InplaceDivMod", (ours, same, _FLOOR), lambda: floor(theirs, same))
    yield Case("InplaceDivMods", (ours, one, _FLOOR), lambda: floor(theirs, f(1)))
    ours, theirs, third = x.copy(), x.copy(), scalar(0.3)
    tensor = np.full_like(x, 0.3)
    for name, function in (("Remainder", np.remainder), ("Fmod", np.fmod)):
        in_place = partial(function, theirs, out=theirs)
        many, single = (f"{name}TensorTensor", f"{name}TensorScalar")
        if name == "Fmod":
            many, single = "FmodTensor", "FmodScalar"
        yield Case(f"Inplace{many}", (ours, tensor), partial(in_place, tensor))
        yield Case(f"Inplace{single}", (ours, third), partial(in_place, f(0.3)))
