"""Order along a dimension: NaN, equal elements, layouts, and extremes so far."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tests.operators.calling import Array, call, device
from tests.operators.test_movement import numbers, refusal, views

NAN = np.nan


def ordered(x: Array, dim: int, *, descending: bool, threads: int = 1) -> tuple[Array, Array]:
    values, places = np.zeros_like(x), np.zeros(x.shape, np.int64)
    call("aclnnSort", x, True, dim, descending, values, places, on=device(threads))
    return values, places


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.bool_])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_sorted_in_every_layout(dim: int, dtype: npt.DTypeLike) -> None:
    x = numbers((30, 40, 5), dtype)
    keys = x.astype(np.float64)
    forwards = np.argsort(keys, dim, kind="stable")
    backwards = np.argsort(-keys, dim, kind="stable")
    for source in views(x):
        for descending, expected in ((False, forwards), (True, backwards)):
            values, places = ordered(source, dim, descending=descending)
            np.testing.assert_array_equal(places, expected)
            np.testing.assert_array_equal(values, np.take_along_axis(x, expected, dim))


def test_nan_is_the_greatest_and_equal_elements_keep_their_order() -> None:
    x = np.array([2, NAN, -np.inf, 2, np.inf, NAN, -0.0, 0.0], np.float32)
    assert ordered(x, 0, descending=False)[1].tolist() == [2, 6, 7, 0, 3, 4, 1, 5]
    assert ordered(x, 0, descending=True)[1].tolist() == [1, 5, 4, 0, 3, 6, 7, 2]


def test_in_place_and_in_several_threads() -> None:
    x = np.random.default_rng(2).integers(0, 50, (900, 701)).astype(np.int32)
    expected = np.sort(x, 1)
    alone = ordered(x, 1, descending=False)
    for threads in (1, 3):
        own = x.copy()
        places = np.zeros(x.shape, np.int64)
        call("aclnnSort", own, False, 1, False, own, places, on=device(threads))
        np.testing.assert_array_equal(own, expected)
        np.testing.assert_array_equal(places, alone[1])


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [1, 2, 7, 25, 26, 100])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float64, np.int32, np.int8])
def test_topk_are_the_first_of_all_in_order(dtype: npt.DTypeLike, k: int, largest: bool) -> None:
    """Rows without equal elements, with some, with nothing but them, and with up to 100 NaN."""
    rng = np.random.default_rng(k)
    rows = [rng.permutation(100) - 50, rng.integers(-3, 4, 100), np.zeros(100)]
    x = np.array(rows * 8).astype(dtype)
    if np.dtype(dtype).kind not in "iu":
        x[2::3, ::2] = np.array(-0.0, dtype)
        for row, count in enumerate((0, 1, 3, 30, 60, 99, 100)):
            x[3 * row : 3 * row + 3, rng.permutation(100)[:count]] = np.array(NAN, dtype)
    expected = ordered(x, 1, descending=largest)
    values, places = np.zeros((24, k), x.dtype), np.zeros((24, k), np.int64)
    call("aclnnTopk", x, k, 1, largest, True, values, places)
    np.testing.assert_array_equal(places, expected[1][:, :k])
    np.testing.assert_array_equal(values.view(np.uint8), expected[0][:, :k].copy().view(np.uint8))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3, 6])
def test_topk(k: int, largest: bool) -> None:
    x = numbers((4, 6, 3), np.float16)
    keys = -x.astype(np.float32) if largest else x.astype(np.float32)
    expected = np.argsort(keys, 1, kind="stable")[:, :k]
    values, places = np.zeros((4, k, 3), np.float16), np.zeros((4, k, 3), np.int64)
    for source in views(x):
        call("aclnnTopk", source, k, -2, largest, False, values, places)
        np.testing.assert_array_equal(places, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


@pytest.mark.parametrize(
    ("operator", "values", "places"),
    [
        ("aclnnCummax", [1, 3, 3, 3, NAN, NAN, NAN], [0, 1, 1, 3, 4, 4, 6]),
        ("aclnnCummin", [1, 1, 1, 1, NAN, NAN, NAN], [0, 0, 2, 2, 4, 4, 6]),
    ],
)
def test_extremes_so_far(operator: str, values: list[float], places: list[int]) -> None:
    x = np.array([1, 3, 1, 3, NAN, 9, NAN], np.float32)
    found, where = np.zeros(7, np.float32), np.zeros(7, np.int32)
    call(operator, x, 0, found, where)
    np.testing.assert_array_equal(found, values)
    assert where.tolist() == places


def test_of_no_dimensions() -> None:
    x, values, places = np.array(5, np.float32), np.zeros((), np.float32), np.ones((), np.int64)
    call("aclnnSort", x, True, -1, True, values, places)
    assert values == 5
    assert places == 0


def test_refusals() -> None:
    x, places = numbers((2, 3)), np.zeros((2, 3), np.int64)
    assert refusal("aclnnSort", x, True, 2, False, x, places) == (161002, "dim")
    assert refusal("aclnnSort", x, True, 1, False, x, places.astype(np.int32)) == (
        161002,
        "indicesOut",
    )
    assert refusal("aclnnArgsort", x, 1, False, places[:1]) == (161002, "out")
    top = (np.zeros((2, 2), np.float32), np.zeros((2, 2), np.int64))
    assert refusal("aclnnTopk", x, 4, 1, True, True, *top) == (161002, "k")
    assert refusal("aclnnTopk", x, 1, 1, True, True, *top) == (161002, "valuesOut")
    assert refusal("aclnnCummax", x.astype(np.int16), 1, x, places) == (161002, "self")
