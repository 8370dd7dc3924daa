"""Tensors: views over storages, from and to NumPy."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aclnn import dtypes, formats
from aclnn.dtypes import DType
from aclnn.errors import InvalidParameterError, ViewOutsideStorageError
from aclnn.tensors import (
    MAX_DIMENSIONS,
    WHOLE_BYTES,
    TensorSpec,
    contiguous_strides,
    describe,
    little_endian,
    pack,
    unpack,
)

Array = npt.NDArray[Any]

WHOLE = [row for row in dtypes.ALL if row.numpy is not None and not row.packed]
PACKED = [row for row in dtypes.ALL if row.numpy is not None and row.packed]


def bits(array: Array) -> bytes:
    """The values' own bits, in C order: NaN and -0.0 count."""
    return np.ascontiguousarray(array).tobytes()


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """An array of any dtype with up to three dimensions, some of size 0 or 1."""
    dtype = draw(st.sampled_from(WHOLE)).numpy
    assert dtype is not None
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype).reshape(shape)


@st.composite
def views(draw: st.DrawFn) -> Array:
    """What NumPy code does to an array before it passes it on."""
    view = draw(arrays())
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["slice", "transpose", "broadcast", "newaxis"]))
        if kind == "slice" and view.ndim:
            view = view[draw(hnp.basic_indices(view.shape, allow_newaxis=False))]
        elif kind == "transpose":
            view = view.transpose(draw(st.permutations(range(view.ndim))))
        elif kind == "broadcast" and view.ndim < 4:
            view = np.broadcast_to(view, (draw(st.integers(0, 3)), *view.shape))
        elif kind == "newaxis" and view.ndim < 4:
            view = view[..., None]
        view = np.asarray(view)
    return view


@st.composite
def specs(draw: st.DrawFn) -> TensorSpec:
    """Any small view at all, many of them outside their storage."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    strides = draw(st.tuples(*(st.integers(-6, 6) for _ in shape)))
    return TensorSpec(dtypes.INT16, shape, strides, draw(st.integers(-3, 25)), (20,))


def touched(spec: TensorSpec) -> list[int]:
    """The storage's elements that the view names, one per index."""
    return [
        spec.offset + sum(i * step for i, step in zip(index, spec.strides, strict=True))
        for index in itertools.product(*map(range, spec.shape))
    ]


# ---------------------------------------------------------------------------------------- describe


@given(views())
def test_a_described_view_reads_the_same_values(array: Array) -> None:
    spec, storage = describe(array)
    spec.check()
    spec.check_reach()
    assert storage.dtype == np.uint8
    assert storage.shape == (spec.storage_bytes,)

    # A copy of exactly the storage's bytes: NumPy refuses views that reach outside of it.
    read = spec.view(storage.copy())
    assert read.shape == array.shape
    assert read.dtype == array.dtype
    assert bits(read) == bits(array)


@given(views())
def test_a_storage_holds_little_more_than_the_view_spans(array: Array) -> None:
    spec, storage = describe(array)
    low, high = spec.reach
    span = (high - low) * spec.dtype.itemsize
    assert storage.nbytes <= max(WHOLE_BYTES, 2 * span)


@given(views())
def test_describing_copies_nothing(array: Array) -> None:
    _, storage = describe(array)
    assert storage.size == 0 or np.shares_memory(storage, array)


@pytest.mark.parametrize(
    ("view", "strides", "offset"),
    [
        (np.arange(12).reshape(3, 4), (4, 1), 0),
        (np.arange(12).reshape(3, 4).T, (1, 4), 0),
        (np.arange(12)[::-1], (-1,), 11),
        (np.arange(12)[2:9:3], (3,), 2),
        (np.arange(12).reshape(3, 4)[::-1, 1:3], (-4, 1), 9),
        (np.broadcast_to(np.arange(4), (3, 4)), (0, 1), 0),
        (np.array(5), (), 0),
    ],
    ids=["C", "F", "reversed", "stepped", "corner", "broadcast", "0-d"],
)
def test_strides_and_offset_are_kept(view: Array, strides: tuple[int, ...], offset: int) -> None:
    spec, _ = describe(view)
    assert (spec.strides, spec.offset) == (strides, offset)


def test_a_slice_of_a_large_array_is_a_small_storage() -> None:
    large = np.zeros(1_000_000, np.float32)
    assert describe(large[500:532])[0] == TensorSpec.contiguous((32,), dtypes.FLOAT)
    assert describe(large[500:532])[1].nbytes == 128


def test_the_storage_keeps_the_array_alive() -> None:
    spec, storage = describe(np.arange(1000, dtype=np.int64) * 3)
    np.zeros(1000, np.int64)  # would reuse the memory
    np.testing.assert_array_equal(spec.view(storage), np.arange(1000) * 3)


def test_the_storage_is_writable_where_the_array_is() -> None:
    array = np.zeros(4, np.float32)
    spec, storage = describe(array)
    spec.view(storage)[2] = 1
    assert array.tolist() == [0, 0, 1, 0]

    array.flags.writeable = False
    spec, storage = describe(array)
    with pytest.raises(ValueError, match="read-only"):
        spec.view(storage)[2] = 1


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 5)])
def test_empty_arrays(shape: tuple[int, ...]) -> None:
    spec, storage = describe(np.empty(shape, np.float32)[..., ::-1])
    assert spec == TensorSpec.contiguous(shape, dtypes.FLOAT)
    assert storage.nbytes == 0
    assert spec.view(storage).shape == shape


@pytest.mark.parametrize("dtype", [">f4", ">i8", ">c16", ">u2"])
def test_big_endian_arrays(dtype: str) -> None:
    array = np.arange(6).astype(dtype).reshape(2, 3).T
    spec, storage = describe(array)
    np.testing.assert_array_equal(spec.view(storage), array)
    assert little_endian(array).dtype.byteorder in "=<"


def test_little_endian_arrays_are_not_copied() -> None:
    array = np.arange(3.0)
    assert little_endian(array) is array


def test_views_whose_strides_are_no_whole_elements() -> None:
    records = np.zeros(4, [("flag", "u1"), ("value", "<f4")])
    records["value"] = [1, 2, 3, 4]
    spec, storage = describe(records["value"])
    assert spec == TensorSpec.contiguous((4,), dtypes.FLOAT)
    assert spec.view(storage).tolist() == [1, 2, 3, 4]


def test_unaligned_arrays() -> None:
    array = np.frombuffer(b"\0" + np.arange(3, dtype="<f8").tobytes(), "<f8", offset=1)
    spec, storage = describe(array)
    assert spec.view(storage).tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["datetime64[s]", "object", "U3", [("a", "f4")], "longdouble"])
def test_dtypes_that_ACL_does_not_have(dtype: object) -> None:
    with pytest.raises(TypeError, match="no element type of ACL"):
        describe(np.zeros(2, dtype))  # type: ignore[call-overload]


# ---------------------------------------------------------------------------------------- the view


@given(specs())
@example(TensorSpec(dtypes.INT16, (2, 2), (-1, 1), 5, (20,)))
def test_reach_is_what_is_touched(spec: TensorSpec) -> None:
    elements = touched(spec)
    expected = (min(elements), max(elements) + 1) if elements else (spec.offset, spec.offset)
    assert spec.reach == expected
    assert spec.elements == len(elements)


@given(specs())
def test_contiguous_is_C_order_without_gaps(spec: TensorSpec) -> None:
    elements = touched(spec)
    assert spec.is_contiguous == (elements == list(range(spec.offset, spec.offset + len(elements))))


@given(specs())
def test_every_overlap_is_found(spec: TensorSpec) -> None:
    elements = touched(spec)
    if len(set(elements)) < len(elements):
        assert spec.overlaps_itself


@given(views())
def test_a_view_of_distinct_elements_does_not_overlap(array: Array) -> None:
    spec, _ = describe(array)
    repeated = any(n > 1 and step == 0 for n, step in zip(spec.shape, spec.strides, strict=True))
    assert spec.overlaps_itself == (repeated and spec.elements > 0)


@given(specs())
def test_reach_is_checked(spec: TensorSpec) -> None:
    if all(0 <= element < 20 for element in touched(spec)):
        spec.check_reach()
        memory = np.arange(20, dtype=np.int16)
        values = spec.view(memory.view(np.uint8)).reshape(-1).tolist()
        assert values == [memory[element] for element in touched(spec)]
    else:
        with pytest.raises(ViewOutsideStorageError):
            spec.check_reach()


@given(specs())
def test_numpy_too_refuses_a_view_outside_the_memory(spec: TensorSpec) -> None:
    if touched(spec) and not all(0 <= element < 20 for element in touched(spec)):
        with pytest.raises((ValueError, TypeError)):
            spec.view(np.zeros(40, np.uint8))


def test_the_error_says_what_is_outside_of_what() -> None:
    spec = TensorSpec(dtypes.FLOAT, (2, 3), (3, -1), 1, (5,))
    with pytest.raises(ViewOutsideStorageError) as caught:
        spec.check_reach(operator="aclnnAbs", parameter="self")
    assert caught.value.code == 561103
    assert (caught.value.operator, caught.value.parameter) == ("aclnnAbs", "self")
    assert caught.value.message == (
        "aclnnAbs: self with shape [2, 3], strides [3, -1] and offset 1 reaches elements -1 to 4 "
        "of a storage of 5 elements"
    )


def test_the_stride_of_one_element_may_be_anything() -> None:
    spec = TensorSpec(dtypes.INT64, (1, 2, 1), (2**62, 1, -(2**63)), 1, (3,))
    spec.check()
    spec.check_reach()
    assert spec.is_contiguous
    assert spec.view(np.arange(3).view(np.uint8)).tolist() == [[[1], [2]]]


def test_memory_may_be_larger_than_the_storage() -> None:
    spec = TensorSpec.contiguous((2, 2), dtypes.INT64)
    assert spec.view(np.arange(9).view(np.uint8)).tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("dtype", [*PACKED, dtypes.HIFLOAT8, dtypes.COMPLEX32], ids=str)
def test_dtypes_that_no_numpy_array_holds(dtype: DType) -> None:
    with pytest.raises(TypeError, match=f"no array whose storage is {dtype}"):
        TensorSpec.contiguous((2,), dtype).view(np.zeros(8, np.uint8))


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_numpy_dtype(dtype: DType) -> None:
    assert TensorSpec.contiguous((2,), dtype).numpy_dtype() == dtype.numpy


@given(hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4))
def test_contiguous_strides_are_numpys(shape: tuple[int, ...]) -> None:
    expected = np.empty(shape, np.uint8).strides
    if 0 not in shape:
        assert contiguous_strides(shape) == expected
    assert TensorSpec.contiguous(shape, dtypes.INT8).is_contiguous


def test_contiguous() -> None:
    spec = TensorSpec.contiguous([2, 3], dtypes.BF16, format=formats.NCHW)
    assert spec == TensorSpec(dtypes.BF16, (2, 3), (3, 1), 0, (2, 3), formats.NCHW)
    assert (spec.elements, spec.storage_elements, spec.storage_bytes) == (6, 6, 12)


def test_copies_are_equal() -> None:
    spec = TensorSpec.contiguous([2, 3], dtypes.BF16)
    assert spec.elements == 6  # cached
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert len({spec, pickle.loads(pickle.dumps(spec))}) == 1


# ---------------------------------------------------------------------------------------- impossible sizes


def shaped(shape: tuple[int, ...], storage: tuple[int, ...] = ()) -> TensorSpec:
    return TensorSpec(dtypes.FLOAT, shape, contiguous_strides(shape), 0, storage)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (shaped((-1, 4)), "shape [-1, 4]; a dimension must be at least 0"),
        (shaped((4,), (-2,)), "storage shape [-2]; a dimension must be at least 0"),
        (shaped((2**32, 2**32)), "shape [4294967296, 4294967296] of FLOAT, more than 2**63 - 1"),
        (shaped((2**61,)), "shape [2305843009213693952] of FLOAT, more than 2**63 - 1 bytes"),
        (shaped((0, 2**32, 2**32)), "more than 2**63 - 1 bytes"),
        (shaped((2**32, 2**32, 0)), "more than 2**63 - 1 bytes"),
        (shaped((2,), (2**40, 2**40)), "storage shape [1099511627776, 1099511627776] of FLOAT"),
        (shaped((1,) * 65), "has 65 dimensions in its shape; at most 64 can be"),
        (shaped((1,), (1,) * 65), "has 65 dimensions in its storage shape"),
        (TensorSpec(dtypes.FLOAT, (2, 3), (1,)), "has 1 strides for 2 dimensions"),
        (TensorSpec(dtypes.FLOAT, (), (1,)), "has 1 strides for 0 dimensions"),
    ],
)
def test_impossible_sizes(spec: TensorSpec, problem: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        spec.check(operator="aclnnAbs", parameter="self")
    assert caught.value.code == 161002
    assert (caught.value.operator, caught.value.parameter) == ("aclnnAbs", "self")
    assert caught.value.message.startswith("aclnnAbs: self has ")
    assert problem in caught.value.message


@pytest.mark.parametrize(
    "spec",
    [
        shaped(()),
        shaped((0,)),
        shaped((1,) * MAX_DIMENSIONS),
        shaped((2**61 - 1,)),
        shaped((0, 2**30, 2**30)),
        TensorSpec.contiguous((2**63 - 1,), dtypes.INT8),
        TensorSpec.contiguous((2**62,), dtypes.INT4),
    ],
    ids=["0-d", "empty", "64 dimensions", "largest", "empty and large", "bytes", "packed"],
)
def test_possible_sizes(spec: TensorSpec) -> None:
    spec.check()


# ---------------------------------------------------------------------------------------- packed


@pytest.mark.parametrize("dtype", PACKED, ids=str)
@given(data=st.data())
def test_packed_values_come_back(dtype: DType, data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, 2**dtype.bits - 1), max_size=20))
    values = unpack(pack(np.array(codes, np.uint8), dtype), dtype, len(codes))
    assert values.dtype == dtype.numpy

    storage = pack(values, dtype)
    assert storage.nbytes == dtype.storage_bytes(len(codes))
    assert (unpack(storage, dtype, len(codes)).view(np.uint8) == values.view(np.uint8)).all()


@pytest.mark.parametrize(
    ("values", "numpy", "packed"),
    [
        ([1, -2, 7], ml_dtypes.int4, [0xE1, 0x07]),
        ([0.5, -6.0], ml_dtypes.float4_e2m1fn, [0xF1]),
        ([1.0, -28.0, 0.25, 0.0], ml_dtypes.float6_e3m2fn, [0xCC, 0x4F, 0x00]),
    ],
)
def test_the_first_element_lies_in_the_lowest_bits(
    values: list[float], numpy: type, packed: list[int]
) -> None:
    array: Array = np.array(values).astype(numpy)
    spec, storage = describe(array)
    assert spec == TensorSpec.contiguous(array.shape, dtypes.dtype(numpy))
    assert storage.tolist() == packed
    assert unpack(storage, spec.dtype, len(values)).astype(float).tolist() == values


@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_packed_views_of_any_shape(dtype: DType) -> None:
    assert dtype.numpy is not None
    array: Array = np.arange(24).reshape(2, 3, 4).astype(np.int8).clip(0, 3).astype(dtype.numpy)
    for view in (array, array.T, array[:, ::-1, 1:], array[0, 0, 0], array[:0]):
        spec, storage = describe(np.asarray(view))
        assert spec == TensorSpec.contiguous(view.shape, dtype)
        values = unpack(storage, dtype, spec.elements).astype(float)
        np.testing.assert_array_equal(values, np.ravel(view).astype(float))


def test_unpacking_what_numpy_has_no_form_of() -> None:
    with pytest.raises(TypeError, match="no array of UINT1"):
        unpack(np.zeros(1, np.uint8), dtypes.UINT1, 8)
