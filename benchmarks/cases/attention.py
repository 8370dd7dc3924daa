"""Attention and its gradients, beside products of matrices with whole matrices of scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.cases.case import Array, Case, f, floats

_HEADS, _LENGTH, _WIDTH = 8, 256, 64
_SHAPE = (1, _HEADS, _LENGTH, _WIDTH)
_SCALE = 0.125
_ALL, _CAUSAL = 0, 2
"""sparseMode."""


def cases() -> Iterator[Case]:
    yield from _forward("", _ALL)
    yield from _forward("causal", _CAUSAL)
    yield from _backward()


def _probabilities(query: Array, key: Array, mask: Array | None = None) -> Array:
    scores = query @ key.swapaxes(-1, -2) * f(_SCALE)
    if mask is not None:
        scores = np.where(mask, f(-np.inf), scores)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    found: Array = powers / powers.sum(-1, keepdims=True)
    return found


def _numbers(mode: int) -> tuple[object, ...]:
    """From the scale to sparseMode, with every key and query in reach."""
    return (_SCALE, 1.0, 1 << 30, 1 << 30, _HEADS, "BNSD", 0, mode)


def _forward(variant: str, mode: int) -> Iterator[Case]:
    query, key, value = floats(*_SHAPE, count=3)
    mask = np.triu(np.ones((_LENGTH, _LENGTH), bool), 1) if mode else None
    statistics = [np.empty((1, _HEADS, _LENGTH, 8), f) for _ in range(2)]
    outputs = (*statistics, None, np.empty(_SHAPE, f))

    def expression() -> Array:
        found: Array = _probabilities(query, key, mask) @ value
        return found

    masks = (None, None, None, mask)
    scale = _numbers(mode)
    yield Case(
        "FlashAttentionScore",
        (query, key, value, *masks, None, *scale, *outputs),
        expression,
        variant,
    )
    none, seed = (None,) * 6, (0, 0, None, 1, 0)
    yield Case(
        "FlashAttentionScoreV4",
        (query, key, value, *masks, *none, *(None,) * 5, *scale, *seed, *outputs),
        expression,
        variant,
    )


def _backward() -> Iterator[Case]:
    query, key, value, grad = floats(*_SHAPE, count=4)
    scores = query @ key.swapaxes(-1, -2) * f(_SCALE)
    largest = scores.max(-1, keepdims=True)
    sums = np.exp(scores - largest).sum(-1, keepdims=True)
    result = _probabilities(query, key) @ value

    def expression() -> object:
        shares = np.exp(query @ key.swapaxes(-1, -2) * f(_SCALE) - largest) / sums
        along = (grad * result).sum(-1, keepdims=True)
        slopes = shares * (grad @ value.swapaxes(-1, -2) - along) * f(_SCALE)
        return slopes @ key, slopes.swapaxes(-1, -2) @ query, shares.swapaxes(-1, -2) @ grad

    kept = (*(np.repeat(row, 8, -1) for row in (largest, sums)), None, result)
    given = (query, key, value, grad, *(None,) * 4, *kept)
    scale, outputs = _numbers(_ALL), [np.empty(_SHAPE, f) for _ in range(3)]
    yield Case("FlashAttentionScoreGrad", (*given, None, *scale, *outputs, None), expression)
    before_mode, mode = scale[:-2], scale[-2:]
    more = (*before_mode, None, *mode, 1, 0, 0, 0)
    yield Case(
        "FlashAttentionScoreGradV4",
        (*given, *(None,) * 8, *(None,) * 5, *more, *outputs, *(None,) * 4),
        expression,
    )
