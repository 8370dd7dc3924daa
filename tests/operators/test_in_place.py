"""Inputs may share memory with the output."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.operators.calling import BACKWARD, FORWARD, Array, backward, call, device, forward

SIZE = 300_000
TYPES = (np.float32, np.float16, ml_dtypes.bfloat16)


def inputs(dtype: type, size: int = SIZE) -> list[Array]:
    generator = np.random.default_rng(3)
    return [generator.standard_normal(size, np.float32).astype(dtype) for _ in range(3)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shared", [0, 1, 2])
@pytest.mark.parametrize("reduction", [0, 1])
def test_gradient_over_an_input(dtype: type, shared: int, reduction: int) -> None:
    arrays = inputs(dtype)
    expected = backward(*arrays, reduction=reduction)
    call(BACKWARD, *arrays, reduction, 1.0, arrays[shared], on=device(threads=2))
    np.testing.assert_array_equal(arrays[shared], expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_one_tensor_in_every_place(dtype: type) -> None:
    x = inputs(dtype)[0]
    expected = backward(x, x, np.zeros(1, dtype), beta=0.5)
    call(BACKWARD, x, x, np.zeros(1, dtype), 0, 0.5, x)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("shared", [0, 1])
@pytest.mark.parametrize("beta", [0.0, 1.0, float("inf")])
def test_loss_over_an_input(shared: int, beta: float) -> None:
    arrays = inputs(np.float32)[:2]
    expected = forward(*arrays, beta=beta)
    call(FORWARD, *arrays, 0, beta, arrays[shared])
    np.testing.assert_array_equal(arrays[shared], expected)


@pytest.mark.parametrize("shift", [-1, 1, 70_000])
def test_output_shifted_against_an_input(shift: int) -> None:
    memory = inputs(np.float32, 2 * SIZE)[0]
    middle = SIZE // 2
    x, out = memory[middle : middle + SIZE], memory[middle + shift : middle + shift + SIZE]
    grad, _, y = inputs(np.float32)
    expected = backward(grad, x.copy(), y)
    call(BACKWARD, grad, x, y, 0, 1.0, out, on=device(threads=2))
    np.testing.assert_array_equal(out, expected)


def test_output_over_a_broadcast_input() -> None:
    x = inputs(np.float32)[0]
    grad = x[5:6]
    expected = backward(grad.copy(), x.copy(), np.zeros(1, np.float32))
    call(BACKWARD, grad, x, np.zeros(1, np.float32), 0, 1.0, x)
    np.testing.assert_array_equal(x, expected)


def test_output_between_the_elements_of_an_input() -> None:
    memory = inputs(np.float32)[0]
    x, out = memory[::2], memory[1::2]
    kept = x.copy()
    expected = backward(np.ones(1, np.float32), kept, np.zeros(1, np.float32))
    call(BACKWARD, np.ones(1, np.float32), x, np.zeros(1, np.float32), 0, 1.0, out)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(x, kept)
