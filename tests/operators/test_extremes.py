"""The greatest and least elements: NaN, ties, and blocks that are merged."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from aclnn_server.operators.engines.tiling import BLOCK
from tests.operators.calling import Array, call, device
from tests.operators.test_movement import numbers, refusal, views


def extremes(x: Array) -> tuple[Any, Any]:
    greatest, least = np.zeros((), x.dtype), np.zeros((1,), x.dtype)
    call("aclnnMax", x, greatest, on=device(2))
    call("aclnnMin", x, least, on=device(2))
    return greatest, least[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.uint8])
def test_of_all_elements_in_every_layout(dtype: npt.DTypeLike) -> None:
    x = numbers((40, 50, 60)).clip(0).astype(dtype)
    x[17, 3, 5] = 99
    for source in views(x):
        assert extremes(source) == (99, 0)


def test_nan_is_the_result() -> None:
    x = np.zeros(3 * BLOCK, np.float32)
    x[2 * BLOCK + 5] = np.nan
    assert np.isnan(extremes(x)).all()


def test_the_result_is_cast() -> None:
    out = np.zeros((), np.int32)
    call("aclnnMax", np.array([1.75, -3], np.float32), out)
    assert out == 1


def test_the_first_of_several_and_the_first_nan() -> None:
    x = np.zeros((2, 3 * BLOCK), np.float32)
    x[:, [BLOCK + 9, 2 * BLOCK + 1]] = -5
    x[1, [2 * BLOCK + 5, 2 * BLOCK + 7]] = np.nan
    out, places = np.zeros(2, np.float32), np.zeros(2, np.int64)
    call("aclnnMinDim", x, 1, False, out, places, on=device(3))
    assert places.tolist() == [BLOCK + 9, 2 * BLOCK + 5]
    assert out[0] == -5
    assert np.isnan(out[1])
    call("aclnnArgMin", x, -1, False, places)
    assert places.tolist() == [BLOCK + 9, 2 * BLOCK + 5]


def test_of_an_empty_tensor_nothing_is_computed() -> None:
    out = np.full((), 5, np.float32)
    call("aclnnMax", np.zeros((0, 3), np.float32), out)
    assert out == 5


def test_refusals() -> None:
    x, out = numbers((2, 3)), np.zeros((), np.float32)
    assert refusal("aclnnMax", x, np.zeros(2, np.float32)) == (161002, "out")
    assert refusal("aclnnMin", x.astype(np.complex64), out) == (161002, "self")
    assert refusal("aclnnArgMin", x, 2, False, np.zeros(2, np.int64)) == (161002, "dim")
    assert refusal("aclnnMinDim", x, 1, False, np.zeros(2, np.int64), np.zeros(2, np.int64)) == (
        161002,
        "out",
    )
