"""Arithmetic on lists of tensors: memory that is shared, places that differ, and what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from aclnn.tensors import Scalar
from tests.operators.calling import Array, call, device
from tests.operators.test_movement import numbers, refusal, views

HALF = Scalar(0.5, "FLOAT")


def lists(count: int, dtype: npt.DTypeLike = np.float32) -> list[list[Array]]:
    generator = np.random.default_rng(3)
    shapes = ((4, 5), (), (0, 3), (7,))
    return [
        [generator.uniform(1, 2, shape).astype(dtype) for shape in shapes] for _ in range(count)
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_step_of_momentum_in_place(dtype: npt.DTypeLike) -> None:
    weights, moments, gradients = lists(3, dtype)
    wide = [[array.astype(np.float32) for array in row] for row in (weights, moments, gradients)]
    call("aclnnForeachMulScalarV2", moments, Scalar(0.9, "DOUBLE"), moments)
    call("aclnnForeachAddListV2", moments, gradients, Scalar(1, "INT64"), moments)
    call("aclnnForeachAddListV2", weights, moments, Scalar(-0.1, "DOUBLE"), weights)
    for weight, own, moment, gradient in zip(weights, *wide, strict=True):
        once = (moment * np.float32(0.9)).astype(dtype).astype(np.float32)
        total = (once + gradient).astype(dtype).astype(np.float32)
        expected = (own + total * np.float32(-0.1)).astype(dtype)
        np.testing.assert_array_equal(weight, expected)


def test_each_place_has_its_number() -> None:
    (x,) = lists(1)
    out = [np.zeros_like(array) for array in x]
    scalars = tuple(Scalar(number, "DOUBLE") for number in (1, 2, 4, 8))
    call("aclnnForeachDivScalarList", x, scalars, out)
    for found, array, number in zip(out, x, (1, 2, 4, 8), strict=True):
        np.testing.assert_array_equal(found, array / np.float32(number))
    in_tensor = np.array([1, 2, 4, 8], np.float32)
    call("aclnnForeachAddcmulScalarList", x, x, x, in_tensor, out)
    for found, array, number in zip(out, x, (1, 2, 4, 8), strict=True):
        np.testing.assert_array_equal(found, array + array * array * np.float32(number))


def test_a_number_in_a_tensor_may_have_another_type() -> None:
    (x,) = lists(1, np.float16)
    call("aclnnForeachMulScalar", x, np.array(0.5, np.float32), x)
    np.testing.assert_array_equal(x[0], (lists(1, np.float16)[0][0] / 2).astype(np.float16))


def test_strided_tensors() -> None:
    x = numbers((30, 40))
    tensors = views(x)
    out = [np.zeros_like(x) for _ in tensors]
    call("aclnnForeachSubScalarV2", tensors, Scalar(3, "INT64"), out, on=device(2))
    for found in out:
        np.testing.assert_array_equal(found, x - 3)


@pytest.mark.parametrize("threads", [1, 3])
def test_norms_of_large_tensors(threads: int) -> None:
    x = np.random.default_rng(1).standard_normal((700, 701)).astype(np.float32)
    tensors = [x, np.asfortranarray(x), x[:3]]
    out = [np.zeros(1, np.float32), np.zeros((), np.float32), np.zeros((), np.float32)]
    call("aclnnForeachNorm", tensors, Scalar(2, "INT64"), out, on=device(threads))
    expected = [np.linalg.norm(array.astype(np.float64)) for array in tensors]
    np.testing.assert_allclose([array.item() for array in out], expected, rtol=2e-7)
    assert out[0].item() == np.float32(expected[0])


def test_norms_of_nothing_and_of_what_is_no_number() -> None:
    out = [np.ones((), np.float32), np.ones((), np.float32)]
    nothing, odd = np.zeros((0, 3), np.float32), np.array([1, np.nan], np.float32)
    for order in (1, 2, np.inf):
        call("aclnnForeachNorm", [nothing, odd], Scalar(float(order), "FLOAT"), out)
        assert out[0] == 0
        assert np.isnan(out[1])


def test_lists_without_tensors() -> None:
    call("aclnnForeachAddScalarV2", [], HALF, [])
    call("aclnnForeachZeroInplace", [])


def test_refusals() -> None:
    x, y = lists(2)
    assert refusal("aclnnForeachMulList", x, y[:3], x) == (161002, "x2")
    assert refusal("aclnnForeachMulList", x, y[::-1], x) == (161002, "x2")
    assert refusal("aclnnForeachMulList", x, y, lists(1, np.float16)[0]) == (161002, "out")
    assert refusal("aclnnForeachMulList", None, y, x) == (161001, "x1")
    whole = lists(1, np.int32)[0]
    assert refusal("aclnnForeachSqrt", whole, whole) == (161002, "x")
    assert refusal("aclnnForeachDivScalarList", x, (HALF,), x) == (161002, "scalars")
    two = np.zeros(2, np.float32)
    assert refusal("aclnnForeachAddcdivScalarList", x, y, y, two, x) == (161002, "scalars")
    assert refusal("aclnnForeachNorm", x, HALF, x) == (161002, "out")


def test_scaled_gradients() -> None:
    """Rounded once; the mark is set by any element, at any number of threads, and never cleared."""
    odd = np.ones((3, 200_000), np.float16)
    odd[2, 150_000] = -np.inf
    for threads in (1, 2):
        grads = [np.full(7, 3, np.float16), np.ones((0, 3), np.float16), odd.copy()]
        found = np.zeros(1, np.float32)
        factor = np.full(1, 1 / 3, np.float32)
        call("aclnnForeachNonFiniteCheckAndUnscale", grads[:2], found, factor, on=device(threads))
        assert (grads[0].tolist(), found.tolist()) == ([1.0] * 7, [0.0])
        call("aclnnForeachNonFiniteCheckAndUnscale", grads, found, factor, on=device(threads))
        assert found.tolist() == [1.0]
        assert grads[2][2, 150_000] == -np.inf
        assert np.unique(grads[2][:2]).tolist() == [np.float16(1 / 3)]
        # Numbers of no dimension do as well.
        mark, one = np.array(1, np.float32), np.array(1, np.float32)
        call("aclnnForeachNonFiniteCheckAndUnscale", grads[:1], mark, one, on=device(threads))
        assert mark == 1
    two = np.ones(2, np.float32)
    assert refusal("aclnnForeachNonFiniteCheckAndUnscale", grads, two, factor) == (
        161002,
        "foundInf",
    )
    assert refusal("aclnnForeachNonFiniteCheckAndUnscale", grads, found, two) == (
        161002,
        "invScale",
    )


@pytest.mark.parametrize(
    ("scale", "good", "overflow", "expected"),
    [
        (8.0, 5, 1.0, (2.0, 0)),
        (8.0, 5, 0.0, (8.0, 6)),
        (8.0, 6, 0.0, (16.0, 0)),
        (3e38, 6, 0.0, (3e38, 0)),
        (8.0, 6, float("nan"), (2.0, 0)),
    ],
)
def test_the_scale_of_losses(
    scale: float, good: int, overflow: float, expected: tuple[float, int]
) -> None:
    """In place, with numbers of no dimension, as torch.amp has them."""
    own, count = np.array(scale, np.float32), np.array(good, np.int32)
    found = np.array(overflow, np.float32)
    call("aclnnAmpUpdateScale", own, count, found, 2.0, 0.25, 7, own, count)
    assert own == np.float32(expected[0])
    assert count == expected[1]
