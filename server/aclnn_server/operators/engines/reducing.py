"""The engine of reductions along dimensions, and of running sums.

Blocks are loaded contiguous, cast, reduced to partial results and these merged in a fixed order; so the
bits depend neither on the number of threads nor on strides. Memory besides the operands is a few blocks
per thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.definition import Memory
from aclnn_server.operators.engines.axes import Axes, Grid
from aclnn_server.operators.engines.blocks import WORKSPACE_UNIT
from aclnn_server.operators.engines.copies import cast
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import ALIGNMENT, Scratch, Threads, scratch_bytes
from aclnn_server.operators.engines.tiling import Operand

Array = npt.NDArray[Any]
Partial = tuple[Array, ...]
"""Partial results of a block: arrays of the sizes that are left."""

_PARTS = 16
"""Tasks that a reduction is divided into at least, where there are enough blocks. Sums depend on it."""
_LONG = 256
"""Numbers of a narrow type that are added one after the other, at most."""
_SHORT = 64
"""Numbers that are multiplied one after the other, at most."""
_DOUBLE = np.dtype(np.float64)


class Fold(Protocol):
    """A way to reduce."""

    @property
    def loaded(self) -> np.dtype[Any]:
        """Type that blocks are cast to."""

    @property
    def partial(self) -> tuple[np.dtype[Any], ...]:
        """Types of the partial results."""

    def piece(self, block: Array, axes: Axes, start: int, scratch: Scratch) -> Partial:
        """Reduces a block, of which the first element along the first reduced dimension is `start`.

        It may take one array like the block from `scratch`, and must not write to the block.
        """

    def merge(self, total: Partial, piece: Partial) -> None:
        """Merges the next piece into those before it, in place."""

    def results(self, total: Partial, length: int) -> Partial:
        """Makes one result per output, of which each is the reduction of `length` elements."""


@dataclass(frozen=True, slots=True)
class Source:
    """An input as it is loaded: rounded to one type, then cast to another."""

    operand: Operand
    via: np.dtype[Any]
    loaded: np.dtype[Any]

    def array(self, memory: Memory, written: Sequence[Array]) -> Array:
        """Its elements; a copy where they lie in what is written."""
        found = self.operand.array(memory[self.operand.name])
        for array in written:
            if np.may_share_memory(found, array):
                return found.copy()
        return found

    def scratch_bytes(self, elements: int) -> int:
        """Scratch memory for a block."""
        sizes = (self.via.itemsize, self.loaded.itemsize, _DOUBLE.itemsize // 2)
        return sum(scratch_bytes(elements * size) for size in sizes)

    def load(self, scratch: Scratch, part: Array, shape: Shape, *, once: bool = False) -> Array:
        """Loads a block and gives it a shape of as many elements.

        It is a view where it needs no cast and is contiguous, or is read `once` and lies in order: rows a
        power of 2 apart share few places in the cache, so reading them again takes long.
        """
        if self.via not in (part.dtype, self.loaded):
            part = _cast(scratch, part, self.via)
        if part.dtype == self.loaded and _is_view(part, shape, once=once):
            return part.reshape(shape)
        return _cast(scratch, part, self.loaded).reshape(shape)


def _is_view(part: Array, shape: Shape, *, once: bool) -> bool:
    """Whether a block is a view of `part` that is walked as a contiguous one would be."""
    if part.flags.c_contiguous or not once:
        return part.flags.c_contiguous
    steps = [step for step, size in zip(part.strides, part.shape, strict=True) if size != 1]
    in_order = all(far >= near for far, near in itertools.pairwise(steps))
    return part.shape == shape and in_order and steps[-1] == part.itemsize


def _cast(scratch: Scratch, source: Array, dtype: np.dtype[Any]) -> Array:
    target = scratch.take(source.shape, dtype)
    cast(source, target, scratch)
    return target


@dataclass(frozen=True)
class Reduction:
    """Outputs, each of whose elements is a reduction of elements of an input."""

    fold: Fold
    source: Source
    outputs: tuple[Operand, ...]
    grid: Grid
    rounded: np.dtype[Any] | None = None
    """Type that results are rounded to before they are cast to the outputs' types."""

    @cached_property
    def parts(self) -> int:
        """Tasks of a group of blocks."""
        splits = self.grid.splits
        wanted = min(splits, max(1, _PARTS // self.grid.groups))
        return -(-splits // -(-splits // wanted))

    @property
    def workspace_bytes(self) -> int:
        """Bytes for the partial results of each part, where there are several."""
        if self.parts == 1:
            return 0
        size = self.grid.groups * self.parts * sum(self._rooms)
        return -(-size // WORKSPACE_UNIT) * WORKSPACE_UNIT

    @cached_property
    def _rooms(self) -> list[int]:
        """Bytes of each of the partial results of a part."""
        sizes = (self.grid.results * dtype.itemsize for dtype in self.fold.partial)
        return [-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Computes the outputs."""
        outputs = [output.array(memory[output.name]) for output in self.outputs]
        array = self.source.array(memory, outputs)
        grid, parts = self.grid, self.parts
        per_part = -(-grid.splits // parts)
        rooms = _Rooms(workspace, self.fold.partial, self._rooms) if parts > 1 else None

        def reduce(scratch: Scratch, number: int) -> None:
            group, part = divmod(number, parts)
            splits = range(part * per_part, min((part + 1) * per_part, grid.splits))
            total = self._total(scratch, array, group, splits)
            if rooms is None:
                self._write(outputs, group, total)
            else:
                rooms.store(number, total)

        threads.run(reduce, grid.groups * parts, self._scratch_bytes)
        if rooms is not None:
            finish = partial(self._finish, outputs, rooms)
            threads.run(finish, grid.groups, 0)

    @cached_property
    def _scratch_bytes(self) -> int:
        elements = self.grid.largest
        own = scratch_bytes(elements * self.fold.loaded.itemsize)
        return self.source.scratch_bytes(elements) + own

    def _finish(self, outputs: Sequence[Array], rooms: _Rooms, _: Scratch, group: int) -> None:
        numbers = range(group * self.parts, (group + 1) * self.parts)
        count = self.grid.count(group)
        total, *rest = (rooms.load(number, count) for number in numbers)
        for piece in rest:
            self.fold.merge(total, piece)
        self._write(outputs, group, total)

    def _total(self, scratch: Scratch, array: Array, group: int, splits: range) -> Partial:
        total: Partial = ()
        for split in splits:
            scratch.rewind()
            part = array[self.grid.region(group, split)]
            block = self.source.load(scratch, part, self.grid.merged(part.shape), once=True)
            found = self.fold.piece(block, self.grid.axes, self.grid.start(split), scratch)
            piece = tuple([array if array.ndim else array.reshape(1) for array in found])
            if total:
                self.fold.merge(total, piece)
            else:
                total = piece
        return total

    def _write(self, outputs: Sequence[Array], group: int, total: Partial) -> None:
        place = self.grid.place(group)
        results = self.fold.results(total, self.grid.length)
        for output, result in zip(outputs, results, strict=True):
            target = output[place]
            if self.rounded is not None:
                result = result.astype(self.rounded, copy=False)
            np.copyto(target, result.reshape(target.shape), casting="unsafe")


class _Rooms:
    """The partial results of every part, in the workspace."""

    def __init__(
        self, workspace: Array | None, types: Sequence[np.dtype[Any]], sizes: Sequence[int]
    ) -> None:
        self._workspace = workspace
        self._rows = list(zip(types, itertools.accumulate(sizes, initial=0), strict=False))
        self._slot = sum(sizes)

    def load(self, number: int, count: int) -> Partial:
        """The results of a part, `count` each, in place."""
        assert self._workspace is not None
        memory, start = self._workspace.data, number * self._slot
        return tuple(
            np.ndarray((count,), row, memory, start + offset) for row, offset in self._rows
        )

    def store(self, number: int, total: Partial) -> None:
        """Stores the results of a part."""
        places = self.load(number, total[0].size)
        for place, array in zip(places, total, strict=True):
            place[...] = array.reshape(-1)


@dataclass(frozen=True, slots=True)
class Scan:
    """An output whose elements are the running sums of an input along one dimension."""

    source: Source
    output: Operand
    grid: Grid
    wide: np.dtype[Any]
    """Type that is added in."""
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Computes the output."""
        output = self.output.array(memory[self.output.name])
        array = self.source.array(memory, [output])

        def compute(scratch: Scratch, group: int) -> None:
            carry: Array | None = None
            for split in range(self.grid.splits):
                scratch.rewind()
                region = self.grid.region(group, split)
                carry = self._run(scratch, array[region], output[region], carry)

        elements = self.grid.largest
        needed = self.source.scratch_bytes(elements) + scratch_bytes(
            elements * _DOUBLE.itemsize * 2
        )
        threads.run(compute, self.grid.groups, needed)

    def _run(self, scratch: Scratch, part: Array, target: Array, carry: Array | None) -> Array:
        block = self.source.load(scratch, part, self.grid.merged(part.shape))
        (axis,) = self.grid.axes
        sums = scratch.take(block.shape, self.wide)
        np.add.accumulate(block, axis=axis, dtype=sums.dtype, out=sums)
        if carry is not None:
            np.add(sums, carry, out=sums)
        cast(sums.reshape(target.shape), target, scratch)
        last: Array = np.take(sums, [-1], axis=axis)
        return last


def sum_along(block: Array, axes: Axes, partial: np.dtype[Any]) -> Array:
    """Sums a block along dimensions, which then are missing; long sums in parts of 256.

    Args:
        block: contiguous.
        axes: in order.
        partial: type of the result, in which the parts are added.
    """
    for axis in reversed(axes):
        block = _sum_along_one(block, axis, partial)
    return block if block.dtype == partial else block.astype(partial)


def total_along(block: Array, axes: Axes) -> Array:
    """Sums a block along dimensions, which then have size 1, in its type."""
    total = sum_along(block, axes, np.result_type(block.dtype, _DOUBLE))
    return np.expand_dims(total, axes).astype(block.dtype, copy=False)


def _sum_along_one(block: Array, axis: int, partial: np.dtype[Any]) -> Array:
    size = block.shape[axis]
    inner = axis == block.ndim - 1  # there NumPy adds in pairs
    if inner or size <= _LONG or block.dtype == partial:
        total: Array = np.add.reduce(block, axis=axis, dtype=_of_sum(block, partial))
        return total
    before, after = block.shape[:axis], block.shape[axis + 1 :]
    even = size // _LONG * _LONG
    index = (slice(None),) * axis
    head = block[(*index, slice(even))].reshape(*before, even // _LONG, _LONG, *after)
    total = np.add.reduce(head, axis=axis + 1).astype(partial).sum(axis=axis)
    if even < size:
        total += np.add.reduce(block[(*index, slice(even, None))], axis=axis)
    return total


def _of_sum(block: Array, partial: np.dtype[Any]) -> np.dtype[Any]:
    return partial if block.dtype.kind in "biu" else block.dtype


def multiply_along(block: Array, axes: Axes) -> Array:
    """Multiplies a block along dimensions, which then are missing, in its type."""
    for axis in reversed(axes):
        if axis == block.ndim - 1:
            block = _halved(block)
        block = np.multiply.reduce(block, axis=axis, dtype=block.dtype)
    return block


def _halved(block: Array) -> Array:
    """Multiplies the halves of rows with each other until they are short, which is faster than one by one."""
    while (size := block.shape[-1]) > _SHORT:
        half = size // 2
        product = block[..., :half] * block[..., half : 2 * half]
        if size % 2:
            product[..., 0] *= block[..., -1]
        block = product
    return block
