"""Operators that read or write at places that indexes name, against NumPy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from aclnn.errors import ExecutionFailedError
from tests.operators.calling import Array, call, device
from tests.operators.test_movement import numbers, refusal, views

INDEXES = np.random.default_rng(5).integers(0, 40, 1000)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dim", [0, 1, 2, -2])
def test_index_select(dim: int, dtype: npt.DTypeLike) -> None:
    x = numbers((40, 50, 60))
    index = INDEXES.astype(dtype)
    expected = np.take(x, index, dim)
    for source in views(x):
        for out in views(np.zeros_like(expected))[:3]:
            call("aclnnIndexSelect", source, dim, index, out)
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("shape", [(1000,), (20, 50), (10, 2, 50), ()])
def test_gather_v2_counts_from_the_end_too(shape: tuple[int, ...], dim: int) -> None:
    x = numbers((40, 50, 45), np.float16)
    index = np.array(INDEXES[: math.prod(shape)].reshape(shape))
    index %= x.shape[dim]
    index[index % 3 == 0] -= x.shape[dim]
    expected = np.take(x, index.reshape(shape or (1,)), dim)
    out = np.zeros_like(expected)
    call("aclnnGatherV2", x, dim, index, out, on=device(2))
    np.testing.assert_array_equal(out, expected)


def test_of_a_tensor_without_dimensions() -> None:
    x, out = np.array(7, np.float32), np.array(0, np.float32)
    for operator in ("aclnnGatherV2", "aclnnIndexSelect"):
        out[...] = 0
        call(operator, x, -1, np.zeros(2, np.int32), out)
        assert out == 7


@pytest.mark.parametrize("shape", [(), (5,), (30, 40), (3, 0)])
def test_embedding(shape: tuple[int, ...]) -> None:
    table = numbers((40, 300), ml_dtypes.bfloat16)
    index = np.resize(INDEXES, shape).astype(np.int32)
    out = np.zeros((*shape, 300), ml_dtypes.bfloat16)
    call("aclnnEmbedding", table, index, out)
    np.testing.assert_array_equal(out, table[index])


@pytest.mark.parametrize(
    ("operator", "index"),
    [
        ("aclnnIndexSelect", -1),
        ("aclnnIndexSelect", 4),
        ("aclnnGatherV2", -5),
        ("aclnnGatherV2", 4),
        ("aclnnIndexSelect", 2**40),
    ],
)
def test_an_index_of_no_place_fails_before_anything_is_written(operator: str, index: int) -> None:
    out = np.full((2, 3), 9, np.float32)
    with pytest.raises(ExecutionFailedError, match=f"element {index}; allowed are"):
        call(operator, numbers((4, 3)), 0, np.array([0, index]), out)
    assert (out == 9).all()


def test_empty_sources_write_nothing() -> None:
    out = np.full((2, 3), 9, np.float32)
    call("aclnnGatherV2", np.zeros((0, 3), np.float32), 0, np.zeros(2, np.int64), out)
    assert (out == 9).all()


def test_refusals() -> None:
    x, index, out = (
        np.zeros((4, 3), np.float32),
        np.zeros(2, np.int32),
        np.zeros((2, 3), np.float32),
    )
    assert refusal("aclnnIndexSelect", x, 2, index, out) == (161002, "dim")
    assert refusal("aclnnIndexSelect", x, 0, index[None], out) == (161002, "index")
    assert refusal("aclnnIndexSelect", x, 0, index.astype(np.int16), out) == (161002, "index")
    assert refusal("aclnnGatherV2", x, 1, index, out) == (161002, "out")
    assert refusal("aclnnEmbedding", x, index, np.zeros((2, 2), np.float32)) == (561103, "out")
    assert refusal("aclnnEmbedding", x, index, np.zeros((3, 3), np.float32)) == (161002, "out")
    assert refusal("aclnnEmbedding", x[0], index, np.zeros((2, 3), np.float32)) == (
        161002,
        "weight",
    )


# --- scattering -------------------------------------------------------------------------------------


def added(own: Array, dim: int, index: Array, src: Array) -> Array:
    """The sums, one element at a time."""
    result = own.astype(np.float64 if own.dtype.kind not in "iub" else own.dtype)
    with np.errstate(over="ignore"):
        for place in np.ndindex(index.shape):
            target = list(place)
            target[dim] = index[place]
            result[tuple(target)] += src[place]
    return result.astype(own.dtype)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.uint8])
def test_scatter_add(dim: int, dtype: npt.DTypeLike) -> None:
    own, src = numbers((5, 6, 7)).astype(dtype), (numbers((4, 6, 7)) % 5).astype(dtype)
    index = np.random.default_rng(1).integers(-5, 5, (4, 5, 3))
    for source in views(src):
        for out in views(np.zeros_like(own)):
            call("aclnnScatterAdd", own, dim, index, source, out)
            np.testing.assert_array_equal(out, added(own, dim, index, src))


def test_scatter_add_of_bool_and_without_dimensions() -> None:
    out = np.zeros(3, np.bool_)
    call("aclnnScatterAdd", out, 0, np.array([1, 1]), np.array([True, True]), out)
    assert out.tolist() == [False, True, False]
    one = np.array(2.0, np.float32)
    call("aclnnScatterAdd", one, -1, np.array(0), np.array(3.0, np.float32), one)
    assert one == 5


def test_scatter_add_in_place_fails_before_anything_is_written() -> None:
    own = np.ones(3, np.float32)
    with pytest.raises(ExecutionFailedError):
        call("aclnnScatterAdd", own, 0, np.array([0, 3]), np.ones(2, np.float32), own)
    assert own.tolist() == [1, 1, 1]


def test_scatter_add_without_indexes_copies() -> None:
    own, out = numbers((3, 4)), np.zeros((3, 4), np.float32)
    call("aclnnScatterAdd", own, 0, np.zeros((0, 4), np.float16), own, out)
    np.testing.assert_array_equal(out, own)


def test_scatter_add_refusals() -> None:
    own, index = np.zeros((3, 3), np.float32), np.zeros((1, 3), np.int64)
    assert refusal("aclnnScatterAdd", own, 0, index[0], own, own.copy()) == (161002, "index")
    assert refusal("aclnnScatterAdd", own, 0, index, own[:, :2], own.copy()) == (161002, "index")
    wide = np.zeros((1, 4), np.int64)
    assert refusal("aclnnScatterAdd", own, 0, wide, np.zeros((1, 4), np.float32), own.copy()) == (
        161002,
        "index",
    )
    assert refusal("aclnnScatterAdd", own, 2, index, own, own.copy()) == (161002, "dim")
    assert refusal("aclnnScatterAdd", own, 0, index, own.astype(np.float64), own.copy()) == (
        161002,
        "src",
    )
