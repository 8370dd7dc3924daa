"""Ways to reduce: sums, products, extremes, truth, spread, and positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.tensors import Scalar
from aclnn_server.operators.engines.axes import Axes
from aclnn_server.operators.engines.reducing import Partial, multiply_along, sum_along
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]

BOOLEAN = np.dtype(np.bool_)
_SINGLE = np.dtype(np.float32)
_DOUBLE = np.dtype(np.float64)
_WHOLE = np.dtype(np.int64)
_COMPLEX = np.dtype(np.complex128)


def computed(dtype: DType) -> np.dtype[Any]:
    """Type that elements of a type are computed in: FLOAT for the 16-bit floats, else their own."""
    assert dtype.numpy is not None
    return _SINGLE if dtype in (dtypes.FLOAT16, dtypes.BF16) else dtype.numpy


def exact(dtype: DType) -> np.dtype[Any]:
    """The widest type of the same kind."""
    kinds = {"float": _DOUBLE, "complex": _COMPLEX, "bool": BOOLEAN}
    return kinds.get(dtype.kind, _WHOLE)


def modular(dtype: DType) -> np.dtype[Any]:
    """The widest type of the same kind, or an integer type itself: it overflows as it would later."""
    wide = exact(dtype)
    assert dtype.numpy is not None
    return dtype.numpy if wide == _WHOLE else wide


@dataclass(frozen=True, slots=True)
class Sum:
    """Sums, or means; wide integers overflow as they do in C."""

    loaded: np.dtype[Any]
    wide: np.dtype[Any]
    mean: bool = False

    @property
    def partial(self) -> tuple[np.dtype[Any], ...]:
        """One sum."""
        return (self.wide,)

    def piece(self, block: Array, axes: Axes, start: int, scratch: Scratch) -> Partial:
        """Sums a block."""
        return (sum_along(block, axes, self.wide),)

    def merge(self, total: Partial, piece: Partial) -> None:
        """Adds."""
        np.add(total[0], piece[0], out=total[0])

    def results(self, total: Partial, length: int) -> Partial:
        """The sum, or the sum divided by the number of elements; of integers, its whole part."""
        if not self.mean:
            return total
        return (total[0] / length,)


@dataclass(frozen=True, slots=True)
class Gather:
    """What a ufunc makes of all elements: the greatest, the least, all, any, the product."""

    ufunc: np.ufunc
    loaded: np.dtype[Any]
    made: np.dtype[Any]
    """Type of what is made."""

    @property
    def partial(self) -> tuple[np.dtype[Any], ...]:
        """One element."""
        return (self.made,)

    def piece(self, block: Array, axes: Axes, start: int, scratch: Scratch) -> Partial:
        """Reduces a block."""
        if self.ufunc is np.multiply:
            return (multiply_along(block, axes),)
        found = self.ufunc.reduce(block, axis=axes)
        return (found.astype(self.made, copy=False),)

    def merge(self, total: Partial, piece: Partial) -> None:
        """Takes another element in."""
        self.ufunc(total[0], piece[0], out=total[0])

    def results(self, total: Partial, length: int) -> Partial:
        """The element."""
        return total


@dataclass(frozen=True, slots=True)
class Spread:
    """Variances or their roots, from mean and sum of squares of each block, merged as Chan and others do."""

    correction: int
    root: bool
    loaded: np.dtype[Any] = _SINGLE
    partial: tuple[np.dtype[Any], ...] = (_DOUBLE, _DOUBLE, _DOUBLE)
    """Number of elements, their mean, and the sum of the squares of their distances from it."""

    def piece(self, block: Array, axes: Axes, start: int, scratch: Scratch) -> Partial:
        """Finds the three of a block; distances are measured from its rounded mean."""
        sums = sum_along(block, axes, _DOUBLE)
        count = block.size // max(sums.size, 1)
        mean = sums / count
        center = mean.astype(_SINGLE)
        distance = scratch.like(block)
        np.subtract(block, np.expand_dims(center, axes), out=distance)
        np.multiply(distance, distance, out=distance)
        squares = sum_along(distance, axes, _DOUBLE) - count * (mean - center) ** 2
        return np.full_like(squares, count), mean, squares

    def merge(self, total: Partial, piece: Partial) -> None:
        """Merges the three."""
        count, mean, squares = total
        more, other, added = piece
        both, delta = count + more, other - mean
        squares += added + delta * delta * count * more / both
        mean += delta * more / both
        count[...] = both

    def results(self, total: Partial, length: int) -> Partial:
        """The variance, or its root; NaN for a single element, infinite where correction is more."""
        squares = np.maximum(total[2], 0)
        if self.correction > 1 and length <= self.correction and length > 1:
            return (np.full_like(squares, np.inf),)
        variance = squares / (length - self.correction)
        if length == 1 and self.correction >= 1:
            variance = np.full_like(squares, np.nan)
        return (np.sqrt(variance) if self.root else variance,)


@dataclass(frozen=True, slots=True)
class SpreadAndMean(Spread):
    """Standard deviations or variances, and means."""

    def results(self, total: Partial, length: int) -> Partial:
        """The spread and the mean."""
        # Of a class with slots, super() without arguments finds another class.
        return (*Spread.results(self, total, length), total[1])


@dataclass(frozen=True, slots=True)
class LogSum:
    """Logarithms of sums of exponentials, from the greatest element and a sum relative to it."""

    loaded: np.dtype[Any] = _SINGLE
    partial: tuple[np.dtype[Any], ...] = (_DOUBLE, _DOUBLE)
    """The greatest element, or 0 where it is not finite, and the sum."""

    def piece(self, block: Array, axes: Axes, start: int, scratch: Scratch) -> Partial:
        """Finds both of a block."""
        greatest = np.maximum.reduce(block, axis=axes)
        greatest = np.where(np.isfinite(greatest), greatest, _SINGLE.type(0))
        powers = scratch.like(block)
        np.subtract(block, np.expand_dims(greatest, axes), out=powers)
        np.exp(powers, out=powers)
        return greatest.astype(_DOUBLE), sum_along(powers, axes, _DOUBLE)

    def merge(self, total: Partial, piece: Partial) -> None:
        """Adds the sums, relative to the greater element."""
        greatest = np.maximum(total[0], piece[0])
        np.multiply(total[1], np.exp(total[0] - greatest), out=total[1])
        np.add(total[1], piece[1] * np.exp(piece[0] - greatest), out=total[1])
        np.copyto(total[0], greatest)

    def results(self, total: Partial, length: int) -> Partial:
        """The logarithm."""
        return (np.log(total[1]) + total[0],)


@dataclass(frozen=True, slots=True)
class Norm:
    """Norms: the root of the sum of powers of magnitudes, in FLOAT and, where they are added, in DOUBLE."""

    exponent: float
    """Infinite for the largest or least magnitude; 0 counts what is other than 0."""
    loaded: np.dtype[Any] = _SINGLE
    partial: tuple[np.dtype[Any], ...] = (_DOUBLE,)

    def piece(self, block: Array, axes: Axes, start: int, scratch: Scratch) -> Partial:
        """Adds the powers of a block up, or finds its extreme."""
        powers = scratch.like(block)
        if self.exponent == 2:
            np.multiply(block, block, out=powers)
        elif self.exponent == 0:
            np.copyto(powers, block != 0)
        else:
            np.abs(block, out=powers)
            if math.isinf(self.exponent):
                extreme = np.maximum if self.exponent > 0 else np.minimum
                return (extreme.reduce(powers, axis=axes).astype(_DOUBLE),)
            if self.exponent != 1:
                np.power(powers, _SINGLE.type(self.exponent), out=powers)
        return (sum_along(powers, axes, _DOUBLE),)

    def merge(self, total: Partial, piece: Partial) -> None:
        """Adds, or takes the extreme."""
        if math.isinf(self.exponent):
            extreme = np.maximum if self.exponent > 0 else np.minimum
            extreme(total[0], piece[0], out=total[0])
        else:
            np.add(total[0], piece[0], out=total[0])

    def results(self, total: Partial, length: int) -> Partial:
        """The root."""
        if self.exponent in (0, 1) or math.isinf(self.exponent):
            return total
        return (np.sqrt(total[0]) if self.exponent == 2 else total[0] ** (1 / self.exponent),)


def exponent_of(scalar: Scalar) -> float:
    """The exponent of a norm that an aclScalar gives."""
    value = scalar.value
    return float(value.real if isinstance(value, complex) else value)


@dataclass(frozen=True, slots=True)
class Peak:
    """The greatest or least element and its first position; NaN is the greatest and the least of all."""

    loaded: np.dtype[Any]
    choose: Callable[[Array, Array], tuple[Array, ...]] = lambda value, position: (value, position)
    """Which of the two are wanted, in order."""
    least: bool = False

    @property
    def partial(self) -> tuple[np.dtype[Any], ...]:
        """The element and its position."""
        return (self.loaded, _WHOLE)

    def piece(self, block: Array, axes: Axes, start: int, scratch: Scratch) -> Partial:
        """Finds both in a block."""
        (axis,) = axes
        find = np.argmin if self.least else np.argmax
        found = find(block, axis=axis, keepdims=True)
        value = np.take_along_axis(block, found, axis)
        return value.squeeze(axis), found.squeeze(axis) + start

    def merge(self, total: Partial, piece: Partial) -> None:
        """Takes what is greater or less, or NaN for the first time."""
        value, position = total
        better = piece[0] < value if self.least else piece[0] > value
        if self.loaded.kind == "f":
            better |= np.isnan(piece[0]) & ~np.isnan(value)
        np.copyto(value, piece[0], where=better)
        np.copyto(position, piece[1], where=better)

    def results(self, total: Partial, length: int) -> Partial:
        """What is wanted of the two."""
        return self.choose(*total)
