"""The gradient of a table from which rows were looked up."""

from __future__ import annotations

import numpy as np
import pytest

from aclnn.errors import ExecutionFailedError, InvalidParameterError
from tests.operators.calling import Array, call, device

NONE = 2**64 - 1


def gradient(
    grad: Array,
    places: Array,
    rows: int,
    padding: int = NONE,
    *,
    scaled: bool = False,
    threads: int = 1,
) -> Array:
    out = np.full((rows, grad.shape[-1]), 7, grad.dtype)
    name = "aclnnEmbeddingDenseBackward"
    call(name, grad, places, rows, padding, scaled, out, on=device(threads))
    return out


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("padding", [NONE, 3])
def test_rows_get_what_was_looked_up(padding: int, scaled: bool) -> None:
    generator = np.random.default_rng(0)
    grad = generator.uniform(-1, 1, (40, 50, 70)).astype(np.float32)
    places = generator.integers(0, 90, (40, 50))
    expected = np.zeros((100, 70))
    np.add.at(expected, places.reshape(-1), grad.reshape(-1, 70))
    if scaled:
        expected /= np.maximum(np.bincount(places.reshape(-1), minlength=100), 1)[:, None]
    expected[padding if padding < 100 else []] = 0
    found = [gradient(grad, places, 100, padding, scaled=scaled, threads=n) for n in (1, 3)]
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[0], found[1])


def test_sums_of_half_precision_are_rounded_once() -> None:
    grad, places = np.full((3000, 1), 1, np.float16), np.zeros(3000, np.int32)
    np.testing.assert_array_equal(gradient(grad, places, 2), [[3000], [0]])


def test_nothing_looked_up_is_0() -> None:
    found = gradient(np.empty((0, 4), np.float32), np.empty(0, np.int64), 3)
    np.testing.assert_array_equal(found, np.zeros((3, 4)))


def test_what_fails() -> None:
    grad = np.ones((2, 3), np.float32)
    with pytest.raises(ExecutionFailedError, match="has the element 5; allowed are 0 to 4"):
        gradient(grad, np.array([0, 5]), 5)
    with pytest.raises(InvalidParameterError, match="grad has shape"):
        gradient(grad, np.array([0, 1, 2]), 5)
