"""Kernels of the normalisations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.engines.axes import Axes
from aclnn_server.operators.engines.reducing import total_along
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]
Outputs = tuple[Array, ...]

_ONE, _ZERO = np.float32(1), np.float32(0)


@dataclass(frozen=True, slots=True)
class LayerNormRows:
    """Kernel of the normalisation of layers."""

    eps: float
    weight: bool
    bias: bool
    statistics: tuple[bool, bool]
    """Whether mean and 1 / standard deviation are wanted."""

    def __call__(
        self, x: Array, *affine: Array, out: Outputs, axes: Axes, scratch: Scratch
    ) -> None:
        """Writes the normalised rows, and their statistics."""
        length = _length(x, axes)
        mean = total_along(x, axes) / length
        centered, squares = scratch.like(x), scratch.like(x)
        np.subtract(x, mean, out=centered)
        np.multiply(centered, centered, out=squares)
        variance = total_along(squares, axes) / length
        rstd = np.reciprocal(np.sqrt(variance + np.float32(self.eps)))
        np.multiply(centered, rstd, out=centered if self.weight or self.bias else out[0])
        self._scale(centered, list(affine), out[0])
        wanted = [array for array, flag in zip((mean, rstd), self.statistics, strict=True) if flag]
        for target, array in zip(out[1:], wanted, strict=True):
            np.copyto(target, array)

    def _scale(self, centered: Array, affine: list[Array], out: Array) -> None:
        if self.weight:
            np.multiply(centered, affine.pop(0), out=centered if self.bias else out)
        if self.bias:
            np.add(centered, affine.pop(0), out=out)


@dataclass(frozen=True, slots=True)
class RmsNormRows:
    """Kernel of the normalisation by root mean square."""

    eps: float

    def __call__(
        self, x: Array, gamma: Array, *, out: Outputs, axes: Axes, scratch: Scratch
    ) -> None:
        """Writes the normalised rows, and 1 / root mean square of each."""
        length = _length(x, axes)
        scaled = scratch.like(x)
        np.multiply(x, x, out=scaled)
        square = total_along(scaled, axes) / length
        rstd = np.reciprocal(np.sqrt(square + np.float32(self.eps)))
        np.multiply(x, rstd, out=scaled)
        np.multiply(scaled, gamma, out=out[0])
        np.copyto(out[1], rstd)


def _length(block: Array, axes: Axes) -> np.float32:
    """Elements of a row."""
    return np.float32(math.prod(block.shape[axis] for axis in axes))


class BatchNormBlock:
    """Kernel of the normalisation of batches with known statistics.

    Args:
        eps: added to the variance.
        present: whether weight, bias, mean and variance are there.
    """

    def __init__(self, eps: float, present: Sequence[bool]) -> None:
        self._eps = np.float32(eps)
        self._present = tuple(present)

    def __call__(self, x: Array, *numbers: Array, out: Array, scratch: Scratch) -> None:
        """Writes (x - mean) / sqrt(variance + eps) * weight + bias."""
        found = iter(numbers)
        weight, bias, mean, variance = (next(found) if flag else None for flag in self._present)
        spread = np.sqrt((_ONE if variance is None else variance) + self._eps)
        scale = np.divide(_ONE if weight is None else weight, spread)
        # What is read later must not be what is written first.
        shift = _ZERO if bias is None else bias.copy()
        np.subtract(x, _ZERO if mean is None else mean, out=out)
        np.multiply(out, scale, out=out)
        np.add(out, shift, out=out)


@dataclass(frozen=True, slots=True)
class BatchNormRows:
    """Kernel of the normalisation of batches with their own statistics, a row per channel."""

    eps: float
    momentum: float
    weight: bool
    bias: bool
    running: tuple[bool, bool]
    """Whether running mean and variance are there, to be updated."""

    def __call__(
        self, x: Array, *numbers: Array, out: Outputs, axes: Axes, scratch: Scratch
    ) -> None:
        """Writes the normalised rows, their statistics and the running ones."""
        length = _length(x, axes)
        affine, known = list(numbers), list(numbers[self.weight + self.bias :])
        mean = total_along(x, axes) / length
        centered, squares = scratch.like(x), scratch.like(x)
        np.subtract(x, mean, out=centered)
        np.multiply(centered, centered, out=squares)
        total = total_along(squares, axes)
        rstd = np.reciprocal(np.sqrt(total / length + np.float32(self.eps)))
        scale = rstd * affine.pop(0) if self.weight else rstd
        shift = affine.pop(0).copy() if self.bias else _ZERO
        updates = (mean, total / (length - _ONE))
        fresh = [
            self._updated(known.pop(0), update)
            for update, flag in zip(updates, self.running, strict=True)
            if flag
        ]
        np.multiply(centered, scale, out=centered)
        np.add(centered, shift, out=out[0])
        for target, array in zip(out[1:], (mean, rstd, *fresh), strict=True):
            np.copyto(target, array)

    def _updated(self, old: Array, new: Array) -> Array:
        share = np.float32(self.momentum)
        updated: Array = old * (_ONE - share) + new * share
        return updated
