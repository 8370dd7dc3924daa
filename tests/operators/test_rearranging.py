"""Elements put elsewhere, and tensors that are made: layouts, edges and what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from aclnn.tensors import Scalar
from tests.operators.calling import call, device
from tests.operators.test_movement import numbers, refusal, views


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8])
def test_moved_in_every_layout(dtype: npt.DTypeLike) -> None:
    x = numbers((30, 40, 5), dtype)
    for source in views(x):
        for out in views(np.zeros_like(x)):
            call("aclnnFlip", source, (1, -3), out, on=device(2))
            np.testing.assert_array_equal(out, x[::-1, ::-1])
            call("aclnnRoll", source, (3, -2, 1), (0, 1, 0), out)
            np.testing.assert_array_equal(out, np.roll(x, (4, -2), (0, 1)))
        for repeats in ((2, 1, 3), (3, 1, 2, 2), (1, 1, 1)):
            expected = np.tile(x, repeats)
            for out in views(np.zeros_like(expected))[:3]:
                call("aclnnRepeat", source, repeats, out)
                np.testing.assert_array_equal(out, expected)
        expected = x[2:29:3, :, -4:-1]
        for out in views(np.zeros_like(expected))[:3]:
            call("aclnnSliceV2", source, (2, -4), (29, -1), (0, -1), (3, 1), out)
            np.testing.assert_array_equal(out, expected)


def test_where_input_and_output_are_the_same_memory() -> None:
    for operator, arguments, expected in (
        ("aclnnFlip", ((0,),), numbers((7,))[::-1]),
        ("aclnnRoll", ((2,), ()), np.roll(numbers((7,)), 2)),
    ):
        x = numbers((7,)).copy()
        call(operator, x, *arguments, x)
        np.testing.assert_array_equal(x, expected)


def test_of_no_dimensions_and_no_elements() -> None:
    x, out = np.array(3, np.float32), np.zeros((), np.float32)
    call("aclnnFlip", x, (-1,), out)
    assert out == 3
    out[...] = 0
    call("aclnnRoll", x, (5,), (), out)
    assert out == 3
    several = np.zeros(4, np.float32)
    call("aclnnRepeat", x, (4,), several)
    assert (several == 3).all()
    call("aclnnRepeat", x, (0,), np.zeros(0, np.float32))
    call("aclnnSliceV2", numbers((4, 2)), (3,), (1,), (0,), (1,), np.zeros((0, 2), np.float32))


def test_both_ends_of_a_line_are_met() -> None:
    out = np.zeros(1001, np.float32)
    call("aclnnLinspace", Scalar(0.1, "DOUBLE"), Scalar(0.7, "DOUBLE"), 1001, out)
    assert out[0] == np.float32(0.1)
    assert out[-1] == np.float32(0.7)
    np.testing.assert_allclose(out, np.linspace(0.1, 0.7, 1001), rtol=1e-7)
    one = np.zeros(1, np.int64)
    call("aclnnLinspace", Scalar(5, "INT64"), Scalar(9, "INT64"), 1, one)
    assert one[0] == 5


def test_classes_that_there_are_not() -> None:
    own, out = np.array([-1, 2, 3], np.int64), np.full((3, 3), 9, np.float32)
    on, off = np.ones(1, np.float32), np.zeros((), np.float32)
    call("aclnnOneHot", own, 3, on, off, -1, out)
    np.testing.assert_array_equal(out, [[0, 0, 0], [0, 0, 1], [0, 0, 0]])


def test_a_unit_matrix_with_gaps() -> None:
    room = np.full((8, 6), 9, np.int32)
    call("aclnnEye", 4, 3, room[::2, ::2])
    np.testing.assert_array_equal(room[::2, ::2], np.eye(4, 3))
    assert (room[1::2] == 9).all()


def test_refusals() -> None:
    x = numbers((4, 3))
    assert refusal("aclnnFlip", x, (2,), x) == (161002, "dims")
    assert refusal("aclnnFlip", x, (0, -2), x) == (161002, "dims")
    assert refusal("aclnnRoll", x, (1, 2), (0,), x) == (161002, "dims")
    assert refusal("aclnnRoll", x, (1, 2), (), x) == (161002, "shifts")
    assert refusal("aclnnRepeat", x, (2,), x) == (161002, "repeats")
    assert refusal("aclnnRepeat", x, (2, -1), x) == (161002, "repeats")
    assert refusal("aclnnRepeat", x, (2, 1), x) == (161002, "out")
    assert refusal("aclnnSliceV2", x, (0,), (2,), (0,), (0,), x[:2]) == (161002, "steps")
    assert refusal("aclnnSliceV2", x, (0,), (2,), (0, 1), (1,), x[:2]) == (161002, "axes")
    assert refusal("aclnnSliceV2", x, (0,), (2,), (0,), (1,), x) == (161002, "out")
    assert refusal("aclnnEye", 3, 3, x) == (161002, "out")
    assert refusal("aclnnEye", -1, 3, x) == (161002, "n")
    one, own = np.ones(1, np.float32), np.zeros(4, np.int64)
    assert refusal("aclnnOneHot", own, 3, one, one, 2, x) == (161002, "axis")
    assert refusal("aclnnOneHot", own, 4, one, one, -1, x) == (161002, "out")
    assert refusal("aclnnOneHot", own, 3, x, one, -1, x) == (161002, "onValue")
    bounds = (Scalar(0, "INT64"), Scalar(1, "INT64"))
    assert refusal("aclnnLinspace", *bounds, 3, one) == (161002, "out")
