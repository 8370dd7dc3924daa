"""Pooling: windows at the edges, ties, NaN, masks, parts, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aclnn.errors import ExecutionFailedError, InvalidParameterError
from tests.operators.calling import Array, call, device

Shape = tuple[int, ...]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def largest(
    x: Array,
    points: Shape,
    kernel: Shape = (2, 2),
    stride: Shape = (),
    padding: Shape = (0, 0),
    dilation: Shape = (1, 1),
    *,
    ceil: bool = False,
    on: Any = None,  # noqa: ANN401
) -> tuple[Array, Array]:
    shape = (*x.shape[:-2], *points)
    out, places = np.full(shape, 7, np.float32), np.full(shape, -1, np.int64)
    settings = (kernel, stride, padding, dilation, ceil)
    call("aclnnMaxPool2dWithIndices", x, *settings, out, places, on=on)
    return out, places


def mean(x: Array, points: Shape, *settings: Any) -> Array:  # noqa: ANN401
    out = np.full((*x.shape[:-2], *points), 7, np.float32)
    call("aclnnAvgPool2d", x, *settings, 0, out)
    return out


def test_the_first_of_equal_elements_is_the_largest() -> None:
    out, places = largest(np.zeros((1, 4, 4), np.float32), (2, 2))
    np.testing.assert_array_equal(out, 0)
    np.testing.assert_array_equal(places[0], [[0, 2], [8, 10]])


def test_nan_is_larger_than_any_number_and_stays_the_first() -> None:
    x = np.array([[[1, np.nan, 3, 4], [np.nan, 5, np.inf, 2]]], np.float32)
    out, places = largest(x, (1, 2))
    np.testing.assert_array_equal(out[0, 0], [np.nan, np.inf])
    np.testing.assert_array_equal(places[0, 0], [1, 6])


def test_padding_is_never_the_largest() -> None:
    x = np.full((1, 2, 2), -np.inf, np.float32)
    out, places = largest(x, (2, 2), stride=(2, 2), padding=(1, 1))
    np.testing.assert_array_equal(out, -np.inf)
    np.testing.assert_array_equal(places[0], [[0, 1], [2, 3]])


def test_a_dilated_window_leaves_elements_out() -> None:
    x = np.arange(25, dtype=np.float32).reshape(1, 5, 5)
    x[0, 1, 1] = 100
    out, places = largest(x, (3, 3), stride=(1, 1), dilation=(2, 2))
    assert (out[0, 0, 0], places[0, 0, 0]) == (12, 12)
    assert (out[0, 1, 1], places[0, 1, 1]) == (100, 6)


@pytest.mark.parametrize(("ceil", "points"), [(False, (1, 2)), (True, (2, 3))])
def test_a_last_window_may_lie_partly_outside(ceil: bool, points: Shape) -> None:
    x = np.arange(15, dtype=np.float32).reshape(1, 3, 5)
    out, _ = largest(x, points, ceil=ceil)
    np.testing.assert_array_equal(out[0, -1, -1], 14 if ceil else 8)


def test_a_last_window_does_not_begin_in_the_padding() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    # A third window would begin at 5, behind the element 3 and in the padding.
    out, _ = largest(x, (1, 2), (1, 3), (3,), (0, 1), ceil=True)
    np.testing.assert_array_equal(out, [[[1, 3]]])


def test_many_planes_at_several_numbers_of_threads() -> None:
    x = numbers(3, 40, 60, 70)
    found = [largest(x, (30, 35), on=device(threads)) for threads in (1, 3)]
    for left, right in zip(*found, strict=True):
        np.testing.assert_array_equal(left, right)
    blocks = x.reshape(3, 40, 30, 2, 35, 2)
    np.testing.assert_array_equal(found[0][0], blocks.max((3, 5)))
    flat = x.reshape(3, 40, -1)
    taken = np.take_along_axis(flat, found[0][1].reshape(3, 40, -1), 2)
    np.testing.assert_array_equal(taken, found[0][0].reshape(3, 40, -1))
    grad, slope = numbers(3, 40, 30, 35, seed=1), np.full(x.shape, 7, np.float32)
    settings = ((2, 2), (), (0, 0), (1, 1), False)
    name = "aclnnMaxPool2dWithIndicesBackward"
    call(name, grad, x, found[0][1], *settings, slope, on=device(3))
    expected = np.where(
        blocks == found[0][0][:, :, :, None, :, None], grad[:, :, :, None, :, None], 0
    )
    np.testing.assert_array_equal(slope, expected.reshape(x.shape))


def test_a_mask_and_indexes_give_the_same_gradients() -> None:
    x, grad = numbers(2, 3, 9, 8), numbers(2, 3, 4, 8, seed=1)
    settings = ((3, 3), (2, 1), (0, 1), (1, 1), False)
    out, places = largest(x, (4, 8), *settings[:4])
    masked, mask = np.full(out.shape, 7, np.float32), np.full((2, 3, 9, 96), 7, np.int8)
    call("aclnnMaxPool2dWithMask", x, *settings, masked, mask)
    np.testing.assert_array_equal(masked, out)
    assert (mask.sum(2)[..., :32] == 1).all()
    assert not mask[..., 32:].any()
    slopes = [np.full(x.shape, 7, np.float32) for _ in "ab"]
    call("aclnnMaxPool2dWithMaskBackward", grad, x, mask, *settings, slopes[0])
    call("aclnnMaxPool2dWithIndicesBackward", grad, x, places, *settings, slopes[1])
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-6, atol=1e-7)


def test_an_infinite_gradient_reaches_only_what_the_mask_chooses() -> None:
    x, mask = np.arange(16, dtype=np.float32).reshape(1, 4, 4), np.zeros((1, 4, 64), np.int8)
    settings = ((2, 2), (2, 2), (0, 0), (1, 1), False)
    call("aclnnMaxPool2dWithMask", x, *settings, np.empty((1, 2, 2), np.float32), mask)
    grad = np.array([[[np.inf, 1], [np.nan, -np.inf]]], np.float32)
    slope = np.full(x.shape, 7, np.float32)
    call("aclnnMaxPool2dWithMaskBackward", grad, x, mask, *settings, slope)
    expected = np.zeros(x.shape, np.float32)
    expected[0, 1::2, 1::2] = grad[0]
    np.testing.assert_array_equal(slope, expected)


@pytest.mark.parametrize("place", [-1, 16])
def test_an_index_that_is_no_place_writes_nothing(place: int) -> None:
    x, slope = numbers(1, 4, 4), np.full((1, 4, 4), 7, np.float32)
    places = np.array([[[0, 2], [8, place]]])
    with pytest.raises(ExecutionFailedError, match=f"has the element {place}; allowed are 0 to 15"):
        call(
            "aclnnMaxPool2dWithIndicesBackward",
            *(numbers(1, 2, 2), x, places, (2, 2), (), (0, 0), (1, 1), False, slope),
        )
    assert (slope == 7).all()


def test_divisors_of_means() -> None:
    x = np.ones((1, 3, 3), np.float32)
    settings = ((2, 2), (2, 2), (1, 1), True)
    # Corners see one element of four, edges two, the middle all.
    counted = np.array([[1, 2], [2, 4]]) / 4
    np.testing.assert_array_equal(mean(x, (2, 2), *settings, True, 0)[0], counted)
    np.testing.assert_array_equal(mean(x, (2, 2), *settings, False, 0), 1)
    np.testing.assert_array_equal(mean(x, (2, 2), *settings, True, 8)[0], counted / 2)


def test_a_mean_does_not_count_what_lies_behind_the_padding() -> None:
    x = np.ones((1, 1, 3), np.float32)
    out = mean(x, (1, 2), (1, 2), (1, 2), (0, 0), True, True, 0)
    np.testing.assert_array_equal(out, 1)


def test_gradients_of_means_are_those_of_a_linear_map() -> None:
    x, grad = numbers(2, 50, 40, 40), numbers(2, 50, 20, 14, seed=1)
    settings = ((3, 4), (2, 3), (1, 1), False, True, 0)
    out, slope = mean(x, (20, 13), *settings), np.full(x.shape, 7, np.float32)
    grad = grad[..., :13].copy()
    call("aclnnAvgPool2dBackward", grad, x, *settings, 0, slope, on=device(3))
    assert np.vdot(slope, x) == pytest.approx(np.vdot(grad, out), rel=1e-3)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (7, 9), (10, 12)], ids=str)
def test_parts(size: Shape) -> None:
    x, grad = numbers(2, 3, 7, 9), numbers(2, 3, *size, seed=1)
    out, slope = np.full(grad.shape, 7, np.float32), np.full(x.shape, 7, np.float32)
    call("aclnnAdaptiveAvgPool2d", x, size, out)
    call("aclnnAdaptiveAvgPool2dBackward", grad, x, slope)
    expected, back = np.empty(out.shape), np.zeros(x.shape)
    for i in range(size[0]):
        for j in range(size[1]):
            rows = slice(i * 7 // size[0], -(-(i + 1) * 7 // size[0]))
            columns = slice(j * 9 // size[1], -(-(j + 1) * 9 // size[1]))
            part = x[..., rows, columns]
            expected[..., i, j] = part.mean((2, 3))
            share = grad[..., i, j] / (part.shape[2] * part.shape[3])
            back[..., rows, columns] += share[..., None, None]
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slope, back, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": (0, 2)}, "kernelSize is"),
        ({"kernel": (2, 2, 2)}, "kernelSize has 3 numbers"),
        ({"stride": (0,)}, "stride is"),
        ({"padding": (2, 0)}, "allowed is at most half of kernelSize"),
        ({"padding": (-1, 0)}, "padding is"),
        ({"dilation": (0, 1)}, "dilation is"),
        ({"kernel": (5, 5)}, "has a place"),
        ({"points": (2, 1)}, r"out has shape \[1, 2, 1\]; it must have \[1, 2, 2\]"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message) as caught:
        largest(numbers(1, 4, 4), **({"points": (2, 2)} | changes))
    assert caught.value.code == 161002


def test_a_mask_knows_no_dilation_and_planes_no_zero() -> None:
    x, out = numbers(1, 5, 5), np.empty((1, 3, 3), np.float32)
    mask, window = np.empty((1, 4, 64), np.int8), ((2, 2), (1, 1), (0, 0), (2, 2), False)
    with pytest.raises(InvalidParameterError, match="only 1 is allowed"):
        call("aclnnMaxPool2dWithMask", x, *window, out, mask)
    with pytest.raises(InvalidParameterError, match="the last three not 0"):
        call("aclnnAdaptiveAvgPool2d", np.empty((1, 0, 4), np.float32), (1, 1), out)
