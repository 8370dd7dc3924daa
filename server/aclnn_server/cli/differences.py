"""How far two results are from each other, and whether that is near enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes

Array = npt.NDArray[Any]

RELATIVE: Mapping[str, float] = {
    "FLOAT": 1e-4,
    "FLOAT16": 1e-3,
    "BF16": 4e-3,
    "DOUBLE": 1e-9,
    "COMPLEX64": 1e-4,
    "COMPLEX128": 1e-9,
}
"""Relative tolerance by element type, which is the absolute one as well; others must be equal. Those of
the 16- and 32-bit floats are what the vendor's unit tests allow."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What two elements may differ by: any one of the three is enough."""

    absolute: float | None = None
    """``None``: by element type."""
    relative: float | None = None
    """Of the left one; ``None``: by element type."""
    ulp: float | None = None
    """Steps of the element type; ``None``: not looked at."""

    def allows(self, left: Array, distance: Array, ulp: Array) -> Array:
        """Which elements are near enough."""
        default = RELATIVE.get(dtypes.dtype(left.dtype).name, 0.0)
        absolute = default if self.absolute is None else self.absolute
        relative = default if self.relative is None else self.relative
        bound = absolute + relative * np.abs(_wide(left))
        # A bound of infinity or NaN would allow everything.
        near = distance <= np.where(np.isfinite(bound), bound, absolute)
        if self.ulp is not None:
            near |= ulp <= self.ulp
        allowed: Array = near
        return allowed


@dataclass(frozen=True, slots=True)
class Difference:
    """How far two results of equal shape and type are from each other."""

    within: bool
    """Whether every element is within the tolerance."""
    differing: int
    """Elements that are not equal; NaN equals NaN."""
    elements: int
    max_absolute: float
    """Largest distance; NaN where one of two elements is."""
    max_relative: float
    """Largest distance as a part of the left element."""
    max_ulp: float
    """Most steps of the element type that lie between."""
    first: tuple[int, ...] | None
    """First index, in C order, at which they differ."""
    left: str
    """Left element there."""
    right: str
    """Right element there."""


def compare(left: Array, right: Array, tolerance: Tolerance) -> Difference:
    """Compares two results.

    Raises:
        ValueError: their shapes or types differ.
    """
    if left.shape != right.shape or left.dtype != right.dtype:
        raise ValueError(f"{left.dtype} {left.shape} and {right.dtype} {right.shape} are no pair")
    with np.errstate(all="ignore"):
        same = _same(left, right)
        distance = np.where(same, 0.0, np.abs(_wide(left) - _wide(right)))
        part = np.where(same, 0.0, distance / np.abs(_wide(left)))
        ulp = np.where(same, 0.0, ulp_between(left, right))
        within = same | tolerance.allows(left, distance, ulp)
    first = None if same.all() else tuple(map(int, np.argwhere(~same)[0]))
    return Difference(
        bool(within.all()),
        int((~same).sum()),
        left.size,
        _largest(distance),
        _largest(part),
        _largest(ulp),
        first,
        "" if first is None else str(left[first]),
        "" if first is None else str(right[first]),
    )


def _same(left: Array, right: Array) -> Array:
    if left.dtype.kind in "biu":
        return np.asarray(left == right)
    return np.asarray((left == right) | (np.isnan(left) & np.isnan(right)))


def _wide(array: Array) -> Array:
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.longdouble if array.dtype.itemsize == 8 else np.float64)


def ulp_between(left: Array, right: Array) -> Array:
    """Steps of the element type between elements; of a complex type, the larger of its two parts'."""
    if left.dtype.kind == "c":
        parts = (ulp_between(left.real, right.real), ulp_between(left.imag, right.imag))
        larger: Array = np.maximum(*parts)
        return larger
    if left.dtype.kind in "iub":
        between: Array = np.abs(_wide(left) - _wide(right))
        return between
    steps = np.abs(_place(left) - _place(right))
    known: Array = np.where(np.isnan(left) | np.isnan(right), np.nan, steps)
    return known


def _place(array: Array) -> Array:
    """The place of each float among all of its type, 0 at 0."""
    bits = np.array(array, order="C").view(f"i{array.dtype.itemsize}")
    magnitude = bits & np.iinfo(bits.dtype).max
    return np.where(bits < 0, -1, 1) * magnitude.astype(np.longdouble)


def _largest(array: Array) -> float:
    """NaN where there is one; 0 of nothing."""
    return float(array.max()) if array.size else 0.0


def number(value: float) -> float | str:
    """A number as JSON has it: text where it is none of its own."""
    return value if math.isfinite(value) else str(value)
