"""Planes read at other places: along their rows and columns, or wherever a grid says; and the gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


_BAND = 64
"""Outputs whose gradients are spread by one product."""


@dataclass(frozen=True)
class Taps:
    """For each place of an output along a dimension, the places that it is read from and their weights."""

    places: Array
    """Of shape (taps, outputs)."""
    weights: Array | None = None
    """Of the same shape, FLOAT; ``None`` is 1, of one tap."""

    def read(self, x: Array, axis: int) -> Array:
        """The output of an input."""
        parts: list[Array] = [np.take(x, row, axis) for row in self.places]
        if self.weights is None:
            return parts[0]
        shape = [1] * x.ndim
        shape[axis] = -1
        for part, weights in zip(parts, self.weights, strict=True):
            np.multiply(part, weights.reshape(shape), out=part)
        for part in parts[1:]:
            np.add(parts[0], part, out=parts[0])
        return parts[0]

    def spread(self, grad: Array, size: int, axis: int) -> Array:
        """The gradient of an input of `size` places: each output's, added to those it was read from.

        Args:
            grad: of shape (planes, rows, columns).
            size: of the input along the dimension.
            axis: the dimension, 1 or 2.
        """
        out = np.zeros((*grad.shape[:axis], size, *grad.shape[axis + 1 :]), grad.dtype)
        if not np.isfinite(grad).all():  # which, times weights of 0, would reach other places
            self._spread_each(np.moveaxis(grad, axis, 0), np.moveaxis(out, axis, 0))
        elif axis == 1:
            for given, reached, weights in self._bands:
                out[:, reached] += weights.T @ grad[:, given]
        else:
            for given, reached, weights in self._bands:
                out[..., reached] += grad[..., given] @ weights
        return out

    def _spread_each(self, grad: Array, out: Array) -> None:
        for tap, row in enumerate(self.places):
            for place, goal in enumerate(row.tolist()):
                if self.weights is None:
                    out[goal] += grad[place]
                elif self.weights[tap, place]:
                    out[goal] += grad[place] * self.weights[tap, place]

    @cached_property
    def _bands(self) -> list[tuple[slice, slice, Array]]:
        """Some outputs at a time, the places that they are read from, and the matrix of their weights."""
        count = self.places.shape[1]
        cuts = [slice(start, min(start + _BAND, count)) for start in range(0, count, _BAND)]
        return [(cut, *self._matrix(cut)) for cut in cuts]

    def _matrix(self, cut: slice) -> tuple[slice, Array]:
        places = self.places[:, cut]
        first, last = int(places.min()), int(places.max())
        matrix = np.zeros((places.shape[1], last + 1 - first), np.float32)
        weights = 1 if self.weights is None else self.weights[:, cut]
        np.add.at(matrix, (np.arange(places.shape[1]), places - first), weights)
        return slice(first, last + 1), matrix


def nearest(size: int, count: int, scale: float) -> Taps:
    """The nearest place, of which `scale` tells how many outputs each has; not above 0: as the sizes say."""
    with np.errstate(over="ignore", invalid="ignore"):  # of a scale next to nothing
        step = np.float32(1 / scale if scale > 0 else size / count)
        places = np.floor(np.arange(count, dtype=np.float32) * step)
    places = np.fmin(np.nan_to_num(places, nan=0.0), size - 1)
    return Taps(places.astype(np.intp)[np.newaxis])


def linear(size: int, count: int, scale: float, *, corners: bool) -> Taps:
    """The two places around, weighed by their distance.

    Args:
        size: places of the input.
        count: places of the output.
        scale: outputs of each input; not above 0: as the sizes say.
        corners: whether the first and the last places of both lie on each other.
    """
    places = np.arange(count, dtype=np.float64)
    if corners:
        at = places * ((size - 1) / (count - 1) if count > 1 else 0.0)
    else:
        at = np.maximum((places + 0.5) * (1 / scale if scale > 0 else size / count) - 0.5, 0)
    first = np.minimum(at, size - 1).astype(np.intp)
    share = np.clip(at - first, 0, 1)
    second = np.minimum(first + 1, size - 1)
    return Taps(np.stack([first, second]), np.stack([1 - share, share]).astype(np.float32))


def reflected(size: int, before: int, after: int) -> Taps:
    """All places, with those next to the first and the last again in front and behind, turned."""
    places = np.abs(np.arange(-before, size + after))
    return Taps(np.where(places < size, places, 2 * (size - 1) - places)[np.newaxis])


def repeated(size: int, before: int, after: int) -> Taps:
    """All places, with the first again in front and the last behind."""
    return Taps(np.clip(np.arange(-before, size + after), 0, size - 1)[np.newaxis])


# --- grids ------------------------------------------------------------------------------------------

ZEROS, BORDER, REFLECTION = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Axis:
    """Where a grid's numbers lie along one dimension of a plane."""

    size: int
    padding: int
    corners: bool
    """Whether -1 and 1 are the middles of the outer elements, not their outer ends."""

    def places(self, numbers: Array) -> tuple[Array, Array]:
        """The place of each number, and how it changes with it; NaN lies outside, or at the first place."""
        size = np.float32(self.size)
        if self.corners:
            at, slope = (numbers + 1) / 2 * (size - 1), (size - 1) / 2
        else:
            at, slope = ((numbers + 1) * size - 1) / 2, size / 2
        slopes = np.full(at.shape, slope, np.float32)
        if self.padding == REFLECTION:
            at = self._reflect(at, slopes)
        if self.padding != ZEROS:
            inside = (at > 0) & (at < size - 1)
            slopes *= inside
            at = np.clip(at, 0, size - 1)
        missing = np.float32(-2 if self.padding == ZEROS else 0)
        at = np.where(np.isnan(at), missing, at)
        # What lies further outside is as far outside; so it fits an integer.
        return np.clip(at, -2, size + 1).astype(np.float32), slopes

    def _reflect(self, at: Array, slopes: Array) -> Array:
        low = np.float32(0 if self.corners else -0.5)
        span = np.float32(self.size - 1 if self.corners else self.size)
        if span == 0:
            slopes.fill(0)
            return np.zeros_like(at)
        distance = at - low
        np.multiply(slopes, np.where(distance < 0, np.float32(-1), np.float32(1)), out=slopes)
        distance = np.abs(distance)
        turns, rest = np.floor(distance / span), np.fmod(distance, span)
        odd = np.fmod(turns, 2) == 1
        np.multiply(slopes, np.where(odd, np.float32(-1), np.float32(1)), out=slopes)
        return np.asarray(np.where(odd, span - rest, rest) + low)


@dataclass(frozen=True, slots=True)
class Grid:
    """How a plane is read where a grid says."""

    rows: Axis
    columns: Axis
    nearest: bool

    def corners(self, grid: Array) -> list[tuple[Array, Array, Array, Array]]:
        """What each point is read from: places in the plane, weights, and how these change with the column
        and the row of the point. Places outside are 0, with weights of 0."""
        across, across_slope = self.columns.places(grid[..., 0])
        down, down_slope = self.rows.places(grid[..., 1])
        if self.nearest:
            none = np.zeros_like(across)
            return [self._corner(np.rint(across), np.rint(down), np.ones_like(across), none, none)]
        left, top = np.floor(across), np.floor(down)
        share, part = across - left, down - top
        found = []
        for side in (0, 1):
            width = share if side else 1 - share
            for level in (0, 1):
                height = part if level else 1 - part
                found.append(
                    self._corner(
                        left + side,
                        top + level,
                        width * height,
                        (height if side else -height) * across_slope,
                        (width if level else -width) * down_slope,
                    )
                )
        return found

    def _corner(
        self, column: Array, row: Array, weight: Array, across: Array, down: Array
    ) -> tuple[Array, Array, Array, Array]:
        inside = (column >= 0) & (column < self.columns.size) & (row >= 0) & (row < self.rows.size)
        place = np.where(inside, row * self.columns.size + column, 0).astype(np.intp)
        numbers = (np.where(inside, array, np.float32(0)) for array in (weight, across, down))
        weights, slopes, others = numbers
        return place, weights, slopes, others

    def read(self, plane: Array, grid: Array, out: Array) -> None:
        """Writes planes of shape (planes, elements), read at points of shape (points, 2)."""
        out.fill(0)
        for place, weight, _, _ in self.corners(grid):
            part = np.take(plane, place, 1, mode="clip")
            # An element outside is none, whatever the first of the plane is.
            np.copyto(part, 0, where=weight == 0)
            np.add(out, part * weight, out=out)

    def spread(self, grad: Array, grid: Array, size: int) -> Array:
        """The gradient of planes of `size` elements: each point's, added to those it was read from."""
        count = len(grad)
        starts = np.arange(count)[:, np.newaxis] * size
        total = np.zeros(count * size)
        for place, weight, _, _ in self.corners(grid):
            flat, shares = (starts + place).reshape(-1), (grad * weight).reshape(-1)
            total += np.bincount(flat, shares, count * size)
        return total.reshape(count, size)

    def slopes(self, plane: Array, grad: Array, grid: Array, out: Array) -> None:
        """Writes the gradient of the grid, of shape (points, 2)."""
        out.fill(0)
        for place, _, across, down in self.corners(grid):
            along = np.sum(np.take(plane, place, 1, mode="clip") * grad, axis=0)
            np.copyto(along, 0, where=(across == 0) & (down == 0))
            out[:, 0] += along * across
            out[:, 1] += along * down
