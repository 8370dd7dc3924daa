"""Convolutions, pooling and embeddings, with their gradients, beside NumPy on views of windows; LSTM."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from benchmarks.cases.case import SIDE, Array, Case, f, floats

_KEEP = 0
"""cubeMathType."""
_NOTHING = (0, 0)
_MASK = (True, True, True)


def cases() -> Iterator[Case]:
    yield from _convolutions()
    yield _of_channels()
    yield _in_one_dimension()
    yield _transposed()
    yield _convolution_gradients()
    yield from _largest()
    yield from _means()
    yield from _adaptive()
    yield _embedding_gradient()
    yield _lstm()


# --- convolutions -----------------------------------------------------------------------------------


def _padded(x: Array, size: int = 1, value: float = 0) -> Array:
    return np.pad(x, ((0, 0), (0, 0), (size, size), (size, size)), constant_values=value)


def _windows(x: Array, step: int = 1, value: float = 0) -> Array:
    """Of 3 × 3 elements, padded by 1: shape (samples, channels, rows, columns, 3, 3)."""
    found: Array = sliding_window_view(_padded(x, 1, value), (3, 3), (2, 3))[:, :, ::step, ::step]
    return found


def _convolved(x: Array, weight: Array, step: int = 1) -> Array:
    found: Array = np.einsum("nchwij,ocij->nohw", _windows(x, step), weight, optimize=True)
    return found


def _convolutions() -> Iterator[Case]:
    (x,), (weight,), (bias,) = floats(8, 32, 32, 32), floats(32, 32, 3, 3), floats(32)
    for step in (1, 2):
        out = np.empty((8, 32, 32 // step, 32 // step), f)
        numbers = ((step, step), (1, 1), (1, 1), False, _NOTHING, 1)

        def expression(*, step: int = step) -> Array:
            return _convolved(x, weight, step) + bias[:, None, None]

        yield Case(
            "Convolution", (x, weight, bias, *numbers, out, _KEEP), expression, f"stride {step}"
        )
    points, out = weight[:, :, :1, :1].copy(), np.empty_like(x)

    def pointwise() -> object:
        return np.einsum("nchw,oc->nohw", x, points[:, :, 0, 0], optimize=True)

    numbers = ((1, 1), (0, 0), (1, 1), False, _NOTHING, 1)
    yield Case("Convolution", (x, points, None, *numbers, out, _KEEP), pointwise, "1 x 1")


def _of_channels() -> Case:
    (x,), (weight,) = floats(8, 32, 32, 32), floats(32, 1, 3, 3)

    def expression() -> object:
        return np.einsum("nchwij,cij->nchw", _windows(x), weight[:, 0], optimize=True)

    numbers = ((1, 1), (1, 1), (1, 1), False, _NOTHING, 32)
    arguments = (x, weight, None, *numbers, np.empty_like(x), _KEEP)
    return Case("Convolution", arguments, expression, "of each channel")


def _in_one_dimension() -> Case:
    (x,), (weight,) = floats(8, 32, SIDE), floats(32, 32, 3)

    def expression() -> object:
        windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1))), 3, 2)
        return np.einsum("ncli,oci->nol", windows, weight, optimize=True)

    arguments = (x, weight, None, (1,), (1,), (1,), False, (0,), 1, np.empty_like(x), _KEEP)
    return Case("Convolution", arguments, expression, "one dimension")


def _returned(grad: Array, weight: Array) -> Array:
    """What a convolution with stride 1 would have given `grad` for, up to a factor."""
    back = weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    return _convolved(grad, back)


def _transposed() -> Case:
    (x,), (weight,) = floats(8, 32, 32, 32), floats(32, 32, 3, 3)
    numbers = ((1, 1), (1, 1), (1, 1), True, _NOTHING, 1)
    arguments = (x, weight, None, *numbers, np.empty_like(x), _KEEP)
    return Case("Convolution", arguments, lambda: _returned(x, weight), "transposed")


def _convolution_gradients() -> Case:
    (grad, x), (weight,) = floats(8, 32, 32, 32, count=2), floats(32, 32, 3, 3)

    def expression() -> object:
        of_weight = np.einsum("nohw,nchwij->ocij", grad, _windows(x), optimize=True)
        return _returned(grad, weight), of_weight, grad.sum((0, 2, 3))

    numbers = ((32,), (1, 1), (1, 1), (1, 1), False, _NOTHING, 1, _MASK, _KEEP)
    outputs = (np.empty_like(x), np.empty_like(weight), np.empty(32, f))
    return Case("ConvolutionBackward", (grad, x, weight, *numbers, *outputs), expression)


# --- pooling: windows of 3 × 3, padded by 1, two apart ----------------------------------------------

_WINDOW = ((3, 3), (2, 2), (1, 1))
_OF_WINDOW = (*_WINDOW, (1, 1), False)


def _best(x: Array) -> tuple[Array, Array]:
    """The largest of each window, and its place in the window."""
    windows = _windows(x, 2, -np.inf)
    flat = windows.reshape(*windows.shape[:4], 9)
    return flat.max(-1), flat.argmax(-1)


def _in_plane(places: Array, size: int) -> Array:
    """Places in the plane, from those in the windows."""
    rows, columns = np.divmod(places, 3)
    starts = np.arange(places.shape[-1]) * 2 - 1
    found: Array = (rows + starts[:, None]) * size + columns + starts
    return found


def _largest() -> Iterator[Case]:
    (x,) = floats(16, 64, 32, 32)
    out, back = np.empty((16, 64, 16, 16), f), np.empty_like(x)
    grad, numbers = _best(x)
    indices = _in_plane(numbers, 32)

    def with_indices() -> object:
        best, places = _best(x)
        return best, _in_plane(places, 32)

    def by_index() -> object:
        planes = np.zeros((1024, 1024), f)
        np.add.at(
            planes, (np.arange(1024)[:, None], indices.reshape(1024, -1)), grad.reshape(1024, -1)
        )
        return planes

    def with_mask() -> object:
        best, places = _best(x)
        return best, places[..., None] == np.arange(9)

    def by_mask() -> Array:
        planes = np.zeros((16, 64, 34, 34), f)
        for place in range(9):
            i, j = divmod(place, 3)
            planes[:, :, i : i + 32 : 2, j : j + 32 : 2] += grad * (numbers == place)
        return planes[:, :, 1:-1, 1:-1]

    index_out, mask = np.empty_like(indices), np.zeros((16, 64, 9, 17 * 32), np.int8)
    mask[..., :256] = numbers.reshape(16, 64, 1, 256) == np.arange(9)[:, None]
    own = (x, *_OF_WINDOW, out)
    yield Case("MaxPool2dWithIndices", (*own, index_out), with_indices)
    yield Case("MaxPool2dWithIndicesBackward", (grad, x, indices, *_OF_WINDOW, back), by_index)
    yield Case("MaxPool2dWithMask", (*own, mask.copy()), with_mask)
    yield Case("MaxPool2dWithMaskBackward", (grad, x, mask, *_OF_WINDOW, back), by_mask)


def _means() -> Iterator[Case]:
    (x,), (grad,) = floats(16, 64, 32, 32), floats(16, 64, 16, 16)
    numbers = (*_WINDOW, False, True, 0, _KEEP)

    def gradient() -> Array:
        planes, share = np.zeros((16, 64, 34, 34), f), grad / f(9)
        for i in range(3):
            for j in range(3):
                planes[:, :, i : i + 32 : 2, j : j + 32 : 2] += share
        return planes[:, :, 1:-1, 1:-1]

    yield Case(
        "AvgPool2d", (x, *numbers, np.empty_like(grad)), lambda: _windows(x, 2).mean((-2, -1))
    )
    yield Case("AvgPool2dBackward", (grad, x, *numbers, np.empty_like(x)), gradient)


def _adaptive() -> Iterator[Case]:
    (x,), (grad,) = floats(16, 64, 32, 32), floats(16, 64, 7, 7)
    cuts = [slice(part * 32 // 7, -(-(part + 1) * 32 // 7)) for part in range(7)]

    def means() -> object:
        return np.stack(
            [np.stack([x[:, :, i, j].mean((2, 3)) for j in cuts], -1) for i in cuts], -2
        )

    def gradient() -> object:
        planes = np.zeros_like(x)
        for row, i in enumerate(cuts):
            for column, j in enumerate(cuts):
                place = planes[:, :, i, j]
                place += grad[:, :, row, column, None, None] / f(place[0, 0].size)
        return planes

    yield Case("AdaptiveAvgPool2d", (x, (7, 7), np.empty_like(grad)), means, "7 x 7")
    one = np.empty((16, 64, 1, 1), f)
    yield Case("AdaptiveAvgPool2d", (x, (1, 1), one), lambda: x.mean((2, 3)), "1 x 1")
    yield Case("AdaptiveAvgPool2dBackward", (grad, x, np.empty_like(x)), gradient)


# --- embeddings -------------------------------------------------------------------------------------


def _embedding_gradient() -> Case:
    (grad,) = floats(SIDE, SIDE)
    indices = np.random.default_rng(2).integers(0, SIDE, SIDE)

    def expression() -> object:
        table = np.zeros_like(grad)
        np.add.at(table, indices, grad)
        return table

    arguments = (grad, indices, SIDE, (1 << 64) - 1, False, np.empty_like(grad))
    return Case("EmbeddingDenseBackward", arguments, expression)


# --- LSTM -------------------------------------------------------------------------------------------


def _lstm() -> Case:
    """One layer, in one direction."""
    steps, batch, width = 32, 32, 64
    (x,) = floats(steps, batch, width)
    params = [*floats(4 * width, width, count=2), *floats(4 * width, count=2)]
    weights, hidden, *biases = (part - f(0.5) for part in params)
    output, state, cell = np.empty_like(x), *(np.empty((1, batch, width), f) for _ in range(2))

    def sigmoid(values: Array) -> Array:
        found: Array = 1 / (1 + np.exp(-values))
        return found

    def expression() -> object:
        h = c = np.zeros((batch, width), f)
        states = []
        for step in x:
            gates = step @ weights.T + h @ hidden.T + biases[0] + biases[1]
            let_in, forget, new, let_out = np.split(gates, 4, 1)
            c = sigmoid(forget) * c + sigmoid(let_in) * np.tanh(new)
            h = sigmoid(let_out) * np.tanh(c)
            states.append(h)
        return np.stack(states), h, c

    settings = (None, None, True, 1, 0.0, False, False, False)
    given = (x, [weights, hidden, *biases], *settings)
    return Case("LSTM", (*given, output, state, cell, *(None,) * 7), expression)
