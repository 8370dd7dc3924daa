"""Activations, comparisons and functions of one tensor at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aclnn.errors import AclnnError
from aclnn.tensors import Scalar
from tests.operators.calling import Argument, Array, call

NAN, INF = float("nan"), float("inf")
ODD = (NAN, INF, -INF, 0.0, -0.0, 100.0, -100.0, 1e38, -1e38, 1e-45)


def single(*values: float) -> Array:
    return np.array(values, np.float32)


def run(name: str, *arguments: Argument, out: Array | None = None) -> Array:
    result = np.full(len(ODD), 7, np.float32) if out is None else out
    call(f"aclnn{name}", *arguments, result)
    return result


def odd() -> Array:
    return np.array(ODD, np.float32)


def each(function: object) -> Array:
    """Expected values, by Python's mathematics."""
    return np.array([function(float(x)) for x in odd()], np.float32)  # type: ignore[operator]


def test_sigmoid_does_not_overflow() -> None:
    np.testing.assert_allclose(run("Sigmoid", odd()), each(_logistic), rtol=1e-6, atol=1e-38)


def _logistic(x: float) -> float:
    if math.isnan(x):
        return NAN
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def test_log_sigmoid_does_not_overflow() -> None:
    def expected(x: float) -> float:
        return min(x, 0) - math.log1p(math.exp(-abs(x))) if x == x else NAN

    np.testing.assert_allclose(run("LogSigmoid", odd()), each(expected), rtol=1e-6)


def test_softplus_is_straight_above_the_threshold() -> None:
    found = run("Softplus", odd(), Scalar(1.0, "FLOAT"), Scalar(20.0, "FLOAT"))
    assert found[5] == 100
    assert found[1] == INF
    assert np.isnan(found[0])
    np.testing.assert_allclose(found[3], math.log(2), rtol=1e-6)


@pytest.mark.parametrize("slope", [0.0, 0.1, 1.0, 2.0, -0.5])
def test_leaky_relu_of_any_slope(slope: float) -> None:
    x = single(-3, -1, 0, 1, 3)
    found = run("LeakyRelu", x, Scalar(slope, "FLOAT"), out=np.zeros(5, np.float32))
    np.testing.assert_allclose(found, np.where(x > 0, x, np.float32(slope) * x))
    grad = single(1, 2, 3, 4, 5)
    given = (grad, x, Scalar(slope, "FLOAT"), False)
    found = run("LeakyReluBackward", *given, out=np.zeros(5, np.float32))
    np.testing.assert_allclose(found, np.where(x > 0, grad, np.float32(slope) * grad))


def test_positive_part_keeps_nan() -> None:
    found = run("Relu", odd())
    np.testing.assert_array_equal(found, np.maximum(odd(), 0))
    x = np.array([-1, 2], np.int32)
    call("aclnnInplaceRelu", x)
    assert x.tolist() == [0, 2]


def test_gradient_of_a_threshold() -> None:
    x = single(NAN, 0.5, 0.4, 0.6, -INF)
    grad = single(1, 2, NAN, 4, INF)
    given = (grad, x, Scalar(0.5, "FLOAT"))
    found = run("ThresholdBackward", *given, out=np.zeros(5, np.float32))
    assert found.tolist() == [1, 0, 0, 4, 0]


def test_error_function_is_within_three_units_in_the_last_place() -> None:
    x = np.linspace(-5, 5, 100_001, dtype=np.float32)
    expected = np.array([math.erf(v) for v in x.tolist()])
    found = run("Erf", x, out=np.zeros_like(x))
    units = np.spacing(np.abs(expected).astype(np.float32))
    assert (np.abs(found - expected) <= 3 * units).all()
    assert np.abs(found).max() == 1


def test_error_function_of_odd_numbers() -> None:
    np.testing.assert_allclose(run("Erf", odd()), each(math.erf), rtol=1e-6, atol=2e-45)
    wide = run("Erf", odd().astype(np.float64), out=np.zeros(len(ODD)))
    np.testing.assert_array_equal(wide, [math.erf(float(x)) for x in odd()])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Round", [-2, -2, 0, 0, 2, 2]),
        ("Floor", [-3, -2, -1, 0, 1, 2]),
        ("Ceil", [-2, -1, 0, 1, 2, 3]),
        ("Trunc", [-2, -1, 0, 0, 1, 2]),
    ],
)
def test_rounding(name: str, expected: list[int]) -> None:
    x = single(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)
    assert run(name, x, out=np.zeros(6, np.float32)).tolist() == expected


def test_comparisons_with_nan_are_false() -> None:
    x = single(NAN, 1)
    for name in ("Eq", "Lt", "Le", "Gt", "Ge"):
        assert not run(f"{name}Tensor", x, x[:1], out=np.ones(2, bool)).any()
    assert run("NeTensor", x, x[:1], out=np.zeros(2, bool)).all()


def test_complex_numbers_have_no_order() -> None:
    x = np.ones(2, np.complex64)
    assert run("EqTensor", x, x, out=np.zeros(2, bool)).all()
    with pytest.raises(AclnnError, match="self is COMPLEX64"):
        run("LtTensor", x, x, out=np.zeros(2, bool))


def test_truth_is_anything_but_zero() -> None:
    found = run("LogicalNot", odd(), out=np.zeros(len(ODD), bool))
    assert found.tolist() == [False, False, False, True, True, *[False] * 5]
    assert run("IsFinite", odd(), out=np.zeros(len(ODD), bool)).tolist() == [False] * 3 + [True] * 7


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int64, np.complex128, bool])
@pytest.mark.parametrize("condition", [bool, np.uint8])
def test_choice(dtype: type, condition: type) -> None:
    choice: Array = np.array([[0], [1]]).astype(condition)
    x: Array = np.array([1, 0, 1]).astype(dtype)
    y: Array = np.array([0, 1, 0]).astype(dtype)
    found = run("SWhere", choice, x, y, out=np.ones((2, 3), dtype))
    np.testing.assert_array_equal(found, [y, x])


def test_choice_into_an_input() -> None:
    choice = np.array([True, False, True])
    x, y = single(1, 2, NAN), single(4, NAN, 6)
    np.testing.assert_array_equal(run("SWhere", choice, x, y, out=y), [1, NAN, NAN])
    call(
        "aclnnSWhere", choice, np.array([False, True, False]), np.array([True, True, True]), choice
    )
    assert choice.tolist() == [False, True, False]
