"""Casts of blocks give the bits of NumPy's own, whichever way they take."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from aclnn_server.operators.engines import casts
from aclnn_server.operators.engines.casts import narrow, widen
from tests.operators.calling import Array

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = HALVES[np.isfinite(HALVES)]
NORMAL = FINITE[np.abs(FINITE) >= np.float16(2**-14)]


@pytest.fixture(autouse=True)
def _without_compiled_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(casts, "loops", dict)  # they have tests of their own


def _same_bits(left: Array, right: Array) -> bool:
    assert left.dtype == right.dtype
    return left.tobytes() == right.tobytes()


@pytest.mark.parametrize(
    "halves",
    [
        HALVES,
        FINITE,
        NORMAL,
        NORMAL[::2],
        NORMAL[::-1],
        np.append(NORMAL, np.float16(np.inf)),
        np.append(NORMAL, np.float16(-np.inf)),
        np.append(NORMAL, np.float16(np.nan)),
        np.append(NORMAL, np.array([0xFC01], np.uint16).view(np.float16)),
        np.append(NORMAL, np.array([2**-24, -(2**-24), 0, -0.0], np.float16)),
        FINITE[:100],
    ],
)
def test_half_to_single(halves: Array) -> None:
    found = np.empty(halves.shape, np.float32)
    widen(halves, found)
    assert _same_bits(found, halves.astype(np.float32))


def test_half_to_single_of_two_dimensions_and_into_gaps() -> None:
    square = NORMAL[: 200 * 200].reshape(200, 200)
    for source in (square, square.T, square[:, ::3]):
        widened = np.empty(source.shape, np.float32)
        widen(source, widened)
        assert _same_bits(widened, np.ascontiguousarray(source.astype(np.float32)))
    gaps = np.full((200, 400), 5, np.float32)
    widen(square, gaps[:, ::2])
    assert _same_bits(gaps[:, ::2].copy(), square.astype(np.float32))
    assert (gaps[:, 1::2] == 5).all()


def _singles() -> dict[str, Array]:
    generator = np.random.default_rng(7)
    bits = generator.integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    near = generator.integers(90, 145, bits.size, dtype=np.uint32) << 23
    in_range = ((bits & 0x807FFFFF) | near).view(np.float32)
    in_range = in_range[np.abs(in_range) < 65520]
    ties = ((in_range.view(np.uint32) & 0xFFFFE000) | 0x1000).view(np.float32)
    steps = np.arange(0, 5000, dtype=np.float32) * np.float32(2**-26)
    return {
        "any bits": bits.view(np.float32),
        "in range": in_range,
        "ties": ties,
        "ties of subnormals": np.concatenate([steps, -steps]),
        "largest": np.linspace(65000, 65519.996, 2000, dtype=np.float32),
        "overflow": np.linspace(65000, 65600, 2000, dtype=np.float32),
        "with NaN": np.append(in_range, np.float32(np.nan)),
        "with infinity": np.append(in_range, np.float32(-np.inf)),
        "few": in_range[:100],
    }


@pytest.mark.parametrize("name", _singles())
def test_single_to_half(name: str) -> None:
    singles = _singles()[name]
    with np.errstate(all="ignore"):
        expected = singles.astype(np.float16)
        found = np.empty(singles.shape, np.float16)
        narrow(singles, found, np.empty_like(singles))
    assert _same_bits(found, expected)


def test_single_to_half_into_gaps() -> None:
    singles = np.linspace(-100, 100, 4000, dtype=np.float32).reshape(50, 80)
    gaps = np.full((50, 160), 5, np.float16)
    narrow(singles, gaps[:, 1::2], np.empty_like(singles))
    assert _same_bits(gaps[:, 1::2].copy(), singles.astype(np.float16))
    assert (gaps[:, ::2] == 5).all()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float64, np.complex64])
def test_other_types(dtype: type) -> None:
    singles = np.linspace(-100, 100, 4000, dtype=np.float32)
    found: Array = np.empty(4000, dtype)
    narrow(singles, found, np.empty_like(singles))
    assert _same_bits(found, singles.astype(dtype))
