"""Tensors: a dtype, a format, and a view over the storage that a buffer holds."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from aclnn.arguments import TensorArgument
from aclnn.dtypes import DType
from aclnn.errors import InvalidParameterError, OutOfMemoryError, UnsupportedError
from aclnn.tensors import TensorSpec, contiguous_strides
from aclnn_client import arrays
from aclnn_client.arrays import Array, ArrayLike
from aclnn_client.buffer import AnyBuffer, Buffer
from aclnn_client.pending import Pending, run
from aclnn_client.phases import described, in_buffer

if TYPE_CHECKING:
    from aclnn_client.context import AnyContext

BufferT = TypeVar("BufferT", bound=AnyBuffer)


class AnyTensor(Generic[BufferT]):
    """What the blocking and the asyncio :class:`Tensor` share."""

    def __init__(self, spec: TensorSpec, buffer: BufferT) -> None:
        """Lays a tensor over a buffer; made by ``context.create_tensor`` and the like."""
        self.spec = spec
        """How it lies over its storage."""
        self.buffer = buffer
        """Buffer that begins with its storage."""
        self.shaping: Pending | None = None
        """Phase two of an operator that is to tell the shape, until it has."""

    @property
    def context(self) -> AnyContext[Any, Any, Any, Any]:
        """Context that it belongs to."""
        return self.buffer.context

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions of the view."""
        return self.spec.shape

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """NumPy dtype of the elements; ``None`` where NumPy has none."""
        return self.spec.dtype.numpy

    @property
    def data_type(self) -> DType:
        """ACL's element type."""
        return self.spec.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements (not bytes) between neighbours along each dimension."""
        return self.spec.strides

    @property
    def offset(self) -> int:
        """Elements from the start of the storage to the view's first."""
        return self.spec.offset

    @property
    def storage_shape(self) -> tuple[int, ...]:
        """Dimensions of the storage."""
        return self.spec.storage_shape

    @property
    def format(self) -> str:
        """ACL's name of the storage's format, for example ``"ND"``."""
        return self.spec.format.name

    @property
    def ndim(self) -> int:
        """Number of dimensions of the view."""
        return len(self.spec.shape)

    @property
    def size(self) -> int:
        """Elements of the view."""
        return self.spec.elements

    @property
    def nbytes(self) -> int:
        """Bytes of the storage."""
        return self.spec.storage_bytes

    def free(self) -> None:
        """Frees its buffer, and so every tensor over it."""
        self.buffer.free()

    def take_shape(self, shape: tuple[int, ...]) -> None:
        """Takes a smaller shape, whose elements are the first of the view, in C order: what an operator
        tells whose results are as large as their elements make them."""
        strides = contiguous_strides(shape) if self.spec.is_contiguous else self.spec.strides
        self.spec = replace(self.spec, shape=shape, strides=strides)
        for name in ("argument", "plan_key"):
            self.__dict__.pop(name, None)

    def as_argument(self) -> TensorArgument:
        """The tensor as it travels."""
        return TensorArgument(self.spec, None, self.buffer.buffer_id)

    @cached_property
    def argument(self) -> bytes:
        """The tensor as it stands in a request."""
        return in_buffer(self.spec, self.buffer.buffer_id)

    @cached_property
    def plan_key(self) -> bytes:
        """What two tensors have in common that are planned alike."""
        return described(self.spec)  # bytes remember their hash

    async def download(self, out: Array | None = None, *, progress: bool = False) -> Array:
        """What the twins' ``numpy`` does."""
        if self.shaping is not None:
            await self.shaping
        spec = self.spec
        try:
            array = arrays.result_array(spec, out)
        except OutOfMemoryError:
            await self._tell_refused_memory()
            raise
        if not spec.elements:
            return array
        spec.check_reach(parameter="tensor")
        low, high = arrays.byte_span(spec)
        if arrays.is_direct(spec, array):
            await self.buffer.read_into(arrays.bytes_of(array), low, progress=progress)
        else:
            span = arrays.allocate(high - low, np.uint8)
            await self.buffer.read_into(span.data, low, progress=progress)
            array[...] = arrays.from_span(spec, span)
        return array

    async def _tell_refused_memory(self) -> None:
        """Raises what the server refused the buffer with, if it did, by asking for its first byte."""
        await self.buffer.read_into(memoryview(bytearray(1)), 0)

    async def _write(self, array: ArrayLike, *, progress: bool) -> None:
        spec = self.spec
        arrays.check_plain(spec)
        array = arrays.as_array(array, spec.dtype)
        if array.shape != spec.shape:
            raise InvalidParameterError(
                f"array has shape {list(array.shape)}; the tensor has {list(spec.shape)}",
                parameter="array",
            )
        spec.check_reach(parameter="tensor")
        if not arrays.fills_span(spec):
            raise InvalidParameterError(
                f"the tensor's view, strides {list(spec.strides)} of {spec.dtype}, leaves gaps in "
                "its storage or repeats elements, and cannot be written from the client",
                parameter="tensor",
            )
        span = arrays.to_span(spec, array)
        await self.buffer.put(span.data, arrays.byte_span(spec)[0], progress=progress)

    def view(self) -> Array:
        """The tensor's own memory as an array, without a copy: what either side writes, both see.

        Synchronise before reading what queued work writes, and leave alone what queued work uses. The
        view keeps the memory, also when the tensor is freed or the context closed.

        Raises:
            UnsupportedError: 207000, the tensor lies in no shared memory, see ``connect``; or NumPy has
                no such dtype, or does not know the format's order.
        """
        spec = self.spec
        arrays.check_plain(spec)
        if self.buffer.shared is None or spec.dtype.packed:
            raise UnsupportedError(
                f"{self!r} is not in memory that this program shares with the server; connect with "
                "shared_memory=True to have all tensors there, where that is possible",
                parameter="tensor",
            )
        spec.check_reach(parameter="tensor")
        return spec.view(self.buffer.shared.lend())

    def __repr__(self) -> str:
        extra = "" if self.spec.is_contiguous else f", strides={list(self.strides)}"
        extra += f", offset={self.offset}" if self.offset else ""
        extra += f", format={self.format}" if self.format != "ND" else ""
        return (
            f"<{type(self).__name__} {list(self.shape)} of {self.data_type}{extra}, "
            f"buffer {self.buffer.buffer_id}>"
        )


class Tensor(AnyTensor[Buffer]):
    """A tensor in device memory."""

    def numpy(self, out: Array | None = None, *, progress: bool = False) -> Array:
        """Downloads the view, after queued work that uses its buffer.

        Args:
            out: array to fill, of the tensor's shape and dtype; any strides.
            progress: whether to show a progress bar on standard error.

        Returns:
            `out`, or a new array in C order. Elements of a packed type take a byte each.

        Raises:
            UnsupportedError: 207000, NumPy has no such dtype, or does not know the format's order.
            OutOfMemoryError: 207001, this program cannot have so much memory.
            InvalidParameterError: 161002, `out` does not fit.
            AclnnError: work that used the buffer, or a command before, failed.
        """
        return run(self.download(out, progress=progress))

    def write(self, array: ArrayLike, *, progress: bool = False) -> None:
        """Uploads into the view, after queued work that uses its buffer.

        Args:
            array: of the tensor's shape; converted to its dtype.
            progress: whether to show a progress bar on standard error.

        Raises:
            InvalidParameterError: 161002, the shape differs, or the view leaves gaps in its storage.
        """
        run(self._write(array, progress=progress))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # noqa: ANN401
        if copy is False:
            raise ValueError("a tensor in device memory can only be copied")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:  # noqa: ANN401 - a capsule
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the CPU: what is handed out is a download
