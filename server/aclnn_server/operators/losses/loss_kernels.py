"""Kernels of losses and of their gradients; see :data:`aclnn_server.operators.engines.blocks.Kernel`.

The kernel of a gradient multiplies by a factor, which is 1 over the number of elements for a mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.definition import Call
from aclnn_server.operators.elementwise.activation_kernels import sigmoid
from aclnn_server.operators.engines.blocks import Kernel
from aclnn_server.operators.engines.pointwise import keep
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]
DType = np.dtype[Any]
Maker = Callable[[Call, DType, float], Kernel]

_BOOL = np.dtype(np.bool_)
_SMALLEST_LOGARITHM = -100
_BELOW_EVERY_LOGARITHM = -104
"""Less than the logarithm of any positive float32."""
_SMALLEST_VARIANCE = 1e-12


def fixed(kernel: Kernel) -> Maker:
    """The kernel that is the same for every call."""
    return lambda _call, _dtype, _factor: kernel


def scaled(slope: Kernel) -> Maker:
    """The kernel grad * slope(inputs) * factor; `slope` writes into scratch memory."""
    return lambda _call, dtype, factor: _scaled(slope, dtype.type(factor))


def _scaled(slope: Kernel, factor: Any) -> Kernel:  # noqa: ANN401 - a NumPy scalar
    def kernel(grad: Array, *inputs: Array, out: Array, scratch: Scratch) -> None:
        result = scratch.like(out)
        slope(*inputs, out=result, scratch=scratch)
        if factor != 1:
            np.multiply(result, factor, out=result)
        np.multiply(result, grad, out=out)

    return kernel


# --- distances ----------------------------------------------------------------------------------------


def absolute(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    """abs(x - y)."""
    np.subtract(x, y, out=out)
    np.abs(out, out=out)


def absolute_slope(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    """sign(x - y)."""
    difference = scratch.like(out)  # in place, NumPy's sign is an order of magnitude slower
    np.subtract(x, y, out=difference)
    np.sign(difference, out=out)


def squared(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    """(x - y)^2."""
    np.subtract(x, y, out=out)
    np.multiply(out, out, out=out)


def squared_slope(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    """2 * (x - y)."""
    np.subtract(x, y, out=out)
    np.add(out, out, out=out)


def margin(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    """log(1 + exp(-x * y)), which does not overflow."""
    rest = scratch.like(out)
    np.multiply(x, y, out=out)
    np.abs(out, out=rest)
    np.negative(rest, out=rest)
    np.exp(rest, out=rest)
    np.log1p(rest, out=rest)
    np.minimum(out, 0, out=out)
    np.subtract(rest, out, out=out)


def margin_slope(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    """-y / (1 + exp(x * y))."""
    np.multiply(x, y, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.divide(y, out, out=out)
    np.negative(out, out=out)


def _log_of_one_plus_exp(x: Array, out: Array) -> None:
    np.abs(x, out=out)
    np.negative(out, out=out)
    np.exp(out, out=out)
    np.log1p(out, out=out)
    np.maximum(x, 0, out=x)
    np.add(out, x, out=out)


# --- divergence ---------------------------------------------------------------------------------------


def divergence(call: Call, _dtype: DType, _factor: float) -> Kernel:
    """target * (log(target) - self), where target may be given as its logarithm."""
    return _divergence_of_logarithm if call["logTarget"] else _divergence


def _divergence(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    """At target 0, a finite logarithm makes it 0."""
    gap = scratch.like(out)
    np.log(y, out=gap)
    np.maximum(gap, _BELOW_EVERY_LOGARITHM, out=gap)
    np.subtract(gap, x, out=gap)
    np.multiply(gap, y, out=out)


def _divergence_of_logarithm(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    gap, share = scratch.like(out), scratch.like(out)
    np.subtract(y, x, out=gap)
    np.exp(y, out=share)
    np.multiply(gap, share, out=out)


def divergence_slope(call: Call, dtype: DType, factor: float) -> Kernel:
    """Slope of the divergence along self, times grad."""
    slope = _slope_of_logarithm if call["logTarget"] else _slope
    return _scaled(slope, dtype.type(-factor))


def _slope(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    np.maximum(y, 0, out=out)


def _slope_of_logarithm(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    np.exp(y, out=out)


def divergence_target_slope(call: Call, dtype: DType, factor: float) -> Kernel:
    """Slope of the divergence along target, times grad."""
    slope = _target_slope_of_logarithm if call["logTarget"] else _target_slope
    return _scaled(slope, dtype.type(factor))


def _target_slope(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    some = scratch.take(out.shape, _BOOL)
    np.not_equal(y, 0, out=some)
    np.log(y, out=out)
    np.add(out, 1, out=out)
    np.subtract(out, x, out=out)
    keep(some, out, out=out, scratch=scratch)


def _target_slope_of_logarithm(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    share = scratch.like(out)
    np.exp(y, out=share)
    np.add(y, 1, out=out)
    np.subtract(out, x, out=out)
    np.multiply(out, share, out=out)


# --- cross entropy ------------------------------------------------------------------------------------


def cross_entropy(
    x: Array, y: Array, weight: Array | None = None, *, out: Array, scratch: Scratch
) -> None:
    """-(y * log(x) + (1 - y) * log(1 - x)) * weight, with logarithms of at least -100."""
    loss, share = scratch.like(out), scratch.like(out)
    np.negative(x, out=share)
    np.log1p(share, out=share)
    np.maximum(share, _SMALLEST_LOGARITHM, out=share)
    np.subtract(y, 1, out=loss)
    np.multiply(loss, share, out=loss)
    np.log(x, out=share)
    np.maximum(share, _SMALLEST_LOGARITHM, out=share)
    np.multiply(share, y, out=share)
    np.subtract(loss, share, out=loss)
    _weighted(loss, weight, out)


def cross_entropy_slope(
    x: Array, y: Array, weight: Array | None = None, *, out: Array, scratch: Scratch
) -> None:
    """(x - y) / max(x * (1 - x), 1e-12) * weight."""
    variance = scratch.like(out)
    np.subtract(1, x, out=variance)
    np.multiply(variance, x, out=variance)
    np.maximum(variance, _SMALLEST_VARIANCE, out=variance)
    np.subtract(x, y, out=out)
    np.divide(out, variance, out=out)
    _weighted(out, weight, out)


def _weighted(loss: Array, weight: Array | None, out: Array) -> None:
    if weight is not None:
        np.multiply(loss, weight, out=out)
    elif loss is not out:
        np.copyto(out, loss)


def cross_entropy_of_logits(call: Call, _dtype: DType, _factor: float) -> Kernel:
    """The cross entropy of sigmoid(x), which does not overflow."""
    order = _Weights(call)

    def kernel(x: Array, y: Array, *weights: Array, out: Array, scratch: Scratch) -> None:
        weight, positive = order.split(weights)
        loss, rest = scratch.like(out), scratch.like(out)
        np.negative(x, out=rest)
        _log_of_one_plus_exp(rest, loss)
        if positive is not None:
            np.subtract(positive, 1, out=rest)
            np.multiply(rest, y, out=rest)
            np.add(rest, 1, out=rest)
            np.multiply(loss, rest, out=loss)
        np.subtract(1, y, out=rest)
        np.multiply(rest, x, out=rest)
        np.add(loss, rest, out=loss)
        _weighted(loss, weight, out)

    return kernel


def cross_entropy_of_logits_slope(call: Call, dtype: DType, factor: float) -> Kernel:
    """Slope along x, times grad."""
    order = _Weights(call)

    def slope(x: Array, y: Array, *weights: Array, out: Array, scratch: Scratch) -> None:
        weight, positive = order.split(weights)
        sigmoid(x, out=out, scratch=scratch)
        if positive is None:
            np.subtract(out, y, out=out)
        else:
            share, whole = scratch.like(out), scratch.like(out)
            np.multiply(y, positive, out=share)
            np.subtract(share, y, out=whole)
            np.add(whole, 1, out=whole)
            np.multiply(out, whole, out=out)
            np.subtract(out, share, out=out)
        _weighted(out, weight, out)

    return _scaled(slope, dtype.type(factor))


class _Weights:
    """Which of the two weights of a call are given."""

    def __init__(self, call: Call) -> None:
        self._weight = call["weightOptional"] is not None
        self._positive = call["posWeightOptional"] is not None

    def split(self, given: tuple[Array, ...]) -> tuple[Array | None, Array | None]:
        """The weight and the weight of positive targets."""
        weight = given[0] if self._weight else None
        return weight, given[-1] if self._positive else None
