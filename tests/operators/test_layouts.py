"""Any layout of the tensors gives what plain NumPy gives, and touches nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aclnn_server.operators.engines.tiling import BLOCK
from tests.operators.calling import BACKWARD, FORWARD, Array, backward, call, device, forward

TYPES = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
TOLERANCE = {TYPES[0]: 1e-6, TYPES[1]: 1e-3, TYPES[2]: 8e-3}
SINGLE = TYPES[0]


@dataclass
class Layout:
    """A tensor as a view of a larger one."""

    base: Array
    view: Array


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...], *, writable: bool = False) -> Layout:
    """Draws a view of some dtype: permuted, stepped, reversed, offset, and for inputs expanded."""
    dtype = draw(st.sampled_from(TYPES))
    steps = [draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in shape]
    order = draw(st.permutations(range(len(shape))))
    pads = [draw(st.integers(0, 2)) for _ in shape]
    sizes = [pad + size * abs(step) for pad, size, step in zip(pads, shape, steps, strict=True)]
    seed = draw(st.integers(0, 1 << 32))
    values = np.random.default_rng(seed).standard_normal([sizes[axis] for axis in order]) * 1.5
    base = np.asarray(values, dtype)
    index = tuple(
        slice(pad, pad + size * step, step)
        if step > 0
        else slice(pad + size * -step - 1, pad - 1 if pad else None, step)
        for pad, size, step in zip(pads, shape, steps, strict=True)
    )
    view = base.transpose([order.index(axis) for axis in range(len(shape))])[(..., *index)]
    if not writable and shape and draw(st.booleans()):
        axis = draw(st.integers(0, len(shape) - 1))
        first = view[(slice(None),) * axis + (slice(0, 1),)]
        view = np.broadcast_to(first, shape) if shape[axis] else view
    return Layout(base, view)


@st.composite
def broadcastable(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Draws a shape that broadcasts to another."""
    kept = draw(st.integers(0, len(shape)))
    return tuple(draw(st.sampled_from([1, size])) for size in shape[len(shape) - kept :])


SHAPES = st.lists(st.integers(1, 4), max_size=8).map(tuple).filter(lambda s: math.prod(s) <= 500)


def _common(*arrays: Array) -> np.dtype[np.generic]:
    types = {array.dtype for array in arrays}
    return types.pop() if len(types) == 1 else SINGLE


def _gradient(grad: Array, x: Array, y: Array, reduction: int, beta: float) -> Array:
    """The formula in float64, from inputs whose difference is rounded to float32 as promised."""
    difference = (x.astype(np.float32) - y.astype(np.float32)).astype(np.float64)
    slope = np.sign(difference) if beta == 0 else np.clip(difference / beta, -1, 1)
    result = grad.astype(np.float64) * slope
    return result / result.size if reduction == 1 else result


@given(data=st.data(), shape=SHAPES, reduction=st.integers(0, 2))
def test_gradient(data: st.DataObject, shape: tuple[int, ...], reduction: int) -> None:
    grad, x, y = (data.draw(layouts(data.draw(broadcastable(shape)))).view for _ in range(3))
    full = np.broadcast_shapes(grad.shape, x.shape, y.shape)
    out = data.draw(layouts(full, writable=True))
    beta = data.draw(st.sampled_from([0.0, 0.5, 1.0, 3.25]))
    before = out.base.copy()
    call(BACKWARD, grad, x, y, reduction, beta, out.view)
    _check(out, _gradient(grad, x, y, reduction, beta), _common(grad, x, y), before)


@given(data=st.data(), shape=SHAPES)
def test_loss(data: st.DataObject, shape: tuple[int, ...]) -> None:
    x, y = (data.draw(layouts(data.draw(broadcastable(shape)))).view for _ in range(2))
    out = data.draw(layouts(np.broadcast_shapes(x.shape, y.shape), writable=True))
    before = out.base.copy()
    call(FORWARD, x, y, 0, 1.0, out.view)
    _check(out, _losses(x, y), _common(x, y), before)


@given(data=st.data(), shape=SHAPES, mean=st.booleans())
def test_loss_reduced(data: st.DataObject, shape: tuple[int, ...], mean: bool) -> None:
    x, y = (data.draw(layouts(data.draw(broadcastable(shape)))).view for _ in range(2))
    out = data.draw(layouts((1, 1), writable=True))
    before = out.base.copy()
    call(FORWARD, x, y, 1 if mean else 2, 1.0, out.view)
    losses = _losses(x, y)
    expected = np.full((1, 1), losses.mean() if mean else losses.sum())
    _check(out, expected, _common(x, y), before)


def _losses(x: Array, y: Array) -> Array:
    distance = np.abs(x.astype(np.float64) - y.astype(np.float64))
    losses: Array = np.where(distance < 1, distance * distance / 2, distance - 0.5)
    return losses


def _check(out: Layout, expected: Array, common: np.dtype[np.generic], before: Array) -> None:
    """Compares the view, and that the rest of its base kept its bits."""
    tolerance = max(TOLERANCE[np.dtype(common)], TOLERANCE[out.view.dtype])
    found = out.view.astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    untouched = out.base.copy()
    view = _same_view(out, untouched)
    view[...] = _same_view(out, before)
    assert untouched.tobytes() == before.tobytes()


def _same_view(out: Layout, base: Array) -> Array:
    """The view of another array that lies as `out.view` does in its base."""
    offset = out.view.ctypes.data - out.base.ctypes.data
    memory = base.reshape(-1).view(np.uint8)
    view: Array = np.ndarray(out.view.shape, base.dtype, memory.data, offset, out.view.strides)
    return view


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@settings(max_examples=20)
@given(data=st.data())
def test_gradient_of_several_blocks(dtype: np.dtype[np.generic], data: st.DataObject) -> None:
    rows = data.draw(st.integers(2, 5))
    columns = data.draw(st.sampled_from([BLOCK // 2 + 3, BLOCK, BLOCK + 1, 3 * BLOCK]))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = generator.standard_normal((rows, columns), np.float32).astype(dtype)
    y = generator.standard_normal(columns, np.float32).astype(dtype)
    grad = generator.standard_normal((columns, rows), np.float32).astype(dtype).T
    if data.draw(st.booleans()):
        x, y = x[:, ::-1], y[::-1]
    result = backward(grad, x, y, on=device(threads=2))
    np.testing.assert_allclose(
        result.astype(np.float64),
        _gradient(grad, x, y, 0, 1.0),
        rtol=TOLERANCE[np.dtype(dtype)],
        atol=TOLERANCE[np.dtype(dtype)],
    )


@pytest.mark.parametrize("rank", range(9))
def test_every_rank(rank: int) -> None:
    shape = (2,) * rank
    x = np.asarray(np.arange(2**rank, dtype=np.float32).reshape(shape) - 3)
    result = backward(np.ones((), np.float32), x, np.zeros(shape, np.float32))
    np.testing.assert_array_equal(result, np.clip(x, -1, 1))
    np.testing.assert_allclose(
        forward(x, np.zeros(1, np.float32)).reshape(shape), _losses(x, np.zeros(shape))
    )


def test_odd_addresses() -> None:
    memory = np.zeros(4 * 5000 + 1, np.uint8)
    x = memory[1:].view(np.float32)
    x[...] = np.linspace(-2, 2, 5000, dtype=np.float32)
    result = backward(np.ones(1, np.float32), x, np.zeros(1, np.float32))
    np.testing.assert_array_equal(result, np.clip(x, -1, 1))
