"""Counted elements: intervals, NaN, what fails, and the shapes that a run tells."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from aclnn.errors import ExecutionFailedError
from aclnn.tensors import Scalar
from tests.operators.calling import Array, call, shapes
from tests.operators.test_movement import numbers, refusal, views

NAN = np.nan


def counts(x: Array, low: float, high: float, bins: int = 4) -> list[float]:
    out = np.zeros(bins, np.float32)
    call("aclnnHistc", x, bins, Scalar(low, "DOUBLE"), Scalar(high, "DOUBLE"), out)
    found: list[float] = out.tolist()
    return found


def test_intervals() -> None:
    x = np.array([-1, 0, 0.5, 1, 3.99, 4, 4.01, NAN, np.inf], np.float32)
    assert counts(x, 0, 4) == [2, 1, 0, 2]
    assert counts(np.array([2, 2], np.float32), 0, 0) == [0, 0, 2, 0]
    assert counts(np.array([0, 4, 1], np.float32), 0, 0) == [1, 1, 0, 1]
    assert counts(np.zeros(0, np.float32), 0, 0) == [0, 0, 0, 0]
    with pytest.raises(ExecutionFailedError, match="have no width"):
        counts(x, 0, 0)


def test_numbers_that_are_not_counted_fail() -> None:
    out = np.full(3, 9, np.int64)
    for odd in (-1, 3):
        with pytest.raises(ExecutionFailedError, match=f"element {odd}; allowed are 0 to 2"):
            call("aclnnBincount", np.array([0, odd]), None, 0, out)
    assert (out == 9).all()


def distinct(x: Array, *, inverse: bool = True, count: bool = True) -> tuple[Any, ...]:
    """What aclnnUnique2 gives, cut to the shapes that it tells."""
    values = np.ones(x.size, x.dtype)
    where = np.full(x.shape if inverse else (0,), -1, np.int64)
    sizes = np.full(x.size if count else 0, -1, np.int64)
    found = shapes("aclnnUnique2", x, True, inverse, count, values, where, sizes)
    assert set(found) == {"valueOut", *(["countsOut"] if count else [])}
    (number,) = found["valueOut"]
    assert (values[number:] == 1).all()
    assert (sizes[number:] == -1).all()
    return values[:number], where, sizes[:number]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.bool_])
def test_distinct_elements_in_every_layout(dtype: npt.DTypeLike) -> None:
    x = numbers((30, 40), dtype)
    expected: Any = np.unique(x.astype(np.float32), return_inverse=True, return_counts=True)
    for source in views(x):
        for one, other in zip(distinct(source), expected, strict=True):
            np.testing.assert_array_equal(one, np.reshape(other, one.shape))


def test_each_nan_is_another() -> None:
    values, where, sizes = distinct(np.array([NAN, 1, NAN, 1, -0.0, 0.0], np.float32))
    np.testing.assert_array_equal(values, [0, 1, NAN, NAN])
    assert where.tolist() == [2, 1, 3, 1, 0, 0]
    assert sizes.tolist() == [2, 2, 1, 1]


@pytest.mark.parametrize(("inverse", "count"), [(False, False), (True, False), (False, True)])
def test_only_what_is_wanted_is_written(inverse: bool, count: bool) -> None:
    values, where, sizes = distinct(np.array([3, 1, 3], np.int32), inverse=inverse, count=count)
    assert values.tolist() == [1, 3]
    assert where.tolist() == ([1, 0, 1] if inverse else [])
    assert sizes.tolist() == ([1, 2] if count else [])


def test_of_no_elements() -> None:
    values, _, sizes = distinct(np.zeros((0, 3), np.float32))
    assert values.size == sizes.size == 0


def test_runs() -> None:
    x = np.array([[1, 1, 2], [1, 1, 2], [1, 2, 2]], np.int32)
    values, where, sizes = np.zeros(9, np.int32), np.zeros((3, 3), np.int64), np.zeros(9, np.int64)
    found = shapes("aclnnUniqueConsecutive", x, True, True, 1000, values, where, sizes)
    assert found == {"valueOut": (6,), "countsOut": (6,)}
    assert values[:6].tolist() == [1, 2, 1, 2, 1, 2]
    assert sizes[:6].tolist() == [2, 1, 2, 1, 1, 2]
    assert where.tolist() == [[0, 0, 1], [2, 2, 3], [4, 5, 5]]


@pytest.mark.parametrize(
    ("dim", "shape", "places"), [(0, (2, 3), [0, 0, 1]), (-1, (3, 3), [0, 1, 2])]
)
def test_runs_of_slices(dim: int, shape: tuple[int, ...], places: list[int]) -> None:
    x = np.array([[1, 1, 2], [1, 1, 2], [1, 2, 2]], np.float16)
    values, where, sizes = np.zeros_like(x), np.zeros(3, np.int64), np.zeros(3, np.int64)
    found = shapes("aclnnUniqueConsecutive", x, True, True, dim, values, where, sizes)
    assert found == {"valueOut": shape, "countsOut": (shape[dim],)}
    expected = x[1:] if dim == 0 else x
    np.testing.assert_array_equal(values.reshape(-1)[: expected.size], expected.reshape(-1))
    assert where.tolist() == places


def test_refusals() -> None:
    x, wide = numbers((2, 3)), np.zeros(6, np.int64)
    zero, one = Scalar(0, "INT64"), Scalar(1, "INT64")
    assert refusal("aclnnHistc", x, 0, zero, one, wide[:0]) == (161002, "bins")
    assert refusal("aclnnHistc", x, 6, one, zero, wide) == (161002, "max")
    assert refusal("aclnnHistc", x, 5, zero, one, wide) == (161002, "out")
    assert refusal("aclnnBincount", x, None, 0, wide) == (161002, "self")
    assert refusal("aclnnBincount", wide, x, 0, wide) == (161002, "weights")
    assert refusal("aclnnBincount", wide, None, 9, wide) == (161002, "out")
    where, flat = np.zeros((2, 3), np.int64), np.zeros(6, np.float32)
    name = "aclnnUnique2"
    assert refusal(name, x, True, True, True, flat[:5], where, wide) == (161002, "valueOut")
    assert refusal(name, x, True, True, True, flat, wide, wide) == (161002, "inverseOut")
    assert refusal(name, x, True, True, True, flat, where, wide[:5]) == (161002, "countsOut")
    name = "aclnnUniqueConsecutive"
    assert refusal(name, x, True, True, 2, flat, where, wide) == (161002, "dim")
    assert refusal(name, x, True, True, 0, flat, where, wide) == (161002, "inverseOut")
