"""Division of a broadcast computation over strided tensors into blocks that fit the cache.

All of it follows from shapes and strides, so it is done once, when a call is planned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn.dtypes import DType
from aclnn.tensors import TensorSpec
from aclnn_server.operators.engines.shapes import Shape

Array = npt.NDArray[Any]
Index = tuple[int | slice, ...]

BLOCK = 1 << 17
"""Elements of a block: few enough that a float32 array of them stays in the second-level cache of a core
from one operation to the next, enough that each operation lasts longer than the change of threads
between two of them. Sums depend on it to the last bit."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as an operand of a broadcast computation, over the dimensions of its :class:`Tiling`."""

    name: str
    """Parameter that it is the tensor of."""
    dtype: DType
    shape: Shape
    """Sizes; 1 where the operand is the same along the dimension."""
    strides: tuple[int, ...]
    """Elements between neighbours."""
    offset: int
    """Elements from the start of the storage to the first."""
    _layout: tuple[np.dtype[Any] | None, int, tuple[int, ...]] = field(
        init=False, repr=False, compare=False
    )
    """Type of the elements, bytes from the start of the storage to the first, and the strides in bytes."""

    def __post_init__(self) -> None:
        size = self.dtype.itemsize
        steps = tuple(step * size for step in self.strides)
        object.__setattr__(self, "_layout", (self.dtype.numpy, self.offset * size, steps))

    def array(self, memory: Array) -> Array:
        """The operand's elements in its storage."""
        dtype, start, steps = self._layout
        return np.ndarray(self.shape, dtype, memory, start, steps)

    def part(self, index: Index) -> Index:
        """What of the operand belongs to a block."""
        if 1 not in self.shape:
            return index
        pairs = zip(index, self.shape, strict=False)
        return tuple([_within(place, size) for place, size in pairs])


def _within(place: int | slice, size: int) -> int | slice:
    if size != 1:
        return place
    return 0 if isinstance(place, int) else slice(None)


@dataclass(frozen=True, slots=True)
class Tiling:
    """A shape and its division into numbered blocks, in C order."""

    shape: Shape
    """Sizes of the dimensions that are left after neighbours were joined."""
    axis: int
    """Dimension that is cut; those before it are walked, those after it belong to the block whole."""
    step: int
    """Size of a block along `axis`; its last one may be smaller."""
    blocks: int = field(init=False, compare=False)
    """Number of blocks."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", math.prod(self.shape[: self.axis]) * self.cuts)

    @classmethod
    def of(cls, shape: Shape, block: int = BLOCK) -> Tiling:
        """Divides a shape into blocks of at most `block` elements, as equal as possible."""
        axis, inner = len(shape) - 1, 1
        while axis > 0 and inner * shape[axis] <= block:
            inner *= shape[axis]
            axis -= 1
        cuts = -(-shape[axis] // max(1, block // inner))
        return cls(shape, axis, -(-shape[axis] // cuts))

    @property
    def cuts(self) -> int:
        """Blocks along `axis`."""
        return -(-self.shape[self.axis] // self.step)

    @property
    def largest(self) -> int:
        """Elements of the largest block."""
        return self.step * math.prod(self.shape[self.axis + 1 :])

    def index(self, block: int) -> Index:
        """Where a block lies: an index for each dimension up to `axis`."""
        if self.axis == 0:
            start = block * self.step
            return (slice(start, min(start + self.step, self.shape[0])),)
        rest, cut = divmod(block, self.cuts)
        start = cut * self.step
        index: list[int | slice] = [slice(start, min(start + self.step, self.shape[self.axis]))]
        for size in reversed(self.shape[: self.axis]):
            rest, place = divmod(rest, size)
            index.append(place)
        return tuple(reversed(index))

    def shape_at(self, index: Index) -> Shape:
        """Shape of the block that lies at an index."""
        cut = index[-1]
        assert isinstance(cut, slice)
        return (cut.stop - cut.start, *self.shape[self.axis + 1 :])


def lay_out(
    shape: Shape, specs: Sequence[tuple[str, TensorSpec]], *, along_last: bool = False
) -> tuple[Tiling, tuple[Operand, ...]]:
    """Lays tensors out over a broadcast shape without a 0, with as few dimensions as possible.

    Args:
        shape: the broadcast shape.
        specs: the tensors with the names of their parameters.
        along_last: walk in the order of the last tensor's memory, instead of in C order of `shape`.
    """
    dims = [
        _Dim(size, steps)
        for size, *steps in zip(
            shape, *(_broadcast_strides(spec, shape) for _, spec in specs), strict=True
        )
        if size != 1
    ]
    if along_last:
        dims.sort(key=lambda dim: -abs(dim.strides[-1]))
    dims = _joined(dims) or [_Dim(1, [0] * len(specs))]
    tiling = Tiling.of(tuple(dim.size for dim in dims))
    return tiling, tuple(
        Operand(
            name,
            spec.dtype,
            tuple(dim.size if dim.strides[position] else 1 for dim in dims),
            tuple(dim.strides[position] for dim in dims),
            spec.offset,
        )
        for position, (name, spec) in enumerate(specs)
    )


@dataclass(slots=True)
class _Dim:
    size: int
    strides: list[int]


def _broadcast_strides(spec: TensorSpec, shape: Shape) -> list[int]:
    missing = [0] * (len(shape) - len(spec.shape))
    own = [0 if size == 1 else step for size, step in zip(spec.shape, spec.strides, strict=True)]
    return missing + own


def _joined(dims: list[_Dim]) -> list[_Dim]:
    """Joins neighbouring dimensions that every operand walks as one."""
    joined: list[_Dim] = []
    for dim in dims:
        outer = joined[-1] if joined else None
        if outer and all(
            far == near * dim.size for far, near in zip(outer.strides, dim.strides, strict=True)
        ):
            joined[-1] = _Dim(outer.size * dim.size, dim.strides)
        else:
            joined.append(dim)
    return joined
