"""Operators over whole rows: softmaxes and normalisations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.cases.case import ELEMENTS, SIDE, Array, Case, f, floats

_LAYOUTS = (
    ("one row", (ELEMENTS,), 0),
    ("rows", (SIDE, SIDE), 1),
    ("columns", (SIDE, SIDE), 0),
    ("short rows", (1 << 16, 16), 1),
)
"""Where rows lie: its name, the shape and the dimension."""


def cases() -> Iterator[Case]:
    for name, shape, dim in _LAYOUTS:
        yield from _softmaxes(name, shape, dim)
    yield from _normalisations()
    yield _batches()


def _softmaxes(name: str, shape: tuple[int, ...], dim: int) -> Iterator[Case]:
    x, grad = floats(*shape, count=2)
    out = np.empty_like(x)

    def total(values: Array) -> Array:
        sums: Array = values.sum(axis=dim, keepdims=True)
        return sums

    def softmax() -> object:
        powers = np.exp(x - x.max(axis=dim, keepdims=True))
        return powers / total(powers)

    def log_softmax() -> object:
        less = x - x.max(axis=dim, keepdims=True)
        return less - np.log(total(np.exp(less)))

    yield Case("Softmax", (x, dim, out), softmax, name)
    yield Case("LogSoftmax", (x, dim, out), log_softmax, name)
    yield Case("SoftmaxBackward", (grad, x, dim, out), lambda: (grad - total(grad * x)) * x, name)
    yield Case(
        "LogSoftmaxBackward", (grad, x, dim, out), lambda: grad - np.exp(x) * total(grad), name
    )


def _normalisations() -> Iterator[Case]:
    (x,) = floats(SIDE, SIDE)
    weight, bias, out = x[0].copy(), x[1].copy(), np.empty_like(x)
    mean, spread = np.empty((SIDE, 1), f), np.empty((SIDE, 1), f)

    def layers() -> object:
        centered = x - x.mean(-1, keepdims=True)
        return centered / np.sqrt(x.var(-1, keepdims=True) + f(1e-5)) * weight + bias

    def squares() -> object:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + f(1e-6)) * weight

    yield Case("LayerNorm", (x, (SIDE,), weight, bias, 1e-5, out, mean, spread), layers)
    yield Case("RmsNorm", (x, weight, 1e-6, out, spread), squares)


def _batches() -> Case:
    (x,) = floats(16, 64, 32, 32)
    weight, bias, mean, variance = floats(64, count=4)

    def expression() -> object:
        w, b, m, v = (row.reshape(1, 64, 1, 1) for row in (weight, bias, mean, variance))
        return (x - m) / np.sqrt(v + f(1e-5)) * w + b

    numbers = (weight, bias, mean, variance, False, 0.1, 1e-5)
    return Case("BatchNorm", (x, *numbers, np.empty_like(x), None, None), expression)
