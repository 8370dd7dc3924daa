"""The same bits at every run and at every number of threads."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from aclnn_server.operators.engines.tiling import BLOCK
from tests.operators.calling import Array, backward, call, device, forward

TYPES = (np.float32, np.float16, ml_dtypes.bfloat16)


def inputs(dtype: type) -> tuple[Array, Array, Array]:
    generator = np.random.default_rng(11)
    shape = (7, BLOCK + 77)
    grad, x, y = (generator.standard_normal(shape, np.float32) for _ in range(3))
    return grad.astype(dtype), x.astype(dtype), y.astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_gradient(dtype: type) -> None:
    arrays = inputs(dtype)
    results = {
        backward(*arrays, reduction=1, beta=0.7, on=device(threads)).tobytes()
        for threads in (1, 2, 3, 2, 3)
    }
    assert len(results) == 1


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_loss(dtype: type, reduction: int) -> None:
    _, x, y = inputs(dtype)
    results = {
        forward(x, y, reduction=reduction, out=np.float64, on=device(threads)).tobytes()
        for threads in (1, 2, 3, 2, 3)
    }
    assert len(results) == 1


def test_sum_does_not_depend_on_the_layout_in_memory() -> None:
    _, x, y = inputs(np.float32)
    turned, reversed_y = np.asfortranarray(x), y[::-1].copy()[::-1]
    rows = {forward(a, b, reduction=2).item() for a, b in ((x, y), (x, reversed_y))}
    assert len(rows) == 1
    np.testing.assert_allclose(forward(turned, y, reduction=2).item(), rows.pop(), rtol=1e-6)


@pytest.mark.parametrize("operator", ["aclnnExp", "aclnnSqrt", "aclnnAbs"])
def test_one_function_over_long_blocks(operator: str) -> None:
    x = np.random.default_rng(3).uniform(0.1, 9, 9 * BLOCK + 77).astype(np.float32)
    apart = np.repeat(x, 2)[::2]
    results = set()
    for source, threads in ((x, 1), (x, 2), (x, 3), (apart, 1), (apart, 3)):
        out = np.empty_like(x)
        call(operator, source, out, on=device(threads))
        results.add(out.tobytes())
    assert len(results) == 1
