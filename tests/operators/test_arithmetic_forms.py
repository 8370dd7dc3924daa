"""Arithmetic in further forms: the edges that golden vectors do not have."""

from __future__ import annotations

import numpy as np
import pytest

from aclnn.tensors import Scalar
from tests.operators.calling import Array, call
from tests.operators.test_movement import numbers, refusal, views

INF, NAN = np.inf, np.nan


def result(operator: str, *arguments: object, like: Array) -> list[float]:
    out = np.full_like(like, 7)
    call(operator, *arguments, out)
    found: list[float] = out.tolist()
    return found


def test_remainders_have_the_sign_of_the_divisor_or_of_what_is_divided() -> None:
    x = np.array([7, -7, 7, -7, 0], np.int32)
    y = np.array([3, 3, -3, -3, 3], np.int32)
    assert result("aclnnRemainderTensorTensor", x, y, like=x) == [1, 2, -2, -1, 0]
    assert result("aclnnFmodTensor", x, y, like=x) == [1, -1, 1, -1, 0]
    assert result("aclnnFloorDivide", x, y, like=x) == [2, -3, -3, 2, 0]
    assert result("aclnnRemainderScalarTensor", Scalar(7, "INT64"), y, like=x) == [1, 1, -2, -2, 1]


def test_what_zero_divides() -> None:
    x, zero = np.array([5, -5, 0], np.int64), np.zeros(3, np.int64)
    for operator in ("aclnnRemainderTensorTensor", "aclnnFmodTensor", "aclnnFloorDivide"):
        assert result(operator, x, zero, like=x) == [0, 0, 0]
    wide = x.astype(np.float32)
    found = result("aclnnFloorDivides", wide, Scalar(0, "INT64"), like=wide)
    assert found[:2] == [INF, -INF]
    assert np.isnan(found[2])
    assert np.isnan(result("aclnnFmodScalar", wide, Scalar(0, "INT64"), like=wide)).all()


def test_a_float_number_makes_a_tensor_of_integers_float() -> None:
    x = np.array([5, -5], np.int32)
    like = np.zeros(2, np.float32)
    half = Scalar(1.5, "FLOAT")
    assert result("aclnnRemainderTensorScalar", x, half, like=like) == [0.5, 1.0]
    assert result("aclnnRsubs", x, half, Scalar(2, "INT64"), like=like) == [-8.5, 11.5]
    assert refusal("aclnnRemainderTensorScalar", x, half, x.copy()) == (161002, "out")


def test_types_that_a_remainder_is_not_computed_in() -> None:
    x = np.ones(3, np.int8)
    assert refusal("aclnnRemainderTensorTensor", x, x, x.copy()) == (161002, "other")
    wide = np.ones(3, np.int32)
    assert result("aclnnRemainderTensorTensor", x, wide, like=wide) == [0, 0, 0]


def test_bounds_pass_nan_on() -> None:
    x, low = np.array([NAN, 1, 3], np.float32), np.array([2, NAN, 2], np.float32)
    for operator in ("aclnnClampMinTensor", "aclnnClampMaxTensor"):
        found = result(operator, x, low, like=x)
        assert np.isnan(found[:2]).all()
    assert np.isnan(result("aclnnClampMin", x, Scalar(2, "INT64"), like=x)[0])
    assert refusal("aclnnClampTensor", x, None, None, x.copy()) == (161001, "clipValueMin")


def test_clamp_tensor_where_the_bounds_cross() -> None:
    x = np.array([1, 5, 9], np.float32)
    low, high = np.array([6], np.float32), np.array([4], np.float32)
    assert result("aclnnClampTensor", x, low, high, like=x) == [4, 4, 4]


def test_powers_of_a_number() -> None:
    exponents = np.array([-1, 0, 1, 2, 5], np.int32)
    for base, expected in ((2, [0, 1, 2, 4, 32]), (-1, [-1, 1, -1, 1, -1]), (0, [0, 1, 0, 0, 0])):
        found = result("aclnnPowScalarTensor", Scalar(base, "INT64"), exponents, like=exponents)
        assert found == expected


def test_logic_of_bits_is_of_integers() -> None:
    x = numbers((3, 4))
    assert refusal("aclnnBitwiseAndTensor", x, x, x.copy()) == (161002, "self")
    whole = x.astype(np.int16)
    half = Scalar(0.5, "FLOAT")
    assert refusal("aclnnBitwiseOrScalar", whole, half, whole.copy()) == (161002, "other")
    wide = np.zeros((3, 4), np.int64)
    call("aclnnBitwiseXorTensor", whole, wide + (1 << 40), wide)
    np.testing.assert_array_equal(wide, whole.astype(np.int64) ^ (1 << 40))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.bool_])
def test_masked_fill_of_every_layout(dtype: type) -> None:
    x, mask = numbers((30, 40), dtype), np.random.default_rng(1).random((30, 1)) < 0.5
    value = Scalar(1, "INT64")
    expected = np.where(mask, np.ones((), dtype), x)
    for own in views(x):
        written = own.copy(order="K")
        call("aclnnInplaceMaskedFillScalar", written, mask, value)
        np.testing.assert_array_equal(written, expected)
        written = own.copy(order="K")
        call("aclnnInplaceMaskedFillTensor", written, mask, np.ones(1, dtype))
        np.testing.assert_array_equal(written, expected)


def test_masked_fill_by_its_own_truth() -> None:
    own = np.array([True, False, True])
    call("aclnnInplaceMaskedFillScalar", own, own, Scalar(False, "BOOL"))
    assert not own.any()


def test_refusals_of_masks() -> None:
    x, mask = numbers((2, 3)), np.ones((2, 3), np.bool_)
    one = Scalar(1, "INT64")
    name = "aclnnInplaceMaskedFillScalar"
    assert refusal(name, x, mask.astype(np.uint8), one) == (161002, "mask")
    assert refusal(name, x, np.ones((4, 2, 3), np.bool_), one) == (161002, "selfRef")
    assert refusal(name, x.astype(np.int16), mask, one) == (161002, "selfRef")
    two = numbers((2,))
    assert refusal("aclnnInplaceMaskedFillTensor", x, mask, two) == (161002, "value")
