"""Long short-term memory, one step of time after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Weights:
    """The numbers of one layer in one direction; rows are the gates input, forget, cell and output."""

    given: Array
    """For the input: (4 * hidden, width)."""
    hidden: Array
    """For the state before: (4 * hidden, hidden)."""
    bias: Array | None
    """Both biases together: (4 * hidden,)."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Where what the gradients need is written, each of (steps, batch, hidden)."""

    gates: tuple[Array, Array, Array, Array]
    """Input gate, cell candidate, forget gate and output gate."""
    hidden: Array
    cell: Array
    tanh_cell: Array


def run_layer(
    x: Array,
    weights: Weights,
    state: tuple[Array, Array],
    out: Array,
    *,
    backwards: bool,
    kept: Kept | None,
) -> tuple[Array, Array]:
    """Runs a layer in one direction, and gives the last hidden state and cell.

    Args:
        x: (steps, batch, width).
        weights: its numbers.
        state: first hidden state and cell, (batch, hidden) each.
        out: where the hidden state of each step is written, (steps, batch, hidden).
        backwards: whether the last step of time is the first.
        kept: where what the gradients need is written.
    """
    steps, batch, width = x.shape
    hidden, cell = state
    size = hidden.shape[1]
    # What does not depend on the state is one product for all steps.
    gates = (x.reshape(steps * batch, width) @ weights.given.T).reshape(steps, batch, 4 * size)
    if weights.bias is not None:
        gates += weights.bias
    recurrent = weights.hidden.T
    for step in reversed(range(steps)) if backwards else range(steps):
        row = gates[step]
        row += hidden @ recurrent
        let_in, forget, candidate, let_out = (
            row[:, place * size : (place + 1) * size] for place in range(4)
        )
        for gate in (let_in, forget, let_out):
            _sigmoid(gate)
        np.tanh(candidate, out=candidate)
        cell = forget * cell + let_in * candidate
        tanh_cell = np.tanh(cell)
        hidden = let_out * tanh_cell
        out[step] = hidden
        if kept is not None:
            pairs = zip(kept.gates, (let_in, candidate, forget, let_out), strict=True)
            for target, gate in pairs:
                target[step] = gate
            kept.hidden[step], kept.cell[step], kept.tanh_cell[step] = hidden, cell, tanh_cell
    return hidden, cell


def _sigmoid(x: Array) -> None:
    np.negative(x, out=x)
    np.exp(x, out=x)
    np.add(x, 1, out=x)
    np.reciprocal(x, out=x)
