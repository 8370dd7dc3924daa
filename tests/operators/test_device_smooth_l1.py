"""The arithmetic of each product's smooth L1 kernels, against scalar readings of their sources."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.operators.calling import BACKWARD, Array, backward, call, device, forward

OLDER = ("ascend910_93", "ascend910b", "ascend910", "ascend310p")
Single = np.float32

SPECIAL = np.array([0, -0.0, 0.5, -0.5, 1, -1, 3, -3, np.inf, -np.inf, np.nan, 1e-7], Single)
VALUES = np.concatenate([SPECIAL, np.random.default_rng(3).normal(0, 2, 200_000).astype(Single)])
BETAS = [0.0, 1e-7, 1e-6, 0.3, 0.5, 1.0, 3.0, math.inf]


def slope_950(x: Single, beta: Single, *, one_gradient: bool) -> Single:
    """The three terms of the newer kernel, as its source adds them."""
    inverse = Single(np.nan) if abs(beta) < Single(1e-6) else Single(1) / beta
    if one_gradient:
        above, below, outside = x >= beta, x <= -beta, abs(x) >= beta
    else:
        above, below, outside = x > beta, x < -beta, abs(x) > beta
    return (
        Single(1 if above else 0)
        + Single(-1 if below else 0)
        + (Single(0) if outside else x * inverse)
    )


def slope_older(x: Single, beta: Single) -> Single:
    """The older kernel: the quotient is computed before NaN is replaced."""
    quotient = x / (beta + Single(1e-6))
    x = Single(0) if np.isnan(x) else x
    ends = Single(-1 if x <= -beta else 0) + Single(1 if x >= beta else 0)
    return ends + (quotient if abs(x) < beta else Single(0))


def few(values: Array) -> Array:
    """Enough for a slow reference, without leaving out the special ones."""
    return values[:300]


@pytest.mark.parametrize("beta", BETAS)
def test_gradient_of_950(beta: float) -> None:
    zero = np.zeros_like(few(VALUES))
    on = device(soc="ascend950")
    for grad in (np.full_like(zero, 1.5), np.array([1.5], Single), np.array(1.5, Single)):
        found = backward(grad, few(VALUES), zero, beta=beta, on=on)
        with np.errstate(all="ignore"):
            expected = [
                slope_950(x, Single(beta), one_gradient=grad.size == 1) * Single(1.5)
                for x in few(VALUES)
            ]
        np.testing.assert_array_equal(found, np.array(expected, Single))


@pytest.mark.parametrize("soc", OLDER)
@pytest.mark.parametrize("beta", BETAS)
def test_gradient_of_all_others(soc: str, beta: float) -> None:
    zero = np.zeros_like(few(VALUES))
    found = backward(np.full_like(zero, 1.5), few(VALUES), zero, beta=beta, on=device(soc=soc))
    with np.errstate(all="ignore"):
        expected = [slope_older(x, Single(beta)) * Single(1.5) for x in few(VALUES)]
    np.testing.assert_array_equal(found, np.array(expected, Single))


@pytest.mark.parametrize("soc", ["ascend950", "ascend910b"])
def test_blocks_and_threads_make_no_difference(soc: str) -> None:
    zero, one = np.zeros_like(VALUES), np.ones_like(VALUES)
    whole = backward(one, VALUES, zero, beta=0.7, on=device(2, soc))
    parts = [
        backward(*rows, beta=0.7, on=device(1, soc))
        for rows in zip(*(np.array_split(a, 7) for a in (one, VALUES, zero)), strict=True)
    ]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize(
    ("soc", "factor"),
    [
        ("reference", Single(1 / 84)),
        ("ascend950", Single(1 / 21)),
        ("ascend910b", Single(Single(1) / Single(3)) / Single(7)),
    ],
)
def test_mean_divides_by_elements_of_self(soc: str, factor: Single) -> None:
    grad, x, y = np.ones((4, 3, 7), Single), np.full((3, 7), 5, Single), np.zeros((3, 7), Single)
    found = backward(grad, x, y, reduction=1, on=device(soc=soc))
    np.testing.assert_array_equal(found, np.full((4, 3, 7), factor))


def test_reference_differs_from_the_older_kernels_by_the_epsilon_only() -> None:
    x = np.linspace(-0.9, 0.9, 1001, dtype=Single)
    args = (np.ones_like(x), x, np.zeros_like(x))
    reference, older = backward(*args), backward(*args, on=device(soc="ascend910b"))
    assert (reference != older).sum() > 900
    np.testing.assert_allclose(older, reference, rtol=1.1e-6)
    half = [a.astype(np.float16) for a in args]
    np.testing.assert_array_equal(backward(*half), backward(*half, on=device(soc="ascend910b")))


@pytest.mark.parametrize("soc", ["ascend950", "ascend910b"])
@pytest.mark.parametrize("beta", [0.0, 1e-7, 0.3, 1.0, 3.0])
def test_loss(soc: str, beta: float) -> None:
    b = Single(beta)
    inverse = Single(0) if b < Single(1e-6) else Single(1) / b
    with np.errstate(all="ignore"):
        expected = [
            x * (Single(0.5) * x) * inverse if abs(x) < b else abs(x) - Single(0.5) * b
            for x in few(VALUES)
        ]
    found = forward(few(VALUES), np.zeros_like(few(VALUES)), beta=beta, on=device(soc=soc))
    np.testing.assert_array_equal(found, np.array(expected, Single))


def test_in_place() -> None:
    x = few(VALUES).copy()
    zero, one = np.zeros_like(x), np.ones_like(x)
    on = device(soc="ascend950")
    expected = backward(one, x, zero, on=on)
    call(BACKWARD, one, x, zero, 0, 1.0, x, on=on)
    np.testing.assert_array_equal(x, expected)
