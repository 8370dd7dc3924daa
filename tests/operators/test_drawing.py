"""Random numbers: what seed and offset determine, and the distributions that they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from aclnn.errors import ExecutionFailedError
from aclnn.tensors import Scalar
from aclnn_server.operators.engines.random_numbers import generator
from aclnn_server.operators.engines.tiling import BLOCK
from tests.operators.calling import Array, call, device
from tests.operators.test_movement import refusal

MANY = 3 * BLOCK + 77
Fill = Callable[[Array, int, int, int], None]


def normal(out: Array, seed: int, offset: int, threads: int = 1) -> None:
    call("aclnnInplaceNormal", out, 1.5, 2.0, seed, offset, on=device(threads))


def uniform(out: Array, seed: int, offset: int, threads: int = 1) -> None:
    call("aclnnInplaceUniform", out, -1.0, 3.0, seed % 2**64, offset, on=device(threads))


def whole(out: Array, seed: int, offset: int, threads: int = 1) -> None:
    call("aclnnInplaceRandom", out, 0, 100, seed, offset, on=device(threads))


def events(out: Array, seed: int, offset: int, threads: int = 1) -> None:
    chances = np.linspace(0, 1, out.shape[-1], dtype=np.float32)
    call("aclnnInplaceBernoulliTensor", out, chances, seed, offset, on=device(threads))


def order(out: Array, seed: int, offset: int, threads: int = 1) -> None:
    call("aclnnRandperm", out.size, seed, offset, out, on=device(threads))


FILLS = pytest.mark.parametrize("fill", [normal, uniform, whole, events, order])


def filled(fill: Fill, seed: int = 5, offset: int = 0, size: int = 1000, threads: int = 1) -> Array:
    out = np.zeros(size, np.float32)
    fill(out, seed, offset, threads)
    return out


@FILLS
def test_seed_and_offset_name_the_numbers(fill: Fill) -> None:
    first = filled(fill)
    np.testing.assert_array_equal(filled(fill), first)
    for seed, offset in ((6, 0), (5, 1), (-5, 0)):
        assert (filled(fill, seed, offset) != first).mean() > 0.3


@FILLS
def test_neither_threads_nor_layout_change_them(fill: Fill) -> None:
    expected = filled(fill, size=MANY)
    np.testing.assert_array_equal(filled(fill, size=MANY, threads=3), expected)
    room = np.zeros(2 * MANY, np.float32)
    fill(room[::2], 5, 0, 2)
    np.testing.assert_array_equal(room[::2], expected)
    assert not room[1::2].any()


def test_a_block_continues_no_other() -> None:
    first, second = (generator(7, 3, block).random(1000) for block in (0, 1))
    assert not np.isin(first, second).any()


def test_normal_numbers_have_mean_and_deviation() -> None:
    found = filled(normal, size=10**6)
    assert abs(found.mean() - 1.5) < 0.01
    assert abs(found.std() - 2) < 0.01
    share = (np.abs(found - 1.5) < 2).mean()
    assert abs(share - 0.6827) < 0.003


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_uniform_numbers_stay_below_the_end(dtype: npt.DTypeLike) -> None:
    out = np.zeros(10**6, dtype)
    uniform(out, 1, 2)
    found = out.astype(np.float64)
    assert found.min() >= -1
    assert found.max() < 3
    assert abs(found.mean() - 1) < 0.02
    counts, _ = np.histogram(found, 8, (-1, 3))
    np.testing.assert_allclose(counts, 125000, rtol=0.05)


def test_double_numbers_have_all_their_digits() -> None:
    out = np.zeros(1000)
    call("aclnnInplaceUniform", out, 0.0, 1.0, 1, 0)
    assert (out.astype(np.float32) != out).mean() > 0.99


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float16, np.float32])
def test_whole_numbers_are_equally_likely(dtype: npt.DTypeLike) -> None:
    out = np.zeros(10**5, dtype)
    call("aclnnInplaceRandom", out, 3, 13, 4, 0)
    values, counts = np.unique(out, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(3, 13).astype(dtype))
    np.testing.assert_allclose(counts, 10**4, rtol=0.06)


def test_whole_numbers_of_a_range_that_the_type_does_not_hold() -> None:
    out = np.zeros(10**5, np.float16)
    call("aclnnInplaceRandom", out, 2040, 2056, 4, 0)
    assert (out.min(), out.max()) == (2040, 2054)
    out = np.zeros(1000, np.int64)
    call("aclnnInplaceRandom", out, -(2**63), 2**63 - 1, 4, 0)
    assert len(np.unique(out)) == 1000


def test_events_have_their_probabilities() -> None:
    out = np.zeros((10**5, 5), np.int32)
    events(out, 9, 0)
    np.testing.assert_allclose(out.mean(0), [0, 0.25, 0.5, 0.75, 1], atol=0.01)
    assert set(np.unique(out)) == {0, 1}
    x = np.zeros(10**5, np.float16)
    call("aclnnBernoulli", x, Scalar(0.3, "DOUBLE"), 3, 0, out := np.zeros_like(x))
    assert abs(out.astype(np.float32).mean() - 0.3) < 0.01
    for chance in (0, 1):
        call("aclnnInplaceBernoulli", out, Scalar(float(chance), "FLOAT"), 3, 0)
        assert (out == chance).all()


def test_randperm_has_every_number_once() -> None:
    out = np.zeros(1000, np.int32)
    order(out, 11, 0)
    np.testing.assert_array_equal(np.sort(out), np.arange(1000))
    firsts = [filled(order, seed, size=3)[0] for seed in range(3000)]
    np.testing.assert_allclose(np.bincount(np.array(firsts, np.int64)), 1000, rtol=0.1)


# --- aclnnMultinomial ---------------------------------------------------------------------------------


def drawn(weights: Any, count: int, *, replacement: bool, seed: int = 2) -> Array:  # noqa: ANN401
    own = np.asarray(weights, np.float32)
    out = np.full((*own.shape[:-1], count), -1, np.int64)
    call("aclnnMultinomial", own, count, replacement, seed, 0, out)
    return out


def test_categories_are_drawn_by_their_weights() -> None:
    found = drawn([[0, 1, 3, 0], [5, 0, 0, 5]], 10**5, replacement=True)
    first, second = (np.bincount(row, minlength=4) / 10**5 for row in found)
    np.testing.assert_allclose(first, [0, 0.25, 0.75, 0], atol=0.01)
    np.testing.assert_allclose(second, [0.5, 0, 0, 0.5], atol=0.01)


def test_without_replacement_each_is_drawn_once() -> None:
    found = drawn([0, 1, 2, 3, 4], 4, replacement=False)
    np.testing.assert_array_equal(np.sort(found), [1, 2, 3, 4])
    firsts = [drawn([1, 2, 5], 1, replacement=False, seed=seed)[0] for seed in range(4000)]
    np.testing.assert_allclose(np.bincount(firsts) / 4000, [0.125, 0.25, 0.625], atol=0.03)


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ([1, -1, 2], "negative, infinite or NaN"),
        ([1, np.nan, 2], "negative, infinite or NaN"),
        ([0, 0, 0], "all 0"),
        ([0, 1, 0], "fewer than 2 weights above 0"),
    ],
)
def test_weights_that_nothing_can_be_drawn_of_fail(weights: list[float], problem: str) -> None:
    with pytest.raises(ExecutionFailedError, match=problem):
        drawn(weights, 2, replacement=False)


def test_refusals() -> None:
    x, out = np.ones((2, 3), np.float32), np.zeros((2, 2), np.int64)
    assert refusal("aclnnInplaceNormal", x, 0.0, -1.0, 0, 0) == (161001, "std")
    assert refusal("aclnnInplaceUniform", x, 1.0, 0.0, 0, 0) == (161002, "to")
    assert refusal("aclnnInplaceRandom", x, 2, 2, 0, 0) == (161002, "to")
    assert refusal("aclnnInplaceBernoulli", x, Scalar(1.5, "FLOAT"), 0, 0) == (161002, "prob")
    assert refusal("aclnnInplaceBernoulli", x, Scalar(1, "INT64"), 0, 0) == (161002, "prob")
    assert refusal("aclnnInplaceBernoulliTensor", x, x[:, :2], 0, 0) == (161002, "prob")
    assert refusal("aclnnRandperm", 5, 0, 0, np.zeros(4, np.int64)) == (161002, "out")
    assert refusal("aclnnMultinomial", x, 3, False, 0, 0, out) == (161002, "out")
    assert refusal("aclnnMultinomial", x, 0, True, 0, 0, out[:, :0]) == (161002, "numsamples")
    wide = np.zeros((2, 4), np.int64)
    assert refusal("aclnnMultinomial", x, 4, False, 0, 0, wide) == (161002, "numsamples")


def test_multinomial_of_no_rows_of_no_categories_draws_nothing() -> None:
    call(
        "aclnnMultinomial", np.empty((0, 0), np.float32), 3, True, 0, 0, np.empty((0, 3), np.int64)
    )
