"""Activations beyond the first few, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.cases.case import ELEMENTS, SIDE, Array, Case, f, floats, scalar

_ALPHA, _SCALE = f(1.6732632423543772), f(1.0507009873554805)
_ROOT, _CUBE = f(math.sqrt(2 / math.pi)), f(0.044715)


def cases() -> Iterator[Case]:
    x, y, grad = floats(ELEMENTS, count=3)
    signed, out = (x - y) * f(8), np.empty_like(x)
    for name, more, expression in (*_bounded(signed), *_curved(signed)):
        yield Case(name, (signed, *more, out), expression)
    for name, more, expression in (*_bounded_gradients(grad, signed), *_slopes(grad, signed)):
        yield Case(name, (grad, *more, out), expression)
    yield from _gated(signed, grad)
    yield from _learned(signed, grad)
    forward = (signed, out, np.empty_like(out))
    yield Case("LogSigmoidForward", forward, lambda: -np.logaddexp(f(0), -signed))


Rows = Iterator[tuple[str, tuple[object, ...], Callable[[], object]]]
"""Name, arguments between the first and the output, and expression."""


def _sigmoid(x: Array) -> Array:
    found: Array = 1 / (1 + np.exp(-x))
    return found


def _bounded(x: Array) -> Rows:
    yield "Hardsigmoid", (), lambda: np.clip(x + 3, 0, 6) / f(6)
    yield "Hardswish", (), lambda: x * np.clip(x + 3, 0, 6) / f(6)
    yield "Hardtanh", (scalar(-1), scalar(1)), lambda: np.clip(x, f(-1), f(1))


def _curved(x: Array) -> Rows:
    ones = (scalar(1),) * 3
    yield "Elu", ones, lambda: np.where(x > 0, x, np.expm1(x))
    yield "Selu", (), lambda: _SCALE * np.where(x > 0, x, _ALPHA * np.expm1(x))
    yield "Mish", (), lambda: x * np.tanh(np.log1p(np.exp(x)))


def _bounded_gradients(grad: Array, x: Array) -> Rows:
    def hardswish() -> Array:
        return grad * np.where(x < -3, f(0), np.where(x > 3, f(1), x / f(3) + f(0.5)))

    yield "HardsigmoidBackward", (x,), lambda: np.where(np.abs(x) < 3, grad / f(6), f(0))
    yield "HardswishBackward", (x,), hardswish
    yield "HardswishBackwardV2", (x,), hardswish
    bounds = (scalar(-1), scalar(1))
    yield (
        "HardtanhBackward",
        (x, *bounds),
        lambda: np.where((x > -1) & (x < 1), grad, f(0)),
    )


def _slopes(grad: Array, x: Array) -> Rows:
    def mish() -> object:
        curve = np.tanh(np.log1p(np.exp(x)))
        return grad * (curve + x * (1 - curve * curve) * _sigmoid(x))

    def gelu() -> object:
        inner = np.tanh(_ROOT * (x + _CUBE * x * x * x))
        slope = _ROOT * (1 + 3 * _CUBE * x * x)
        return grad * f(0.5) * (1 + inner + x * (1 - inner * inner) * slope)

    ones = (scalar(1),) * 3
    yield "MishBackward", (x,), mish
    yield "EluBackward", (*ones, False, x), lambda: np.where(x > 0, grad, grad * np.exp(x))
    yield (
        "SeluBackward",
        (x,),
        lambda: grad * np.where(x > 0, _SCALE, x + _SCALE * _ALPHA),
    )
    yield (
        "SoftplusBackward",
        (x, scalar(1), scalar(20)),
        lambda: np.where(x > 20, grad, grad * _sigmoid(x)),
    )
    yield "LogSigmoidBackward", (x, None), lambda: grad / (1 + np.exp(x))
    yield "GeluBackwardV2", (x, "tanh"), gelu


def _gated(x: Array, grad: Array) -> Iterator[Case]:
    wide, half = x.reshape(SIDE, SIDE), grad.reshape(2, SIDE, SIDE // 2)[0]
    own, gate = np.split(wide, 2, 1)

    def gradient() -> Array:
        share = _sigmoid(gate)
        return np.concatenate([half * share, half * own * share * (1 - share)], 1)

    yield Case("Glu", (wide, 1, np.empty_like(half)), lambda: own * _sigmoid(gate))
    yield Case("GluBackward", (half, wide, 1, np.empty_like(wide)), gradient)


def _learned(x: Array, grad: Array) -> Iterator[Case]:
    (weight,), shape = floats(64), (16, 64, 32, 32)
    x, grad, slope = x.reshape(shape), grad.reshape(shape), weight.reshape(1, 64, 1, 1)

    def gradients() -> object:
        positive = x > 0
        sums = np.where(positive, f(0), grad * x).sum((0, 2, 3))
        return np.where(positive, grad, grad * slope), sums

    out, sums = np.empty_like(x), np.empty_like(weight)
    yield Case("Prelu", (x, weight, out), lambda: np.where(x > 0, x, x * slope))
    yield Case("PreluBackward", (grad, x, weight, out, sums), gradients)
