"""Recurrent networks: long short-term memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import Holds, NotNull, SameType, TypeIn
from aclnn_server.operators.checking.layout_checks import HasShape
from aclnn_server.operators.definition import Call, Family, Work
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.staging import Arrays, staged
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.networks.recurrent_kernels import Kept, Weights, run_layer
from aclnn_server.operators.products import ASCEND310B

Array = npt.NDArray[Any]
Specs = tuple[TensorSpec, ...]

RECURRENT = Family()

_TYPES = (dtypes.FLOAT, dtypes.FLOAT16)
_KEPT = ("iOut", "jOut", "fOut", "oOut", "hOut", "cOut", "tanhCOut")


class _Sizes:
    """The sizes of a call."""

    def __init__(self, call: Call) -> None:
        shape = call.tensor("input").shape
        self.first = bool(call["batchFirst"])
        self.batch, self.steps = shape[:2] if self.first else (shape[1], shape[0])
        self.width = shape[2]
        self.directions = 2 if call["bidirectional"] else 1
        self.layers = int(call["numLayers"])
        self.bias = bool(call["hasBias"])
        self.hidden = call["params"][1].shape[1] if len(call["params"]) > 1 else 0

    @property
    def runs(self) -> int:
        """Layers in all directions."""
        return self.layers * self.directions

    @property
    def parts(self) -> int:
        """Tensors of a layer in one direction."""
        return 4 if self.bias else 2

    @property
    def state(self) -> Shape:
        """Shape of the states."""
        return self.runs, self.batch, self.hidden

    def params(self, run: int) -> tuple[Shape, ...]:
        """Shapes of the tensors of a layer in one direction."""
        layer = run // self.directions
        width = self.width if layer == 0 else self.directions * self.hidden
        rows = 4 * self.hidden
        return ((rows, width), (rows, self.hidden), (rows,), (rows,))[: self.parts]


def _check_input(call: Call) -> None:
    shape = call.tensor("input").shape
    if call["batchSizes"] is not None:
        raise call.invalid("batchSizes", "batchSizes is given; packed sequences are not served")
    if len(shape) != 3:
        raise call.invalid("input", f"input has shape {list(shape)}; it must have 3 dimensions")
    if call["numLayers"] < 1:
        raise call.invalid("numLayers", f"numLayers is {call['numLayers']}; it must be above 0")


def _check_list(call: Call, name: str, count: int, shape_of: Callable[[int], Shape]) -> None:
    specs: Specs = call[name]
    if len(specs) != count:
        raise call.invalid(name, f"{name} has {len(specs)} tensors; it must have {count}")
    own = call.tensor("input").dtype
    for place, spec in enumerate(specs):
        shape = shape_of(place)
        if spec.shape != shape:
            raise call.invalid(
                name, f"{name}[{place}] has shape {list(spec.shape)}; it must have {list(shape)}"
            )
        if spec.dtype is not own:
            raise call.invalid(
                name, f"{name}[{place}] is {spec.dtype}; it must be {own}, as input is"
            )


def _check_params(call: Call) -> None:
    sizes = _Sizes(call)
    if len(call["params"]) > 1 and len(call["params"][1].shape) != 2:
        shape = list(call["params"][1].shape)
        raise call.invalid("params", f"params[1] has shape {shape}; it must have 2 dimensions")
    parts = sizes.parts
    _check_list(
        call,
        "params",
        sizes.runs * parts,
        lambda place: sizes.params(place // parts)[place % parts],
    )
    if call["hx"]:
        _check_list(call, "hx", 2, lambda _: sizes.state)


def _check_kept(call: Call) -> None:
    if not call["train"]:
        return
    sizes = _Sizes(call)
    shape = (sizes.steps, sizes.batch, sizes.hidden)
    for name in _KEPT:
        if call[name] is None:
            NotNull((name,))(call)
        _check_list(call, name, sizes.runs, lambda _: shape)


def _output(call: Call) -> Shape:
    sizes = _Sizes(call)
    leading = (sizes.batch, sizes.steps) if sizes.first else (sizes.steps, sizes.batch)
    return *leading, sizes.directions * sizes.hidden


def _state(call: Call) -> Shape:
    return _Sizes(call).state


@RECURRENT.operator(
    """
    aclnnStatus aclnnLSTMGetWorkspaceSize(
        const aclTensor* input, const aclTensorList* params, const aclTensorList* hx,
        const aclTensor* batchSizes, bool hasBias, int64_t numLayers, double dropout, bool train,
        bool bidirectional, bool batchFirst, aclTensor* output, aclTensor* hy, aclTensor* cy,
        aclTensorList* iOut, aclTensorList* jOut, aclTensorList* fOut, aclTensorList* oOut,
        aclTensorList* hOut, aclTensorList* cOut, aclTensorList* tanhCOut,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("output", "hy", "cy", *_KEPT),
    optional=("hx", "batchSizes", *_KEPT),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("input", "params", "output", "hy", "cy")),
        TypeIn(("input", "output", "hy", "cy"), _TYPES),
        SameType(("output", "hy", "cy"), "input"),
        Holds("input has 3 dimensions, numLayers is above 0, and batchSizes is null", _check_input),
        Holds("params and hx have the tensors of each layer and direction", _check_params),
        HasShape("output", "the hidden states of all directions, for each step", _output),
        HasShape("hy", "a state for each layer and direction", _state),
        HasShape("cy", "a state for each layer and direction", _state),
        Holds(
            "iOut to tanhCOut have a tensor for each layer and direction, for training", _check_kept
        ),
    ),
)
def lstm(call: Call) -> Work:
    """Long short-term memory: layers that keep a state from step to step.

    $$i, f, o = \\sigma(W x + U h + b) \\qquad j = \\tanh(W x + U h + b)$$

    $$c' = f \\cdot c + i \\cdot j \\qquad h' = o \\cdot \\tanh(c')$$

    - input is (steps, batch, width), with batchFirst (batch, steps, width); output has the hidden states of
      the last layer, of both directions side by side. hy and cy are the last states of each layer and
      direction.
    - params has of each layer and direction the weights of the input and of the state, and with hasBias the
      two biases that are added; rows are the gates i, f, j and o. hx has the first h and c, or is null: 0.
    - With train, iOut, jOut, fOut, oOut, hOut, cOut and tanhCOut, one tensor for each layer and direction in
      the order of time, keep what gradients need; else they are left as they are.
    - dropout is not applied, as on devices; packed sequences (batchSizes) are refused.
    - FLOAT16 is computed in FLOAT, and rounded once.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnLSTM (hicann/ops-nn, rnn/dynamic_rnn); the order of gates in
    params is that of PyTorch, whose layout it takes, and the order of checks is not documented.
    """
    sizes, train = _Sizes(call), bool(call["train"])

    def compute(arrays: Arrays, threads: Threads) -> None:
        x = arrays["input"].swapaxes(0, 1) if sizes.first else arrays["input"]
        x = np.ascontiguousarray(x)
        for layer in range(sizes.layers):
            out = np.empty((sizes.steps, sizes.batch, sizes.directions * sizes.hidden), np.float32)
            for direction in range(sizes.directions):
                run = layer * sizes.directions + direction
                part = slice(direction * sizes.hidden, (direction + 1) * sizes.hidden)
                arrays["hy"][run], arrays["cy"][run] = run_layer(
                    x,
                    _weights(arrays, run, sizes.parts),
                    _first(arrays, run, sizes),
                    out[:, :, part],
                    backwards=direction == 1,
                    kept=_kept(arrays, run) if train else None,
                )
            x = out
        arrays["output"][...] = x.swapaxes(0, 1) if sizes.first else x

    kept = _KEPT if train else ()
    return staged(call, compute, ("input", "params", "hx"), ("output", "hy", "cy", *kept))


def _weights(arrays: Arrays, run: int, parts: int) -> Weights:
    given, hidden, *biases = (arrays[f"params.{run * parts + part}"] for part in range(parts))
    return Weights(given, hidden, biases[0] + biases[1] if biases else None)


def _first(arrays: Arrays, run: int, sizes: _Sizes) -> tuple[Array, Array]:
    if "hx.0" in arrays:
        return arrays["hx.0"][run], arrays["hx.1"][run]
    zeros = np.zeros(sizes.state[1:], np.float32)
    return zeros, zeros


def _kept(arrays: Arrays, run: int) -> Kept:
    let_in, candidate, forget, let_out, *states = (arrays[f"{name}.{run}"] for name in _KEPT)
    return Kept((let_in, candidate, forget, let_out), *states)
