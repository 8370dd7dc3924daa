"""Reductions along dimensions: which ones, what shape is left, and the division into blocks.

Everything follows from shapes alone, never from strides, so that a computation gives the same bits
however its tensors lie in memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from aclnn.tensors import TensorSpec
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.tiling import BLOCK, Operand

Axes = tuple[int, ...]
"""Dimensions, from 0 and in order."""
Region = tuple[slice, ...]

_T = TypeVar("_T")

_ACROSS = 8
"""How many times larger blocks are whose whole rows lie across memory: in smaller ones few elements would
be neighbours, and copying them together takes longer than the cache saves."""
_COLUMNS = 1 << 11
"""Neighbouring results that a block computes at least, where they are neighbours in memory too."""


def positive(dims: Iterable[int], rank: int) -> Axes:
    """Counts dimensions from the first, in order; a tensor without dimensions has one, here."""
    return tuple(sorted({dim % max(rank, 1) for dim in dims}))


def reduced_shape(shape: Shape, axes: Axes, *, keep: bool) -> Shape:
    """Shape that is left when `axes` are reduced: without them, or with 1 where `keep` is true."""
    kept = (1 if axis in axes else size for axis, size in enumerate(shape))
    if keep:
        return tuple(kept)
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


@dataclass(frozen=True)
class Grid:
    """A shape without sizes of 1, some dimensions of which are reduced, and its division into blocks.

    The blocks that compute the same results are a group; its members are its splits, in order.
    """

    rank: int
    """Dimensions of the shape."""
    dims: Axes
    """Dimension of the shape that each dimension of the grid is; one more than it has where all that
    are reduced have size 1."""
    sizes: Shape
    reduced: tuple[bool, ...]
    steps: Shape
    """Sizes of a block; the last one along a dimension may be smaller."""

    @classmethod
    def of(cls, shape: Shape, axes: Axes, *, whole: bool = False, block: int = BLOCK) -> Grid:
        """Divides a shape without a 0.

        Args:
            shape: what is reduced.
            axes: along which dimensions.
            whole: leave the reduced dimensions uncut, even where a block becomes large by it.
            block: elements of a block, at most.
        """
        rank = len(shape)
        dims = tuple(dim for dim, size in enumerate(shape) if size != 1)
        if not set(dims) & set(axes):
            dims, shape, axes = (*dims, rank), (*shape, 1), (rank,)
        sizes = tuple(shape[dim] for dim in dims)
        reduced = tuple(dim in axes for dim in dims)
        if whole and not reduced[-1]:
            block *= _ACROSS
        return cls(rank, dims, sizes, reduced, _steps(sizes, reduced, block, whole=whole))

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self._kept)

    @property
    def splits(self) -> int:
        """Blocks of a group."""
        return len(self._along)

    @cached_property
    def largest(self) -> int:
        """Elements of the largest block."""
        return math.prod(self.steps)

    @cached_property
    def results(self) -> int:
        """Results of the largest group."""
        return math.prod(_chosen(self.steps, self.reduced, wanted=False))

    @cached_property
    def length(self) -> int:
        """Elements that are reduced to one."""
        return math.prod(_chosen(self.sizes, self.reduced, wanted=True))

    @cached_property
    def axes(self) -> Axes:
        """Dimensions of a merged block that are reduced."""
        return tuple(axis for axis, (start, _) in enumerate(self._runs) if self.reduced[start])

    def region(self, group: int, split: int) -> Region:
        """Where a block lies."""
        kept, along = iter(self._kept[group]), iter(self._along[split])
        return tuple([next(along if flag else kept) for flag in self.reduced])

    def place(self, group: int) -> Region:
        """Where the results of a group lie, in an operand of :meth:`result`."""
        kept = iter(self._kept[group])
        return tuple([_WHOLE if flag else next(kept) for flag in self.reduced])

    def count(self, group: int) -> int:
        """Results of a group."""
        return math.prod(place.stop - place.start for place in self._kept[group])

    def start(self, split: int) -> int:
        """First place along the first reduced dimension of a block."""
        start: int = self._along[split][0].start
        return start

    def merged(self, block: Shape) -> Shape:
        """Sizes of a block of the given sizes with neighbouring dimensions of one kind as one."""
        return tuple([math.prod(block[start:stop]) for start, stop in self._runs])

    def operand(self, name: str, spec: TensorSpec) -> Operand:
        """A tensor of the grid's shape, or one that broadcasts to it, over the grid's dimensions."""
        missing = self.rank - len(spec.shape)
        sizes = (*(1,) * missing, *spec.shape, 1)
        steps = (*(0,) * missing, *spec.strides, 0)
        shape = tuple(sizes[dim] for dim in self.dims)
        strides = tuple(
            steps[dim] if size != 1 else 0 for dim, size in zip(self.dims, shape, strict=True)
        )
        return Operand(name, spec.dtype, shape, strides, spec.offset)

    def result(self, name: str, spec: TensorSpec) -> Operand:
        """A tensor of results, with or without the reduced dimensions, over the grid's dimensions."""
        pairs = zip(spec.shape, spec.strides, strict=True)
        steps = iter([step for size, step in pairs if size != 1])
        flags = zip(self.sizes, self.reduced, strict=True)
        dims = [(1, 0) if flag else (size, next(steps)) for size, flag in flags]
        shape, strides = zip(*dims, strict=True)
        return Operand(name, spec.dtype, shape, strides, spec.offset)

    @cached_property
    def _runs(self) -> tuple[tuple[int, int], ...]:
        """Neighbouring dimensions of one kind: the first, and one past the last."""
        runs, start = [], 0
        for _, group in itertools.groupby(self.reduced):
            stop = start + len(list(group))
            runs.append((start, stop))
            start = stop
        return tuple(runs)

    @cached_property
    def _kept(self) -> list[Region]:
        return self._regions(reduced=False)

    @cached_property
    def _along(self) -> list[Region]:
        return self._regions(reduced=True)

    def _regions(self, *, reduced: bool) -> list[Region]:
        """Where all groups, or all splits, lie along the dimensions that tell them apart."""
        rows = _chosen(list(zip(self.sizes, self.steps, strict=True)), self.reduced, wanted=reduced)
        cuts = (
            [slice(start, min(start + step, size)) for start in range(0, size, step)]
            for size, step in rows
        )
        return list(itertools.product(*cuts))


_WHOLE = slice(None)


def _chosen(items: Sequence[_T], flags: Sequence[bool], *, wanted: bool) -> list[_T]:
    return [item for item, flag in zip(items, flags, strict=True) if flag is wanted]


def _steps(sizes: Shape, reduced: tuple[bool, ...], block: int, *, whole: bool) -> Shape:
    """Sizes of a block: results that are neighbours in memory, then what is reduced, then more results."""
    steps = [1] * len(sizes)
    along = [dim for dim, flag in enumerate(reduced) if flag]
    kept = [dim for dim, flag in enumerate(reduced) if not flag]
    if whole:
        _fill(steps, sizes, along, math.prod(sizes))
    else:
        _fill(steps, sizes, [dim for dim in kept if dim > along[-1]], min(_COLUMNS, block))
        _fill(steps, sizes, along, block // math.prod(steps))
    _fill(steps, sizes, kept, block // math.prod(steps))
    return tuple(steps)


def _fill(steps: list[int], sizes: Shape, dims: Sequence[int], room: int) -> None:
    """Multiplies a block's sizes by at most `room`, from the last dimension, to parts of equal size."""
    for dim in reversed(dims):
        cuts = -(-sizes[dim] // (steps[dim] * max(1, room)))
        step = -(-sizes[dim] // cuts)
        room = max(1, room * steps[dim] // step)
        steps[dim] = step
