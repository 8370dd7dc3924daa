"""Compiled loops give the bits of the plain ones."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from aclnn_server.operators.engines import casts
from aclnn_server.operators.engines.blocks import FEW
from aclnn_server.operators.losses.losses import SmoothL1Gradient
from tests.operators.calling import Array, call

pytest.importorskip("numba", reason="numba is not installed; it comes with the extra jit")

BITS = np.random.default_rng(3).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
EDGES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 65504, 65520, 2**-25, 3e38], np.float32
)
SINGLES = np.concatenate(
    [
        BITS.view(np.float32),
        np.tile(EDGES, 1000),
        np.linspace(-70000, 70000, 1 << 16, dtype=np.float32),
    ]
)
NARROW = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


def without_compiler(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(casts, "loops", dict)
    patch.setattr("aclnn_server.operators.losses.losses.has_compiler", lambda: False)


def same(left: Array, right: Array, *, nan_signs: bool = True) -> bool:
    """Whether the bits are equal, but for those of NaN besides its sign."""
    left_nan, right_nan = np.isnan(left.astype(np.float32)), np.isnan(right.astype(np.float32))
    bits = {2: np.uint16, 4: np.uint32}[left.dtype.itemsize]
    equal = left.view(bits) == right.view(bits)
    signs = np.signbit(left.astype(np.float32)) == np.signbit(right.astype(np.float32))
    alike = left_nan & (signs | (not nan_signs))
    return bool(np.array_equal(left_nan, right_nan) and (equal | alike).all())


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_number_of_16_bits_is_widened_alike(
    dtype: np.dtype[np.generic], monkeypatch: pytest.MonkeyPatch
) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    assert (dtype, np.dtype(np.float32)) in casts.loops()
    fast, slow = np.empty(every.shape, np.float32), np.empty(every.shape, np.float32)
    casts.widen(every, fast)
    without_compiler(monkeypatch)
    casts.widen(every, slow)
    assert same(fast, slow)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_numbers_are_rounded_alike(
    dtype: np.dtype[np.generic], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (np.dtype(np.float32), dtype) in casts.loops()
    fast, slow = np.empty(SINGLES.shape, dtype), np.empty(SINGLES.shape, dtype)
    with np.errstate(all="ignore"):
        casts.narrow(SINGLES, fast, np.empty_like(SINGLES))
        without_compiler(monkeypatch)
        casts.narrow(SINGLES, slow, np.empty_like(SINGLES))
    assert same(fast, slow)


def gradient(inputs: list[Array], beta: float, reduction: int) -> Array:
    out = np.full(inputs[0].shape, 7, inputs[0].dtype)
    call("aclnnSmoothL1LossBackward", *inputs, reduction, beta, out)
    return out


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), *NARROW], ids=str)
@pytest.mark.parametrize("beta", [1.0, 0.3, 1e-30, 3e38])
@pytest.mark.parametrize("reduction", [0, 1])
def test_the_gradient_in_one_pass(
    dtype: np.dtype[np.generic], beta: float, reduction: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(5)
    size = 3 * (1 << 17) + 5
    special = np.resize(EDGES, 999)
    with np.errstate(all="ignore"):
        inputs = [
            np.concatenate([generator.permutation(special), generator.normal(size=size) * 2])
            .astype(np.float32)
            .astype(dtype)
            for _ in range(3)
        ]
    assert SmoothL1Gradient(beta, 1.0).fused(dtype) is not None
    fast = gradient(inputs, beta, reduction)
    without_compiler(monkeypatch)
    # Of two NaNs the processor takes the first, and which that is follows from the compiler.
    assert same(fast, gradient(inputs, beta, reduction), nan_signs=False)


@pytest.mark.parametrize("beta", [0.0, np.inf])
def test_what_one_pass_does_not_know_is_computed_in_steps(beta: float) -> None:
    assert SmoothL1Gradient(beta, 1.0).fused(np.dtype(np.float32)) is None
    assert SmoothL1Gradient(1.0, 1.0).fused(np.dtype(np.float64)) is None


def test_views_and_broadcasts_are_computed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(9)
    wide = [generator.normal(size=(200, 2 * FEW)).astype(np.float32) for _ in range(3)]
    inputs = [wide[0][:, ::2], wide[1][:, ::2], wide[2][:1, ::2]]
    outs = []
    for _ in range(2):
        out = np.full((200, FEW), 7, np.float32)
        call("aclnnSmoothL1LossBackward", *inputs, 0, 0.5, out)
        outs.append(out)
        without_compiler(monkeypatch)
    assert same(*outs)


def test_nothing_has_to_be_kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a read-only system there is no place for compiled code."""
    from numba import njit
    from numba.core import caching

    from aclnn_server.operators.engines import compiled

    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="no locator available"):
        njit(cache=True)(compiled.narrow_half.py_func)
    source, target = np.arange(5, dtype=np.float32), np.empty(5, np.uint16)
    compiled._loop(compiled.narrow_half.py_func)(source, target)
    assert target.view(np.float16).tolist() == [0, 1, 2, 3, 4]
