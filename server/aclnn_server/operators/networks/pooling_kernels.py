"""Windows that move over planes: which elements they see, their largest, their sum, and the gradients.

A place of the window's kernel meets, at all points of the output for which it lies inside the plane, a
grid of elements: a strided view. So pooling is one pass over the output for each place, without padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.engines.shapes import Shape

Array = npt.NDArray[Any]
Pair = tuple[int, int]
Index = Any
"""Of the last two dimensions."""


@dataclass(frozen=True)
class Windows:
    """Windows over planes of one size."""

    plane: Pair
    points: Pair
    """Sizes of the output."""
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair = (1, 1)

    @classmethod
    def of(
        cls,
        plane: Shape,
        kernel: Shape,
        stride: Shape,
        padding: Shape,
        dilation: Shape = (1, 1),
        *,
        ceil: bool,
    ) -> Windows:
        """Windows as the lists of a call give them: one number is for both dimensions, no stride is the
        kernel's size; `ceil` counts a last window that lies partly outside, unless it begins there."""
        sides = (plane[-2], plane[-1])
        kernels, paddings, gaps = _pair(kernel), _pair(padding), _pair(dilation)
        strides = _pair(stride or kernel)
        rows, columns = (
            _points(size, width, step, zeros, gap, ceil=ceil)
            for size, width, step, zeros, gap in zip(
                sides, kernels, strides, paddings, gaps, strict=True
            )
        )
        return cls(sides, (rows, columns), kernels, strides, paddings, gaps)

    @property
    def places(self) -> int:
        """Elements of a kernel."""
        return self.kernel[0] * self.kernel[1]

    def meetings(self) -> Iterator[tuple[int, Index, Index]]:
        """For each place of the kernel: its number, and what of output and plane meet in it."""
        rows, columns = (self._along(axis) for axis in (0, 1))
        for i, (points, elements) in enumerate(rows):
            for j, (others, across) in enumerate(columns):
                number = i * self.kernel[1] + j
                yield number, (..., points, others), (..., elements, across)

    def _along(self, axis: int) -> list[tuple[slice, slice]]:
        """For each place along a dimension: the points for which it is inside, and the elements there."""
        size, count = self.plane[axis], self.points[axis]
        step, zeros, gap = self.stride[axis], self.padding[axis], self.dilation[axis]
        found = []
        for place in range(self.kernel[axis]):
            shift = place * gap - zeros
            first = max(0, -(shift // step))
            last = min(count - 1, (size - 1 - shift) // step)
            stop = max(first, last + 1)
            start = first * step + shift
            end = start + (stop - first - 1) * step + 1 if stop > first else start
            found.append((slice(first, stop), slice(start, max(start, end), step)))
        return found

    @cached_property
    def counts(self) -> Array:
        """How many elements of the plane each window sees."""
        seen = np.zeros(self.points, np.float32)
        for _, points, _ in self.meetings():
            seen[points[1:]] += 1
        return seen

    @cached_property
    def areas(self) -> Array:
        """How many elements each window has, with padding but without what lies behind it."""
        sides = []
        for axis in (0, 1):
            starts = np.arange(self.points[axis]) * self.stride[axis] - self.padding[axis]
            ends = np.minimum(starts + self.kernel[axis], self.plane[axis] + self.padding[axis])
            sides.append((ends - starts).astype(np.float32))
        return np.multiply.outer(*sides)

    # --- the largest --------------------------------------------------------------------------------

    def largest(self, planes: Array, out: Array, *, numbers: bool = False) -> Array:
        """Writes the largest element of each window, and gives where it is; the first NaN is the largest.

        Args:
            planes: of shape (planes, *plane).
            out: of shape (planes, *points).
            numbers: give the place's number in the kernel, not the element's in the plane.
        """
        found = np.zeros(out.shape, np.int32 if numbers else np.int64)
        at = np.arange(self.plane[0] * self.plane[1]).reshape(self.plane)
        first = np.ones(self.points, np.bool_)
        for number, points, elements in self.meetings():
            values, best = planes[elements], out[points]
            # A window's first element is taken whatever it is; NaN stays, and takes its place once.
            better = ~(values <= best) & ~np.isnan(best)
            np.logical_or(better, first[points[1:]], out=better)
            first[points[1:]] = False
            np.copyto(best, values, where=better)
            np.copyto(found[points], number if numbers else at[elements[1:]], where=better)
        return found

    def spread_chosen(self, grad: Array, chosen: Array, out: Array) -> None:
        """Adds each gradient to the element of its window that is chosen.

        Args:
            grad: of shape (planes, *points), FLOAT.
            chosen: BOOL, of shape (planes, places, *points).
            out: of shape (planes, *plane).
        """
        words = grad.view(np.int32)
        for number, points, elements in self.meetings():
            # By the bits, because what is infinite, times 0, is NaN.
            flags = np.negative(chosen[:, number][points].view(np.int8))
            target = out[elements]
            np.add(target, np.bitwise_and(words[points], flags).view(np.float32), out=target)

    # --- sums ---------------------------------------------------------------------------------------

    def total(self, planes: Array, out: Array) -> None:
        """Writes the sum of each window."""
        out.fill(0)
        for _, points, elements in self.meetings():
            target = out[points]
            np.add(target, planes[elements], out=target)

    def spread(self, grad: Array, out: Array) -> None:
        """Adds each gradient to every element of its window."""
        for _, points, elements in self.meetings():
            target = out[elements]
            np.add(target, grad[points], out=target)


def _pair(numbers: Shape) -> Pair:
    first, *rest = numbers
    return first, rest[0] if rest else first


def _points(size: int, width: int, step: int, zeros: int, gap: int, *, ceil: bool) -> int:
    room = size + 2 * zeros - gap * (width - 1) - 1
    count = (room + (step - 1 if ceil else 0)) // step + 1
    return count - 1 if ceil and (count - 1) * step >= size + zeros else count


@dataclass(frozen=True, slots=True)
class Shares:
    """The division of a dimension into as many overlapping parts as the output has, for means."""

    size: int
    parts: int

    def cuts(self) -> Iterator[tuple[int, slice]]:
        """Number and place of each part."""
        for part in range(self.parts):
            start = part * self.size // self.parts
            yield part, slice(start, -(-(part + 1) * self.size // self.parts))


def mean_shares(planes: Array, out: Array) -> None:
    """Writes the mean of each part of each plane."""
    rows, columns = _shares(planes.shape, out.shape)
    if columns.parts == 1:  # parts lie in one piece each
        for part, cut in rows.cuts():
            whole = planes[..., cut, :].reshape(*planes.shape[:-2], -1)
            np.divide(np.add.reduce(whole, axis=-1), whole.shape[-1], out=out[..., part, 0])
        return
    halfway = np.empty((*out.shape[:-1], planes.shape[-1]), np.float32)
    for part, cut in rows.cuts():
        np.mean(planes[..., cut, :], axis=-2, out=halfway[..., part, :])
    for part, cut in columns.cuts():
        np.mean(halfway[..., cut], axis=-1, out=out[..., part])


def spread_shares(grad: Array, out: Array) -> None:
    """Adds to every element the share of each part's gradient that it has in the mean."""
    rows, columns = _shares(out.shape, grad.shape)
    halfway = np.zeros((*grad.shape[:-1], out.shape[-1]), np.float32)
    for part, cut in columns.cuts():
        halfway[..., cut] += grad[..., part, np.newaxis] / np.float32(cut.stop - cut.start)
    for part, cut in rows.cuts():
        out[..., cut, :] += halfway[..., part, np.newaxis, :] / np.float32(cut.stop - cut.start)


def _shares(whole: Shape, parts: Shape) -> tuple[Shares, Shares]:
    return Shares(whole[-2], parts[-2]), Shares(whole[-1], parts[-1])
