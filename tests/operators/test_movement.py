"""Operators that copy, join and fill, against what NumPy makes of the same arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.errors import AclnnError, InvalidParameterError
from aclnn.tensors import Scalar
from aclnn_server.operators.checking.layout_checks import ALL
from tests.operators.calling import Array, call, device

EVERY_TYPE = pytest.mark.parametrize("dtype", ALL, ids=str)
LARGE = (3, 517, 211)
"""More than a block, of sizes that divide nothing."""


def numbers(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Array:
    values = np.array(np.arange(math.prod(shape)).reshape(shape) % 97 - 30)
    return values.astype(dtype)


def views(array: Array) -> list[Array]:
    """The same values laid out in C order, column by column, with gaps, and backwards."""
    gaps = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)[..., ::2]
    gaps[...] = array
    return [array, np.asfortranarray(array), gaps, array[::-1].copy()[::-1]]


def refusal(operator: str, *arguments: Any) -> tuple[int, str]:  # noqa: ANN401
    with pytest.raises(AclnnError) as caught:
        call(operator, *arguments)
    return caught.value.code, caught.value.parameter


# --- casts ------------------------------------------------------------------------------------------


@EVERY_TYPE
@pytest.mark.parametrize("target", ALL, ids=str)
def test_cast_between_all_types(dtype: DType, target: DType) -> None:
    x = numbers((70, 71), np.int8).clip(0, 60).astype(dtype.numpy)
    out = np.empty(x.shape, target.numpy)
    call("aclnnCast", x, target, out)
    expected = x.real if dtype.kind == "complex" and target.kind != "complex" else x
    np.testing.assert_array_equal(out, expected.astype(target.numpy))


def test_cast_rounds_once_to_nearest_even() -> None:
    x = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    for narrow in (np.float16, ml_dtypes.bfloat16):
        out = np.empty(x.shape, narrow)
        call("aclnnCast", x, dtypes.dtype(narrow), out)
        np.testing.assert_array_equal(out, x.astype(narrow))


def test_cast_to_bool_is_other_than_zero() -> None:
    out = np.empty(5, np.bool_)
    call("aclnnCast", np.array([0, 0.5, np.nan, -0.0, np.inf], np.float32), dtypes.BOOL, out)
    assert out.tolist() == [False, True, True, False, True]
    call("aclnnCast", np.array([0, 1j, 1, 0, 0], np.complex64), dtypes.BOOL, out)
    assert out.tolist() == [False, True, True, False, False]


def test_cast_refuses_an_output_of_another_type() -> None:
    x = np.ones(3, np.float32)
    assert refusal("aclnnCast", x, dtypes.FLOAT16, x.copy()) == (561103, "out")
    assert refusal("aclnnCast", x, dtypes.STRING, x.copy()) == (161002, "dtype")


@pytest.mark.parametrize("source", [(211,), (517, 1), (1, 1, 1), LARGE, ()])
def test_inplace_copy_broadcasts(source: tuple[int, ...]) -> None:
    own, src = np.zeros(LARGE, np.float16), numbers(source)
    call("aclnnInplaceCopy", own, src)
    np.testing.assert_array_equal(own, np.broadcast_to(src, LARGE).astype(np.float16))


def test_inplace_copy_of_memory_onto_itself_reads_what_was_there() -> None:
    memory = numbers((600, 600))
    expected = memory.T.copy()
    call("aclnnInplaceCopy", memory, memory.T)
    np.testing.assert_array_equal(memory, expected)
    assert refusal("aclnnInplaceCopy", np.ones(3), np.ones(2)) == (161002, "src")


# --- views ------------------------------------------------------------------------------------------


@EVERY_TYPE
def test_permute_takes_every_type(dtype: DType) -> None:
    x = numbers((4, 5, 6), np.int8).astype(dtype.numpy)
    out = np.empty((6, 4, 5), dtype.numpy)
    call("aclnnPermute", x, (2, 0, -2), out)
    np.testing.assert_array_equal(out, x.transpose(2, 0, 1))


@pytest.mark.parametrize("x", views(numbers(LARGE)))
def test_permute_reads_and_writes_any_layout(x: Array) -> None:
    for out in views(np.zeros((211, 3, 517), np.float32)):
        call("aclnnPermute", x, (2, 0, 1), out)
        np.testing.assert_array_equal(out, x.transpose(2, 0, 1))


@given(st.permutations(range(4)), st.integers(-6, 6), st.integers(-6, 6), st.integers(1, 3))
def test_slice_of_permute_is_numpys(dims: list[int], start: int, end: int, step: int) -> None:
    x = numbers((3, 4, 5, 2))
    middle = np.empty(tuple(x.shape[dim] for dim in dims), np.float32)
    call("aclnnPermute", x, tuple(dims), middle)
    expected = x.transpose(dims)[:, :, start:end:step]
    out = np.empty(expected.shape, np.float32)
    call("aclnnSlice", middle, 2, start, end, step, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dims", [(0, 1), (0, 0, 1), (0, 1, 3), (0, 2, -1)])
def test_permute_refuses_dims(dims: tuple[int, ...]) -> None:
    x = np.zeros((2, 3, 4), np.float32)
    assert refusal("aclnnPermute", x, dims, x.copy())[0] == 161002


@pytest.mark.parametrize("size", [(4, 5), (7, 4, 5), (0, 4, 5), (2, 3, 4, 5)])
def test_expand(size: tuple[int, ...]) -> None:
    x, out = numbers((4, 1)), np.empty(size, np.float32)
    call("aclnnExpand", x, size, out)
    np.testing.assert_array_equal(out, np.broadcast_to(x, size))


def test_expand_refuses_minus_one_and_smaller_ranks() -> None:
    x, out = np.zeros((4, 1), np.float32), np.zeros((4, 5), np.float32)
    assert refusal("aclnnExpand", x, (-1, 5), out) == (161002, "size")
    assert refusal("aclnnExpand", x, (4,), out) == (161002, "size")
    assert refusal("aclnnExpand", x, (4, 6), out) == (161002, "out")


@pytest.mark.parametrize(
    ("pad", "reference"),
    [
        ((1, 2), ((0, 0), (1, 2))),
        ((0, 3, 2, 0), ((2, 0), (0, 3))),
        ((), ((0, 0), (0, 0))),
    ],
)
def test_pad(pad: tuple[int, ...], reference: tuple[tuple[int, int], ...]) -> None:
    for x in views(numbers((301, 517))):
        expected = np.pad(x, reference, constant_values=2.5)
        out = np.zeros(expected.shape, np.float32)
        call("aclnnConstantPadNd", x, pad, Scalar(2.5, np.float32), out)
        np.testing.assert_array_equal(out, expected)


def test_pad_below_zero_takes_away() -> None:
    x = numbers((4, 6))
    out = np.empty((5, 5), np.float32)
    call("aclnnConstantPadNd", x, (-2, 1, 1, 0), Scalar(9, np.int32), out)
    np.testing.assert_array_equal(out, np.pad(x[:, 2:], ((1, 0), (0, 1)), constant_values=9))
    emptied = np.empty((4, 3), np.float32)
    call("aclnnConstantPadNd", x, (-6, 3), Scalar(9, np.int32), emptied)
    assert (emptied == 9).all()


def test_pad_refusals() -> None:
    x, value = np.zeros((4, 4), np.float32), Scalar(1, np.int32)
    assert refusal("aclnnConstantPadNd", x, (1, 1, 1), value, x.copy()) == (161002, "pad")
    assert refusal("aclnnConstantPadNd", x, (-5, 5), value, x.copy()) == (161002, "pad")
    assert refusal("aclnnConstantPadNd", x, (1, 1), value, x.copy()) == (161002, "out")
    empty = np.zeros((4, 0), np.float32)
    assert refusal("aclnnConstantPadNd", empty, (0, 0, 1, 0), value, np.zeros((5, 0))) == (
        161002,
        "out",
    )


# --- joins ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat(dim: int) -> None:
    shape = [200, 300]
    parts = []
    for size in (1, 700, 0, 44):
        shape[dim] = size
        parts.append(numbers(tuple(shape)))
    parts[1] = np.asfortranarray(parts[1])
    expected = np.concatenate([*parts], dim)
    for out in views(np.zeros_like(expected)):
        call("aclnnCat", [*parts, np.zeros(0, np.float32)], dim, out)
        np.testing.assert_array_equal(out, expected)


def test_cat_rounds_to_the_common_type_first() -> None:
    parts = [np.array([4097], np.int32), np.array([0.5], np.float16)]
    out = np.empty(2, np.float32)
    call("aclnnCat", parts, 0, out)
    assert out.tolist() == [4096, 0.5]


def test_cat_into_its_own_input() -> None:
    memory = numbers((6, 4))
    expected = np.concatenate([memory[3:], memory[:3]])
    call("aclnnCat", [memory[3:], memory[:3]], 0, memory)
    np.testing.assert_array_equal(memory, expected)


def test_cat_of_nothing_checks_nothing() -> None:
    call("aclnnCat", [], 0, None)
    call("aclnnCat", [np.zeros(0, np.complex128)], 5, np.zeros(3, np.float32))


def test_cat_refusals() -> None:
    one, two = np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32)
    out = np.zeros((4, 3), np.float32)
    assert refusal("aclnnCat", None, 0, out) == (161001, "tensors")
    assert refusal("aclnnCat", [one], 0, None) == (161001, "out")
    assert refusal("aclnnCat", [one, two], 0, out) == (161002, "tensors")
    assert refusal("aclnnCat", [one, one], 2, out) == (161002, "dim")
    assert refusal("aclnnCat", [one, one], 1, out) == (161002, "out")
    assert refusal("aclnnCat", [one], 0, out) == (561103, "out")
    assert refusal("aclnnCat", [one, one], 0, out.astype(np.int32)) == (161002, "out")


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_stack(dim: int) -> None:
    parts = [numbers((300, 200)) + i for i in range(5)]
    expected = np.stack(parts, dim)
    out = np.zeros(expected.shape, np.float32)
    call("aclnnStack", parts, dim, out)
    np.testing.assert_array_equal(out, expected)


def test_stack_refuses_null_with_its_own_code() -> None:
    assert refusal("aclnnStack", [np.zeros(3, np.float32)], 0, None) == (561103, "out")
    assert refusal("aclnnStack", None, 0, np.zeros(3, np.float32)) == (561103, "tensors")


# --- made elements ----------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", ["aclnnInplaceZero", "aclnnInplaceOne"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8, np.bool_])
def test_zero_and_one_write_the_view_only(operator: str, dtype: npt.DTypeLike) -> None:
    memory = numbers((400, 500)).astype(dtype)
    expected = memory.copy()
    expected[1::2, ::3] = operator == "aclnnInplaceOne"
    call(operator, memory[1::2, ::3])
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (Scalar(8.9, np.float32), np.int32, 8),
        (Scalar(2, np.int32), np.bool_, True),
        (Scalar(1.5 + 2j, np.complex64), np.float32, 1.5),
        (Scalar(-1, np.int64), np.float16, -1),
        (Scalar(2.5, np.float32), np.complex128, 2.5),
    ],
)
def test_fill_scalar_casts_its_value(value: Scalar, dtype: npt.DTypeLike, expected: object) -> None:
    out = np.zeros((700, 300), dtype)
    call("aclnnInplaceFillScalar", out, value)
    assert (out == expected).all()


@pytest.mark.parametrize(
    ("start", "end", "step", "dtype"),
    [
        (0, 10, 1, np.float32),
        (5, -4, -2, np.int64),
        (0.5, 5.0, 0.5, np.float16),
        (3, 3, 1, np.int32),
        (0, 400_000, 1, np.int32),
        (0, 1, 0.1, np.float64),
    ],
)
def test_arange(start: float, end: float, step: float, dtype: npt.DTypeLike) -> None:
    expected = np.arange(start, end, step).astype(dtype)
    kind = np.int64 if isinstance(step, int) else np.float64
    bounds = [Scalar(kind(number).item(), kind) for number in (start, end, step)]
    for out in (np.zeros_like(expected), np.zeros((*expected.shape, 2), dtype)[:, 0]):
        call("aclnnArange", *bounds, out)
        np.testing.assert_array_equal(out, expected)


def test_arange_refusals() -> None:
    zero, one, two = (Scalar(number, np.int64) for number in range(3))
    out = np.zeros(2, np.int64)
    assert refusal("aclnnArange", None, two, one, out) == (561103, "start")
    assert refusal("aclnnArange", zero, two, zero, out) == (161002, "step")
    assert refusal("aclnnArange", two, zero, one, out) == (161002, "end")
    assert refusal("aclnnArange", zero, two, one, np.zeros(3, np.int64)) == (161002, "out")
    assert refusal("aclnnArange", zero, two, one, np.zeros(2, np.int8)) == (161002, "out")


@pytest.mark.parametrize(
    ("operator", "reference"), [("aclnnTriu", np.triu), ("aclnnTril", np.tril)]
)
@pytest.mark.parametrize("diagonal", [0, 1, -2, 400, -400, 2**62, -(2**62)])
def test_triangles(operator: str, reference: Callable[..., Array], diagonal: int) -> None:
    for x in (*views(numbers((5, 300, 200))), numbers((7, 3)), numbers((2, 200_000))):
        out = np.full_like(x, 9)
        call(operator, x, diagonal, out)
        np.testing.assert_array_equal(out, reference(x, int(np.clip(diagonal, -9000, 300_000))))


def test_triangles_in_place_and_their_refusals() -> None:
    x = numbers((300, 500))
    expected = np.triu(x, 3)
    call("aclnnTriu", x, 3, x)
    np.testing.assert_array_equal(x, expected)
    line = np.zeros(2, np.float32)
    assert refusal("aclnnTriu", line, 0, line) == (161002, "self")
    call("aclnnTriu", np.zeros(0, np.float32), 0, np.zeros(0, np.float32))
    assert refusal("aclnnTril", np.zeros(0), 0, np.zeros(0)) == (161002, "self")


# --- products ---------------------------------------------------------------------------------------


def test_types_of_one_product() -> None:
    x = np.ones((2, 2), np.complex64)
    for soc in ("reference", "ascend950"):
        call("aclnnTriu", x, 0, x.copy(), on=device(soc=soc))
    with pytest.raises(InvalidParameterError, match="COMPLEX64, which Atlas A2"):
        call("aclnnTriu", x, 0, x.copy(), on=device(soc="ascend910b"))
    y = np.ones(2, np.uint16)
    call("aclnnCat", [y], 0, y.copy(), on=device(soc="ascend950"))
    with pytest.raises(InvalidParameterError, match=r"tensors\[0\] is UINT16; allowed are"):
        call("aclnnCat", [y], 0, y.copy(), on=device(soc="ascend910b"))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_make_no_difference(threads: int) -> None:
    x = numbers((700, 900))
    out = np.zeros((900, 700), np.float16)
    call("aclnnPermute", x.astype(np.float16), (1, 0), out, on=device(threads))
    np.testing.assert_array_equal(out, x.T)
