"""Kernels of further activations and gradients; see :data:`aclnn_server.operators.engines.blocks.Kernel`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.definition import Call
from aclnn_server.operators.elementwise.activation_kernels import sigmoid
from aclnn_server.operators.engines.blocks import Kernel
from aclnn_server.operators.engines.pointwise import keep, number, select
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]
DType = np.dtype[Any]

_BOOL = np.dtype(np.bool_)
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805
_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715


def hardsigmoid(x: Array, *, out: Array, scratch: Scratch) -> None:
    """min(max(x + 3, 0), 6) / 6."""
    share = scratch.like(out)
    np.add(x, 3, out=share)
    np.clip(share, 0, 6, out=share)
    np.divide(share, 6, out=out)


def hardsigmoid_backward(grad: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
    """grad / 6 where x is between -3 and 3, else 0."""
    size, inside, slope = scratch.like(out), scratch.take(out.shape, _BOOL), scratch.like(out)
    np.abs(x, out=size)
    np.less(size, 3, out=inside)
    np.divide(grad, 6, out=slope)
    keep(inside, slope, out=out, scratch=scratch)


def hardswish(x: Array, *, out: Array, scratch: Scratch) -> None:
    """x * min(max(x + 3, 0), 6) / 6."""
    share = scratch.like(out)
    np.add(x, 3, out=share)
    np.clip(share, 0, 6, out=share)
    np.multiply(share, x, out=share)
    np.divide(share, 6, out=out)


def hardswish_backward(grad: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
    """grad times 0 up to -3, 1 from 3 on and x / 3 + 1 / 2 between."""
    slope, beyond = scratch.like(out), scratch.take(out.shape, _BOOL)
    np.divide(x, 3, out=slope)
    np.add(slope, 0.5, out=slope)
    np.greater_equal(x, 3, out=beyond)
    np.copyto(slope, 1, where=beyond)
    np.less_equal(x, -3, out=beyond)
    np.copyto(slope, 0, where=beyond)
    np.multiply(slope, grad, out=out)


def _softplus_tanh(x: Array, out: Array, work: Array) -> None:
    """tanh(log(1 + exp(x))): n / (n + 2) with n = e * (e + 2) and e = exp(x), and from 20 on 1."""
    np.minimum(x, 20, out=out)
    np.exp(out, out=out)
    np.add(out, 2, out=work)
    np.multiply(out, work, out=out)
    np.add(out, 2, out=work)
    np.divide(out, work, out=out)


def mish(x: Array, *, out: Array, scratch: Scratch) -> None:
    """x * tanh(log(1 + exp(x)))."""
    share = scratch.like(out)
    _softplus_tanh(x, share, scratch.like(out))
    np.multiply(share, x, out=out)


def mish_backward(grad: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
    """grad * (t + x * sigmoid(x) * (1 - t^2)), with t = tanh(log(1 + exp(x)))."""
    share, slope, rest = scratch.like(out), scratch.like(out), scratch.like(out)
    _softplus_tanh(x, share, rest)
    sigmoid(x, out=slope, scratch=scratch)
    np.multiply(slope, x, out=slope)
    np.multiply(share, share, out=rest)
    np.subtract(1, rest, out=rest)
    np.multiply(slope, rest, out=slope)
    np.add(slope, share, out=slope)
    np.multiply(slope, grad, out=out)


def _exponential(alpha: Any, scale: Any, inner: Any) -> Kernel:  # noqa: ANN401 - NumPy scalars
    def kernel(x: Array, *, out: Array, scratch: Scratch) -> None:
        positive, line, curve = scratch.take(out.shape, _BOOL), scratch.like(out), scratch.like(out)
        np.greater(x, 0, out=positive)
        np.multiply(x, scale, out=line)
        np.multiply(x, inner, out=curve)
        np.expm1(curve, out=curve)
        np.multiply(curve, alpha * scale, out=curve)
        select(positive, line, curve, out=out, scratch=scratch)

    return kernel


def elu(call: Call, dtype: DType) -> Kernel:
    """scale * x above 0, else scale * alpha * (exp(inputScale * x) - 1)."""
    names = ("alpha", "scale", "inputScale")
    return _exponential(*(number(call[name], dtype) for name in names))


def selu(call: Call, dtype: DType) -> Kernel:
    """elu with the two numbers that keep mean and variance."""
    return _exponential(dtype.type(_SELU_ALPHA), dtype.type(_SELU_SCALE), dtype.type(1))


def _exponential_backward(scale: Any, curved: Any) -> Kernel:  # noqa: ANN401 - NumPy scalar, function
    def kernel(grad: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
        positive, line, slope = scratch.take(out.shape, _BOOL), scratch.like(out), scratch.like(out)
        np.greater(x, 0, out=positive)
        np.multiply(grad, scale, out=line)
        curved(x, slope)
        np.multiply(slope, grad, out=slope)
        select(positive, line, slope, out=out, scratch=scratch)

    return kernel


def elu_backward(call: Call, dtype: DType) -> Kernel:
    """grad times the slope of elu, from its input or, where isResult is true, from its result."""
    alpha, scale, inner = (number(call[name], dtype) for name in ("alpha", "scale", "inputScale"))

    def of_result(y: Array, slope: Array) -> None:
        np.add(y, alpha * scale, out=slope)
        np.multiply(slope, inner, out=slope)

    def of_input(x: Array, slope: Array) -> None:
        np.multiply(x, inner, out=slope)
        np.exp(slope, out=slope)
        np.multiply(slope, alpha * scale * inner, out=slope)

    return _exponential_backward(scale, of_result if call["isResult"] else of_input)


def selu_backward(call: Call, dtype: DType) -> Kernel:
    """grad times the slope of selu, from its result."""
    total, scale = dtype.type(_SELU_ALPHA * _SELU_SCALE), dtype.type(_SELU_SCALE)
    return _exponential_backward(scale, lambda y, slope: np.add(y, total, out=slope))


def softplus_backward(call: Call, dtype: DType) -> Kernel:
    """grad * sigmoid(beta * x); grad itself where beta * x is above the threshold."""
    beta, threshold = number(call["beta"], dtype), number(call["threshold"], dtype)

    def kernel(grad: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
        slope, straight = scratch.like(out), scratch.take(out.shape, _BOOL)
        np.multiply(x, beta, out=slope)
        np.greater(slope, threshold, out=straight)
        sigmoid(slope, out=slope, scratch=scratch)
        np.multiply(slope, grad, out=slope)
        select(straight, grad, slope, out=out, scratch=scratch)

    return kernel


def hardtanh_backward(call: Call, dtype: DType) -> Kernel:
    """grad where x is between the bounds, else 0."""
    low, high = number(call["min"], dtype), number(call["max"], dtype)

    def kernel(grad: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
        outside, above = (scratch.take(out.shape, _BOOL) for _ in range(2))
        np.less_equal(x, low, out=outside)
        np.greater_equal(x, high, out=above)
        np.logical_or(outside, above, out=outside)
        np.logical_not(outside, out=outside)
        keep(outside, grad, out=out, scratch=scratch)

    return kernel


def log_sigmoid_backward(grad: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
    """grad / (1 + exp(x))."""
    divisor = scratch.like(out)
    np.exp(x, out=divisor)
    np.add(divisor, 1, out=divisor)
    np.divide(grad, divisor, out=out)


def gelu_tanh_backward(grad: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
    """grad times the slope of x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2."""
    square, share, slope = scratch.like(out), scratch.like(out), scratch.like(out)
    np.multiply(x, x, out=square)
    np.multiply(square, _TANH_CUBE * _TANH_SCALE, out=share)
    np.add(share, _TANH_SCALE, out=share)
    np.multiply(share, x, out=share)
    np.tanh(share, out=share)
    np.multiply(square, 3 * _TANH_CUBE * _TANH_SCALE, out=square)
    np.add(square, _TANH_SCALE, out=square)
    np.multiply(square, x, out=square)
    np.multiply(share, share, out=slope)
    np.subtract(1, slope, out=slope)
    np.multiply(slope, square, out=slope)
    np.add(slope, share, out=slope)
    np.add(slope, 1, out=slope)
    np.multiply(slope, 0.5, out=slope)
    np.multiply(slope, grad, out=out)


def glu(x: Array, gate: Array, *, out: Array, scratch: Scratch) -> None:
    """x * sigmoid(gate)."""
    share = scratch.like(out)
    sigmoid(gate, out=share, scratch=scratch)
    np.multiply(share, x, out=out)


def glu_backward(grad: Array, x: Array, gate: Array, *, out: Array, scratch: Scratch) -> None:
    """The gradient of the gate: grad * x * sigmoid(gate) * (1 - sigmoid(gate))."""
    share, slope = scratch.like(out), scratch.like(out)
    sigmoid(gate, out=share, scratch=scratch)
    np.subtract(1, share, out=slope)
    np.multiply(slope, share, out=slope)
    np.multiply(slope, x, out=slope)
    np.multiply(slope, grad, out=out)
