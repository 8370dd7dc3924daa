"""Long short-term memory: what it keeps, directions, and what is refused."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from aclnn.errors import InvalidParameterError, NullPointerError
from aclnn_server.operators.catalogue import lookup
from tests.operators.calling import Array, call

KEPT = ("iOut", "jOut", "fOut", "oOut", "hOut", "cOut", "tanhCOut")
STEPS, BATCH, WIDTH, HIDDEN = 4, 3, 5, 2


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def plain(directions: int = 1) -> dict[str, Any]:
    shapes = ((8, WIDTH), (8, HIDDEN), (8,), (8,)) * directions
    state = (directions, BATCH, HIDDEN)
    return {
        "input": numbers(STEPS, BATCH, WIDTH),
        "params": [numbers(*shape, seed=seed) for seed, shape in enumerate(shapes, 1)],
        "hx": [numbers(*state, seed=20), numbers(*state, seed=21)],
        "batchSizes": None,
        "hasBias": True,
        "numLayers": 1,
        "dropout": 0.0,
        "train": True,
        "bidirectional": directions == 2,
        "batchFirst": False,
        "output": np.full((STEPS, BATCH, directions * HIDDEN), 7, np.float32),
        **{name: np.full(state, 7, np.float32) for name in ("hy", "cy")},
        **{
            name: [np.full((STEPS, BATCH, HIDDEN), 7, np.float32) for _ in range(directions)]
            for name in KEPT
        },
    }


def run(values: dict[str, Any]) -> dict[str, Any]:
    call("aclnnLSTM", *(values[row.name] for row in lookup("aclnnLSTM").signature.parameters))
    return values


def test_what_is_kept_is_each_step() -> None:
    found = run(plain())
    given, hidden, *biases = (value.astype(np.float64) for value in found["params"])
    h, c = (state[0].astype(np.float64) for state in found["hx"])
    for step in range(STEPS):
        gates = found["input"][step] @ given.T + h @ hidden.T + biases[0] + biases[1]
        i, f, j, o = np.split(gates, 4, 1)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        j = np.tanh(j)
        c = f * c + i * j
        h = o * np.tanh(c)
        for name, value in zip(KEPT, (i, j, f, o, h, c, np.tanh(c)), strict=True):
            np.testing.assert_allclose(found[name][0][step], value, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["output"][step], h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["hy"][0], h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["cy"][0], c, rtol=1e-5, atol=1e-6)


def test_the_second_direction_is_the_first_of_the_reversed_input() -> None:
    both = run(plain(2))
    alone = plain()
    alone |= {"input": both["input"][::-1].copy(), "params": both["params"][4:]}
    alone |= {"hx": [state[1:].copy() for state in both["hx"]]}
    run(alone)
    np.testing.assert_array_equal(both["output"][..., HIDDEN:], alone["output"][::-1])
    np.testing.assert_array_equal(both["hy"][1], alone["hy"][0])
    np.testing.assert_array_equal(both["cOut"][1], alone["cOut"][0][::-1])


def test_without_training_nothing_is_kept_and_without_a_state_it_is_0() -> None:
    values = plain() | {"train": False, "hx": None}
    found = run(values)
    assert all((array == 7).all() for name in KEPT for array in found[name])
    zeros = [np.zeros((1, BATCH, HIDDEN), np.float32)] * 2
    np.testing.assert_array_equal(run(plain() | {"hx": zeros})["output"], found["output"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"numLayers": 2}, "params has 4 tensors; it must have 8"),
        ({"numLayers": 0}, "numLayers is 0"),
        ({"batchSizes": np.array([3, 3, 2, 1])}, "packed sequences are not served"),
        ({"hasBias": False}, "params has 4 tensors; it must have 2"),
        ({"input": numbers(STEPS, BATCH, WIDTH + 1)}, r"params\[0\] has shape \[8, 5\]"),
        ({"hx": [numbers(2, BATCH, HIDDEN)] * 2}, r"hx\[0\] has shape"),
        ({"hy": numbers(2, BATCH, HIDDEN)}, "hy has shape"),
        ({"jOut": []}, "jOut has 0 tensors; it must have 1"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message) as caught:
        run(plain() | changes)
    assert caught.value.code == 161002


def test_training_needs_places_for_what_is_kept() -> None:
    with pytest.raises(NullPointerError, match="oOut"):
        run(plain() | {"oOut": None})


def test_layers_beyond_any_number_are_refused_at_once() -> None:
    """They are counted, not listed."""
    begin = time.process_time()
    with pytest.raises(
        InvalidParameterError, match=r"params has 4 tensors; it must have 8589934588"
    ):
        run(plain() | {"numLayers": 2**31 - 1})
    assert time.process_time() - begin < 1
