"""Planes of another size, with edges, or read where a grid says; with their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cases.case import Array, Case, f, floats

_SMALL, _LARGE = (8, 32, 32, 32), (8, 32, 64, 64)
_SIZE = (64, 64)
_AS_SIZES = (0.0, 0.0)
"""Scales that follow from the sizes."""


def cases() -> Iterator[Case]:
    (x,), (grad,) = floats(*_SMALL), floats(*_LARGE)
    yield from _nearest(x, grad)
    yield from _linear(x, grad)
    yield from _edged(x)
    yield from _grids()


def _nearest(x: Array, grad: Array) -> Iterator[Case]:
    out, back = np.empty_like(grad), np.empty_like(x)

    def forward() -> object:
        return np.repeat(np.repeat(x, 2, 2), 2, 3)

    def backward() -> object:
        return grad.reshape(8, 32, 32, 2, 32, 2).sum((3, 5))

    yield Case("UpsampleNearest2d", (x, _SIZE, out), forward)
    yield Case("UpsampleNearest2dV2", (x, _SIZE, 2.0, 2.0, out), forward)
    sizes = (_SIZE, _SMALL, *_AS_SIZES)
    yield Case("UpsampleNearest2dBackward", (grad, *sizes, back), backward)


def _linear(x: Array, grad: Array) -> Iterator[Case]:
    at = np.maximum((np.arange(64) + 0.5) / 2 - 0.5, 0)
    first = at.astype(int)
    second, share = np.minimum(first + 1, 31), (at - first).astype(f)
    matrix = np.zeros((64, 32), f)
    np.add.at(matrix, (np.arange(64), first), 1 - share)
    np.add.at(matrix, (np.arange(64), second), share)

    def forward() -> object:
        rows = x[:, :, first] * (1 - share)[:, None] + x[:, :, second] * share[:, None]
        return rows[..., first] * (1 - share) + rows[..., second] * share

    def backward() -> object:
        return matrix.T @ grad @ matrix

    sizes = (_SIZE, _SMALL, False, *_AS_SIZES)
    yield Case("UpsampleBilinear2d", (x, _SIZE, False, *_AS_SIZES, np.empty_like(grad)), forward)
    for name in ("UpsampleBilinear2dBackward", "UpsampleBilinear2dBackwardV2"):
        yield Case(name, (grad, *sizes, np.empty_like(x)), backward)


def _edged(x: Array) -> Iterator[Case]:
    (grad,) = floats(8, 32, 36, 36)
    edges = (2, 2, 2, 2)

    def forward() -> object:
        return np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)), "reflect")

    def folded(array: Array) -> Array:
        """The last dimension, without the edges that were added."""
        inner = array[..., 2:-2].copy()
        inner[..., 1:3] += array[..., 1::-1]
        inner[..., -3:-1] += array[..., :-3:-1]
        return inner

    def backward() -> object:
        return folded(folded(grad).swapaxes(2, 3)).swapaxes(2, 3)

    def repeated() -> object:
        return np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)), "edge")

    def gathered(array: Array) -> Array:
        """The last dimension, with what was added to its ends in these."""
        inner = array[..., 2:-2].copy()
        inner[..., 0] += array[..., :2].sum(-1)
        inner[..., -1] += array[..., -2:].sum(-1)
        return inner

    def gather() -> object:
        return gathered(gathered(grad).swapaxes(2, 3)).swapaxes(2, 3)

    yield Case("ReplicationPad2d", (x, edges, np.empty_like(grad)), repeated)
    yield Case("ReplicationPad2dBackward", (grad, x, edges, np.empty_like(x)), gather)
    yield Case("ReflectionPad2d", (x, edges, np.empty_like(grad)), forward)
    yield Case("ReflectionPad2dBackward", (grad, x, edges, np.empty_like(x)), backward)


def _grids() -> Iterator[Case]:
    """Bilinear, with 0 around the planes."""
    (x, grad), (grid,) = floats(4, 16, 64, 64, count=2), floats(4, 64, 64, 2)
    grid = grid * f(2.4) - f(1.2)
    sample = np.arange(4)[:, None, None]

    def corners() -> Iterator[tuple[tuple[Any, ...], Array, Array, Array]]:
        """Index into planes with an edge of 0, weight, and its slopes by column and row."""
        at = ((grid + 1) * 64 - 1) / 2
        low = np.floor(at)
        part = at - low
        for side, level in np.ndindex(2, 2):
            column = np.clip(low[..., 0] + side + 1, 0, 65).astype(int)
            row = np.clip(low[..., 1] + level + 1, 0, 65).astype(int)
            width = part[..., 0] if side else 1 - part[..., 0]
            height = part[..., 1] if level else 1 - part[..., 1]
            index = (sample, slice(None), row, column)
            signs = f(64 * side - 32), f(64 * level - 32)
            yield index, width * height, height * signs[0], width * signs[1]

    def edged(array: Array) -> Array:
        return np.pad(array, ((0, 0), (0, 0), (1, 1), (1, 1)))

    def forward() -> object:
        planes = edged(x)
        total = sum(planes[index] * weight[..., None] for index, weight, _, _ in corners())
        return np.moveaxis(np.asarray(total), -1, 1)

    def backward() -> object:
        planes, slopes, last = edged(x), np.zeros_like(grid), np.moveaxis(grad, 1, -1)
        sums = np.zeros_like(planes)
        for index, weight, across, down in corners():
            np.add.at(sums, index, last * weight[..., None])
            along = (planes[index] * last).sum(-1)
            slopes += np.stack([along * across, along * down], -1)
        return sums[:, :, 1:-1, 1:-1], slopes

    modes = (0, 0, False)
    yield Case("GridSampler2D", (x, grid, *modes, np.empty_like(x)), forward)
    outputs = (np.empty_like(x), np.empty_like(grid))
    given = (grad, x, grid, *modes, (True, True))
    yield Case("GridSampler2DBackward", (*given, *outputs), backward)
