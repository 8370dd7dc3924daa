"""Further activations: at their corners, far out, for NaN, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aclnn.errors import InvalidParameterError
from aclnn.tensors import Scalar
from tests.operators.calling import Array, call

FAR = np.array([-np.inf, -1e30, -200, 200, 1e30, np.inf, np.nan], np.float32)
ONE = Scalar(1.0, "FLOAT")


def forward(name: str, x: Array, *more: Any) -> Array:  # noqa: ANN401
    out = np.full(x.shape, 7, x.dtype)
    call(f"aclnn{name}", x, *more, out)
    return out


def backward(name: str, x: Array, *more: Any) -> Array:  # noqa: ANN401
    """The gradient for a gradient of 1."""
    return forward(name, np.ones_like(x), x, *more)


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("Hardsigmoid", (), [0, 0, 0, 1, 1, 1, np.nan]),
        ("Hardtanh", (Scalar(-2, "INT64"), Scalar(3, "INT64")), [-2, -2, -2, 3, 3, 3, np.nan]),
        ("Elu", (ONE, ONE, ONE), [-1, -1, -1, 200, 1e30, np.inf, np.nan]),
    ],
)
def test_far_out(name: str, more: tuple[Any, ...], expected: list[float]) -> None:
    np.testing.assert_array_equal(forward(name, FAR, *more), np.array(expected, np.float32))


@pytest.mark.parametrize("name", ["Mish", "Hardswish"])
def test_what_grows_with_its_input_does_not_overflow(name: str) -> None:
    found = forward(name, FAR[1:5])
    np.testing.assert_allclose(found, [0, 0, 200, 1e30], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("HardswishBackward", ()),
        ("HardswishBackwardV2", ()),
        ("MishBackward", ()),
        ("LogSigmoidBackward", (None,)),
        ("SoftplusBackward", (ONE, Scalar(20.0, "FLOAT"))),
        ("GeluBackwardV2", ("none",)),
    ],
)
def test_slopes_far_out_are_0_and_1(name: str, more: tuple[Any, ...]) -> None:
    found = backward(name, np.array([-200, 200], np.float32), *more)
    expected = [1, 0] if name == "LogSigmoidBackward" else [0, 1]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_slopes_at_the_corners() -> None:
    x = np.array([-3, 3, -1, 1, 0], np.float32)
    np.testing.assert_allclose(backward("HardswishBackward", x), [0, 1, 1 / 6, 5 / 6, 0.5])
    np.testing.assert_allclose(backward("HardsigmoidBackward", x), [0, 0, 1 / 6, 1 / 6, 1 / 6])
    bounds = Scalar(-1.0, "FLOAT"), ONE
    np.testing.assert_array_equal(backward("HardtanhBackward", x, *bounds), [0, 0, 0, 0, 1])


def test_halves_along_each_dimension() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (4, 6, 2)).astype(np.float32)
    for dim in (0, 1, 2, -1):
        first, second = np.split(x, 2, dim)
        out = np.full(first.shape, 7, np.float32)
        call("aclnnGlu", x, dim, out)
        share = 1 / (1 + np.exp(-second.astype(np.float64)))
        np.testing.assert_allclose(out, first * share, rtol=1e-5)
        slope = np.full(x.shape, 7, np.float32)
        call("aclnnGluBackward", out, x, dim, slope)
        expected = np.concatenate([out * share, out * first * share * (1 - share)], dim)
        np.testing.assert_allclose(slope, expected, rtol=1e-4)


def test_what_is_refused() -> None:
    x = np.ones((3, 4), np.float32)
    with pytest.raises(InvalidParameterError, match="approximate is 'erf'; allowed are none, tanh"):
        call("aclnnGeluBackwardV2", x, x, "erf", x.copy())
    with pytest.raises(InvalidParameterError, match="it must be of even size along dim, 0"):
        call("aclnnGlu", x, 0, x.copy())
    with pytest.raises(InvalidParameterError, match="allowed are FLOAT, FLOAT16, BF16"):
        call("aclnnMish", x.astype(np.float64), x.copy())
