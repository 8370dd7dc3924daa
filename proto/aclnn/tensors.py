"""Tensors as aclCreateTensor models them: a view (shape, strides, offset) over a storage.

Strides and offsets count elements. Nothing here holds device memory: a :class:`TensorSpec` only
says how bytes are to be read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes, formats
from aclnn.dtypes import DType
from aclnn.errors import InvalidParameterError, ViewOutsideStorageError
from aclnn.formats import Format

MAX_DIMENSIONS = 64
"""Dimensions that a tensor can have at all (NumPy's limit); operators allow fewer, mostly 8."""
MAX_BYTES = 2**63 - 1
"""Bytes that a storage can have at all."""

WHOLE_BYTES = 2**16
"""An array of at most this many bytes goes as a whole with any view of it."""

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=True)
class TensorSpec:
    """How a tensor lies over its storage."""

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Elements between neighbours along each dimension."""
    offset: int = 0
    """Elements from the start of the storage to the view's first element."""
    storage_shape: tuple[int, ...] = ()
    format: Format = formats.ND

    @classmethod
    def contiguous(
        cls, shape: Sequence[int], dtype: DType, *, format: Format = formats.ND
    ) -> TensorSpec:
        """Describes a tensor that fills its storage in C order."""
        shape = tuple(shape)
        return cls(dtype, shape, contiguous_strides(shape), 0, shape, format)

    @cached_property
    def elements(self) -> int:
        """Elements of the view."""
        return math.prod(self.shape)

    @cached_property
    def storage_elements(self) -> int:
        """Elements of the storage."""
        return math.prod(self.storage_shape)

    @cached_property
    def storage_bytes(self) -> int:
        """Bytes of the storage."""
        return self.dtype.storage_bytes(self.storage_elements)

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps; up to one element always does."""
        if self.elements == 0:
            return True
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1:
                if stride != expected:
                    return False
                expected *= size
        return True

    @cached_property
    def reach(self) -> tuple[int, int]:
        """First and one past the last element of the storage that are touched; equal when empty."""
        if self.elements == 0:
            return self.offset, self.offset
        steps = [(size - 1) * step for size, step in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(step for step in steps if step < 0)
        high = self.offset + sum(step for step in steps if step > 0) + 1
        return low, high

    @cached_property
    def overlaps_itself(self) -> bool:
        """Whether two indices may name the same element: what an output must not do.

        Sorted by stride, each dimension must step over all that the smaller ones span.
        """
        span = 0
        dims = [(abs(st), n) for n, st in zip(self.shape, self.strides, strict=True) if n > 1]
        for stride, size in sorted(dims):
            if stride <= span:
                return self.elements > 1
            span += stride * (size - 1)
        return False

    @cached_property
    def _hash(self) -> int:
        return hash((self.dtype.number, self.shape, self.strides, self.offset, self.storage_shape))

    def __hash__(self) -> int:
        return self._hash

    def check(self, *, operator: str = "", parameter: str = "") -> None:
        """Checks what must hold for any tensor before its sizes are used.

        Raises:
            InvalidParameterError: 161002, a dimension below 0, more than 64 dimensions, strides of
                another length than the shape, or a size above 2**63 - 1 bytes.
        """
        if self._problem:
            raise InvalidParameterError(
                f"{parameter} {self._problem}", operator=operator, parameter=parameter
            )

    @cached_property
    def _problem(self) -> str:
        for label, dims in (("shape", self.shape), ("storage shape", self.storage_shape)):
            if len(dims) > MAX_DIMENSIONS:
                return f"has {len(dims)} dimensions in its {label}; at most {MAX_DIMENSIONS} can be"
            if any(size < 0 for size in dims):
                return f"has {label} {list(dims)}; a dimension must be at least 0"
            # A zero must not hide an overflow of the other dimensions.
            if math.prod(max(size, 1) for size in dims) * max(self.dtype.bits, 8) // 8 > MAX_BYTES:
                return f"has {label} {list(dims)} of {self.dtype}, more than 2**63 - 1 bytes"
        if len(self.strides) != len(self.shape):
            return f"has {len(self.strides)} strides for {len(self.shape)} dimensions"
        return ""

    def check_reach(self, *, operator: str = "", parameter: str = "") -> None:
        """Checks that the view stays inside its storage.

        Raises:
            ViewOutsideStorageError: 561103, it does not.
        """
        low, high = self.reach
        if self.elements and (low < 0 or high > self.storage_elements):
            raise ViewOutsideStorageError(
                f"{parameter} with shape {list(self.shape)}, strides {list(self.strides)} and "
                f"offset {self.offset} reaches elements {low} to {max(low, high - 1)} of a storage "
                f"of {self.storage_elements} elements",
                operator=operator,
                parameter=parameter,
            )

    def view(self, memory: Array) -> Array:
        """Gives the view as a NumPy array over `memory`, without a copy.

        Args:
            memory: one-dimensional uint8 array that begins with the storage and holds all of it.

        Raises:
            TypeError: the dtype is packed or has no NumPy form.
            ValueError: the view reaches outside `memory`.
        """
        numpy = self.numpy_dtype()
        if self.elements == 0:
            return np.empty(self.shape, numpy)
        size = self.dtype.itemsize
        # The stride of a single element is never used, and may be too large for NumPy.
        strides = tuple(
            step * size if n > 1 else 0 for n, step in zip(self.shape, self.strides, strict=True)
        )
        return np.ndarray(self.shape, numpy, memory.data, self.offset * size, strides)

    def numpy_dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the elements in the storage.

        Raises:
            TypeError: the dtype is packed or has no NumPy form.
        """
        if self.dtype.numpy is None or self.dtype.packed:
            raise TypeError(f"NumPy has no array whose storage is {self.dtype}")
        return self.dtype.numpy


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a tensor in C order."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value with an element type: aclScalar."""

    value: complex | float | int | bool
    dtype: DType

    def __init__(self, value: complex | float | int | bool, dtype: object) -> None:
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "dtype", dtypes.dtype(dtype))

    def to_bytes(self) -> bytes:
        """The value as one element, little-endian, rounded to its dtype.

        Raises:
            TypeError: the dtype has no NumPy form, or the value is complex and the dtype is not.
            OverflowError: the value does not fit an integer dtype.
        """
        if self.dtype.numpy is None:
            raise TypeError(f"NumPy has no scalar of {self.dtype}")
        self._check_range()
        with np.errstate(over="ignore"):  # too large for a float is infinite, as in C
            return little_endian(np.array(self.value, self.dtype.numpy)).tobytes()

    def _check_range(self) -> None:
        # NumPy wraps what does not fit a 4-bit integer.
        if self.dtype.kind not in ("signed", "unsigned"):
            return
        signed = self.dtype.kind == "signed"
        low = -(1 << self.dtype.bits - 1) if signed else 0
        high = (1 << self.dtype.bits - signed) - 1
        if isinstance(self.value, complex) or not low <= self.value <= high:
            raise OverflowError(f"{self.value!r} does not fit {self.dtype}, {low} to {high}")

    @classmethod
    def from_bytes(cls, data: bytes, dtype: DType) -> Scalar:
        """Reads the value from one little-endian element."""
        if dtype.numpy is None:
            raise TypeError(f"NumPy has no scalar of {dtype}")
        value = np.frombuffer(data, dtype.numpy, count=1)[0]
        return cls(value.item() if dtype.kind != "float" else float(value), dtype)


def describe(array: Array) -> tuple[TensorSpec, Array]:
    """Describes a NumPy array as a tensor over the memory that it is a view of, without a copy.

    Strides are kept where they are whole elements.

    Returns:
        The spec, and the storage as a one-dimensional uint8 array. The storage is the whole array that
        the view was taken of, so that the offset is kept too; but of a much larger array it is only the
        span of memory from the first to the last element that the view touches.

    Raises:
        TypeError: ACL has no such dtype.
    """
    dtype = dtypes.dtype(array.dtype)
    array = little_endian(array)
    if dtype.packed:
        return TensorSpec.contiguous(array.shape, dtype), pack(array, dtype)
    size = dtype.itemsize
    if array.size == 0:
        return TensorSpec.contiguous(array.shape, dtype), np.empty(0, np.uint8)
    if any(step % size for step in array.strides):
        array = np.ascontiguousarray(array)
    low, high = _memory(array)
    first = array.__array_interface__["data"][0]
    strides = tuple(step // size for step in array.strides)
    elements = (high - low) // size
    storage_shape = array.shape if elements == array.size else (elements,)
    spec = TensorSpec(dtype, array.shape, strides, (first - low) // size, storage_shape)
    return spec, _bytes_at(array, low, high)


def _memory(array: Array) -> tuple[int, int]:
    """First and one past the last address of the storage."""
    low, high = np.lib.array_utils.byte_bounds(array)
    base = array.base
    if isinstance(base, np.ndarray) and base.dtype == array.dtype and base.flags.forc:
        start, end = np.lib.array_utils.byte_bounds(base)
        if start <= low and high <= end and end - start <= max(WHOLE_BYTES, 2 * (high - low)):
            return start, end
    return low, high


def _bytes_at(array: Array, low: int, high: int) -> Array:
    _, read_only = array.__array_interface__["data"]
    return np.asarray(_Window((low, read_only), high - low, array))


class _Window:
    """Bytes at an address, for NumPy's array interface; keeps their owner alive."""

    def __init__(self, data: tuple[int, bool], count: int, owner: Array) -> None:
        self.__array_interface__ = {"version": 3, "data": data, "shape": (count,), "typestr": "|u1"}
        self._owner = owner


def little_endian(array: Array) -> Array:
    """The array itself, or a little-endian copy of a big-endian one."""
    return array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array


def pack(array: Array, dtype: DType) -> Array:
    """Packs one-element-per-byte values of a 4- or 6-bit dtype into a storage.

    Returns:
        uint8 array of ``dtype.storage_bytes(array.size)`` bytes, first element in the lowest bits.
    """
    codes = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    bits = (codes[:, None] >> np.arange(dtype.bits, dtype=np.uint8)) & 1
    return np.packbits(bits.reshape(-1), bitorder="little")


def unpack(storage: Array, dtype: DType, elements: int) -> Array:
    """Reverses :func:`pack`; returns a one-dimensional array of the dtype's NumPy form.

    Raises:
        TypeError: the dtype has no NumPy form.
    """
    if dtype.numpy is None:
        raise TypeError(f"NumPy has no array of {dtype}")
    bits = np.unpackbits(storage, count=elements * dtype.bits, bitorder="little")
    weights = np.left_shift(1, np.arange(dtype.bits, dtype=np.uint8), dtype=np.uint8)
    codes: Array = (bits.reshape(elements, dtype.bits) * weights).sum(axis=1, dtype=np.uint8)
    if dtype.kind == "signed":
        # Shifting the sign bit up to the byte's own and back fills the bits above it.
        unused = 8 - dtype.bits
        return (codes.view(np.int8) << unused >> unused).astype(dtype.numpy)
    return codes.view(dtype.numpy)
