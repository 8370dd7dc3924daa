"""How far results are from each other."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn_server.cli.differences import Tolerance, compare, number, ulp_between

EXACT = Tolerance(0, 0)
FLOATS = pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])


@FLOATS
def test_neighbours_are_one_step_apart(dtype: npt.DTypeLike) -> None:
    x = np.array([1, -1, 0.1, 1000, 0], dtype)
    step = x.view(f"i{x.dtype.itemsize}") + 1
    found = compare(x, step.view(dtype), EXACT)
    assert (found.max_ulp, found.differing, found.first) == (1, 5, (0,))


def test_steps_across_zero() -> None:
    tiny = np.float32(np.finfo(np.float32).smallest_subnormal)
    assert ulp_between(np.array(tiny), np.array(-tiny)) == 2
    assert ulp_between(np.array(0.0), np.array(-0.0)) == 0


@given(st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False))
def test_steps_are_those_of_nextafter(left: float, right: float) -> None:
    a, b = np.float32(left), np.float32(right)
    steps = int(ulp_between(np.array(a), np.array(b)))
    near = a
    with np.errstate(over="ignore"):
        for _ in range(min(steps, 3)):
            near = np.nextafter(near, b)
    assert (near == b) == (steps <= 3)


def test_measures() -> None:
    left = np.array([[1, 2], [4, 8]], np.float32)
    right = np.array([[1, 2], [5, 8.5]], np.float32)
    found = compare(left, right, Tolerance())
    assert not found.within
    assert (found.max_absolute, found.max_relative) == (1, 0.25)
    assert (found.differing, found.elements, found.first) == (2, 4, (1, 0))
    assert (found.left, found.right) == ("4.0", "5.0")


def test_nan_and_infinity_equal_themselves_only() -> None:
    left = np.array([np.nan, np.inf, -np.inf], np.float32)
    assert compare(left, left.copy(), EXACT).within
    for other in ([0, np.inf, -np.inf], [np.nan, 1, -np.inf], [np.nan, np.inf, np.inf]):
        found = compare(left, np.array(other, np.float32), Tolerance(1, 1))
        assert not found.within
        assert found.differing == 1
        assert not math.isfinite(found.max_absolute)


@pytest.mark.parametrize(
    ("tolerance", "within"),
    [
        (Tolerance(), False),
        (Tolerance(absolute=2), True),
        (Tolerance(relative=0.01), True),
        (Tolerance(relative=0.009), False),
        (Tolerance(0, 0, ulp=1e6), True),
        (Tolerance(0, 0, ulp=10), False),
    ],
)
def test_any_tolerance_is_enough(tolerance: Tolerance, within: bool) -> None:
    left, right = np.array([100, 0], np.float32), np.array([101, 0], np.float32)
    assert compare(left, right, tolerance).within is within


@pytest.mark.parametrize(
    ("dtype", "near"), [(np.float32, 5e-5), (np.float16, 1e-3), (ml_dtypes.bfloat16, 5e-3)]
)
def test_tolerance_by_type(dtype: npt.DTypeLike, near: float) -> None:
    one = np.ones(1, dtype)
    assert compare(one, (one.astype(np.float32) + near).astype(dtype), Tolerance()).within
    assert not compare(one, (one.astype(np.float32) + 20 * near).astype(dtype), Tolerance()).within


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_integers_must_be_equal(dtype: npt.DTypeLike) -> None:
    left, right = np.array([0, 1], dtype), np.array([1, 1], dtype)
    found = compare(left, right, Tolerance())
    assert (found.within, found.max_ulp, found.first) == (False, 1, (0,))
    assert compare(left, left, Tolerance()).within


def test_large_integers_are_exact() -> None:
    left = np.array([2**62], np.int64)
    assert compare(left, left + 1, EXACT).max_absolute == 1


def test_complex_numbers() -> None:
    left = np.array([3 + 4j, 1j], np.complex64)
    found = compare(left, np.array([3 + 4j, 1j + 1e-3], np.complex64), Tolerance())
    assert (found.within, found.first) == (False, (1,))
    assert found.max_relative == pytest.approx(1e-3)


def test_without_dimensions_and_without_elements() -> None:
    assert compare(np.array(1.0), np.array(1.5), EXACT).first == ()
    empty = compare(np.zeros(0), np.zeros(0), EXACT)
    assert (empty.within, empty.max_absolute, empty.first) == (True, 0, None)


def test_only_pairs_are_compared() -> None:
    with pytest.raises(ValueError, match="are no pair"):
        compare(np.zeros(2), np.zeros(3), EXACT)


def test_numbers_of_json() -> None:
    assert [number(value) for value in (0.5, math.inf, math.nan)] == [0.5, "inf", "nan"]
