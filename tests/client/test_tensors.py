"""Tensors: uploads and downloads of every dtype and layout, and what is refused."""
# ruff: noqa: ANN401 - wrong values are given on purpose

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aclnn import dtypes
from aclnn_client import (
    Context,
    InvalidParameterError,
    OutOfMemoryError,
    UnsupportedError,
    ViewOutsideStorageError,
    connect,
)
from aclnn_server.server import Server

Array = npt.NDArray[Any]

BASE = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
VIEWS = {
    "whole": BASE,
    "row": BASE[1],
    "tail": BASE[1:],
    "steps": BASE[::2, 1::3, ::-1],
    "reversed": BASE[::-1, ::-1, ::-1],
    "transposed": BASE.T,
    "fortran": np.asfortranarray(BASE),
    "broadcast": np.broadcast_to(BASE[0], (3, 5, 6)),
    "one element": BASE[2:3, 2:3, 2:3],
    "no dimensions": np.asarray(BASE[1, 1, 1]),
    "empty": BASE[:0],
    "empty in the middle": np.empty((3, 0, 2), np.float32),
}
WITH_NUMPY = [dtype for dtype in dtypes.ALL if dtype.numpy is not None]
PACKED = [dtype for dtype in WITH_NUMPY if dtype.packed]


def sample(dtype: dtypes.DType, size: int) -> Array:
    """Values that a dtype of any kind holds exactly."""
    assert dtype.numpy is not None
    return (np.arange(size) % 2).astype(dtype.numpy)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_comes_back_as_it_went(context: Context, view: Array) -> None:
    tensor = context.tensor(view)
    got = tensor.numpy()
    assert got.dtype == view.dtype
    assert got.flags.c_contiguous
    assert got.flags.writeable
    np.testing.assert_array_equal(got, view)


def test_a_view_keeps_strides_offset_and_base(context: Context) -> None:
    tensor = context.tensor(BASE[1:, ::2, ::-1])
    assert tensor.shape == (3, 3, 6)
    assert tensor.strides == (30, 12, -1)
    assert tensor.offset == 35
    assert tensor.storage_shape == (120,)
    assert tensor.nbytes == BASE.nbytes
    assert tensor.ndim == 3
    assert tensor.size == 54
    assert tensor.context is context
    assert "strides=[30, 12, -1], offset=35" in repr(tensor)


@pytest.mark.parametrize("dtype", WITH_NUMPY, ids=str)
def test_every_dtype_goes_up_and_down(context: Context, dtype: dtypes.DType) -> None:
    array = sample(dtype, 35).reshape(5, 7)
    tensor = context.tensor(array)
    assert tensor.data_type is dtype
    assert tensor.dtype == dtype.numpy
    assert tensor.nbytes == dtype.storage_bytes(35)
    np.testing.assert_array_equal(tensor.numpy().astype(np.complex128), array.astype(np.complex128))


@pytest.mark.parametrize("dtype", WITH_NUMPY, ids=str)
def test_every_dtype_is_written_over(context: Context, dtype: dtypes.DType) -> None:
    tensor = context.empty((5, 7), dtype)
    assert not any(tensor.buffer.read())
    tensor.write(sample(dtype, 35).reshape(5, 7))
    expected = sample(dtype, 35).reshape(5, 7).astype(np.complex128)
    np.testing.assert_array_equal(tensor.numpy().astype(np.complex128), expected)


@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_a_packed_view_that_begins_inside_of_a_byte_is_read(
    context: Context, dtype: dtypes.DType
) -> None:
    whole = context.tensor(sample(dtype, 24))
    view = context.create_tensor((7,), dtype, (3,), 1, storage_shape=(24,), buffer=whole.buffer)
    expected = sample(dtype, 24)[1:22:3]
    np.testing.assert_array_equal(view.numpy().astype(np.float32), expected.astype(np.float32))


def test_big_endian_arrays_arrive_as_their_values(context: Context) -> None:
    array = np.arange(6, dtype=">f4")
    got = context.tensor(array).numpy()
    assert got.dtype == np.dtype("<f4")
    np.testing.assert_array_equal(got, array)


def test_an_array_may_be_changed_once_it_was_handed_over(context: Context) -> None:
    arrays = [np.full((3 << 20) + 5, value, np.uint8) for value in range(4)]
    tensors = []
    for array in arrays:
        tensors.append(context.tensor(array))
        array[:] = 255
    for value, tensor in enumerate(tensors):
        assert (tensor.numpy() == value).all()


@settings(max_examples=60)
@given(data=st.data())
def test_any_view_of_a_base_comes_back(server: Server, data: st.DataObject) -> None:
    index = tuple(
        slice(data.draw(st.integers(0, size)), None, data.draw(st.sampled_from([1, 2, 3, -1, -2])))
        for size in BASE.shape
    )
    axes = data.draw(st.permutations(range(3)))
    view = BASE[index].transpose(axes)
    with connect(server.address) as context:
        np.testing.assert_array_equal(context.tensor(view).numpy(), view)


# --- what an array can be made of -------------------------------------------------------------------


class ByDLPack:
    """An object that offers an array by DLPack only."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class ByArray:
    """An object that offers an array by ``__array__`` only."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return self._array


class BothWays(ByArray):
    """An object whose DLPack form NumPy cannot take."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("no DLPack of this dtype")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (7, None, np.int64),
        (1.5, None, np.float32),
        ([[1, 2.5]], None, np.float32),
        ((1.5, 2j), None, np.complex64),
        (1.5, "float64", np.float64),
        ([], None, np.float32),
        (np.float64(1.5), None, np.float64),
        ([1.5, np.float64(2.5)], None, np.float64),
        ([np.arange(3.0)], None, np.float64),
        (True, None, np.bool_),
        ([[1, 2], [3, 4]], "float32", np.float32),
        ([1.0, 2.0], "bfloat16", ml_dtypes.bfloat16),
        ([1.0, 2.0], "BF16", ml_dtypes.bfloat16),
        ((1, 2), np.int8, np.int8),
        (np.float16(3), None, np.float16),
        (ByDLPack(np.arange(3.0)), None, np.float64),
        (ByArray(np.arange(3)), "int32", np.int32),
        (BothWays(np.arange(3, dtype=ml_dtypes.bfloat16)), None, ml_dtypes.bfloat16),
    ],
)
def test_arrays_are_made_of_many_things(
    context: Context, value: Any, dtype: Any, expected: Any
) -> None:
    got = context.tensor(value, dtype).numpy()
    assert got.dtype == np.dtype(expected)
    source = value._array if isinstance(value, ByDLPack | ByArray) else value
    np.testing.assert_array_equal(got, np.asarray(source).astype(got.dtype))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("text", "array is a str"),
        ([[1], [2, 3]], "array is a list"),
        (object(), "array is a object"),
        (np.array(["a"]), "no element type of ACL"),
        (np.array([1], "datetime64[s]"), "no element type of ACL"),
        (np.longdouble(1), "no element type of ACL"),
        ([1.0, -1e300], r"array has -1e\+300, which is too large for FLOAT; give it as .* float64"),
    ],
)
def test_what_is_no_array_is_refused(context: Context, value: Any, words: str) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        context.tensor(value)


def test_a_download_that_no_memory_can_hold_is_an_error_of_its_own(context: Context) -> None:
    view = context.create_tensor((1 << 40,), "float32", strides=(0,), storage_shape=(1,))
    for _ in range(2):
        with pytest.raises(OutOfMemoryError, match=r"^4398046511104 bytes, .* \[1099511627776\]"):
            view.numpy()


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 30, 1 << 30), (1 << 50,)])
def test_a_download_of_memory_that_the_server_refused_says_that(
    context: Context, shape: tuple[int, ...]
) -> None:
    with pytest.raises(InvalidParameterError, match=r"^malloc, earlier: bytes is "):
        context.empty(shape, "float32").numpy()


def test_tensors_hand_their_values_out(context: Context) -> None:
    tensor = context.tensor(BASE[::2])
    np.testing.assert_array_equal(np.from_dlpack(tensor), BASE[::2])
    np.testing.assert_array_equal(np.asarray(tensor), BASE[::2])
    assert np.asarray(tensor, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="can only be copied"):
        np.asarray(tensor, copy=False)
    np.testing.assert_array_equal(context.tensor(tensor).numpy(), BASE[::2])


# --- downloads into an array of the caller's ---------------------------------------------------------


@pytest.mark.parametrize("view", [BASE, BASE[::2, ::-1]], ids=["whole", "steps"])
def test_a_download_fills_the_array_given(context: Context, view: Array) -> None:
    tensor = context.tensor(view)
    for out in (np.empty(view.shape, view.dtype), np.empty(view.shape, view.dtype, "F")):
        assert tensor.numpy(out) is out
        np.testing.assert_array_equal(out, view)
    frame = np.zeros((*view.shape, 2), view.dtype)
    tensor.numpy(out=frame[..., 0])
    np.testing.assert_array_equal(frame[..., 0], view)
    assert not frame[..., 1].any()


@pytest.mark.parametrize(
    "out",
    [np.empty((2, 3), np.float64), np.empty((3, 2), np.float32), np.empty(6, ">f4"), [1], 5],
    ids=["dtype", "shape", "byte order", "list", "number"],
)
def test_an_array_that_does_not_fit_is_refused(context: Context, out: Any) -> None:
    with pytest.raises(InvalidParameterError, match=r"out is .*; the tensor needs") as caught:
        context.tensor(np.zeros((2, 3), np.float32)).numpy(out)
    assert caught.value.parameter == "out"


def test_a_read_only_array_is_refused(context: Context) -> None:
    out = np.zeros(3, np.float32)
    out.flags.writeable = False
    with pytest.raises(InvalidParameterError, match="read-only"):
        context.empty((3,), "float32").numpy(out)


# --- create_tensor ----------------------------------------------------------------------------------


def test_tensors_share_a_buffer(context: Context) -> None:
    whole = context.tensor(np.arange(12, dtype=np.int32))
    part = context.create_tensor((2, 2), "INT32", (4, 1), 2, buffer=whole.buffer)
    np.testing.assert_array_equal(part.numpy(), [[2, 3], [6, 7]])
    assert part.storage_shape == (8,)
    turned = context.create_tensor((3, 4), "int32", (1, 3), buffer=whole.buffer)
    assert turned.storage_shape == (3, 4)
    turned.write(np.arange(12).reshape(3, 4))
    expected = np.arange(12).reshape(3, 4).T.reshape(-1)
    np.testing.assert_array_equal(whole.numpy(), expected)


def test_a_tensor_without_a_buffer_gets_one_of_zeros(context: Context) -> None:
    tensor = context.create_tensor((2, 3), "float16", format="NCHW", storage_shape=(10,), offset=4)
    assert tensor.buffer.size == 20
    assert tensor.format == "NCHW"
    assert not tensor.numpy().any()
    assert context.empty((), "float32").numpy().shape == ()
    assert context.empty((0, 4), "float32").numpy().shape == (0, 4)


@pytest.mark.parametrize(
    ("arguments", "parameter", "words"),
    [
        ({"shape": 3}, "shape", "a sequence of integers"),
        ({"shape": (2, -1)}, "shape[1]", "at least 0"),
        ({"shape": (2.5,)}, "shape[0]", "an integer"),
        ({"dtype": "float31"}, "dtype", "no element type"),
        ({"dtype": None}, "dtype", "no element type"),
        ({"dtype": "STRING"}, "dtype", "no tensor can be made"),
        ({"strides": (1,)}, "strides", "needs 2"),
        ({"strides": (1, "a")}, "strides[1]", "an integer"),
        ({"offset": None}, "offset", "an integer"),
        ({"format": "ABCD"}, "format", "known are ND"),
        ({"storage_shape": (-4,)}, "storage_shape[0]", "at least 0"),
        ({"shape": (2**40, 2**40)}, "tensor", "more than 2\\*\\*63 - 1 bytes"),
        ({"shape": (1,) * 65}, "tensor", "at most 64"),
        ({"buffer": 5}, "buffer", "no buffer"),
    ],
)
def test_impossible_tensors_are_refused(
    context: Context, arguments: dict[str, Any], parameter: str, words: str
) -> None:
    with pytest.raises(InvalidParameterError, match=words) as caught:
        context.create_tensor(**{"shape": (2, 3), "dtype": "float32", **arguments})
    assert caught.value.parameter == parameter
    assert caught.value.code == 161002


def test_a_buffer_that_does_not_fit_is_refused(context: Context, server: Server) -> None:
    small = context.malloc(23)
    with pytest.raises(InvalidParameterError, match="has 23 bytes; the storage needs 24"):
        context.create_tensor((2, 3), "float32", buffer=small)
    with (
        connect(server.address) as other,
        pytest.raises(InvalidParameterError, match="another context"),
    ):
        other.create_tensor((2,), "float32", buffer=small)


def test_a_view_outside_its_storage_is_refused_when_used(context: Context) -> None:
    tensor = context.create_tensor((2, 3), "float32", storage_shape=(5,))
    with pytest.raises(ViewOutsideStorageError):
        tensor.numpy()
    with pytest.raises(ViewOutsideStorageError):
        tensor.write(np.zeros((2, 3)))


# --- write ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((4, 3), (3, 1), 0),
        ((3, 4), (1, 3), 0),
        ((12,), (-1,), 11),
        ((2, 3), (3, 1), 6),
        ((), (), 7),
    ],
)
def test_views_without_gaps_are_written(
    context: Context, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    whole = context.tensor(np.full(12, -1, np.int16))
    view = context.create_tensor(
        shape, "int16", strides, offset, storage_shape=(12,), buffer=whole.buffer
    )
    values = np.arange(view.size).reshape(shape)
    view.write(values)
    np.testing.assert_array_equal(view.numpy(), values)
    assert (whole.numpy() == -1).sum() == 12 - view.size


@pytest.mark.parametrize("strides", [(2,), (0,)], ids=["gaps", "repeats"])
def test_views_with_gaps_are_not_written(context: Context, strides: tuple[int, ...]) -> None:
    view = context.create_tensor((3,), "int16", strides, storage_shape=(6,))
    with pytest.raises(InvalidParameterError, match="leaves gaps"):
        view.write([1, 2, 3])


def test_part_of_a_packed_storage_is_not_written(context: Context) -> None:
    view = context.create_tensor((3,), "INT4", offset=1, storage_shape=(6,))
    with pytest.raises(InvalidParameterError, match="leaves gaps"):
        view.write([1, 2, 3])


def test_what_is_written_must_have_the_shape(context: Context) -> None:
    with pytest.raises(InvalidParameterError, match=r"has shape \[3\]; the tensor has \[2, 3\]"):
        context.empty((2, 3), "float32").write([1, 2, 3])


@pytest.mark.parametrize(
    "dtype", [row for row in dtypes.ALL if row.numpy is None and row.bits], ids=str
)
def test_types_that_numpy_lacks_are_bytes(context: Context, dtype: dtypes.DType) -> None:
    tensor = context.empty((8,), dtype)
    assert tensor.dtype is None
    with pytest.raises(UnsupportedError, match=f"no arrays of {dtype}"):
        tensor.numpy()
    with pytest.raises(InvalidParameterError, match="no arrays"):
        context.tensor([1, 2], dtype)
    tensor.buffer.fill(3)
    assert tensor.buffer.read() == b"\3" * dtype.storage_bytes(8)


def test_formats_whose_order_numpy_does_not_know_are_bytes(context: Context) -> None:
    tensor = context.create_tensor(
        (4, 4), "float16", format="FRACTAL_NZ", storage_shape=(1, 1, 16, 16)
    )
    with pytest.raises(UnsupportedError, match="FRACTAL_NZ"):
        tensor.numpy()
    with pytest.raises(UnsupportedError, match="FRACTAL_NZ"):
        tensor.write(np.zeros((4, 4)))
    assert len(tensor.buffer.read()) == 512
