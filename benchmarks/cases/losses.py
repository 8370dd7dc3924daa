"""Losses and their gradients."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.cases.case import ELEMENTS, SIDE, Array, Case, f, floats

_MEAN = 1
_SHARE = f(1 / ELEMENTS)


def cases() -> Iterator[Case]:
    x, y, z = floats(ELEMENTS, count=3)
    yield from _distances(x, y)
    yield from _distance_gradients(x, y, z)
    yield from _entropies(x, y)
    yield from _entropy_gradients(x, y, z)
    yield from _likelihood()


def _distances(x: Array, y: Array) -> Iterator[Case]:
    out, one = np.empty_like(x), np.empty((), f)

    def smooth() -> Array:
        distance = np.abs(x - y)
        losses: Array = np.where(distance < 1, f(0.5) * distance * distance, distance - f(0.5))
        return losses

    yield Case("L1Loss", (x, y, 0, out), lambda: np.abs(x - y), "none")
    yield Case("L1Loss", (x, y, _MEAN, one), lambda: np.abs(x - y).mean(), "mean")
    yield Case("MseLoss", (x, y, _MEAN, one), lambda: ((x - y) ** 2).mean())
    yield Case("MseLossOut", (x, y, 0, out), lambda: (x - y) ** 2)
    yield Case("SmoothL1Loss", (x, y, 0, 1.0, out), smooth, "none")
    yield Case("SmoothL1Loss", (x, y, _MEAN, 1.0, one), lambda: smooth().mean(), "mean")
    yield Case("SoftMarginLoss", (x, y, _MEAN, one), lambda: np.log1p(np.exp(-x * y)).mean())


def _distance_gradients(x: Array, y: Array, z: Array) -> Iterator[Case]:
    out = np.empty_like(x)

    def smooth() -> object:
        distance = y - z
        return x * np.where(np.abs(distance) < 1, distance, np.sign(distance)) * _SHARE

    def margin() -> object:
        power = np.exp(-y * z)
        return -z * power / (1 + power) * x * _SHARE

    yield Case("L1LossBackward", (x, y, z, _MEAN, out), lambda: x * np.sign(y - z) * _SHARE)
    yield Case("MseLossBackward", (x, y, z, _MEAN, out), lambda: x * 2 * (y - z) * _SHARE)
    yield Case("SmoothL1LossBackward", (x, y, z, _MEAN, 1.0, out), smooth)
    yield Case("SoftMarginLossBackward", (x, y, z, _MEAN, out), margin)


def _entropies(x: Array, y: Array) -> Iterator[Case]:
    one = np.empty((), f)
    yield Case(
        "BinaryCrossEntropy",
        (x, y, None, _MEAN, one),
        lambda: -(y * np.log(x) + (1 - y) * np.log1p(-x)).mean(),
    )
    yield Case(
        "BinaryCrossEntropyWithLogits",
        (x, y, None, None, _MEAN, one),
        lambda: (np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))).mean(),
    )
    yield Case("KlDiv", (x, y, _MEAN, False, one), lambda: (y * (np.log(y) - x)).mean())


def _entropy_gradients(x: Array, y: Array, z: Array) -> Iterator[Case]:
    out = np.empty_like(x)
    yield Case(
        "BinaryCrossEntropyBackward",
        (x, y, z, None, _MEAN, out),
        lambda: x * (y - z) / np.maximum((1 - y) * y, f(1e-12)) * _SHARE,
    )
    yield Case(
        "BinaryCrossEntropyWithLogitsBackward",
        (x, y, z, None, None, _MEAN, out),
        lambda: (1 / (1 + np.exp(-y)) - z) * x * _SHARE,
    )
    yield Case("KlDivBackward", (x, y, z, _MEAN, False, out), lambda: -z * x * _SHARE)
    yield Case(
        "KlDivTargetBackward",
        (x, y, z, _MEAN, False, out),
        lambda: x * (np.log(z) + 1 - y) * _SHARE,
    )


def _likelihood() -> Iterator[Case]:
    (x,) = floats(SIDE, SIDE)
    weight, one, total, out = x[0].copy(), np.empty((), f), np.empty((), f), np.empty_like(x)
    target, rows = np.random.default_rng(2).integers(0, SIDE, SIDE), np.arange(SIDE)

    def loss() -> object:
        weights = weight[target]
        return -(x[rows, target] * weights).sum() / weights.sum()

    def gradient() -> object:
        weights, result = weight[target], np.zeros_like(x)
        result[rows, target] = -weights / weights.sum()
        return result

    whole = np.full((), weight[target].sum(), f)
    yield Case("NLLLoss", (x, target, weight, _MEAN, -100, one, total), loss)
    yield Case(
        "NLLLossBackward", (np.ones((), f), x, target, weight, _MEAN, -100, whole, out), gradient
    )
