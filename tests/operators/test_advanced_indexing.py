"""Places that several indexes name together, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn.errors import ExecutionFailedError
from aclnn.tensors import Scalar
from tests.operators.calling import Array, call
from tests.operators.test_movement import numbers, refusal, views

GENERATOR = np.random.default_rng(17)
WHOLE = np.zeros(0, np.float32)


def taken(x: Array, indices: list[Array]) -> Array:
    key = tuple(slice(None) if index is WHOLE else index for index in indices)
    expected = x[key]
    out = np.zeros_like(expected)
    call("aclnnIndex", x, indices, out)
    np.testing.assert_array_equal(out, expected)
    return out


@given(st.data())
def test_any_indexes_of_any_dimensions(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    shape = tuple(data.draw(st.integers(1, 4)) for _ in range(rank))
    together = data.draw(st.sampled_from([(), (3,), (2, 3), (2, 1)]))
    x = numbers(shape)
    indices = [
        WHOLE
        if data.draw(st.booleans())
        else GENERATOR.integers(-size, size, together).astype(np.int64)
        for size in shape[: data.draw(st.integers(1, rank))]
    ]
    if all(index is WHOLE for index in indices):
        return
    found = taken(x, indices)
    own = np.zeros_like(x)
    key: Any = tuple(slice(None) if index is WHOLE else index for index in indices)
    expected = own.copy()
    np.add.at(expected, key, found)
    call("aclnnIndexPutImpl", own, indices, found, True, False)
    np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.bool_])
def test_of_every_layout(dtype: npt.DTypeLike) -> None:
    x = numbers((12, 7, 9), dtype)
    first, second = GENERATOR.integers(0, 12, (5, 1)), GENERATOR.integers(-9, 9, 4)
    for source in views(x):
        found = taken(source, [first, WHOLE, second.astype(np.int32)])
        np.testing.assert_array_equal(found, x[first, :, second])


def test_masks() -> None:
    x = numbers((4, 5, 3))
    mask = GENERATOR.random((4, 5)) < 0.5
    taken(x, [mask])
    taken(x, [WHOLE, mask[0]])
    own = x.copy()
    call("aclnnIndexPutImpl", own, [mask.astype(np.uint8)], np.full(1, 7, np.float32), False, False)
    np.testing.assert_array_equal(own, np.where(mask[..., None], np.float32(7), x))


def test_a_mask_of_another_number_of_places_fails() -> None:
    x, mask = numbers((4, 3)), np.array([True, False, True, False])
    out = np.full((3, 3), 9, np.float32)
    with pytest.raises(
        ExecutionFailedError, match=r"name \[2, 3\] elements; out has shape \[3, 3\]"
    ):
        call("aclnnIndex", x, [mask], out)
    assert (out == 9).all()
    with pytest.raises(ExecutionFailedError, match="values have shape"):
        call("aclnnIndexPutImpl", x, [mask], out, False, False)
    with pytest.raises(ExecutionFailedError, match="do not meet"):
        call("aclnnIndex", x, [mask, np.array([0, 1, 2])], out)


@pytest.mark.parametrize("index", [-5, 4])
def test_an_index_of_no_place_fails_before_anything_is_written(index: int) -> None:
    own, before = numbers((4, 3)), numbers((4, 3))
    values = np.zeros((2, 3), np.float32)
    for unsafe in (False, True):
        with pytest.raises(ExecutionFailedError, match=f"element {index}; allowed are -4 to 3"):
            call("aclnnIndexPutImpl", own, [np.array([0, index])], values, False, unsafe)
    np.testing.assert_array_equal(own, before)


def test_sums_of_16_bits_are_rounded_once() -> None:
    own = np.full(1, 2048, np.float16)
    call("aclnnIndexPutImpl", own, [np.zeros(9, np.int64)], np.ones(9, np.float16), True, False)
    assert own[0] == 2056  # 2048 + 1 is 2048 in FLOAT16
    call(
        "aclnnIndexAdd",
        own,
        0,
        np.zeros(4, np.int32),
        np.ones(4, np.float16),
        Scalar(1, "INT64"),
        own,
    )
    assert own[0] == 2060


def test_the_last_of_several_is_written_and_values_broadcast() -> None:
    own = np.zeros((3, 2), np.int32)
    index = np.array([1, 0, 1])
    call("aclnnIndexPutImpl", own, [index], np.arange(1, 4, dtype=np.int32)[:, None], False, False)
    assert own.tolist() == [[2, 2], [3, 3], [0, 0]]


def test_values_that_lie_in_what_is_written() -> None:
    own = numbers((6,)).copy()
    expected = own.copy()
    expected[np.arange(6)] = expected[::-1].copy()
    call("aclnnIndexPutImpl", own, [np.arange(6)], own[::-1], False, False)
    np.testing.assert_array_equal(own, expected)


# --- one dimension ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather_and_scatter_undo_each_other(dim: int) -> None:
    x = numbers((6, 5, 7), np.float16)
    index = np.argsort(GENERATOR.random(x.shape), dim)
    for source in views(x):
        out, back = np.zeros_like(x), np.zeros_like(x)
        call("aclnnGather", source, dim, index, out)
        np.testing.assert_array_equal(out, np.take_along_axis(x, index, dim))
        call("aclnnScatter", back, dim, index - x.shape[dim], out, 0, back)
        np.testing.assert_array_equal(back, x)


def test_gather_of_fewer_places() -> None:
    x, index = numbers((4, 5)), np.array([[1, 0], [3, 3]], np.int32)
    out = np.zeros((2, 2), np.float32)
    call("aclnnGather", x, 0, index, out)
    np.testing.assert_array_equal(out, [[x[1, 0], x[0, 1]], [x[3, 0], x[3, 1]]])


def test_scatter_adds_and_multiplies_what_comes_several_times() -> None:
    own, index = np.full((1, 3), 2, np.float32), np.array([[1, 1, 2]])
    call("aclnnInplaceScatter", own, 1, index, np.arange(3, 6, dtype=np.float32)[None], 1)
    assert own.tolist() == [[2, 9, 7]]
    call("aclnnInplaceScatterValue", own, 1, index, Scalar(2, "INT64"), 2)
    assert own.tolist() == [[2, 36, 14]]
    call("aclnnInplaceScatter", own, 1, index, np.arange(3, 6, dtype=np.float32)[None], 0)
    assert own.tolist() == [[2, 4, 5]]


@pytest.mark.parametrize("operator", ["aclnnGather", "aclnnScatterValue", "aclnnIndexAdd"])
def test_an_index_outside_fails(operator: str) -> None:
    x, out = numbers((3,)), np.full(3, 9, np.float32)
    index = np.array([0, 3, 1])
    one = Scalar(1, "INT64")
    rest: dict[str, tuple[Any, ...]] = {
        "aclnnGather": (),
        "aclnnScatterValue": (one, 0),
        "aclnnIndexAdd": (x, one),
    }
    with pytest.raises(ExecutionFailedError, match="element 3; allowed are -3 to 2"):
        call(operator, x, 0, index, *rest[operator], out)
    assert (out == 9).all()


def test_refusals() -> None:
    x, index = numbers((4, 3)), np.zeros(2, np.int64)
    out = np.zeros((2, 3), np.float32)
    assert refusal("aclnnIndex", x, [index.astype(np.int16)], out) == (161002, "indices")
    assert refusal("aclnnIndex", x, [index, np.zeros(3, np.int64)], out) == (161002, "indices")
    assert refusal("aclnnIndex", x, [index, index, index], out) == (161002, "indices")
    assert refusal("aclnnIndex", x, [np.ones((3, 4), np.bool_)], out) == (161002, "indices")
    assert refusal("aclnnIndex", x, [index], out[:1]) == (161002, "out")
    assert refusal("aclnnIndexPutImpl", x, [index], x, False, False) == (161002, "values")
    assert refusal("aclnnGather", x, 0, index, out) == (161002, "index")
    assert refusal("aclnnGather", x, 0, np.zeros((2, 4), np.int64), out) == (161002, "index")
    square = np.zeros((2, 3), np.int64)
    assert refusal("aclnnScatter", x, 0, square, out[:1], 0, x) == (161002, "index")
    assert refusal("aclnnScatter", x, 0, square, out, 3, x) == (161002, "reduce")
    one = Scalar(1, "INT64")
    assert refusal("aclnnIndexAdd", x, 0, index, x, one, x) == (161002, "source")
