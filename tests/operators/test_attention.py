"""Attention: layouts, shared heads, hidden keys, dropped probabilities, gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aclnn.errors import InvalidParameterError, NullPointerError
from aclnn_server.operators.catalogue import lookup
from tests.operators.calling import Array, call, device

PLAIN: dict[str, Any] = {
    "scaleValue": 0.5,
    "keepProb": 1.0,
    "preTokens": 2**31 - 1,
    "nextTokens": 2**31 - 1,
    "inputLayout": "BNSD",
    "innerPrecise": 0,
    "sparseMode": 0,
    "outDtype": 0,
    "pseType": 1,
    "seed": 3,
    "offset": 5,
}
Shape = tuple[int, ...]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def run(operator: str, values: dict[str, Any], on: Any = None) -> None:  # noqa: ANN401
    rows = lookup(operator).signature.parameters
    call(operator, *((PLAIN | values).get(row.name) for row in rows), on=on)


def attend(
    query: Array,
    key: Array,
    value: Array,
    version: str = "V4",
    on: Any = None,  # noqa: ANN401
    **more: Any,  # noqa: ANN401
) -> tuple[Array, Array, Array]:
    """Runs the operator on tensors of dimensions (B, N, S, D); gives the result, largest and sums."""
    rows = (*query.shape[:3], 8)
    out = np.full((*query.shape[:3], value.shape[3]), 7, np.float32)
    largest, sums = np.full(rows, 7, np.float32), np.full(rows, 7, np.float32)
    given = {"query": query, "key": key, "value": value, "headNum": query.shape[1], **more}
    results = {"attentionOutOut": out, "softmaxMaxOut": largest, "softmaxSumOut": sums}
    run(f"aclnnFlashAttentionScore{version}", given | results, on)
    return out, largest, sums


def slopes(
    query: Array,
    key: Array,
    value: Array,
    grad: Array,
    version: str = "V4",
    on: Any = None,  # noqa: ANN401
    **more: Any,  # noqa: ANN401
) -> list[Array]:
    """The gradients of query, key and value, from those that :func:`attend` gives."""
    forward = {"realShiftOptional" if k == "pseShiftOptional" else k: v for k, v in more.items()}
    forward.pop("dpseOut", None)
    out, largest, sums = attend(query, key, value, version, on, **forward)
    found = [np.full(row.shape, 7, np.float32) for row in (query, key, value)]
    given = {"query": query, "keyIn": key, "value": value, "dy": grad, "headNum": query.shape[1]}
    given |= {"softmaxMaxOptional": largest, "softmaxSumOptional": sums, "attentionInOptional": out}
    results = dict(zip(("dqOut", "dkOut", "dvOut"), found, strict=True))
    run(f"aclnnFlashAttentionScoreGrad{version}", given | results | more, on)
    return found


def softmax(query: Array, key: Array, hidden: Array | bool = False) -> Array:
    scores = query.astype(np.float64) @ key.astype(np.float64).swapaxes(2, 3) * 0.5
    scores = np.where(hidden, -np.inf, scores)
    shares = np.exp(scores - scores.max(3, keepdims=True))
    return np.asarray(shares / shares.sum(3, keepdims=True))


def close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("version", ["", "V4"])
def test_many_rows_are_one_computation(version: str) -> None:
    query, key, value = (
        numbers(2, 3, 700, 16),
        numbers(2, 3, 900, 16, seed=1),
        numbers(2, 3, 900, 8),
    )
    found = [attend(query, key, value, version, device(threads)) for threads in (1, 3)]
    for left, right in zip(*found, strict=True):
        np.testing.assert_array_equal(left, right)
    out, largest, sums = found[0]
    close(out, softmax(query, key) @ value)
    scores = query.astype(np.float64) @ key.swapaxes(2, 3) * 0.5
    close(largest, np.repeat(scores.max(3, keepdims=True), 8, 3))
    total = np.exp(scores - scores.max(3, keepdims=True)).sum(3, keepdims=True)
    close(sums, np.repeat(total, 8, 3))


@pytest.mark.parametrize("version", ["", "V4"])
@pytest.mark.parametrize("keys", [1, 2, 4])
def test_gradients_of_shared_heads(version: str, keys: int) -> None:
    query, grad = numbers(2, 4, 300, 8), numbers(2, 4, 300, 8, seed=3)
    key, value = numbers(2, keys, 1000, 8, seed=1), numbers(2, keys, 1000, 8, seed=2)
    found = [slopes(query, key, value, grad, version, device(threads)) for threads in (1, 3)]
    for left, right in zip(*found, strict=True):
        np.testing.assert_array_equal(left, right)
    many = [np.repeat(row, 4 // keys, 1).astype(np.float64) for row in (key, value)]
    shares = softmax(query, many[0])
    spread = grad.astype(np.float64) @ many[1].swapaxes(2, 3)
    along = (shares * spread).sum(3, keepdims=True)
    slope = shares * (spread - along) * 0.5
    by_key = (2, keys, 4 // keys, 1000, 8)
    close(found[0][0], slope @ many[0])
    close(found[0][1], (slope.swapaxes(2, 3) @ query).reshape(by_key).sum(2))
    close(found[0][2], (shares.swapaxes(2, 3) @ grad).reshape(by_key).sum(2))


@pytest.mark.parametrize(
    ("mode", "more", "limits"),
    [(2, {}, (-99, 0)), (3, {}, (-99, 3)), (4, {"preTokens": 1, "nextTokens": 0}, (2, 3))],
)
def test_keys_hidden_by_distance(mode: int, more: Any, limits: tuple[int, int]) -> None:  # noqa: ANN401
    query, key, value = (
        numbers(1, 2, 4, 6),
        numbers(1, 2, 7, 6, seed=1),
        numbers(1, 2, 7, 6, seed=2),
    )
    distance = np.arange(7) - np.arange(4)[:, None]
    hidden = (distance < limits[0]) | (distance > limits[1])
    mask = np.triu(np.ones((2048, 2048), np.uint8), 1)
    out, *_ = attend(query, key, value, sparseMode=mode, attenMaskOptional=mask, **more)
    close(out, softmax(query, key, hidden) @ value)


@pytest.mark.parametrize("shape", [(4, 5), (1, 1, 4, 5), (2, 1, 4, 5), (2, 3, 4, 5)], ids=str)
def test_keys_hidden_by_a_mask(shape: Shape) -> None:
    query, key, value = (
        numbers(2, 3, 4, 6),
        numbers(2, 3, 5, 6, seed=1),
        numbers(2, 3, 5, 6, seed=2),
    )
    mask = numbers(*shape) > 0
    mask[..., 2] = False
    out, *_ = attend(query, key, value, attenMaskOptional=mask)
    close(out, softmax(query, key, mask) @ value)


def test_a_query_without_keys_gives_0_and_no_gradient() -> None:
    query, key, value = (
        numbers(1, 1, 2, 4),
        numbers(1, 1, 3, 4, seed=1),
        numbers(1, 1, 3, 4, seed=2),
    )
    mask = np.array([[True] * 3, [False] * 3])
    out, largest, sums = attend(query, key, value, attenMaskOptional=mask)
    np.testing.assert_array_equal(out[0, 0, 0], 0)
    np.testing.assert_array_equal(largest[0, 0, 0], np.finfo(np.float32).min)
    np.testing.assert_array_equal(sums[0, 0, 0], 0)
    found = slopes(query, key, value, numbers(1, 1, 2, 4), attenMaskOptional=mask)
    np.testing.assert_array_equal(found[0][0, 0, 0], 0)
    assert all(np.isfinite(row).all() for row in found)


@pytest.mark.parametrize(("kind", "factor"), [(0, 1.0), (1, 0.5)])
def test_a_shift_of_the_scores_and_its_gradient(kind: int, factor: float) -> None:
    query, key, value = (
        numbers(2, 2, 4, 6),
        numbers(2, 2, 5, 6, seed=1),
        numbers(2, 2, 5, 6, seed=2),
    )
    shift, grad = numbers(2, 2, 4, 5, seed=3), numbers(2, 2, 4, 6, seed=4)
    out, *_ = attend(query, key, value, realShiftOptional=shift, pseType=kind)
    scores = query.astype(np.float64) @ key.swapaxes(2, 3) * 0.5 + shift * factor
    shares = np.exp(scores) / np.exp(scores).sum(3, keepdims=True)
    close(out, shares @ value)
    slope = np.full(shift.shape, 7, np.float32)
    slopes(query, key, value, grad, pseShiftOptional=shift, dpseOut=slope, pseType=kind)
    spread = grad @ value.swapaxes(2, 3)
    close(slope, shares * (spread - (shares * spread).sum(3, keepdims=True)) * factor)


@pytest.mark.parametrize("layout", ["BSND", "BSH", "SBH"])
def test_layouts_are_the_same_computation(layout: str) -> None:
    query, key, value = (
        numbers(2, 4, 5, 6),
        numbers(2, 2, 7, 6, seed=1),
        numbers(2, 2, 7, 6, seed=2),
    )
    expected, *_ = attend(query, key, value)

    def laid(array: Array) -> Array:
        moved = array.transpose((2, 0, 1, 3) if layout == "SBH" else (0, 2, 1, 3))
        return moved.copy() if layout == "BSND" else moved.reshape(*moved.shape[:2], -1)

    out = np.full(laid(query).shape, 7, np.float32)
    rows = np.empty((2, 2, 4, 5, 8), np.float32)
    given = {"query": laid(query), "key": laid(key), "value": laid(value), "headNum": 4}
    results = {"attentionOutOut": out, "softmaxMaxOut": rows[0], "softmaxSumOut": rows[1]}
    run("aclnnFlashAttentionScoreV4", given | results | {"inputLayout": layout})
    np.testing.assert_array_equal(out, laid(expected))


def test_a_seed_drops_probabilities_and_the_gradients_drop_the_same() -> None:
    query, key = numbers(2, 3, 60, 8), numbers(2, 3, 50, 8, seed=1)
    unit = np.broadcast_to(np.eye(50, dtype=np.float32), (2, 3, 50, 50)).copy()
    width = np.zeros((2, 3, 60, 42), np.float32), np.zeros((2, 3, 50, 42), np.float32)
    wide = np.concatenate([query, width[0]], 3), np.concatenate([key, width[1]], 3)
    found = [attend(*wide, unit, on=device(n), keepProb=0.75)[0] for n in (1, 3)]
    np.testing.assert_array_equal(found[0], found[1])
    shares = softmax(query, key)
    kept = found[0] != 0
    close(found[0], np.where(kept, shares / 0.75, 0))
    assert kept.mean() == pytest.approx(0.75, abs=0.01)
    other, *_ = attend(*wide, unit, keepProb=0.75, seed=4)
    assert ((other != 0) != kept).mean() > 0.2
    grad = numbers(2, 3, 60, 50, seed=5)
    *_, by_value = slopes(*wide, unit, grad, keepProb=0.75)
    close(by_value, found[0].astype(np.float64).swapaxes(2, 3) @ grad)


def test_a_mask_of_bits_drops_probabilities() -> None:
    query, key = numbers(1, 3, 5, 7), numbers(1, 3, 7, 7, seed=1)
    unit = np.broadcast_to(np.eye(7, dtype=np.float32), (1, 3, 7, 7)).copy()
    kept = numbers(1, 3, 5, 7, seed=2) > 0
    bits = np.packbits(kept.reshape(-1), bitorder="little")
    out, *_ = attend(query, key, unit, "", keepProb=0.5, dropMaskOptional=bits)
    close(out, np.where(kept, softmax(query, key) * 2, 0))


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"headNum": 3}, "headNum is 3, and query has 2 heads"),
    ({"headNum": 0}, "headNum is 0"),
    ({"inputLayout": "TND"}, "inputLayout is 'TND'"),
    ({"inputLayout": "BSH"}, "query has 4 dimensions; inputLayout BSH has 3"),
    ({"keepProb": 0.0}, "keepProb is 0"),
    ({"sparseMode": 5}, "sparseMode is 5"),
    ({"pseType": 2}, "pseType is 2"),
    ({"key": numbers(1, 2, 4, 5)}, "key has shape"),
    ({"value": numbers(1, 2, 3, 6)}, "value has shape"),
    ({"attenMaskOptional": np.zeros((2, 3), np.bool_)}, "does not broadcast to"),
    ({"prefixOptional": (1,)}, "prefixOptional is given"),
    ({"queryRopeOptional": numbers(1, 2, 3, 2)}, "queryRopeOptional is given"),
    ({"keepProb": 0.5, "dropMaskOptional": np.zeros(2, np.uint8)}, "it must have 3, a bit"),
)


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda row: str(row)[:40])
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    given = {"query": numbers(1, 2, 3, 6), "key": numbers(1, 2, 4, 6), "value": numbers(1, 2, 4, 6)}
    rows = np.empty((2, 1, 2, 3, 8), np.float32)
    results = {"attentionOutOut": numbers(1, 2, 3, 6), "headNum": 2}
    results |= {"softmaxMaxOut": rows[0], "softmaxSumOut": rows[1]}
    run("aclnnFlashAttentionScoreV4", given | results)
    with pytest.raises(InvalidParameterError, match=message) as caught:
        run("aclnnFlashAttentionScoreV4", given | results | changes)
    assert caught.value.code == 161002


def test_without_a_seed_a_mask_is_needed_and_gradients_need_what_was_kept() -> None:
    query = numbers(1, 1, 3, 4)
    with pytest.raises(InvalidParameterError, match="dropMaskOptional is missing"):
        attend(query, query, query, "", keepProb=0.5)
    given = {"query": query, "keyIn": query, "value": query, "dy": query, "headNum": 1}
    given |= dict.fromkeys(("dqOut", "dkOut", "dvOut"), query.copy())
    with pytest.raises(NullPointerError, match="softmaxMaxOptional"):
        run("aclnnFlashAttentionScoreGrad", given)
