"""Kernels of the gradients of normalisations; see :data:`aclnn_server.operators.engines.rows.RowKernel`."""

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


class _Numbers:
    """The inputs behind gradient and x, of which some are missing."""

    def __init__(self, arrays: Sequence[Array], present: Sequence[bool]) -> None:
        found = iter(arrays)
        self._arrays = [next(found) if flag else None for flag in present]

    def get(self, place: int, missing: np.float32) -> Any:  # noqa: ANN401 - an array or a number
        array = self._arrays[place]
        # A copy: outputs may be the same memory.
        return missing if array is None else array.copy()


@dataclass(frozen=True, slots=True)
class NormGradientRows:
    """Kernel of the gradient of a row's normalisation, scaled by a weight of each element."""

    centered: bool
    """Whether a mean was subtracted."""
    weight: bool

    def __call__(
        self,
        grad: Array,
        x: Array,
        rstd: Array,
        *numbers: Array,
        out: Outputs,
        axes: Axes,
        scratch: Scratch,
    ) -> None:
        """Writes rstd * (g - mean(g) - y * mean(g * y)), with y normalised and g = grad * weight."""
        given = _Numbers(numbers, (self.centered, self.weight))
        mean, weight, scale = given.get(0, _ZERO), given.get(1, _ONE), rstd.copy()
        normal, slope = scratch.like(x), scratch.like(x)
        np.subtract(x, mean, out=normal)
        np.multiply(normal, scale, out=normal)
        np.multiply(grad, weight, out=slope)
        length = np.float32(math.prod(x.shape[axis] for axis in axes))
        target = out[0]
        np.multiply(slope, normal, out=target)
        along = total_along(target, axes) / length
        if self.centered:
            np.subtract(slope, total_along(slope, axes) / length, out=slope)
        np.multiply(normal, along, out=normal)
        np.subtract(slope, normal, out=slope)
        np.multiply(slope, scale, out=target)


@dataclass(frozen=True, slots=True)
class NormWeightRows:
    """Kernel of the gradients of a normalisation's weight and bias, each along the normalised rows."""

    centered: bool
    wanted: tuple[bool, bool]

    def __call__(
        self,
        grad: Array,
        x: Array,
        rstd: Array,
        *mean: Array,
        out: Outputs,
        axes: Axes,
        scratch: Scratch,
    ) -> None:
        """Writes the sums of grad * y and of grad, with y normalised."""
        results = []
        if self.wanted[0]:
            product = scratch.like(x)
            np.subtract(x, mean[0] if self.centered else _ZERO, out=product)
            np.multiply(product, rstd, out=product)
            np.multiply(product, grad, out=product)
            results.append(total_along(product, axes))
        if self.wanted[1]:
            results.append(total_along(grad, axes))
        for target, array in zip(out, results, strict=True):
            np.copyto(target, array)


@dataclass(frozen=True, slots=True)
class BatchNormGradientRows:
    """Kernel of the gradients of the normalisation of batches, a row per channel."""

    eps: float
    training: bool
    present: tuple[bool, bool, bool]
    """Whether weight, mean and spread are there."""
    wanted: tuple[bool, bool, bool]
    """Whether the gradients of input, weight and bias are."""

    def __call__(
        self, grad: Array, x: Array, *numbers: Array, out: Outputs, axes: Axes, scratch: Scratch
    ) -> None:
        """Writes the gradients; the spread is 1 / standard deviation in training, else the variance."""
        given = _Numbers(numbers, self.present)
        weight, mean, spread = (
            given.get(place, _ONE if place != 1 else _ZERO) for place in range(3)
        )
        rstd = spread if self.training else np.reciprocal(np.sqrt(spread + np.float32(self.eps)))
        normal, product = scratch.like(x), scratch.like(x)
        np.subtract(x, mean, out=normal)
        np.multiply(normal, rstd, out=normal)
        np.multiply(normal, grad, out=product)
        sums = total_along(product, axes), total_along(grad, axes)
        targets = list(out)
        if self.wanted[0]:
            target = targets.pop(0)
            if self.training:
                length = np.float32(math.prod(x.shape[axis] for axis in axes))
                np.multiply(normal, sums[0] / length, out=normal)
                np.subtract(grad, sums[1] / length, out=product)
                np.subtract(product, normal, out=product)
            else:
                np.copyto(product, grad)
            np.multiply(product, rstd * weight, out=target)
        for total, flag in zip(sums, self.wanted[1:], strict=True):
            if flag:
                np.copyto(targets.pop(0), total)
