"""Arithmetic at its edges: integers, BOOL, NaN, numbers of another kind than the tensor."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from aclnn.errors import AclnnError
from aclnn.tensors import Scalar
from tests.operators.calling import Argument, Array, call

NAN, INF = float("nan"), float("inf")


def single(*values: float) -> Array:
    return np.array(values, np.float32)


def run(name: str, *arguments: Argument, out: Array) -> Array:
    call(f"aclnn{name}", *arguments, out)
    return out


def like(x: Array) -> Array:
    return np.full_like(x, 7)


def ints(*values: int, dtype: type = np.int32) -> Array:
    return np.array(values, dtype)


@pytest.mark.parametrize(
    ("name", "expected"), [("Add", [0, 1, 1, 1]), ("Sub", [0, 1, 1, 0]), ("Mul", [0, 0, 0, 1])]
)
def test_bool_is_logic(name: str, expected: list[int]) -> None:
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    alpha = () if name == "Mul" else (Scalar(1, "INT32"),)
    assert run(name, x, y, *alpha, out=like(x)).tolist() == [bool(row) for row in expected]


def test_integers_wrap() -> None:
    x = ints(127, -128, dtype=np.int8)
    assert run("Add", x, x, Scalar(1, "INT8"), out=like(x)).tolist() == [-2, 0]
    assert run("Mul", x, x, out=like(x)).tolist() == [1, 0]
    assert run("Neg", x, out=like(x)).tolist() == [-127, -128]


def test_alpha_is_cast_to_the_common_type() -> None:
    x = np.array([1, 2], np.float32)
    assert run("Add", x, x, Scalar(2, "INT64"), out=like(x)).tolist() == [3, 6]
    with pytest.raises(AclnnError, match="alpha is FLOAT, which does not cast to INT32"):
        run("Add", ints(1), ints(1), Scalar(0.5, "FLOAT"), out=ints(0))


def test_numbers_count_only_where_they_are_of_a_higher_kind() -> None:
    half = np.array([1, 2], np.float16)
    assert run("Muls", half, Scalar(0.1, "DOUBLE"), out=like(half)).dtype == np.float16
    whole = ints(1, 2)
    alpha = Scalar(1, "INT32")
    found = run("Adds", whole, Scalar(0.5, "DOUBLE"), alpha, out=np.zeros(2, np.float32))
    assert found.tolist() == [1.5, 2.5]
    with pytest.raises(AclnnError, match="out is INT32, to which FLOAT"):
        run("Adds", whole, Scalar(0.5, "FLOAT"), alpha, out=like(whole))
    complex_out = np.zeros(2, np.complex64)
    run("Muls", single(1, 2), Scalar(1j, "COMPLEX64"), out=complex_out)
    assert complex_out.tolist() == [1j, 2j]


def test_comparison_does_not_cut_a_number_off() -> None:
    x = ints(100, -100, dtype=np.int8)
    assert run("LtScalar", x, Scalar(300, "INT32"), out=np.zeros(2, bool)).tolist() == [True, True]


def test_results_are_cast_to_the_output() -> None:
    x = np.array([1.5, 2.5], np.float32)
    assert run("GtTensor", x, single(2), out=np.zeros(2, np.float16)).tolist() == [0, 1]
    wide = run("Add", x.astype(np.float16), x, Scalar(1, "INT32"), out=np.zeros(2, np.float64))
    assert wide.tolist() == [3, 5]


def test_rounded_to_the_common_type_before_the_output() -> None:
    x = np.full(1, 1 / 3, ml_dtypes.bfloat16)
    found = run("Mul", x, x, out=np.zeros(1, np.float32))
    assert found == (x.astype(np.float32) ** 2).astype(ml_dtypes.bfloat16).astype(np.float32)


@pytest.mark.parametrize(("mode", "expected"), [(1, [-3, 3, 2, 0]), (2, [-4, 3, 2, -1])])
def test_quotients_of_integers(mode: int, expected: list[int]) -> None:
    x, y = ints(-7, -7, 5, -1), ints(2, -2, 2, 3)
    assert run("DivMod", x, y, mode, out=like(x)).tolist() == expected
    floats = run("DivMod", x.astype(np.float32), y, mode, out=np.zeros(4, np.float32))
    assert floats.tolist() == expected


def test_division_by_zero() -> None:
    assert run("DivMod", ints(5), ints(0), 1, out=ints(7)).tolist() == [0]
    x, zero = single(1, -1, 0), single(0, 0, 0)
    np.testing.assert_array_equal(run("Div", x, zero, out=like(x)), [INF, -INF, NAN])
    np.testing.assert_array_equal(run("Div", ints(1), ints(2), out=np.zeros(1, np.float32)), [0.5])


def test_complex_numbers_are_not_rounded() -> None:
    x = np.ones(2, np.complex64)
    with pytest.raises(AclnnError, match="mode 0 only"):
        run("DivMod", x, x, 1, out=like(x))
    assert run("DivMod", x, x, 0, out=like(x)).tolist() == [1, 1]


def test_integers_to_negative_powers() -> None:
    x, y = ints(1, -1, -1, 2, 0, 3), ints(-3, -3, -2, -1, -1, 3)
    assert run("PowTensorTensor", x, y, out=like(x)).tolist() == [1, -1, 1, 0, 0, 27]
    with pytest.raises(AclnnError, match="integers have no negative powers"):
        run("PowTensorScalar", x, Scalar(-1, "INT32"), out=like(x))


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0, 3.0, -1.0, 1.7])
def test_powers_of_numbers(exponent: float) -> None:
    x = single(0, 1, 2, 9)
    with np.errstate(divide="ignore"):
        expected = x.astype(np.float64) ** exponent
    found = run("PowTensorScalar", x, Scalar(exponent, "FLOAT"), out=like(x))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["Maximum", "Minimum"])
def test_extremes_keep_nan(name: str) -> None:
    x, y = single(NAN, 1, 2), single(1, NAN, 3)
    expected = [NAN, NAN, 3 if name == "Maximum" else 2]
    np.testing.assert_array_equal(run(name, x, y, out=like(x)), expected)


def test_bounds() -> None:
    x = single(-5, 0, 5, NAN)
    low, high = Scalar(-1, "INT32"), Scalar(1, "FLOAT")
    np.testing.assert_array_equal(run("Clamp", x, low, high, out=like(x)), [-1, 0, 1, NAN])
    np.testing.assert_array_equal(run("Clamp", x, None, high, out=like(x)), [-5, 0, 1, NAN])
    np.testing.assert_array_equal(run("Clamp", x, low, None, out=like(x)), [-1, 0, 5, NAN])
    crossed = run("Clamp", x[:3], Scalar(2, "INT32"), high, out=np.zeros(3, np.float32))
    assert crossed.tolist() == [1, 1, 1]
    with pytest.raises(AclnnError, match="null pointers both") as caught:
        run("Clamp", x, None, None, out=like(x))
    assert caught.value.code == 161001


def test_quotient_of_integers_is_added_rounded() -> None:
    x, y, z = ints(1, 1, dtype=np.int64), ints(7, -7, dtype=np.int64), ints(2, 2, dtype=np.int64)
    assert run("Addcdiv", x, y, z, Scalar(1, "INT32"), out=like(x)).tolist() == [4, -2]


def test_in_place_with_an_input_that_overlaps_otherwise() -> None:
    room = np.arange(6, dtype=np.float32)
    call("aclnnInplaceAdd", room[1:], room[:-1], Scalar(1, "FLOAT"))
    assert room.tolist() == [0, 1, 3, 5, 7, 9]


def test_in_place_needs_room_for_the_broadcast() -> None:
    with pytest.raises(AclnnError, match="selfRef has shape"):
        call("aclnnInplaceMul", np.ones(3, np.float32), np.ones((2, 3), np.float32))
