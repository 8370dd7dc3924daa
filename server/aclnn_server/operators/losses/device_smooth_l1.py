"""The smooth L1 loss and its gradient as the kernels of each product compute them.

``--soc`` selects them, so that a difference seen on a device can be explained without one. All of it is
taken from public source and none was checked on hardware: for Ascend 950 the kernels
``smooth_l1_loss_grad_v2`` and ``smooth_l1_loss_v2`` of hicann/ops-nn, for all other products the text of
the older kernels, which come with CANN in binary form.

What is followed is the arithmetic of one element, in FLOAT: a small number added to beta, a reciprocal in
place of a division, which comparisons are strict, what becomes of NaN, and the divisor of the gradient's
mean. Not followed are the order in which a device sums, how it flushes subnormal numbers, and the last bit
of its division.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Scratch
from aclnn_server.operators.products import ASCEND950, REFERENCE, Product

Array = npt.NDArray[Any]
Single = np.float32

_EPSILON = Single(1e-6)
"""What the older kernels add to beta, and below which a beta is 0 for Ascend 950."""


class DeviceGradient:
    """Kernel of the gradient: one of three branches for each element, chosen by comparisons.

    Args:
        beta: of the call.
        inner: writes the slope between -beta and beta of its first argument, x - y, to its second.
        reached: comparison that holds above beta: ``greater`` or ``greater_equal``.
        factor: of the mean.
        nan_is_zero: whether NaN compares as 0 does.
    """

    def __init__(
        self,
        beta: Single,
        inner: Callable[[Array, Array], object],
        reached: str,
        factor: Single,
        *,
        nan_is_zero: bool = False,
    ) -> None:
        self._beta = beta
        self._inner = inner
        self._above: np.ufunc = getattr(np, reached)
        self._below: np.ufunc = getattr(np, reached.replace("greater", "less"))
        self._factor = factor
        self._nan_is_zero = nan_is_zero

    def __call__(self, grad: Array, x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
        """Writes grad * slope(x - y) * factor."""
        distance, slope = scratch.like(out), scratch.like(out)
        np.subtract(x, y, out=distance)
        self._inner(distance, slope)
        if self._nan_is_zero:
            np.copyto(distance, 0, where=np.isnan(distance))
        above = self._above(distance, self._beta)
        below = self._below(distance, -self._beta)
        np.copyto(slope, 0, where=above)
        np.copyto(slope, 0, where=below)
        np.add(slope, Single(1), out=slope, where=above)
        np.subtract(slope, Single(1), out=slope, where=below)
        np.multiply(slope, grad, out=slope)
        np.multiply(slope, self._factor, out=out)


def gradient(
    product: Product, beta: float, *, grad: Shape, own: Shape, mean: bool
) -> DeviceGradient | None:
    """The gradient's kernel of a product; ``None`` for the reference.

    Args:
        product: whose.
        beta: of the call.
        grad: shape of gradOutput.
        own: shape of self, before broadcasting.
        mean: whether the call divides by a number of elements: those of self.
    """
    if product is REFERENCE:
        return None
    if product is ASCEND950:
        return _gradient_950(single(beta), grad, own, mean=mean)
    return _gradient_older(single(beta), own, mean=mean)


def _gradient_950(beta: Single, grad: Shape, own: Shape, *, mean: bool) -> DeviceGradient:
    with np.errstate(all="ignore"):
        inverse = Single(np.nan) if beta < _EPSILON else Single(1) / beta
    factor = Single(1 / max(math.prod(own), 1)) if mean else Single(1)
    # Another kernel runs where gradOutput has one element, and it compares otherwise.
    reached = "greater_equal" if math.prod(grad) == 1 else "greater"

    def inner(distance: Array, slope: Array) -> None:
        np.multiply(distance, inverse, out=slope)

    return DeviceGradient(beta, inner, reached, factor)


def _gradient_older(beta: Single, own: Shape, *, mean: bool) -> DeviceGradient:
    factor = Single(1)
    if mean:
        for size in own:
            factor = factor / Single(max(size, 1))
    divisor = beta + _EPSILON

    def inner(distance: Array, slope: Array) -> None:
        np.divide(distance, divisor, out=slope)

    return DeviceGradient(beta, inner, "greater_equal", factor, nan_is_zero=True)


class DeviceLoss:
    """Kernel of the loss: (x * (0.5 * x)) * (1 / beta) where abs(x) is below beta, else abs(x) - beta / 2."""

    def __init__(self, beta: Single) -> None:
        self._beta = beta
        with np.errstate(all="ignore"):
            self._inverse = Single(0) if beta < _EPSILON else Single(1) / beta

    def __call__(self, x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
        """Writes the loss of each element."""
        distance, near = scratch.like(out), scratch.like(out)
        np.subtract(x, y, out=distance)
        np.multiply(distance, Single(0.5), out=near)
        np.multiply(near, distance, out=near)
        np.multiply(near, self._inverse, out=near)
        np.abs(distance, out=distance)
        inside = np.less(distance, self._beta)
        np.subtract(distance, self._beta * Single(0.5), out=out)
        np.copyto(out, near, where=inside)


def loss(product: Product, beta: float) -> DeviceLoss | None:
    """The loss's kernel of a product; ``None`` for the reference."""
    return None if product is REFERENCE else DeviceLoss(single(beta))


def single(value: float) -> Single:
    """A number as C passes it in a float."""
    with np.errstate(over="ignore"):
        return Single(value)
