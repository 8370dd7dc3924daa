"""Norms, logarithms of sums and AdamW's steps: large tensors, edges, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.tensors import Scalar
from tests.operators.calling import Array, call, device
from tests.operators.test_movement import numbers, refusal, views

TWO = Scalar(2, "INT64")


def normal(*shape: int) -> Array:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("axis", [0, 1])
def test_of_large_tensors_in_every_layout(axis: int, threads: int) -> None:
    x = normal(900, 1001)
    wide = x.astype(np.float64)
    expected = np.linalg.norm(wide, axis=axis)
    logarithm = np.log(np.exp(wide).sum(axis))
    found = set()
    for source in views(x):
        out = np.zeros_like(expected, np.float32)
        call("aclnnNorm", source, TWO, (axis,), False, out, on=device(threads))
        np.testing.assert_allclose(out, expected, rtol=2e-7)
        sums = np.zeros_like(out)
        call("aclnnLogSumExp", source, (axis,), False, sums, on=device(threads))
        np.testing.assert_allclose(sums, logarithm, rtol=3e-7)
        found.add(out.tobytes() + sums.tobytes())
    assert len(found) == 1


def test_exponentials_that_overflow_and_vanish() -> None:
    x = np.array([[1000, 1000], [-1000, -1000], [np.inf, 0], [-np.inf, -np.inf], [np.nan, 0]])
    out = np.zeros(5, np.float32)
    call("aclnnLogSumExp", x.astype(np.float32), (1,), False, out)
    half = np.float32(np.log(2))
    expected = np.array([1000 + half, half - 1000, np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(out, expected)


def test_sums_of_blocks_relative_to_different_elements() -> None:
    x = np.linspace(-200, 300, 10**6, dtype=np.float32)
    out = np.zeros((), np.float32)
    call("aclnnLogSumExp", x, (), False, out, on=device(2))
    expected = 300 + np.log(np.exp(x.astype(np.float64) - 300).sum())
    np.testing.assert_allclose(out, expected, rtol=2e-7)


def test_of_empty_tensors() -> None:
    x, out = np.zeros((0, 3), np.float32), np.ones(3, np.float32)
    call("aclnnLinalgVectorNorm", x, TWO, (0,), False, dtypes.FLOAT, out)
    assert (out == 0).all()
    call("aclnnLogSumExp", x, (0,), False, out)
    assert (out == -np.inf).all()
    mean = np.ones(3, np.float32)
    call("aclnnStdMeanCorrection", x, (0,), 1, False, out, mean)
    assert np.isnan(out).all()
    assert np.isnan(mean).all()


def test_spread_by_a_correction() -> None:
    x, out, mean = normal(50, 60), np.zeros(50, np.float32), np.zeros(50, np.float32)
    for correction in (0, 1, 5):
        call("aclnnVarCorrection", x, (1,), correction, False, out)
        expected = x.astype(np.float64).var(1, ddof=correction)
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    call("aclnnStdMeanCorrection", x, (-1,), 5, False, out, mean)
    np.testing.assert_allclose(out, np.sqrt(expected), rtol=1e-6)
    np.testing.assert_allclose(mean, x.astype(np.float64).mean(1), rtol=1e-6, atol=1e-7)


def test_a_step_of_adamw_in_mixed_types_and_layouts() -> None:
    weights, first = normal(40, 50), normal(40, 50)
    second, grad = abs(normal(40, 50)), normal(40, 50).astype(np.float16)
    results = []
    for change in (np.ascontiguousarray, np.asfortranarray):
        state = [change(array.copy()) for array in (weights, first, second)]
        call("aclnnApplyAdamWV2", *state, None, grad, np.array(3), 0.1, 0.9, 0.99, 0.01, 1e-8,
             False, False)  # fmt: skip
        results.append(state)
    wide = grad.astype(np.float64)
    moment, square = 0.9 * first + 0.1 * wide, 0.99 * second + 0.01 * wide**2
    root = np.sqrt(square) / np.sqrt(1 - 0.99**4) + 1e-8
    expected = weights * (1 - 0.1 * 0.01) - 0.1 / (1 - 0.9**4) * moment / root
    for plain, turned, right in zip(*results, (expected, moment, square), strict=True):
        np.testing.assert_array_equal(plain, turned)
        np.testing.assert_allclose(plain, right, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("steps", [-1e30, -2, 1e30, np.inf, np.nan])
@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_a_step_of_adamw_after_any_number_of_steps_is_made(steps: float, beta: float) -> None:
    """What such a tensor leads to is no number, and no failure."""
    state = [np.ones(2, np.float32) for _ in range(3)]
    counted = np.array(steps, np.float32)
    call("aclnnApplyAdamWV2", *state, None, np.ones(2, np.float32), counted, 0.1, beta, beta, 0.0,
         1e-8, False, False)  # fmt: skip
    np.testing.assert_allclose(state[1], beta + (1 - beta), rtol=1e-6)


def test_refusals() -> None:
    x, out = numbers((2, 3)), np.zeros(2, np.float32)
    name = "aclnnLinalgVectorNorm"
    assert refusal(name, x, TWO, (2,), False, dtypes.FLOAT, out) == (161002, "dims")
    assert refusal(name, x, TWO, (1,), True, dtypes.FLOAT, out) == (161002, "out")
    assert refusal(name, x, TWO, (1,), False, dtypes.FLOAT16, out) == (161002, "out")
    assert refusal("aclnnLogSumExp", x, (1, -1), False, out) == (161002, "dim")
    state = (x, x.copy(), x.copy())
    rest = (0.1, 0.9, 0.99, 0.01, 1e-8)
    name, one = "aclnnApplyAdamWV2", np.ones(1, np.float32)
    assert refusal(name, *state, None, x, one, *rest, True, False) == (
        161001,
        "maxGradNormOptionalRef",
    )
    assert refusal(name, *state, None, x, np.ones(2, np.float32), *rest, False, False) == (
        161002,
        "step",
    )
    assert refusal(name, *state, None, x[:1], one, *rest, False, False) == (161002, "grad")
