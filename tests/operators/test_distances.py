"""Distances of rows, the learned slope, repeated edges, and sums of products."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aclnn.errors import InvalidParameterError
from aclnn.tensors import Scalar
from tests.operators.calling import Array, call, device


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, math.inf])
def test_distances_at_any_number_of_threads(p: float) -> None:
    x, y = numbers(2, 300, 20), numbers(150, 20, seed=1)
    found = [np.full((2, 300, 150), 7, np.float32) for _ in "ab"]
    for threads, out in zip((1, 3), found, strict=True):
        call("aclnnCdist", x, y, p, 0, out, on=device(threads))
    np.testing.assert_array_equal(found[0], found[1])
    differences = x.astype(np.float64)[:, :, None] - y
    expected = np.linalg.norm(differences, p, axis=3)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)


def test_near_rows_are_subtracted_before_they_are_squared() -> None:
    x = np.full((1, 3), 1000, np.float32)
    out = np.empty((1, 1), np.float32)
    call("aclnnCdist", x, x + np.float32(0.0625), 2.0, 1, out)
    np.testing.assert_allclose(out, math.sqrt(3) * 0.0625, rtol=1e-6)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, math.inf])
def test_equal_rows_have_no_gradient(p: float) -> None:
    x, grad = numbers(3, 4), np.ones((3, 3), np.float32)
    norms, slope = np.empty((3, 3), np.float32), np.full((3, 4), 7, np.float32)
    call("aclnnCdist", x, x, p, 0, norms)
    np.fill_diagonal(grad, 1e30)
    call("aclnnCdistBackward", grad, x, x, norms, p, slope)
    assert (np.abs(slope) < 1e6).all()


def test_a_learned_slope_of_all_and_of_each_channel() -> None:
    x, grad = numbers(4, 3, 5), numbers(4, 3, 5, seed=1)
    below = np.where(x > 0, 0, grad.astype(np.float64) * x)
    for weight, sums in ((numbers(3, seed=2), below.sum((0, 2))), (numbers(1), [below.sum()])):
        out, slope, own = np.empty_like(x), np.empty_like(x), np.empty_like(weight)
        call("aclnnPrelu", x, weight, out)
        scale = np.where(x > 0, 1, weight[:, None])
        np.testing.assert_allclose(out, x * scale, rtol=1e-6)
        call("aclnnPreluBackward", grad, x, weight, slope, own)
        np.testing.assert_allclose(slope, grad * scale, rtol=1e-6)
        np.testing.assert_allclose(own, sums, rtol=1e-5)
    with pytest.raises(InvalidParameterError, match="weight has shape"):
        call("aclnnPrelu", x, numbers(2), np.empty_like(x))


def test_edges_again_outside() -> None:
    x, out = numbers(2, 3, 4), np.empty((2, 5, 9), np.float32)
    call("aclnnReplicationPad2d", x, (5, 0, 0, 2), out)
    np.testing.assert_array_equal(out, np.pad(x, ((0, 0), (0, 2), (5, 0)), "edge"))
    with pytest.raises(InvalidParameterError, match="padding is"):
        call("aclnnReplicationPad2d", x, (-1, 0, 0, 2), out)


def test_sums_of_products() -> None:
    first, second, own = numbers(3, 2, 4), numbers(3, 4, 5, seed=1), np.full(5, np.nan, np.float32)
    out = np.empty((2, 5), np.float32)
    scales = Scalar(0.0, "FLOAT"), Scalar(2.0, "FLOAT")
    call("aclnnAddbmm", own, first, second, *scales, out, 0)
    np.testing.assert_allclose(out, 2 * (first @ second).sum(0), rtol=1e-4, atol=1e-6)
    with pytest.raises(InvalidParameterError, match="batch2 has shape"):
        call("aclnnAddbmm", own, first, second[:2].copy(), *scales, out, 0)
    row, vector = np.empty(2, np.float32), numbers(4, seed=2)
    call("aclnnAddmv", numbers(2), first[0], vector, *scales[::-1], row, 0)
    np.testing.assert_allclose(row, 2 * first[0] @ vector, rtol=1e-5, atol=1e-6)
