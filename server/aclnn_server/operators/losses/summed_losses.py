"""Losses that sum along some dimensions: MseLossOut, and KlDivTargetBackward where target was broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.pythonic import REDUCTIONS, Result
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import (
    Broadcasts,
    Holds,
    NotNull,
    OneOf,
    RankUpTo,
    SameShape,
    TypeIn,
    broadcast_shape,
)
from aclnn_server.operators.definition import Call, Family, Memory, OneLine, Work
from aclnn_server.operators.engines.blocks import (
    Elementwise,
    Kernel,
    Nothing,
    Types,
    elementwise,
    workspace_bytes,
)
from aclnn_server.operators.engines.common_type import CommonType, Meets
from aclnn_server.operators.engines.pointwise import FLOATS
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.engines.tiling import lay_out
from aclnn_server.operators.losses.loss_kernels import divergence_target_slope, squared
from aclnn_server.operators.losses.loss_rows import WITH_BATCH_MEAN, divisor

Array = npt.NDArray[Any]

SUMMED_LOSSES = Family()

_LOSS = ("self", "target")
_BACKWARD = ("gradOutput", "self", "target")
_WHOLE = "elements before they are summed"


@dataclass(frozen=True, slots=True)
class Summed:
    """The sum along some dimensions of what a kernel computes, times a factor.

    The elements before the sum lie in the workspace.
    """

    whole: Elementwise
    """Computes the elements, in FLOAT."""
    shape: Shape
    axes: tuple[int, ...]
    factor: float
    name: str
    """Parameter of the output."""
    output: TensorSpec
    rounded: np.dtype[Any]

    @property
    def workspace_bytes(self) -> int:
        """Bytes for the elements."""
        return workspace_bytes(math.prod(self.shape) * dtypes.FLOAT.itemsize)

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Computes the output."""
        assert workspace is not None
        self.whole.run({**memory, _WHOLE: workspace}, None, threads)
        elements: Array = np.ndarray(self.shape, np.float32, workspace.data)
        with np.errstate(all="ignore"):
            total = np.add.reduce(elements, self.axes, np.float64) * self.factor
            rounded = np.asarray(total).astype(self.rounded).reshape(self.output.shape)
            np.copyto(self.output.view(memory[self.name]), rounded, casting="unsafe")


def summed(
    call: Call,
    kernel: Kernel,
    inputs: Sequence[str],
    output: str,
    axes: tuple[int, ...],
    factor: float = 1.0,
) -> Work:
    """Plans an output that is summed along dimensions of the inputs' broadcast shape, of 16-bit floats or
    FLOAT."""
    shape = broadcast_shape(call, tuple(inputs))
    if 0 in shape:
        return Nothing()
    whole = TensorSpec.contiguous(shape, dtypes.FLOAT)
    specs = [*((name, call.tensor(name)) for name in inputs), (_WHOLE, whole)]
    tiling, operands = lay_out(shape, specs, along_last=True)
    types = Types.of(dtypes.FLOAT)
    rounded = Types.of(CommonType(tuple(inputs)).known(call)).rounded
    computed = Elementwise(kernel, operands[:-1], operands[-1], tiling, types)
    return Summed(computed, shape, axes, factor, output, call.tensor(output), rounded)


def _check_first_is_summed(call: Call) -> None:
    shape = broadcast_shape(call, _LOSS)
    expected = shape if call["reduction"] == REDUCTIONS["none"] else shape[1:]
    if call.tensor("out").shape != expected:
        raise call.invalid(
            "out", f"out has shape {list(call.tensor('out').shape)}; it must have {list(expected)}"
        )


@SUMMED_LOSSES.operator(
    """
    aclnnStatus aclnnMseLossOutGetWorkspaceSize(
        const aclTensor* self, const aclTensor* target, int64_t reduction, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull((*_LOSS, "out")),
        TypeIn((*_LOSS, "out"), FLOATS),
        OneOf("reduction", REDUCTIONS),
        RankUpTo(_LOSS),
        Holds(
            "self and target broadcast to the shape of out, for reduction 1 and 2 behind its first size",
            _check_first_is_summed,
        ),
    ),
)
def mse_loss_out(call: Call) -> Work:
    """Squared distance of each element, of which a mean or sum goes along the first dimension only.

    $$out = (self - target)^2$$

    out is the loss of each element (reduction 0, none), or its mean (1) or sum (2) along the first
    dimension of the broadcast shape, which out then lacks.

    - FLOAT16 and BF16 are computed in FLOAT, rounded once to the common type of the inputs, then cast
      to the type of the output. Sums are in DOUBLE.
    - Of no elements, nothing is written.

    Source: the public documentation of aclnnMseLossOut, and for the order of checks its host code
    (hicann/ops-nn, loss/mse_loss).
    """
    shape = broadcast_shape(call, _LOSS)
    if call["reduction"] == REDUCTIONS["none"] or not shape:
        return elementwise(call, squared, _LOSS, "out", shape)
    mean = call["reduction"] == REDUCTIONS["mean"]
    return summed(call, squared, _LOSS, "out", (0,), 1 / max(shape[0], 1) if mean else 1.0)


@SUMMED_LOSSES.operator(
    """
    aclnnStatus aclnnKlDivTargetBackwardGetWorkspaceSize(
        const aclTensor* gradOutput, const aclTensor* self, const aclTensor* target,
        int64_t reduction, bool logTarget, aclTensor* gradTarget,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("gradTarget",),
    checks=(
        NotNull((*_BACKWARD, "gradTarget")),
        TypeIn((*_BACKWARD, "gradTarget"), FLOATS),
        Meets(CommonType(_BACKWARD), "gradTarget"),
        OneOf("reduction", WITH_BATCH_MEAN),
        RankUpTo(_BACKWARD),
        Broadcasts(_BACKWARD),
        SameShape(("gradTarget",), "target"),
    ),
    python=OneLine(
        "kl_div_target_backward",
        {"reduction": "mean", "logTarget": False},
        {"reduction": WITH_BATCH_MEAN},
        Result("broadcast"),
    ),
)
def kl_div_target_backward(call: Call) -> Work:
    """Gradient of the divergence with respect to target.

    $$gradTarget = gradOutput \\cdot \\begin{cases} \\ln target + 1 - self & \\neg logTarget \\\\
    e^{target} (target + 1 - self) & logTarget \\end{cases}$$

    - A target of 0 gives 0, unless logTarget is set.
    - Reduction 1 (mean) divides by the number of elements of the broadcast shape, 3 (batchmean) by its
      first size.
    - Where target was broadcast, the gradient is summed over what it was broadcast to.
    - FLOAT16 and BF16 are computed in FLOAT, rounded once to the common type of the inputs, then cast
      to the type of the output.

    Source: the public documentation of aclnnKlDivTargetBackward, and for the order of checks its host
    code (hicann/ops-nn, loss/kl_div_target_loss_grad).
    """
    shape = broadcast_shape(call, _BACKWARD)
    factor = 1 / divisor(call["reduction"], shape)
    kernel = divergence_target_slope(call, np.dtype(np.float32), factor)
    target = call.tensor("target").shape
    if target == shape:
        return elementwise(call, kernel, _BACKWARD, "gradTarget", shape)
    padded = (1,) * (len(shape) - len(target)) + target
    axes = tuple(axis for axis, size in enumerate(padded) if size != shape[axis])
    return summed(call, kernel, _BACKWARD, "gradTarget", axes)
