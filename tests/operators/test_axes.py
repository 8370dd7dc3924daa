"""The division of reductions into blocks."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aclnn import dtypes
from aclnn.tensors import TensorSpec
from aclnn_server.operators.engines.axes import Grid, positive, reduced_shape

SHAPES = st.lists(st.integers(1, 7), max_size=5).map(tuple)


@st.composite
def grids(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], Grid]:
    shape = draw(SHAPES)
    axes = tuple(axis for axis in range(len(shape)) if draw(st.booleans()))
    return (
        shape,
        axes,
        Grid.of(shape, axes, whole=draw(st.booleans()), block=draw(st.integers(1, 99))),
    )


@given(grids())
def test_every_element_is_in_one_block(made: tuple[tuple[int, ...], tuple[int, ...], Grid]) -> None:
    shape, _, grid = made
    seen = np.zeros(grid.sizes, int)
    for group in range(grid.groups):
        for split in range(grid.splits):
            seen[grid.region(group, split)] += 1
    assert (seen == 1).all()
    assert math.prod(grid.sizes) == math.prod(shape)


@given(grids())
def test_a_group_has_its_results_alone(made: tuple[tuple[int, ...], tuple[int, ...], Grid]) -> None:
    shape, axes, grid = made
    left = reduced_shape(shape, axes, keep=False)
    seen = np.zeros(left, int)
    spec = TensorSpec.contiguous(left, dtypes.INT64)
    results = grid.result("out", spec).array(seen.reshape(-1).view(np.uint8))
    for group in range(grid.groups):
        part = results[grid.place(group)]
        part += 1
        assert part.size == grid.count(group) <= grid.results
    assert (seen == 1).all()


@given(grids())
def test_whole_rows_are_in_one_split(made: tuple[tuple[int, ...], tuple[int, ...], Grid]) -> None:
    shape, axes, _ = made
    grid = Grid.of(shape, axes, whole=True, block=8)
    assert grid.splits == 1
    assert grid.largest <= max(64, grid.length)


@given(grids())
def test_blocks_of_cut_rows_are_not_too_large(
    made: tuple[tuple[int, ...], tuple[int, ...], Grid],
) -> None:
    shape, axes, _ = made
    assert Grid.of(shape, axes, block=16).largest <= max(16, shape[-1] if shape else 1)


def test_merged_dimensions_alternate() -> None:
    grid = Grid.of((2, 3, 1, 4, 5, 6), (1, 3))
    assert grid.merged((2, 3, 4, 5, 6)) == (2, 12, 30)
    assert grid.axes == (1,)
    assert Grid.of((2, 3, 4), (0, 2)).axes == (0, 2)


def test_dimensions_of_size_one_leave_one_that_is_reduced() -> None:
    grid = Grid.of((4, 1), (1,))
    assert grid.sizes == (4, 1)
    assert grid.reduced == (False, True)
    assert Grid.of((), ()).length == 1


def test_operands_broadcast_over_the_grid() -> None:
    grid = Grid.of((2, 3, 4), (2,))
    row = grid.operand("weight", TensorSpec.contiguous((4,), dtypes.FLOAT))
    assert (row.shape, row.strides) == ((1, 1, 4), (0, 0, 1))


def test_dimensions_are_counted_from_both_ends() -> None:
    assert positive([-1, 0], 3) == (0, 2)
    assert positive([-1], 0) == (0,)
    assert reduced_shape((2, 3), (0,), keep=True) == (1, 3)
    assert reduced_shape((2, 3), (0,), keep=False) == (3,)
