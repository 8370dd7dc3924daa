"""The products of matrices that convolutions are, and their gradients.

A convolution has a large side, over which the kernel's window moves, and a small side with a point for
each place of the window. The columns of a place are the elements of its window; one product of the
weights and the columns of many places gives a part of the small side. Its gradients, and transposed
convolutions, are the same three computations with the sides exchanged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.staging import SINGLE
from aclnn_server.operators.engines.threads import Scratch, Threads, scratch_bytes

Array = npt.NDArray[Any]

_BLOCK = 1 << 18
"""Elements of a block of columns: they stay in the second-level cache until they are multiplied."""
_COLUMNS = 256
"""Columns of a block at least, where there are so many: each block reads all of the weights."""
_PARTS = 8
"""Parts that the sum of the gradient of weights is divided into at most. Its last bits depend on it."""
_PARTIAL = 1 << 22
"""Elements of all parts of that sum together, at most, unless there is one part only."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the small side."""

    samples: slice
    groups: slice
    rows: slice
    """Along the first dimension of space."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """Its samples, groups and rows."""
        parts = (self.samples, self.groups, self.rows)
        samples, groups, rows = (part.stop - part.start for part in parts)
        return samples, groups, rows


@dataclass(frozen=True)
class Geometry:
    """How the sides of a convolution lie to each other; channels are those of one group."""

    samples: int
    groups: int
    small_channels: int
    large_channels: int
    small: Shape
    """Sizes of the small side in space: 1 to 3."""
    large: Shape
    kernel: Shape
    stride: Shape
    before: Shape
    """Zeros in front of the large side."""
    dilation: Shape

    @property
    def places(self) -> int:
        """Elements of a window."""
        return self.large_channels * math.prod(self.kernel)

    @property
    def weight(self) -> Shape:
        """Shape of the weights, as matrices of one group each."""
        return self.groups, self.small_channels, self.places

    @cached_property
    def spans(self) -> Shape:
        """Elements of the large side that all windows together span, along each dimension."""
        rows = zip(self.small, self.stride, self.kernel, self.dilation, strict=True)
        return tuple(
            (size - 1) * step + (width - 1) * gap + 1 if size else 0
            for size, step, width, gap in rows
        )

    def small_side(self, array: Array) -> Array:
        """A tensor of the small side, with groups as a dimension."""
        return array.reshape(self.samples, self.groups, self.small_channels, *self.small)

    def large_side(self, array: Array) -> Array:
        """A tensor of the large side, with groups as a dimension."""
        return array.reshape(self.samples, self.groups, self.large_channels, *self.large)

    # --- blocks -------------------------------------------------------------------------------------

    @cached_property
    def _steps(self) -> tuple[int, int, int]:
        """Samples, groups and rows of a block."""
        inner = math.prod(self.small[1:])
        columns = max(_COLUMNS, _BLOCK // max(1, self.places))
        rows = min(self.small[0], max(1, columns // max(1, inner)))
        columns //= max(1, rows * inner)
        groups = 1
        if rows == self.small[0]:
            groups = min(self.groups, max(1, _BLOCK // max(1, self.places * rows * inner)))
        whole = rows == self.small[0] and groups == self.groups
        samples = min(self.samples, max(1, columns // groups)) if whole else 1
        return samples, groups, rows

    def _cuts(self, dimension: int) -> list[slice]:
        size = (self.samples, self.groups, self.small[0])[dimension]
        step = self._steps[dimension]
        return [slice(start, min(start + step, size)) for start in range(0, size, max(1, step))]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks of the small side, in order."""
        if 0 in self.small:
            return ()
        cuts = itertools.product(self._cuts(0), self._cuts(1), self._cuts(2))
        return tuple(Block(*cut) for cut in cuts)

    @cached_property
    def _column_bytes(self) -> int:
        """Scratch memory for the columns of a block and what they are copied from."""
        samples, groups, rows = self._steps
        inner = math.prod(self.small[1:])
        window = (rows - 1) * self.stride[0] + (self.kernel[0] - 1) * self.dilation[0] + 1
        tile = self.large_channels * window * math.prod(self.spans[1:])
        columns = self.places * rows * inner
        sizes = (tile * samples * groups, columns * samples * groups)
        return sum(scratch_bytes(size * SINGLE.itemsize) for size in sizes)

    def _small_bytes(self) -> int:
        samples, groups, rows = self._steps
        size = samples * groups * rows * math.prod(self.small[1:]) * self.small_channels
        return scratch_bytes(size * SINGLE.itemsize)

    # --- columns ------------------------------------------------------------------------------------

    @property
    def _pointwise(self) -> bool:
        """Whether a window is one element, and all of them lie side by side."""
        ones = (1,) * len(self.small)
        return (
            self.kernel == self.stride == ones and self.spans == self.large and not any(self.before)
        )

    def _tile(self, large: Array, block: Block, scratch: Scratch) -> Array:
        """What the windows of a block span, with zeros where the large side has no elements."""
        samples, groups, rows = block.counts
        start = block.rows.start * self.stride[0] - self.before[0]
        window = (rows - 1) * self.stride[0] + (self.kernel[0] - 1) * self.dilation[0] + 1
        starts = (start, *(-zeros for zeros in self.before[1:]))
        spans = (window, *self.spans[1:])
        inside = [
            slice(max(0, first), max(0, min(size, first + span)))
            for first, span, size in zip(starts, spans, self.large, strict=True)
        ]
        index: Any = (block.samples, block.groups, slice(None), *inside)
        part: Array = large[index]
        if part.shape[3:] == spans:
            return part
        tile = scratch.take((samples, groups, self.large_channels, *spans), SINGLE)
        tile.fill(0)
        places: Any = [
            slice(cut.start - first, cut.start - first + max(0, cut.stop - cut.start))
            for first, cut in zip(starts, inside, strict=True)
        ]
        if part.size:
            tile[(..., *places)] = part
        return tile

    def columns(self, large: Array, block: Block, scratch: Scratch) -> Array:
        """The windows of a block: of shape (groups, elements of a window, samples * points)."""
        samples, groups, rows = block.counts
        tile = self._tile(large, block, scratch)
        points = rows * math.prod(self.small[1:])
        if self._pointwise and samples == 1:
            return tile.reshape(groups, self.places, points)
        space = tile.strides[3:]
        shape = (groups, self.large_channels, *self.kernel, samples, rows, *self.small[1:])
        strides = (
            *tile.strides[1:3],
            *(step * gap for step, gap in zip(space, self.dilation, strict=True)),
            tile.strides[0],
            *(step * stride for step, stride in zip(space, self.stride, strict=True)),
        )
        columns = scratch.take(shape, SINGLE)
        np.copyto(columns, as_strided(tile, shape, strides))
        return columns.reshape(groups, self.places, samples * points)

    def _of_small(self, small: Array, block: Block) -> Array:
        """A block of the small side: of shape (groups, channels, samples, points), a view."""
        part = small[block.samples, block.groups, :, block.rows]
        samples, groups, rows = block.counts
        points = rows * math.prod(self.small[1:])
        shape = (samples, groups, self.small_channels, points)
        return part.reshape(shape).transpose(1, 2, 0, 3)

    # --- the three computations ---------------------------------------------------------------------

    def gather(
        self, large: Array, weight: Array, bias: Array | None, small: Array, threads: Threads
    ) -> None:
        """Computes the small side: the product of the weights and each window, plus a bias."""
        large, small, weight = (
            self.large_side(large),
            self.small_side(small),
            weight.reshape(self.weight),
        )
        shift = None if bias is None else bias.reshape(self.groups, self.small_channels, 1, 1)

        def compute(scratch: Scratch, number: int) -> None:
            block = self.blocks[number]
            columns = self.columns(large, block, scratch)
            target = self._of_small(small, block)
            if block.counts[0] == 1:
                np.matmul(weight[block.groups], columns, out=target[:, :, 0])
            else:
                product = scratch.take((*target.shape[:2], columns.shape[-1]), SINGLE)
                np.matmul(weight[block.groups], columns, out=product)
                target[...] = product.reshape(target.shape)
            if shift is not None:
                np.add(target, shift[block.groups], out=target)

        threads.run(compute, len(self.blocks), self._column_bytes + self._small_bytes())

    def scatter(
        self, small: Array, weight: Array, bias: Array | None, large: Array, threads: Threads
    ) -> None:
        """Computes the large side: the sum of each point's weights over its window, plus a bias."""
        large, small = self.large_side(large), self.small_side(small)
        turned = weight.reshape(self.weight).swapaxes(1, 2)
        shift = None if bias is None else bias.reshape(self.groups, -1, *(1,) * len(self.large))
        tiles = [*itertools.product(self._cuts(0), self._cuts(1))]
        samples, groups, _ = self._steps
        room = tuple(
            max(zeros + size, span)
            for zeros, size, span in zip(self.before, self.large, self.spans, strict=True)
        )
        tile_size = samples * groups * self.large_channels * math.prod(room)
        cuts = [
            slice(zeros, zeros + size) for zeros, size in zip(self.before, self.large, strict=True)
        ]
        inside: Any = (..., *cuts)

        def compute(scratch: Scratch, number: int) -> None:
            place = tiles[number]
            target = large[place]
            direct = room == self.large
            tile = target if direct else scratch.take((*target.shape[:3], *room), SINGLE)
            tile.fill(0)
            mark = scratch.mark()
            for rows in self._cuts(2) if 0 not in self.small else ():
                scratch.rewind(mark)
                self._add_windows(tile, Block(*place, rows), small, turned, scratch)
            if not direct:
                np.copyto(target, tile[inside])
            if shift is not None:
                np.add(target, shift[place[1]], out=target)

        needed = (
            self._column_bytes + self._small_bytes() + scratch_bytes(tile_size * SINGLE.itemsize)
        )
        threads.run(compute, len(tiles), needed)

    def _add_windows(
        self, tile: Array, block: Block, small: Array, turned: Array, scratch: Scratch
    ) -> None:
        samples, groups, rows = block.counts
        part = self._of_small(small, block)
        flat = scratch.take((groups, self.small_channels, part.shape[2] * part.shape[3]), SINGLE)
        np.copyto(flat.reshape(part.shape), part)
        columns = scratch.take((groups, self.places, flat.shape[-1]), SINGLE)
        np.matmul(turned[block.groups], flat, out=columns)
        windows = columns.reshape(
            groups, self.large_channels, *self.kernel, samples, rows, *self.small[1:]
        )
        sizes = (rows, *self.small[1:])
        starts = (block.rows.start * self.stride[0], *(0,) * (len(sizes) - 1))
        for place in itertools.product(*map(range, self.kernel)):
            cuts: Any = [
                slice(first + at * gap, first + at * gap + (size - 1) * step + 1, step)
                for first, at, gap, size, step in zip(
                    starts, place, self.dilation, sizes, self.stride, strict=True
                )
            ]
            target = np.moveaxis(tile[(..., *cuts)], 0, 2)
            at_place: Any = (slice(None), slice(None), *place)
            np.add(target, windows[at_place], out=target)

    @cached_property
    def parts(self) -> int:
        """Parts that the gradient of the weights is summed in; it needs a room for all of them."""
        room = _PARTIAL // max(1, math.prod(self.weight))
        return max(1, min(_PARTS, len(self.blocks), room))

    def correlate(
        self, small: Array, large: Array, parts: Array | None, weight: Array, threads: Threads
    ) -> None:
        """Computes the gradient of the weights: the sum of each point times its window.

        Args:
            small: a tensor of the small side.
            large: a tensor of the large side.
            parts: of shape (:attr:`parts`, *:attr:`weight`), where there are several.
            weight: the sum.
            threads: what computes it.
        """
        large, small = self.large_side(large), self.small_side(small)
        weight = weight.reshape(self.weight)
        sums = weight[np.newaxis] if parts is None else parts

        def compute(scratch: Scratch, number: int) -> None:
            total = sums[number]
            total.fill(0)
            for block in self._of_part(number):
                scratch.rewind()
                self._add_products(total, block, small, large, scratch)

        groups = self._steps[1]
        product = scratch_bytes(groups * math.prod(self.weight[1:]) * SINGLE.itemsize)
        needed = self._column_bytes + self._small_bytes() + product
        threads.run(compute, self.parts, needed)
        if parts is not None:
            np.add.reduce(parts, axis=0, out=weight)

    def _of_part(self, number: int) -> Iterator[Block]:
        count = len(self.blocks)
        bounds = (number * count // self.parts, (number + 1) * count // self.parts)
        return iter(self.blocks[slice(*bounds)])

    def _add_products(
        self, total: Array, block: Block, small: Array, large: Array, scratch: Scratch
    ) -> None:
        columns = self.columns(large, block, scratch)
        part = self._of_small(small, block)
        flat = scratch.take((*part.shape[:2], columns.shape[-1]), SINGLE)
        np.copyto(flat.reshape(part.shape), part)
        target = total[block.groups]
        product = scratch.take(target.shape, SINGLE)
        np.matmul(flat, columns.swapaxes(1, 2), out=product)
        np.add(target, product, out=target)
