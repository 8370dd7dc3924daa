"""Convolutions: windows, transposed ones, gradients, blocks, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.errors import InvalidParameterError, NullPointerError
from aclnn.tensors import TensorSpec
from aclnn_server import linear_algebra
from tests.operators.calling import Array, call, device

FORWARD, BACKWARD = "aclnnConvolution", "aclnnConvolutionBackward"
Shape = tuple[int, ...]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def forward(
    x: Array,
    weight: Array,
    out: Shape,
    *,
    bias: Array | None = None,
    stride: Shape = (1, 1),
    padding: Shape = (0, 0),
    dilation: Shape = (1, 1),
    transposed: bool = False,
    more: Shape = (0, 0),
    groups: int = 1,
    cube: int = 0,
    on: Any = None,  # noqa: ANN401
) -> Array:
    result = np.full(out, 7, np.float32)
    settings = (stride, padding, dilation, transposed, more, groups)
    call(FORWARD, x, weight, bias, *settings, result, cube, on=on)
    return result


def window_by_window(x: Array, weight: Array, stride: Shape, padding: Shape) -> Array:
    """The sum over each window, in DOUBLE; paddings of both ends of each dimension."""
    top, bottom, left, right = padding
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    height, width = weight.shape[2:]
    rows = range(0, wide.shape[2] - height + 1, stride[0])
    columns = range(0, wide.shape[3] - width + 1, stride[1])
    out = np.empty((x.shape[0], weight.shape[0], len(rows), len(columns)))
    for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
        part = wide[:, :, row : row + height, column : column + width]
        out[:, :, i, j] = np.tensordot(part, weight.astype(np.float64), ((1, 2, 3), (1, 2, 3)))
    return out


@pytest.mark.parametrize("padding", [(0, 0), (2, 1), (2, 0, 1, 3)], ids=str)
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)], ids=str)
def test_sums_over_windows(stride: Shape, padding: Shape) -> None:
    x, weight = numbers(2, 3, 8, 9), numbers(4, 3, 3, 2, seed=1)
    both = padding if len(padding) == 4 else tuple(np.repeat(padding, 2))
    expected = window_by_window(x, weight, stride, both)
    found = forward(x, weight, expected.shape, stride=stride, padding=padding)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_groups_see_their_own_channels_only() -> None:
    x, weight = numbers(2, 6, 5, 5), numbers(4, 3, 3, 3, seed=1)
    found = forward(x, weight, (2, 4, 3, 3), groups=2)
    halves = [
        forward(x[:, 3 * half : 3 * half + 3], weight[2 * half : 2 * half + 2], (2, 2, 3, 3))
        for half in (0, 1)
    ]
    np.testing.assert_allclose(found, np.concatenate(halves, 1), rtol=1e-6, atol=1e-6)


def test_dilation_is_a_kernel_with_holes() -> None:
    x, weight = numbers(1, 2, 7, 7), numbers(3, 2, 2, 2, seed=1)
    holes = np.zeros((3, 2, 3, 4), np.float32)
    holes[:, :, ::2, ::3] = weight
    found = forward(x, weight, (1, 3, 5, 4), dilation=(2, 3))
    np.testing.assert_allclose(found, forward(x, holes, (1, 3, 5, 4)), rtol=1e-6, atol=1e-6)


def test_transposed_undoes_the_sizes_and_spreads_each_element() -> None:
    x, weight, bias = numbers(1, 1, 2, 2), numbers(1, 2, 2, 2, seed=1), numbers(2, seed=2)
    more: Any = {"stride": (2, 2), "transposed": True, "more": (1, 0)}
    found = forward(x, weight, (1, 2, 5, 4), bias=bias, **more)
    expected = np.zeros((1, 2, 5, 4), np.float32)
    for row, column in itertools.product((0, 1), (0, 1)):
        spread = x[0, 0, row, column] * weight[0]
        expected[0, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2] = spread
    np.testing.assert_allclose(found, expected + bias[:, None, None], rtol=1e-6)


def test_infinity_stays_in_its_windows() -> None:
    x = np.zeros((1, 1, 6, 6), np.float32)
    x[0, 0, 0, 0] = np.inf
    found = forward(x, np.ones((1, 1, 2, 2), np.float32), (1, 1, 5, 5))
    assert np.isinf(found[0, 0, 0, 0])
    assert np.count_nonzero(found) == 1


@pytest.mark.parametrize("groups", [1, 4])
def test_many_blocks_are_one_computation(groups: int) -> None:
    """As many samples, rows and groups as make several blocks, at several numbers of threads."""
    x, weight = numbers(6, 8, 120, 70), numbers(8, 8 // groups, 3, 3, seed=1)
    out, grad = (6, 8, 120, 70), numbers(6, 8, 120, 70, seed=2)
    settings = ((1, 1), (1, 1), (1, 1), False, (0, 0), groups)
    results = []
    for threads in (1, 3):
        on = device(threads)
        found = forward(x, weight, out, padding=(1, 1), groups=groups, on=on)
        slopes = [np.full(shape, 7, np.float32) for shape in (x.shape, weight.shape, (8,))]
        call(BACKWARD, grad, x, weight, (8,), *settings, (True,) * 3, 0, *slopes, on=on)
        results.append([found, *slopes])
    for left, right in zip(*results, strict=True):
        np.testing.assert_array_equal(left, right)
    found, *slopes = results[0]
    np.testing.assert_allclose(
        found[2:3],
        forward(x[2:3], weight, (1, *out[1:]), padding=(1, 1), groups=groups),
        rtol=1e-4,
        atol=1e-5,
    )
    # The gradients are of the sum of grad * found, which is linear in each argument.
    total = np.vdot(grad.astype(np.float64), found.astype(np.float64))
    assert np.vdot(slopes[0].astype(np.float64), x.astype(np.float64)) == pytest.approx(
        total, rel=1e-4
    )
    assert np.vdot(slopes[1].astype(np.float64), weight) == pytest.approx(total, rel=1e-4)
    np.testing.assert_allclose(
        slopes[2], grad.sum((0, 2, 3), dtype=np.float64), rtol=1e-4, atol=1e-3
    )


def test_gradients_that_are_not_asked_for_may_be_null_and_are_left() -> None:
    x, weight, grad = numbers(1, 2, 4), numbers(3, 2, 2, seed=1), numbers(1, 3, 3, seed=2)
    settings = ((1,), (0,), (1,), False, (0,), 1)
    kept, slope = np.full(x.shape, 7, np.float32), np.full(weight.shape, 7, np.float32)
    call(BACKWARD, grad, x, weight, None, *settings, (False, True, False), 0, kept, slope, None)
    assert (kept == 7).all()
    windows = np.stack([x[0, :, place : place + 2] for place in range(3)])
    np.testing.assert_allclose(slope, np.einsum("op,pck->ock", grad[0], windows), rtol=1e-5)
    with pytest.raises(NullPointerError, match="gradBias"):
        call(BACKWARD, grad, x, weight, None, *settings, (False, True, True), 0, None, slope, None)


def test_no_samples_give_gradients_of_zero() -> None:
    x, grad = np.empty((0, 2, 4), np.float32), np.empty((0, 3, 3), np.float32)
    weight, bias = np.full((3, 2, 2), 7, np.float32), np.full(3, 7, np.float32)
    settings = ((1,), (0,), (1,), False, (0,), 1)
    call(BACKWARD, grad, x, weight, (3,), *settings, (True,) * 3, 0, x.copy(), weight, bias)
    assert not weight.any()
    assert not bias.any()


def test_half_precision_on_demand() -> None:
    x, weight = numbers(1, 2, 5, 5), numbers(3, 2, 2, 2, seed=1)
    rounded = [value.astype(np.float16).astype(np.float32) for value in (x, weight)]
    found = forward(x, weight, (1, 3, 4, 4), cube=2)
    np.testing.assert_array_equal(found, forward(rounded[0], rounded[1], (1, 3, 4, 4)))


def spec(*shape: int, dtype: dtypes.DType = dtypes.FLOAT) -> TensorSpec:
    return TensorSpec.contiguous(shape, dtype)


PLAIN: dict[str, Any] = {
    "input": spec(1, 4, 5, 5),
    "weight": spec(6, 4, 3, 3),
    "bias": spec(6),
    "stride": (1, 1),
    "padding": (0, 0),
    "dilation": (1, 1),
    "transposed": False,
    "outputPadding": (0, 0),
    "groups": 1,
    "output": spec(1, 6, 3, 3),
    "cubeMathType": 0,
}
REFUSED = (
    ({"stride": (0, 1)}, "stride is"),
    ({"stride": (1,)}, "stride has 1 numbers"),
    ({"padding": (-1, 0)}, "padding is"),
    ({"padding": (1, 1, 1)}, "it must have 2 or 4"),
    ({"dilation": (1, 0)}, "dilation is"),
    ({"groups": 0}, "groups is 0"),
    ({"groups": 2}, "they do not fit"),
    ({"input": spec(1, 4, 2, 5), "output": spec(1, 6, 0, 3)}, "has no place"),
    ({"output": spec(1, 6, 3, 4)}, r"output has shape \[1, 6, 3, 4\]; it must have \[1, 6, 3, 3\]"),
    ({"bias": spec(5)}, "bias has shape"),
    ({"weight": spec(6, 4, 3)}, "weight has 3 dimensions"),
    ({"cubeMathType": 4}, "cubeMathType is 4"),
    ({"cubeMathType": 2, "input": spec(1, 4, 5, 5, dtype=dtypes.BF16)}, "USE_FP16"),
    ({"transposed": True, "outputPadding": (1, 0), "weight": spec(4, 6, 3, 3)}, "outputPadding is"),
    (
        {
            "transposed": True,
            "weight": spec(4, 6, 3, 3),
            "output": spec(1, 6, 7, 7, dtype=dtypes.FLOAT16),
        },
        "common type",
    ),
)


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda row: str(row)[:40])
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    device().plan(FORWARD, list(PLAIN.values()))
    with pytest.raises(InvalidParameterError, match=message) as caught:
        device().plan(FORWARD, list((PLAIN | changes).values()))
    assert caught.value.code == 161002


def test_workspace_holds_what_is_cast_and_no_more() -> None:
    whole = device().plan(FORWARD, list(PLAIN.values()))
    half = {name: spec(*PLAIN[name].shape, dtype=dtypes.FLOAT16) for name in ("input", "weight")}
    cast = device().plan(FORWARD, list((PLAIN | half).values()))
    assert whole.workspace_bytes == 0
    assert cast.workspace_bytes == 512 + 1024  # 400 and 864 bytes of FLOAT


def test_the_library_is_held_to_one_thread_by_the_first_and_let_go_by_the_last() -> None:
    threads = linear_algebra._threads()
    if threads is None:
        pytest.skip("NumPy has another library of linear algebra")
    before = threads._get()
    with linear_algebra.in_one_thread():
        assert threads._get() == 1
        with linear_algebra.in_one_thread():
            assert threads._get() == 1
        assert threads._get() == 1
    assert threads._get() == before
