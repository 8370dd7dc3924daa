"""Gradients of normalisations, and the normalisation of groups."""

from __future__ import annotations

import numpy as np
import pytest

from aclnn.errors import InvalidParameterError, NullPointerError
from tests.operators.calling import Array, call, device

ALL = (True, True, True)
EPS = 1e-5


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def slopes(x: Array, grad: Array, weight: Array, axes: tuple[int, ...]) -> Array:
    """The gradient of (x - mean) / sqrt(variance + eps) * weight, in DOUBLE."""
    wide, slope = x.astype(np.float64), grad.astype(np.float64) * weight
    rstd = 1 / np.sqrt(wide.var(axes, keepdims=True) + EPS)
    normal = (wide - wide.mean(axes, keepdims=True)) * rstd
    along = (slope * normal).mean(axes, keepdims=True)
    return np.asarray(rstd * (slope - slope.mean(axes, keepdims=True) - normal * along))


def moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    wide = x.astype(np.float64)
    rstd = 1 / np.sqrt(wide.var(axes, keepdims=True) + EPS)
    return wide.mean(axes, keepdims=True).astype(np.float32), rstd.astype(np.float32)


def close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("count", [1, 2])
def test_layers(count: int) -> None:
    x, grad = numbers(40, 30, 500), numbers(40, 30, 500, seed=1)
    last = x.shape[-count:]
    axes = tuple(range(3 - count, 3))
    weight, (mean, rstd) = numbers(*last, seed=2), moments(x, axes)
    outputs = [np.full(shape, 7, np.float32) for shape in (x.shape, last, last)]
    call(
        "aclnnLayerNormBackward",
        grad,
        x,
        last,
        mean,
        rstd,
        weight,
        None,
        ALL,
        *outputs,
        on=device(2),
    )
    close(outputs[0], slopes(x, grad, weight, axes))
    rest = tuple(range(3 - count))
    close(outputs[1], (grad.astype(np.float64) * (x - mean) * rstd).sum(rest))
    close(outputs[2], grad.astype(np.float64).sum(rest))


def test_layers_in_place() -> None:
    x, grad = numbers(4, 5), numbers(4, 5, seed=1)
    mean, rstd = moments(x, (1,))
    expected = slopes(x, grad, np.ones(5), (1,))
    outputs = [grad, np.empty(5, np.float32), np.empty(5, np.float32)]
    shift = grad.sum(0, dtype=np.float64)
    call("aclnnLayerNormBackward", grad, x, (5,), mean, rstd, None, None, ALL, *outputs)
    close(grad, expected)
    close(outputs[2], shift)


def test_only_what_is_asked_for_is_written() -> None:
    x, grad, (mean, rstd) = numbers(3, 4), numbers(3, 4, seed=1), moments(numbers(3, 4), (1,))
    kept, shift = np.full((3, 4), 7, np.float32), np.full(4, 7, np.float32)
    given = (grad, x, (4,), mean, rstd, None, None)
    call("aclnnLayerNormBackward", *given, (False, False, True), kept, None, shift)
    assert (kept == 7).all()
    close(shift, grad.sum(0))
    with pytest.raises(NullPointerError, match="gradWeightOut"):
        call("aclnnLayerNormBackward", *given, (False, True, True), kept, None, shift)
    with pytest.raises(InvalidParameterError, match="outputMask has 2 elements"):
        call("aclnnLayerNormBackward", *given, (False, True), kept, None, shift)
    with pytest.raises(InvalidParameterError, match="gradBiasOut has shape"):
        call("aclnnLayerNormBackward", *given, (False, False, True), None, None, shift[:3].copy())


@pytest.mark.parametrize("flat", [False, True])
def test_root_mean_squares(flat: bool) -> None:
    x, grad, gamma = numbers(30, 70), numbers(30, 70, seed=1), numbers(70, seed=2)
    rstd = (1 / np.sqrt((x.astype(np.float64) ** 2).mean(1) + EPS)).astype(np.float32)
    dx, dgamma = np.full(x.shape, 7, np.float32), np.full(70, 7, np.float32)
    call("aclnnRmsNormGrad", grad, x, rstd if flat else rstd[:, None].copy(), gamma, dx, dgamma)
    normal, slope = x * rstd[:, None], grad.astype(np.float64) * gamma
    close(dx, rstd[:, None] * (slope - normal * (slope * normal).mean(1, keepdims=True)))
    close(dgamma, (grad.astype(np.float64) * normal).sum(0))


def test_batches_in_training() -> None:
    x, grad, weight = numbers(16, 12, 20, 20), numbers(16, 12, 20, 20, seed=1), numbers(12, seed=2)
    mean, rstd = (value.reshape(-1) for value in moments(x, (0, 2, 3)))
    outputs = [np.full(shape, 7, np.float32) for shape in (x.shape, (12,), (12,))]
    given = (grad, x, weight, None, None, mean, rstd, True, EPS, ALL)
    call("aclnnBatchNormBackward", *given, *outputs, on=device(2))
    close(outputs[0], slopes(x, grad, weight[:, None, None], (0, 2, 3)))
    close(outputs[2], grad.astype(np.float64).sum((0, 2, 3)))
    normal = (x - mean[:, None, None]) * rstd[:, None, None]
    close(outputs[1], (grad.astype(np.float64) * normal).sum((0, 2, 3)))


@pytest.mark.parametrize("known", [False, True])
def test_batches_with_known_statistics(known: bool) -> None:
    x, grad = numbers(4, 3, 5), numbers(4, 3, 5, seed=1)
    mean, variance = (numbers(3, seed=2), numbers(3, seed=3) + 2) if known else (None, None)
    outputs = [np.full(shape, 7, np.float32) for shape in (x.shape, (3,), (3,))]
    given = (grad, x, None, mean, variance, None, None, False, EPS, ALL)
    call("aclnnBatchNormBackward", *given, *outputs)
    center = 0 if mean is None else mean[:, None]
    rstd = 1 / np.sqrt((1 if variance is None else variance[:, None]) + EPS)
    close(outputs[0], grad * rstd)
    close(outputs[1], (grad * (x - center) * rstd).sum((0, 2)))
    close(outputs[2], grad.sum((0, 2)))


def test_training_needs_the_saved_statistics() -> None:
    x, outputs = numbers(4, 3), [np.empty((4, 3), np.float32), *np.empty((2, 3), np.float32)]
    given = (x, x, None, None, None, None, None, True, EPS, ALL)
    with pytest.raises(NullPointerError, match="saveMean"):
        call("aclnnBatchNormBackward", *given, *outputs)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("group", [1, 3, 6])
def test_groups_and_their_gradients(group: int, affine: bool) -> None:
    x, grad = numbers(5, 6, 40, 30), numbers(5, 6, 40, 30, seed=1)
    gamma, beta = (numbers(6, seed=2), numbers(6, seed=3)) if affine else (None, None)
    weight = np.ones(6) if gamma is None else gamma
    out, mean, rstd = (np.full(shape, 7, np.float32) for shape in (x.shape, (5, group), (5, group)))
    sizes, on = (5, 6, 1200, group), device(2)
    call("aclnnGroupNorm", x, gamma, beta, *sizes, EPS, out, mean, rstd, on=on)
    rows = x.reshape(5, group, -1)
    centers, scales = moments(rows, (2,))
    close(mean, centers[..., 0])
    close(rstd, scales[..., 0])
    normal = ((rows - centers) * scales).reshape(x.shape)
    shift = 0 if beta is None else beta[:, None, None]
    close(out, normal * weight[:, None, None] + shift)
    outputs = [np.full(shape, 7, np.float32) for shape in (x.shape, (6,), (6,))]
    given = (grad, x, mean, rstd, gamma, *sizes, ALL)
    call("aclnnGroupNormBackward", *given, *outputs, on=on)
    by_group = (5, group, 6 // group, 1200)
    weights = weight.reshape(group, -1, 1)
    expected = slopes(x.reshape(by_group), grad.reshape(by_group), weights, (2, 3))
    close(outputs[0], expected.reshape(x.shape))
    close(outputs[1], (grad.astype(np.float64) * normal).sum((0, 2, 3)))
    close(outputs[2], grad.astype(np.float64).sum((0, 2, 3)))


def test_groups_without_elements() -> None:
    x, mean, rstd = np.empty((2, 4, 0), np.float32), *np.ones((2, 2, 2), np.float32)
    call("aclnnGroupNorm", x, None, None, 2, 4, 0, 2, EPS, x.copy(), mean, rstd)
    assert not mean.any()
    assert np.isnan(rstd).all()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((2, 4, 5, 3), "group is 3"),
        ((2, 4, 5, 0), "group is 0"),
        ((2, 4, 6, 2), "HxW is 6"),
        ((3, 4, 5, 2), "its first sizes must be N 3"),
    ],
)
def test_what_groups_refuse(sizes: tuple[int, ...], message: str) -> None:
    x, mean = numbers(2, 4, 5), np.empty((2, 2), np.float32)
    with pytest.raises(InvalidParameterError, match=message):
        call("aclnnGroupNorm", x, None, None, *sizes, EPS, x.copy(), mean, mean.copy())


def test_the_elements_of_a_channel_are_told_right_of_no_samples_too() -> None:
    x, mean = np.empty((0, 4, 3), np.float32), np.empty((0, 2), np.float32)
    with pytest.raises(InvalidParameterError, match="HxW is 9223372036854775807"):
        call("aclnnGroupNorm", x, None, None, 0, 4, 2**63 - 1, 2, EPS, x, mean, mean.copy())
    call("aclnnGroupNorm", x, None, None, 0, 4, 3, 2, EPS, x, mean, mean.copy())
