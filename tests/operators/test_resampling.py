"""Planes of another size, reflected ones, and planes read where a grid says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aclnn.errors import InvalidParameterError
from aclnn.tensors import Scalar
from tests.operators.calling import Array, call, device


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def resized(
    x: Array, size: tuple[int, int], corners: bool | None = None, threads: int = 1
) -> Array:
    """By the nearest place, or where `corners` is given, between the four around."""
    out = np.full((*x.shape[:2], *size), 7, np.float32)
    settings = (0.0, 0.0) if corners is None else (corners, 0.0, 0.0)
    name = "Nearest2dV2" if corners is None else "Bilinear2d"
    call(f"aclnnUpsample{name}", x, size, *settings, out, on=device(threads))
    return out


def slopes(grad: Array, shape: tuple[int, ...], corners: bool | None = None) -> Array:
    out = np.full(shape, 7, np.float32)
    settings = (0.0, 0.0) if corners is None else (corners, 0.0, 0.0)
    name = "Nearest2dBackward" if corners is None else "Bilinear2dBackwardV2"
    call(f"aclnnUpsample{name}", grad, grad.shape[2:], shape, *settings, out, on=device(3))
    return out


def test_twice_as_large_repeats_each_element() -> None:
    x = numbers(2, 3, 4, 5)
    np.testing.assert_array_equal(resized(x, (8, 10)), x.repeat(2, 2).repeat(2, 3))
    np.testing.assert_array_equal(resized(x, (2, 5)), x[:, :, ::2])


def test_a_line_stays_a_line_between_its_corners() -> None:
    x = np.linspace(0, 1, 5, dtype=np.float32).reshape(1, 1, 5, 1).repeat(3, 3)
    out = resized(x, (9, 3), True)
    np.testing.assert_allclose(out[0, 0, :, 1], np.linspace(0, 1, 9), atol=1e-6)
    found = resized(x, (10, 3), False)[0, 0, :, 1]
    np.testing.assert_allclose(np.diff(found)[1:-1], 0.125, atol=1e-6)
    assert (found[0], found[-1]) == (0, 1)


@pytest.mark.parametrize("corners", [None, False, True])
def test_gradients_are_those_of_a_linear_map(corners: bool | None) -> None:
    x, grad = numbers(3, 40, 30, 20), numbers(3, 40, 45, 60, seed=1)
    out = [resized(x, (45, 60), corners, threads) for threads in (1, 3)]
    np.testing.assert_array_equal(out[0], out[1])
    slope = slopes(grad, x.shape, corners)
    assert np.vdot(slope, x) == pytest.approx(np.vdot(grad, out[0]), rel=1e-3)


def test_infinity_of_far_places_is_not_seen() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[0, 0, 0, 0] = np.inf
    out = resized(x, (8, 8), False)
    assert np.isfinite(out[0, 0, 3:, 3:]).all()
    assert np.isinf(out[0, 0, 0, 0])


@pytest.mark.parametrize("corners", [None, False, True])
def test_gradients_of_long_dimensions_are_those_of_each_place(corners: bool | None) -> None:
    places = np.eye(75, dtype=np.float32).reshape(75, 1, 75, 1)
    matrix = resized(places, (200, 1), corners).reshape(75, 200)
    grad = numbers(1, 1, 200, 1)
    expected = matrix.astype(np.float64) @ grad.reshape(200)
    found = slopes(grad, (1, 1, 75, 1), corners).reshape(75)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    across = slopes(grad.reshape(1, 1, 1, 200), (1, 1, 1, 75), corners).reshape(75)
    np.testing.assert_allclose(across, expected, rtol=1e-5, atol=1e-6)


def test_an_infinite_gradient_reaches_only_what_its_place_was_read_from() -> None:
    grad = np.ones((1, 1, 8, 8), np.float32)
    grad[0, 0, 0, 0], grad[0, 0, 7, 7] = np.inf, np.nan
    slope = slopes(grad, (1, 1, 4, 4), False)[0, 0]
    assert slope[0, 0] == np.inf
    assert np.isnan(slope[3, 3])
    assert np.isfinite(slope).sum() == 14


def test_edges_are_reflected_without_themselves() -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    out = np.full((1, 6, 8), 7, np.float32)
    call("aclnnReflectionPad2d", x, (3, 1, 2, 1), out)
    expected = np.pad(x, ((0, 0), (2, 1), (3, 1)), "reflect")
    np.testing.assert_array_equal(out, expected)
    slope = np.full(x.shape, 7, np.float32)
    call("aclnnReflectionPad2dBackward", np.ones_like(out), x, (3, 1, 2, 1), slope)
    counts = np.bincount(expected.reshape(-1).astype(int), minlength=12)
    np.testing.assert_array_equal(slope, counts.reshape(x.shape))


def sampled(x: Array, points: list[tuple[float, float]], way: int, padding: int) -> Any:  # noqa: ANN401
    grid = np.array(points, np.float32).reshape(1, 1, -1, 2)
    out = np.full((1, x.shape[1], 1, len(points)), 7, np.float32)
    call("aclnnGridSampler2D", x, grid, way, padding, True, out)
    return out[0, 0, 0]


def test_points_at_corners_between_and_outside() -> None:
    x = np.array([[[[1, 2], [3, np.inf]]]], np.float32)
    points: list[tuple[float, float]] = [
        (-1, -1),
        (1, -1),
        (-1, 1),
        (0, -1),
        (-1, 0),
        (-3, -1),
        (-5, -5),
        (np.nan, -1),
    ]
    np.testing.assert_allclose(sampled(x, points, 0, 0), [1, 2, 3, 1.5, 2, 0, 0, 0])
    np.testing.assert_allclose(sampled(x, points, 0, 1), [1, 2, 3, 1.5, 2, 1, 1, 1])
    np.testing.assert_allclose(sampled(x, points[:6], 0, 2), [1, 2, 3, 1.5, 2, 2])
    np.testing.assert_allclose(sampled(x, [(-0.9, -0.9), (0.9, -0.9)], 1, 0), [1, 2])


@pytest.mark.parametrize("far", [1e30, -1e30, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("padding", [0, 1])
def test_points_far_outside(padding: int, far: float) -> None:
    x = np.ones((1, 1, 3, 3), np.float32)
    np.testing.assert_array_equal(sampled(x, [(far, 0)], 0, padding), [padding])


def test_gradients_of_planes_and_grid() -> None:
    x, grid = numbers(2, 3, 6, 7), numbers(2, 90, 50, 2, seed=1)
    grad, out = numbers(2, 3, 90, 50, seed=2), np.empty((2, 3, 90, 50), np.float32)
    call("aclnnGridSampler2D", x, grid, 0, 1, False, out, on=device(3))
    planes, slope = np.full(x.shape, 7, np.float32), np.full(grid.shape, 7, np.float32)
    name, mask = "aclnnGridSampler2DBackward", (True, True)
    call(name, grad, x, grid, 0, 1, False, mask, planes, slope, on=device(3))
    assert np.vdot(planes, x) == pytest.approx(np.vdot(grad, out), rel=1e-3)
    moved, step = np.empty_like(out), np.float32(1e-3)
    for axis in (0, 1):
        shifted = grid.copy()
        shifted[..., axis] += step
        call("aclnnGridSampler2D", x, shifted, 0, 1, False, moved)
        change = ((moved - out) * grad).sum(1) / step
        close = np.abs(change - slope[..., axis]) < 0.05
        assert close.mean() > 0.97  # a few points step over the middle of an element
    kept = np.full(x.shape, 7, np.float32)
    call(name, grad, x, grid, 0, 1, False, (False, True), kept, slope)
    assert (kept == 7).all()


def test_sums_of_products_do_not_read_what_is_scaled_by_0() -> None:
    first, second, out = numbers(2, 3, 4), numbers(2, 4, 5, seed=1), np.empty((2, 3, 5), np.float32)
    own = np.full((5,), np.nan, np.float32)
    scales = Scalar(0.0, "FLOAT"), Scalar(2.0, "FLOAT")
    call("aclnnBaddbmm", own, first, second, *scales, out, 0)
    np.testing.assert_allclose(out, 2 * first @ second, rtol=1e-5, atol=1e-6)
    with pytest.raises(InvalidParameterError, match="self has shape"):
        call("aclnnBaddbmm", own[:4].copy(), first, second, *scales, out, 0)


X, P = numbers(1, 2, 3, 4), numbers(1, 2, 2, 2)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("UpsampleNearest2d", (X, (6,), X), "outputSize is"),
        ("UpsampleNearest2d", (X, (3, 0), X), "outputSize is"),
        ("UpsampleNearest2d", (X[0], (3, 4), X[0]), "it must have 4 dimensions"),
        ("UpsampleBilinear2d", (X, (6, 8), False, 0.0, 0.0, X), "out has shape"),
        ("ReflectionPad2d", (X, (4, 0, 0, 0), X), "below the size of self"),
        ("ReflectionPad2d", (X, (1, 1), X), "padding is"),
        ("GridSampler2D", (X, P, 2, 0, False, P), "interpolationMode is 2"),
        ("GridSampler2D", (X, X, 0, 0, False, P), "grid has shape"),
    ],
)
def test_what_is_refused(name: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message) as caught:
        call(f"aclnn{name}", *arguments)
    assert caught.value.code == 161002
