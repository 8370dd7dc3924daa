"""Gradients of normalisations; and the normalisation of groups, with its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.cases.case import SIDE, Array, Case, f, floats

_MASK = (True, True, True)
_EPS = 1e-5


def cases() -> Iterator[Case]:
    yield from _layers()
    yield from _batches()
    yield from _groups()


def _slope(slope: Array, normal: Array, rstd: Array, axes: int | tuple[int, ...]) -> Array:
    """Gradient of x, from that of what was x less its mean, times `rstd`."""
    along = (slope * normal).mean(axes, keepdims=True)
    found: Array = rstd * (slope - slope.mean(axes, keepdims=True) - normal * along)
    return found


def _layers() -> Iterator[Case]:
    grad, x = floats(SIDE, SIDE, count=2)
    weight, mean = x[0].copy(), x.mean(1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(1, keepdims=True) + f(_EPS))
    out, of_weight, of_bias = np.empty_like(x), np.empty(SIDE, f), np.empty(SIDE, f)

    def layers() -> object:
        normal = (x - mean) * rstd
        own = _slope(grad * weight, normal, rstd, 1)
        return own, (grad * normal).sum(0), grad.sum(0)

    def squares() -> object:
        normal, slope = x * rstd, grad * weight
        along = (slope * normal).mean(1, keepdims=True)
        return rstd * (slope - normal * along), (grad * normal).sum(0)

    given = (grad, x, (SIDE,), mean, rstd, weight, weight, _MASK)
    yield Case("LayerNormBackward", (*given, out, of_weight, of_bias), layers)
    yield Case("RmsNormGrad", (grad, x, rstd, weight, out, of_weight), squares)


def _batches() -> Iterator[Case]:
    grad, x = floats(16, 64, 32, 32, count=2)
    weight, mean, variance = (row.reshape(1, 64, 1, 1) for row in floats(64, count=3))
    rstd, axes = 1 / np.sqrt(variance + f(_EPS)), (0, 2, 3)

    def trained() -> object:
        normal = (x - mean) * rstd
        own = weight * _slope(grad, normal, rstd, axes)
        return own, (grad * normal).sum(axes), grad.sum(axes)

    def inferred() -> object:
        normal = (x - mean) * rstd
        return grad * weight * rstd, (grad * normal).sum(axes), grad.sum(axes)

    numbers = tuple(row.reshape(-1) for row in (weight, mean, variance, mean, rstd))
    outputs = (np.empty_like(x), np.empty(64, f), np.empty(64, f))
    for training, expression in ((True, trained), (False, inferred)):
        arguments = (grad, x, *numbers, training, _EPS, _MASK, *outputs)
        yield Case(
            "BatchNormBackward", arguments, expression, "training" if training else "inference"
        )


def _groups() -> Iterator[Case]:
    grad, x = floats(16, 64, 32, 32, count=2)
    gamma, beta = floats(64, count=2)
    sizes, shape, axes = (16, 64, 1024, 8), (16, 8, 8, 1024), (2, 3)
    rows, slopes = x.reshape(shape), grad.reshape(shape)
    weight, shift = (row.reshape(1, 8, 8, 1) for row in (gamma, beta))
    mean = rows.mean(axes, keepdims=True)
    rstd = 1 / np.sqrt(rows.var(axes, keepdims=True) + f(_EPS))
    means, rstds = (np.empty((16, 8), f) for _ in range(2))

    def forward() -> object:
        own, spread = rows.mean(axes, keepdims=True), rows.var(axes, keepdims=True)
        reciprocal = 1 / np.sqrt(spread + f(_EPS))
        return (rows - own) * reciprocal * weight + shift, own, reciprocal

    def backward() -> object:
        normal = (rows - mean) * rstd
        own = _slope(slopes * weight, normal, rstd, axes)
        return own, (slopes * normal).sum((0, 3)), slopes.sum((0, 3))

    out, of_gamma, of_beta = np.empty_like(x), np.empty(64, f), np.empty(64, f)
    yield Case("GroupNorm", (x, gamma, beta, *sizes, _EPS, out, means, rstds), forward)
    given = (grad, x, mean.reshape(16, 8), rstd.reshape(16, 8), gamma, *sizes, _MASK)
    yield Case("GroupNormBackward", (*given, out, of_gamma, of_beta), backward)
