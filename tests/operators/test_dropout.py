"""Dropout: masks that a seed determines, their bits, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.errors import InvalidParameterError
from tests.operators.calling import Array, call, device


def drawn(count: int, drop: float, seed: int = 1, offset: int = 4, threads: int = 1) -> Array:
    """The bits of a mask, with those behind the elements."""
    mask = np.full(-(-count // 128) * 16, 7, np.uint8)
    call("aclnnDropoutGenMask", (count,), drop, seed, offset, mask, on=device(threads))
    return np.unpackbits(mask, bitorder="little")


def dropped(x: Array, drop: float, threads: int = 1) -> tuple[Array, Array]:
    """The result and the bits of the mask."""
    out, mask = np.full(x.shape, 7, x.dtype), np.full(-(-x.size // 128) * 16, 7, np.uint8)
    call("aclnnDropoutV3", x, None, drop, 1, 4, out, mask, on=device(threads))
    return out, mask


@pytest.mark.parametrize("drop", [0.1, 0.5, 0.9])
def test_a_share_is_dropped_wherever_one_looks(drop: float) -> None:
    kept = drawn(1 << 20, drop)
    # Five standard deviations of so many draws, in each half and in each place of a byte.
    for part in (kept[: 1 << 19], kept[1 << 19 :], *kept.reshape(-1, 8).T):
        spread = 5 * np.sqrt(drop * (1 - drop) / part.size)
        assert part.mean() == pytest.approx(1 - drop, abs=spread)


def test_seed_and_offset_determine_the_mask_at_any_number_of_threads() -> None:
    count = 3 * (1 << 17) + 5
    first = drawn(count, 0.5)
    np.testing.assert_array_equal(first, drawn(count, 0.5, threads=3))
    for seed, offset in ((2, 4), (1, 8), (-1, 4)):
        same = (drawn(count, 0.5, seed, offset) == first).mean()
        assert same == pytest.approx(0.5, abs=0.01)


def test_masks_are_the_same_however_they_are_asked_for() -> None:
    x = np.ones((40, 50), np.float32)
    _, mask = dropped(x, 0.25)
    again = np.full(mask.shape, 7, np.uint8)
    call("aclnnDropoutGenMaskV2", (40, 50), 0.25, 1, 4, dtypes.FLOAT16, again)
    np.testing.assert_array_equal(mask, again)


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_kept_is_scaled(threads: int) -> None:
    x = np.random.default_rng(0).uniform(1, 2, (1001, 333)).astype(np.float32)
    out, mask = dropped(x, 0.25, threads)
    kept = np.unpackbits(mask, bitorder="little")[: x.size].reshape(x.shape)
    np.testing.assert_allclose(out, x * kept / 0.75, rtol=1e-6)
    applied, slope = np.full(x.shape, 7, np.float32), np.full(x.shape, 7, np.float32)
    call("aclnnDropoutDoMask", x, mask, 0.25, applied, on=device(threads))
    np.testing.assert_array_equal(applied, out)
    call("aclnnDropoutBackward", x, mask, 1 / 0.75, slope, on=device(threads))
    np.testing.assert_array_equal(slope, out)


def test_infinity_that_is_dropped_is_0() -> None:
    x, mask = np.full(8, np.inf, np.float32), np.zeros(16, np.uint8)
    mask[0] = 0b101
    call("aclnnDropoutDoMask", x, mask, 0.5, out := np.empty_like(x))
    np.testing.assert_array_equal(out, [np.inf, 0, np.inf, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(("drop", "factor"), [(0.0, 1), (1.0, 0)])
def test_all_or_nothing_needs_no_mask(drop: float, factor: int) -> None:
    x = np.array([1, np.inf, -3], np.float32)
    out, mask = dropped(x, drop)
    expected = x if factor else np.zeros(3, np.float32)
    np.testing.assert_array_equal(out, expected)
    assert (mask == 7).all()
    call("aclnnDropoutDoMask", x, mask, drop, out)
    np.testing.assert_array_equal(out, expected)
    call("aclnnDropoutBackward", x, mask, float(factor), out)
    np.testing.assert_array_equal(out, expected)


X = np.ones((3, 50), np.float32)
MASK = np.zeros(32, np.uint8)


@pytest.mark.parametrize(
    ("operator", "arguments", "message"),
    [
        ("V3", (X, None, 1.5, 0, 0, X, MASK), "p is 1.5"),
        ("V3", (X, None, 0.5, 0, 2, X, MASK), "offset is 2"),
        ("V3", (X, None, 0.5, 0, 0, X, MASK[:16]), "maskOut has 16 bytes; it must have 32"),
        ("GenMask", ((3, -1), 0.5, 0, 0, MASK), "shape is"),
        ("GenMask", ((3, 5), 0.5, 0, 0, MASK), "out has 32 bytes; it must have 16"),
        ("GenMaskV2", ((3, 50), 0.5, 0, 0, dtypes.INT32, MASK), "probDataType is INT32"),
        ("DoMask", (X, MASK, -0.5, X), "prob is -0.5"),
        ("Backward", (X, MASK[:20], 2.0, X), "mask has 20 bytes; it must have 32"),
    ],
)
def test_what_is_refused(operator: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message) as caught:
        call(f"aclnnDropout{operator}", *arguments)
    assert caught.value.code == 161002
