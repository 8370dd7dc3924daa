"""Scalars: one value, rounded to its element type."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.tensors import Scalar

FLOATS = [row for row in dtypes.ALL if row.kind == "float" and row.numpy is not None]
INTEGERS = [row for row in dtypes.ALL if row.kind in ("signed", "unsigned") and row.numpy]


def limits(dtype: DType) -> tuple[int, int]:
    bits = dtype.bits
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.kind == "signed" else (0, 2**bits - 1)


@pytest.mark.parametrize(
    ("value", "dtype", "encoded"),
    [
        (0.01, "BF16", "243c"),  # 0x3C24, little-endian
        (1.0, "FLOAT", "0000803f"),
        (1.0, "float16", "003c"),
        (-2, "INT64", "feffffffffffffff"),
        (2**64 - 1, "UINT64", "ffffffffffffffff"),
        (True, "BOOL", "01"),
        (7, "BOOL", "01"),
        (2 + 1j, "COMPLEX64", "000000400000803f"),
        (-8, "INT4", "08"),
        (0.5, "FLOAT4_E2M1", "01"),
        (448.0, "FLOAT8_E4M3FN", "7e"),
        (2.0, "FLOAT8_E8M0", "80"),
    ],
)
def test_bytes(value: complex, dtype: str, encoded: str) -> None:
    scalar = Scalar(value, dtype)
    data = scalar.to_bytes()
    assert data[: len(encoded) // 2].hex() == encoded
    assert len(data) == np.dtype(scalar.dtype.numpy).itemsize


@pytest.mark.parametrize("dtype", ["BF16", "FLOAT16", "FLOAT"])
def test_rounded_to_nearest_even_once(dtype: str) -> None:
    step = {"BF16": 2.0**-7, "FLOAT16": 2.0**-10, "FLOAT": 2.0**-23}[dtype]

    def rounded(value: float) -> float:
        return float(
            Scalar.from_bytes(Scalar(value, dtype).to_bytes(), dtypes.dtype(dtype)).value.real
        )

    assert rounded(1 + step / 2) == 1.0
    assert rounded(1 + step * 1.5) == 1 + 2 * step
    assert rounded(1 + step * 0.75) == 1 + step


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(value=st.floats(width=16, allow_nan=False))
def test_a_value_that_was_rounded_stays(dtype: DType, value: float) -> None:
    once = Scalar.from_bytes(Scalar(value, dtype).to_bytes(), dtype)
    twice = Scalar.from_bytes(once.to_bytes(), dtype)
    assert isinstance(once.value, float)
    assert isinstance(twice.value, float)
    assert once == twice or (math.isnan(once.value) and math.isnan(twice.value))


@pytest.mark.parametrize("dtype", ["FLOAT16", "FLOAT", "BF16", "DOUBLE"])
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinity_stays(dtype: str, value: float) -> None:
    encoded = Scalar(value, dtype).to_bytes()
    assert Scalar.from_bytes(encoded, dtypes.dtype(dtype)).value == value


@pytest.mark.parametrize(("dtype", "value"), [("FLOAT16", 1e6), ("FLOAT", 1e40), ("BF16", -1e40)])
def test_too_large_for_a_float_is_infinite_and_no_warning(dtype: str, value: float) -> None:
    encoded = Scalar(value, dtype).to_bytes()
    assert Scalar.from_bytes(encoded, dtypes.dtype(dtype)).value == math.copysign(math.inf, value)


def test_nan_and_the_sign_of_zero() -> None:
    nan = Scalar.from_bytes(Scalar(math.nan, "BF16").to_bytes(), dtypes.BF16).value
    zero = Scalar.from_bytes(Scalar(-0.0, "BF16").to_bytes(), dtypes.BF16).value
    assert math.isnan(nan.real)
    assert math.copysign(1, zero.real) == -1


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@given(data=st.data())
def test_every_integer_that_fits(dtype: DType, data: st.DataObject) -> None:
    value = data.draw(st.integers(*limits(dtype)))
    assert Scalar.from_bytes(Scalar(value, dtype).to_bytes(), dtype) == Scalar(value, dtype)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_that_do_not_fit(dtype: DType) -> None:
    low, high = limits(dtype)
    for value in (low - 1, high + 1, 2**70, math.inf, math.nan, 1j):
        with pytest.raises(OverflowError, match=f"does not fit {dtype}, {low} to {high}"):
            Scalar(value, dtype).to_bytes()


@given(st.complex_numbers())
def test_complex_values(value: complex) -> None:
    again = Scalar.from_bytes(Scalar(value, "COMPLEX128").to_bytes(), dtypes.COMPLEX128).value
    np.testing.assert_array_equal(again, value)


def test_complex_for_a_real_dtype() -> None:
    with pytest.raises(TypeError, match="complex"):
        Scalar(1j, "FLOAT").to_bytes()


@pytest.mark.parametrize("dtype", [row for row in dtypes.ALL if row.numpy is None], ids=str)
def test_types_without_a_numpy_form(dtype: DType) -> None:
    with pytest.raises(TypeError, match=f"no scalar of {dtype}"):
        Scalar(1, dtype).to_bytes()
    with pytest.raises(TypeError, match=f"no scalar of {dtype}"):
        Scalar.from_bytes(b"\0\0", dtype)


def test_types_of_the_values_that_are_read() -> None:
    kinds = {"BOOL": bool, "INT4": int, "UINT8": int, "BF16": float, "COMPLEX64": complex}
    for name, python in kinds.items():
        dtype = dtypes.dtype(name)
        assert type(Scalar.from_bytes(Scalar(1, dtype).to_bytes(), dtype).value) is python


def test_dtype_by_any_name() -> None:
    assert Scalar(1, "ACL_BF16") == Scalar(1, "bfloat16") == Scalar(1, dtypes.BF16)
    with pytest.raises(TypeError, match="no element type"):
        Scalar(1, "float128x")


def test_copies() -> None:
    assert pickle.loads(pickle.dumps(Scalar(0.5, "BF16"))) == Scalar(0.5, "BF16")
