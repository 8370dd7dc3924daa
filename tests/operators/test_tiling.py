"""Blocks cover every element once, whatever the shape and the strides."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn import dtypes
from aclnn.tensors import TensorSpec
from aclnn_server.operators.engines.shapes import ShapeMismatchError, broadcast
from aclnn_server.operators.engines.tiling import BLOCK, Tiling, lay_out


@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple),
    block=st.integers(1, 200),
)
def test_blocks_cover_every_element_once(shape: tuple[int, ...], block: int) -> None:
    tiling = Tiling.of(shape, block)
    counts = np.zeros(shape, int)
    sizes = []
    for number in range(tiling.blocks):
        part = counts[tiling.index(number)]
        part += 1
        sizes.append(part.size)
    assert (counts == 1).all()
    assert max(sizes) == tiling.largest <= block


def test_blocks_are_of_about_equal_size() -> None:
    tiling = Tiling.of((BLOCK + 2,))
    assert [tiling.index(n) for n in range(tiling.blocks)] == [
        (slice(0, BLOCK // 2 + 1),),
        (slice(BLOCK // 2 + 1, BLOCK + 2),),
    ]


def test_contiguous_tensors_are_laid_out_as_one_dimension() -> None:
    spec = TensorSpec.contiguous((3, 4, 5), dtypes.FLOAT)
    tiling, operands = lay_out((3, 4, 5), [("a", spec), ("b", spec)])
    assert tiling.shape == (60,)
    assert [operand.strides for operand in operands] == [(1,), (1,)]


def test_tensors_transposed_alike_are_walked_along_memory() -> None:
    spec = TensorSpec(dtypes.FLOAT, (3, 4), (1, 3), 0, (12,))
    assert lay_out((3, 4), [("a", spec), ("b", spec)], along_last=True)[0].shape == (12,)
    assert lay_out((3, 4), [("a", spec), ("b", spec)])[0].shape == (3, 4)


def test_broadcast_dimensions_join_where_they_can() -> None:
    full = TensorSpec.contiguous((2, 3, 4, 5), dtypes.FLOAT)
    bias = TensorSpec.contiguous((4, 5), dtypes.FLOAT)
    one = TensorSpec.contiguous((1,), dtypes.FLOAT)
    tiling, (_, flat, single) = lay_out(full.shape, [("a", full), ("b", bias), ("c", one)])
    assert tiling.shape == (6, 20)
    assert (flat.shape, flat.strides) == ((1, 20), (0, 1))
    assert (single.shape, single.strides) == ((1, 1), (0, 0))


SIZES = st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=4).map(tuple)


@given(left=SIZES, right=SIZES)
def test_broadcast_is_numpys(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    try:
        expected = np.broadcast_shapes(left, right)
    except ValueError:
        with pytest.raises(ShapeMismatchError):
            broadcast(left, right)
    else:
        assert broadcast(left, right) == expected


def test_operand_reads_its_elements() -> None:
    memory = np.arange(24, dtype=np.float32).view(np.uint8)
    spec = TensorSpec(dtypes.FLOAT, (2, 3), (-6, 2), 10, (24,))
    _, (operand,) = lay_out((2, 3), [("a", spec)])
    expected = [[10, 12, 14], [4, 6, 8]]
    assert operand.array(memory).tolist() == expected
    assert math.prod(operand.shape) == len(list(itertools.chain(*expected)))
