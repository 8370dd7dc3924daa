"""Kernels of activations and of their gradients; see :data:`aclnn_server.operators.engines.blocks.Kernel`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.definition import Call
from aclnn_server.operators.engines.blocks import Kernel
from aclnn_server.operators.engines.error_function import erf
from aclnn_server.operators.engines.pointwise import keep, number, select
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]
DType = np.dtype[Any]

_BOOL = np.dtype(np.bool_)
_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715


def relu(x: Array, *, out: Array, scratch: Scratch) -> None:
    """max(x, 0)."""
    np.maximum(x, 0, out=out)


def threshold_backward(call: Call, dtype: DType) -> Kernel:
    """grad where self is not at most the threshold, else 0."""
    threshold = number(call["threshold"], dtype)

    def kernel(grad: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
        kept = scratch.take(out.shape, _BOOL)
        np.less_equal(x, threshold, out=kept)
        np.logical_not(kept, out=kept)
        keep(kept, grad, out=out, scratch=scratch)

    return kernel


def leaky_relu(call: Call, dtype: DType) -> Kernel:
    """x where it is positive, else slope * x."""
    slope = number(call["negativeSlope"], dtype)

    def kernel(x: Array, *, out: Array, scratch: Scratch) -> None:
        scaled = scratch.like(out)
        np.minimum(x, 0, out=scaled)
        np.multiply(scaled, slope, out=scaled)
        np.maximum(x, 0, out=out)
        np.add(out, scaled, out=out)

    return kernel


def leaky_relu_backward(call: Call, dtype: DType) -> Kernel:
    """grad where self is positive, else slope * grad."""
    slope = number(call["negativeSlope"], dtype)

    def kernel(grad: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
        positive, scaled = scratch.take(out.shape, _BOOL), scratch.like(out)
        np.greater(x, 0, out=positive)
        np.multiply(grad, slope, out=scaled)
        select(positive, grad, scaled, out=out, scratch=scratch)

    return kernel


def sigmoid(x: Array, *, out: Array, scratch: Scratch) -> None:
    """1 / (1 + exp(-x))."""
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.reciprocal(out, out=out)


def sigmoid_backward(grad: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    """grad * y * (1 - y)."""
    slope = scratch.like(out)
    np.subtract(1, y, out=slope)
    np.multiply(slope, y, out=slope)
    np.multiply(slope, grad, out=out)


def tanh_backward(grad: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    """grad * (1 - y^2)."""
    slope = scratch.like(out)
    np.multiply(y, y, out=slope)
    np.subtract(1, slope, out=slope)
    np.multiply(slope, grad, out=out)


def gelu(x: Array, *, out: Array, scratch: Scratch) -> None:
    """x * (1 + erf(x / sqrt(2))) / 2."""
    share = scratch.like(out)
    _share_below(x, share, scratch)
    np.multiply(share, x, out=out)


def gelu_tanh(x: Array, *, out: Array, scratch: Scratch) -> None:
    """x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2."""
    share = scratch.like(out)
    np.multiply(x, x, out=share)
    np.multiply(share, _TANH_CUBE * _TANH_SCALE, out=share)
    np.add(share, _TANH_SCALE, out=share)
    np.multiply(share, x, out=share)
    np.tanh(share, out=share)
    np.add(share, 1, out=share)
    np.multiply(share, 0.5, out=share)
    np.multiply(share, x, out=out)


def gelu_backward(grad: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
    """grad * (share(x) + x * density(x)), of the normal distribution."""
    slope = scratch.like(out)
    _share_below(x, slope, scratch)
    density = scratch.like(out)
    np.multiply(x, x, out=density)
    np.multiply(density, -0.5, out=density)
    np.exp(density, out=density)
    np.multiply(density, _DENSITY, out=density)
    np.multiply(density, x, out=density)
    np.add(slope, density, out=slope)
    np.multiply(slope, grad, out=out)


def _share_below(x: Array, share: Array, scratch: Scratch) -> None:
    """The normal distribution's share below x, into an array that x is not in."""
    mark = scratch.mark()
    np.multiply(x, _ROOT_HALF, out=share)
    erf(share, out=share, scratch=scratch)
    scratch.rewind(mark)
    np.add(share, 1, out=share)
    np.multiply(share, 0.5, out=share)


def silu(x: Array, *, out: Array, scratch: Scratch) -> None:
    """x / (1 + exp(-x))."""
    divisor = scratch.like(out)
    np.negative(x, out=divisor)
    np.exp(divisor, out=divisor)
    np.add(divisor, 1, out=divisor)
    np.divide(x, divisor, out=out)


def silu_backward(grad: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
    """grad * s * (1 + x * (1 - s)), with s = sigmoid(x)."""
    share, slope = scratch.like(out), scratch.like(out)
    sigmoid(x, out=share, scratch=scratch)
    np.subtract(1, share, out=slope)
    np.multiply(slope, x, out=slope)
    np.add(slope, 1, out=slope)
    np.multiply(slope, share, out=slope)
    np.multiply(slope, grad, out=out)


def softplus(call: Call, dtype: DType) -> Kernel:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    beta, threshold = number(call["beta"], dtype), number(call["threshold"], dtype)

    def kernel(x: Array, *, out: Array, scratch: Scratch) -> None:
        scaled, straight = scratch.like(out), scratch.take(out.shape, _BOOL)
        product = x if beta == 1 else np.multiply(x, beta, out=scaled)
        np.greater(product, threshold, out=straight)
        np.exp(product, out=scaled)
        np.log1p(scaled, out=scaled)
        if beta != 1:
            np.divide(scaled, beta, out=scaled)
        select(straight, x, scaled, out=out, scratch=scratch)

    return kernel


def log_sigmoid(x: Array, *, out: Array, scratch: Scratch) -> None:
    """min(x, 0) - log(1 + exp(-abs(x))), which does not overflow."""
    rest = scratch.like(out)
    np.abs(x, out=rest)
    np.negative(rest, out=rest)
    np.exp(rest, out=rest)
    np.log1p(rest, out=rest)
    np.minimum(x, 0, out=out)
    np.subtract(out, rest, out=out)
