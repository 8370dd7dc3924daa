"""NumPy arrays from what callers have, and storages to and from arrays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.errors import InvalidParameterError, OutOfMemoryError, UnsupportedError
from aclnn.tensors import TensorSpec, describe, pack, unpack

Array = npt.NDArray[Any]
ArrayLike = Any
"""A NumPy array, an object with ``__dlpack__`` or ``__array__``, numbers, or nested lists of them.

Python's own numbers become what an aclScalar of them is: FLOAT, COMPLEX64, INT64 or BOOL."""
DTypeLike = Any
"""A NumPy dtype, its type or name (``"float32"``), or ACL's name (``"FLOAT"``, ``"BF16"``)."""


def data_type(value: DTypeLike, parameter: str = "dtype") -> DType:
    """Finds the element type that a caller names.

    Raises:
        InvalidParameterError: 161002, there is none, or no tensor can have it.
    """
    try:
        found = dtypes.dtype(value)
    except TypeError as error:
        raise InvalidParameterError(f"{parameter} is {error}", parameter=parameter) from None
    if not found.bits:
        raise InvalidParameterError(
            f"{parameter} is {found}, of which no tensor can be made", parameter=parameter
        )
    return found


def as_array(value: ArrayLike, dtype: DTypeLike = None, parameter: str = "array") -> Array:
    """Makes an array of `value`, without a copy where that is possible.

    Args:
        value: see :data:`ArrayLike`; memory of another device than the CPU is refused.
        dtype: element type to convert to, as ``numpy.ndarray.astype`` does; default that of `value`,
            where that is Python's numbers, see :data:`ArrayLike`.
        parameter: name for errors.

    Raises:
        InvalidParameterError: 161002, it is no array, ACL has no such dtype, or a Python number is too
            large for its own.
    """
    array = _as_array(value, parameter)
    if dtype is None and array is not value and array.dtype in _NARROWED and _is_python(value):
        array = _narrowed(array, parameter)
    wanted = data_type(array.dtype if dtype is None else dtype, "dtype")
    if wanted.numpy is None:
        raise InvalidParameterError(
            f"dtype is {wanted}, of which NumPy has no arrays; write the bytes with Buffer.write",
            parameter="dtype",
        )
    return array if dtype is None else array.astype(wanted.numpy, copy=False)


def _as_array(value: ArrayLike, parameter: str) -> Array:
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    reasons = []
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            # NumPy takes no bfloat16 by DLPack; its owner may offer another way.
            reasons.append(str(error))
    try:
        array: Array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError) as error:
        reasons.append(str(error))
    else:
        if array.dtype.kind not in "OSUMm":
            return array
        reasons.append(f"NumPy makes it an array of {array.dtype}")
    raise InvalidParameterError(
        f"{parameter} is a {type(value).__name__}, which is no array of numbers on the CPU: "
        f"{'; '.join(reasons)}",
        parameter=parameter,
    ) from None


def tight(array: Array) -> Array:
    """The array, or a copy of it where it is a view of memory that is larger than it needs."""
    spec, _ = describe(array)
    return array if spec.storage_elements <= spec.elements else array.copy()


_NARROWED = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}


def _is_python(value: object) -> bool:
    """Whether these are numbers of Python, in lists or not: they have no element type of their own."""
    if isinstance(value, list | tuple):
        return all(map(_is_python, value))
    return isinstance(value, complex | float | int) and not isinstance(value, np.generic)


def _narrowed(array: Array, parameter: str) -> Array:
    with np.errstate(over="ignore"):
        narrowed: Array = array.astype(_NARROWED[array.dtype])
    lost = np.isfinite(array) & ~np.isfinite(narrowed)
    if lost.any():
        raise InvalidParameterError(
            f"{parameter} has {array[lost].flat[0]}, which is too large for {data_type(narrowed.dtype)}; "
            f"give it as an array of {array.dtype}",
            parameter=parameter,
        )
    return narrowed


def allocate(shape: int | tuple[int, ...], dtype: npt.DTypeLike | None) -> Array:
    """An array to download into.

    Raises:
        OutOfMemoryError: 207001, this program cannot have so much memory.
    """
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:
        shape = (shape,) if isinstance(shape, int) else shape
        needed = math.prod(shape) * np.dtype(dtype).itemsize
        raise OutOfMemoryError(
            f"{needed} bytes, for an array of {list(shape)} of {np.dtype(dtype)}, are more than this "
            "program can have on this machine"
        ) from error


def bytes_of(array: Array) -> memoryview:
    """The memory of a contiguous array, as bytes."""
    if array.nbytes == 0:
        return memoryview(bytearray())
    return array.reshape(-1).view(np.uint8).data


# --- reading a view ---------------------------------------------------------------------------------


def result_array(spec: TensorSpec, out: Any) -> Array:  # noqa: ANN401 - to be checked
    """The array that a download fills: `out`, or a new one.

    Raises:
        UnsupportedError: 207000, NumPy cannot hold such a tensor.
        OutOfMemoryError: 207001, this program cannot have so much memory.
        InvalidParameterError: 161002, `out` does not fit.
    """
    check_plain(spec)
    numpy = spec.dtype.numpy
    if out is None:
        return allocate(spec.shape, numpy)
    if not isinstance(out, np.ndarray) or out.dtype != numpy or out.shape != spec.shape:
        given = (
            f"{list(out.shape)} of {out.dtype}"
            if isinstance(out, np.ndarray)
            else type(out).__name__
        )
        raise InvalidParameterError(
            f"out is {given}; the tensor needs an array of {list(spec.shape)} of {numpy}",
            parameter="out",
        )
    if not out.flags.writeable:
        raise InvalidParameterError("out is read-only", parameter="out")
    return out


def check_plain(spec: TensorSpec) -> None:
    """Checks that NumPy can say where the elements of a tensor lie.

    Raises:
        UnsupportedError: 207000, it cannot.
    """
    if spec.dtype.numpy is None:
        raise UnsupportedError(
            f"NumPy has no arrays of {spec.dtype}; use the bytes of tensor.buffer"
        )
    if not spec.format.plain:
        raise UnsupportedError(
            f"elements in format {spec.format} lie in no order that NumPy knows; use the bytes of "
            "tensor.buffer"
        )


def byte_span(spec: TensorSpec) -> tuple[int, int]:
    """First and one past the last byte of the storage that hold what the view touches.

    Packed elements do not begin at bytes, so their span begins with the storage.
    """
    low, high = spec.reach
    low = 0 if spec.dtype.packed else low
    return spec.dtype.storage_bytes(low), spec.dtype.storage_bytes(high)


def is_direct(spec: TensorSpec, array: Array) -> bool:
    """Whether the view's bytes in the storage are just those of `array`."""
    return spec.is_contiguous and not spec.dtype.packed and array.flags.c_contiguous


def from_span(spec: TensorSpec, span: Array) -> Array:
    """Gives the view over the bytes that :func:`byte_span` names.

    Args:
        spec: of the tensor.
        span: the bytes, one-dimensional uint8.

    Returns:
        A view of `span`; of a packed type, a copy.
    """
    if not spec.dtype.packed:
        return replace(spec, offset=spec.offset - spec.reach[0], storage_shape=()).view(span)
    elements = unpack(span, spec.dtype, spec.reach[1])
    size = elements.itemsize
    steps = [step * size for step in spec.strides]
    return np.ndarray(spec.shape, elements.dtype, elements, spec.offset * size, steps)


# --- writing a view ---------------------------------------------------------------------------------


def to_span(spec: TensorSpec, array: Array) -> Array:
    """Lays an array out as the view has it, for a view that fills its span of the storage.

    Returns:
        The bytes that :func:`byte_span` names, one-dimensional uint8.
    """
    if spec.dtype.packed:
        return pack(array, spec.dtype)
    low, high = spec.reach
    span = np.empty((high - low) * spec.dtype.itemsize, np.uint8)
    replace(spec, offset=spec.offset - low, storage_shape=()).view(span)[...] = array
    return span


def fills_span(spec: TensorSpec) -> bool:
    """Whether writing the view leaves no element of its span untouched."""
    low, high = spec.reach
    if spec.dtype.packed:
        return spec.is_contiguous and low == 0 and high == spec.storage_elements
    return high - low == spec.elements and not spec.overlaps_itself
