"""Normalisations of layers, rows and batches."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from aclnn.errors import InvalidParameterError, NullPointerError
from tests.operators.calling import Array, call, device
from tests.operators.test_reductions import numbers

TOLERANCES = {
    np.dtype(np.float32): 1e-5,
    np.dtype(np.float16): 2e-3,
    np.dtype(ml_dtypes.bfloat16): 1e-2,
}
TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
LAYERS = pytest.mark.parametrize(
    ("shape", "count"),
    [((4,), 1), ((3, 4), 1), ((3, 4), 2), ((2, 3, 4), 2), ((5, 1), 1), ((700, 300), 1)],
    ids=str,
)
EPS = 1e-5
Shape = tuple[int, ...]


def close(got: Array, want: Array) -> None:
    tolerance = TOLERANCES[got.dtype]
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=tolerance)


def statistics(x: Array, axes: Shape) -> tuple[Array, Array]:
    """Mean and 1 / standard deviation, in DOUBLE, with the dimensions kept."""
    wide = x.astype(np.float64)
    variance = wide.var(axis=axes, keepdims=True)
    return wide.mean(axis=axes, keepdims=True), 1 / np.sqrt(variance + EPS)


@LAYERS
@TYPES
@pytest.mark.parametrize("affine", [None, "own", "float"])
def test_layers(shape: Shape, count: int, dtype: npt.DTypeLike, affine: str | None) -> None:
    x, last = numbers(shape, dtype), shape[len(shape) - count :]
    axes = tuple(range(len(shape) - count, len(shape)))
    kind = np.float32 if affine == "float" else dtype
    weight, bias = (numbers(last, kind, seed) if affine else None for seed in (1, 2))
    out = np.full(shape, 7, dtype)
    mean, rstd = (np.full(shape[: len(shape) - count] + (1,) * count, 7, np.float32) for _ in "ab")
    call("aclnnLayerNorm", x, last, weight, bias, EPS, out, mean, rstd, on=device(2))
    center, scale = statistics(x, axes)
    want = (x.astype(np.float64) - center) * scale
    if weight is not None and bias is not None:
        want = want * weight.astype(np.float64) + bias.astype(np.float64)
    close(out, want)
    close(mean, center)
    close(rstd, scale)


@pytest.mark.parametrize(("weighted", "shifted"), [(True, False), (False, True)])
def test_one_of_weight_and_bias(weighted: bool, shifted: bool) -> None:
    x = numbers((3, 4), np.float32)
    weight = numbers((4,), np.float32, 1) if weighted else None
    bias = numbers((4,), np.float32, 2) if shifted else None
    call("aclnnLayerNorm", x, (4,), weight, bias, EPS, out := np.empty_like(x), None, None)
    center, scale = statistics(x, (1,))
    want = (x - center) * scale
    close(out, want * weight if weight is not None else want + bias)


def test_layers_in_place() -> None:
    x = numbers((3, 4), np.float32)
    center, scale = statistics(x, (1,))
    want = (x - center) * scale
    call("aclnnLayerNorm", x, (4,), None, None, EPS, x, None, None)
    close(x, want)


def test_layers_without_elements_have_statistics() -> None:
    x, mean, rstd = (
        np.empty((2, 0), np.float32),
        np.ones((2, 1), np.float32),
        np.ones((2, 1), np.float32),
    )
    call("aclnnLayerNorm", x, (0,), None, None, EPS, x.copy(), mean, rstd)
    np.testing.assert_array_equal(mean, 0)
    np.testing.assert_array_equal(rstd, np.nan)


def test_what_layers_refuse() -> None:
    x, out = numbers((3, 4), np.float32), np.empty((3, 4), np.float32)
    for shape in ((), (3,), (2, 4), (1, 3, 4)):
        with pytest.raises(InvalidParameterError, match="normalizedShape"):
            call("aclnnLayerNorm", x, shape, None, None, EPS, out, None, None)
    with pytest.raises(InvalidParameterError, match="weightOptional is FLOAT16"):
        call("aclnnLayerNorm", x, (4,), x[0].astype(np.float16), None, EPS, out, None, None)
    half = x.astype(np.float16)
    with pytest.raises(InvalidParameterError, match="as weightOptional is"):
        call("aclnnLayerNorm", half, (4,), half[0], x[0], EPS, out, None, None)
    with pytest.raises(InvalidParameterError, match="biasOptional has shape"):
        call("aclnnLayerNorm", x, (4,), None, x[0, :3].copy(), EPS, out, None, None)
    with pytest.raises(InvalidParameterError, match="meanOutOptional has shape"):
        call("aclnnLayerNorm", x, (4,), None, None, EPS, out, np.empty((3,), np.float32), None)
    with pytest.raises(NullPointerError):
        call("aclnnLayerNorm", x, None, None, None, EPS, out, None, None)


@LAYERS
@TYPES
@pytest.mark.parametrize("flat", [False, True])
def test_root_mean_squares(shape: Shape, count: int, dtype: npt.DTypeLike, flat: bool) -> None:
    x, gamma = numbers(shape, dtype), numbers(shape[len(shape) - count :], dtype, 1)
    axes = tuple(range(len(shape) - count, len(shape)))
    leading = shape[: len(shape) - count]
    rstd = np.full(leading if flat else leading + (1,) * count, 7, np.float32)
    out = np.full(shape, 7, dtype)
    call("aclnnRmsNorm", x, gamma, EPS, out, rstd, on=device(2))
    wide = x.astype(np.float64)
    scale = 1 / np.sqrt((wide * wide).mean(axis=axes, keepdims=True) + EPS)
    close(out, wide * scale * gamma.astype(np.float64))
    close(rstd.reshape(scale.shape), scale)


def test_root_mean_squares_with_float_gamma_in_place() -> None:
    x, gamma = numbers((3, 40), np.float16), numbers((40,), np.float32, 1)
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide * wide).mean(axis=1, keepdims=True) + EPS) * gamma
    call("aclnnRmsNorm", x, gamma, EPS, x, np.empty((3, 1), np.float32))
    close(x, want)


def test_what_root_mean_squares_refuse() -> None:
    x, out, rstd = (
        numbers((3, 4), np.float32),
        np.empty((3, 4), np.float32),
        np.empty((3, 1), np.float32),
    )
    for gamma, scale in ((x[:, 0].copy(), rstd), (x[0], rstd[:2])):
        with pytest.raises(InvalidParameterError) as caught:
            call("aclnnRmsNorm", x, gamma, EPS, out, scale)
        assert caught.value.code == 561002
    with pytest.raises(InvalidParameterError, match="gamma is FLOAT16"):
        call("aclnnRmsNorm", x, x[0].astype(np.float16), EPS, out, rstd)


BATCHES = pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 5), (300, 4, 70)], ids=str)


def per_channel(x: Array, rank: int) -> Array:
    return x.astype(np.float64).reshape((1, -1) + (1,) * (rank - 2))


@BATCHES
@TYPES
@pytest.mark.parametrize("given", [True, False])
def test_batches_with_known_statistics(shape: Shape, dtype: npt.DTypeLike, given: bool) -> None:
    x, channels = numbers(shape, dtype), (shape[1],)
    weight, bias, mean = (numbers(channels, np.float32, seed) for seed in (1, 2, 3))
    variance = np.abs(numbers(channels, np.float32, 4)) + 1
    kept = mean.copy(), variance.copy()
    out = np.full(shape, 7, dtype)
    known = (weight, bias, mean, variance) if given else (None,) * 4
    call("aclnnBatchNorm", x, *known, False, 0.1, EPS, out, None, None, on=device(2))
    want = x.astype(np.float64) / np.sqrt(1 + EPS)
    if given:
        w, b, m, v = (per_channel(row, len(shape)) for row in (weight, bias, mean, variance))
        want = (x.astype(np.float64) - m) / np.sqrt(v + EPS) * w + b
    tolerance = TOLERANCES[np.dtype(dtype)]
    np.testing.assert_allclose(out.astype(np.float64), want, rtol=tolerance, atol=tolerance * 4)
    np.testing.assert_array_equal((mean, variance), kept)


@BATCHES
@TYPES
def test_batches_with_their_own_statistics(shape: Shape, dtype: npt.DTypeLike) -> None:
    x, channels = numbers(shape, dtype), (shape[1],)
    axes = tuple(axis for axis in range(len(shape)) if axis != 1)
    weight, bias, mean = (numbers(channels, np.float32, seed) for seed in (1, 2, 3))
    variance = np.abs(numbers(channels, np.float32, 4)) + 1
    old = mean.copy(), variance.copy()
    out, saved, rstd = np.full(shape, 7, dtype), np.empty_like(mean), np.empty_like(mean)
    call(
        "aclnnBatchNorm",
        x,
        weight,
        bias,
        mean,
        variance,
        True,
        0.25,
        EPS,
        out,
        saved,
        rstd,
        on=device(2),
    )
    center, scale = statistics(x, axes)
    w, b = (per_channel(row, len(shape)) for row in (weight, bias))
    tolerance = TOLERANCES[np.dtype(dtype)]
    want = (x.astype(np.float64) - center) * scale * w + b
    np.testing.assert_allclose(out.astype(np.float64), want, rtol=tolerance, atol=tolerance * 4)
    close(saved, center.reshape(channels))
    close(rstd, scale.reshape(channels))
    unbiased = x.astype(np.float64).var(axis=axes, ddof=1)
    close(mean, 0.75 * old[0] + 0.25 * center.reshape(channels))
    close(variance, 0.75 * old[1] + 0.25 * unbiased)


def test_what_batches_refuse() -> None:
    x, out = numbers((2, 3), np.float32), np.empty((2, 3), np.float32)
    with pytest.raises(NullPointerError) as caught:
        call("aclnnBatchNorm", x, *(None,) * 4, True, 0.1, EPS, out, None, None)
    assert caught.value.parameter == "saveMean"
    with pytest.raises(InvalidParameterError, match="2 dimensions or more"):
        call("aclnnBatchNorm", x[0], *(None,) * 4, False, 0.1, EPS, out[0], None, None)
    with pytest.raises(InvalidParameterError, match="weight has shape"):
        call("aclnnBatchNorm", x, x[0, :2].copy(), *(None,) * 3, False, 0.1, EPS, out, None, None)
    deep = np.ones((1, 2, 1, 1, 1), np.float32)
    with pytest.raises(InvalidParameterError, match="NCDHW"):
        call("aclnnBatchNorm", deep, *(None,) * 4, False, 0.1, EPS, deep.copy(), None, None)
