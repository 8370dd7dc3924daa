"""Many small tensors are joined at once; what comes out is what copies one by one give."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from aclnn_server.operators.engines.tiling import BLOCK
from tests.operators.calling import Array, call, device

TYPES = (np.float32, ml_dtypes.bfloat16, np.bool_, np.complex64)


def pieces(dtype: type, *shape: int) -> list[Array]:
    generator = np.random.default_rng(5)
    return [(generator.random(shape) * 9).astype(dtype) for _ in range(40)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_cat_and_stack(dtype: type, dim: int) -> None:
    parts = pieces(dtype, 2, 3, 4)
    for operator, join in (("aclnnCat", np.concatenate), ("aclnnStack", np.stack)):
        expected: Array = join(parts, dim)
        out = np.zeros_like(expected)
        call(operator, parts, dim, out)
        np.testing.assert_array_equal(out, expected)


def test_sizes_may_differ() -> None:
    parts = [np.arange(size, dtype=np.int32) for size in (3, 1, 7, 2)]
    out = np.zeros(13, np.int32)
    call("aclnnCat", parts, 0, out)
    np.testing.assert_array_equal(out, np.concatenate(parts))


def test_strided_tensors_and_outputs() -> None:
    parts = [part[:, ::2] for part in pieces(np.float32, 4, 6)]
    room = np.zeros((320, 3), np.float32)
    call("aclnnCat", parts, 0, room[::2])
    np.testing.assert_array_equal(room[::2], np.concatenate(parts))
    assert not room[1::2].any()


@pytest.mark.parametrize("threads", [1, 2])
def test_more_than_a_block(threads: int) -> None:
    parts = [np.full((3, BLOCK // 3), place, np.float32) for place in range(20)]
    for dim in (0, 1):
        expected = np.concatenate(parts, dim)
        out = np.zeros_like(expected)
        call("aclnnCat", parts, dim, out, on=device(threads))
        np.testing.assert_array_equal(out, expected)


def test_tensors_that_lie_in_the_output_are_read_before_it_is_written() -> None:
    out = np.arange(12, dtype=np.float32)
    parts = [out[8:], out[4:8], out[:4]]
    expected = np.concatenate(parts)
    call("aclnnCat", parts, 0, out)
    np.testing.assert_array_equal(out, expected)
