"""The negative log likelihood loss, which picks one class of each row, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.errors import ExecutionFailedError
from aclnn.promotion import can_cast
from aclnn.pythonic import REDUCTIONS
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    OneOf,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.definition import Call, Family, Memory, Work
from aclnn_server.operators.engines.pointwise import FLOATS
from aclnn_server.operators.engines.threads import Threads

Array = npt.NDArray[Any]

NLL_LOSS = Family()

_TARGETS = (dtypes.INT64, dtypes.UINT8, dtypes.INT32)
_FORWARD = ("self", "target", "weight", "out", "totalWeightOut")
_BACKWARD = ("gradOutput", "self", "target", "weight", "totalWeight", "out")


def _check_rows(call: Call) -> None:
    """One class per row: self (classes,) with target (), or (rows, classes) with (rows,)."""
    shape, target = call.tensor("self").shape, call.tensor("target").shape
    if len(shape) not in (1, 2) or target != shape[:-1]:
        raise call.invalid(
            "target",
            f"self has shape {list(shape)} and target {list(target)}; allowed are [classes] with [], "
            "and [rows, classes] with [rows]",
        )
    weight = call.tensor("weight").shape
    if weight != shape[-1:]:
        raise call.invalid(
            "weight", f"weight has shape {list(weight)}; it must have {list(shape[-1:])}"
        )


def _check_result(call: Call) -> None:
    out, rows = call.tensor("out"), call.tensor("self").shape[:-1]
    if call["reduction"] == REDUCTIONS["none"] and rows:
        if out.shape != rows:
            raise call.invalid("out", f"out has shape {list(out.shape)}; it must have {list(rows)}")
    elif out.elements != 1 or len(out.shape) > 1:
        raise call.invalid("out", f"out has shape {list(out.shape)}; it must have one element")
    _check_one(call, "totalWeightOut")


def _check_one(call: Call, name: str) -> None:
    spec = call.tensor(name)
    if spec.elements != 1:
        raise call.invalid(name, f"{name} has shape {list(spec.shape)}; it must have one element")


def _check_casts(call: Call) -> None:
    for name in ("out", "totalWeightOut"):
        if not can_cast(call.tensor("self").dtype, call.tensor(name).dtype):
            raise call.invalid(
                name, f"{name} is {call.tensor(name).dtype}; self does not cast to it"
            )


def _check_gradient(call: Call) -> None:
    grad, rows = call.tensor("gradOutput"), call.tensor("self").shape[:-1]
    each = call["reduction"] == REDUCTIONS["none"]
    if each and grad.shape != rows and not (rows == () and grad.elements == 1):
        raise call.invalid(
            "gradOutput", f"gradOutput has shape {list(grad.shape)}; it must have {list(rows)}"
        )
    if not each:
        _check_one(call, "gradOutput")
    _check_one(call, "totalWeight")


@dataclass(frozen=True, slots=True)
class _Rows:
    """The arrays of a call, as rows of classes."""

    operator: str
    specs: dict[str, TensorSpec]
    reduction: int
    ignored: int
    workspace_bytes: int = 0

    @classmethod
    def of(cls, call: Call, names: tuple[str, ...]) -> Self:
        """Reads a call."""
        specs = {name: call.tensor(name) for name in names}
        return cls(call.signature.name, specs, call["reduction"], call["ignoreIndex"])

    def floats(self, memory: Memory, name: str) -> Array:
        """A tensor in FLOAT."""
        return self.specs[name].view(memory[name]).astype(np.float32)

    def classes(self, memory: Memory) -> tuple[Array, Array]:
        """Rows that are not ignored, and their classes.

        Raises:
            ExecutionFailedError: a class does not exist.
        """
        target = self.specs["target"].view(memory["target"]).reshape(-1).astype(np.int64)
        rows = np.flatnonzero(target != self.ignored)
        chosen = target[rows]
        count = self.specs["self"].shape[-1]
        if wrong := chosen[(chosen < 0) | (chosen >= count)].tolist():
            raise ExecutionFailedError(
                f"target holds {wrong[0]}; there are the classes 0 to {count - 1}",
                operator=self.operator,
                parameter="target",
            )
        return rows, chosen

    def write(self, memory: Memory, name: str, values: Array) -> None:
        """Rounds to the type of self and casts to that of an output."""
        spec = self.specs[name]
        with np.errstate(all="ignore"):
            rounded = values.astype(self.specs["self"].numpy_dtype()).reshape(spec.shape)
            np.copyto(spec.view(memory[name]), rounded, casting="unsafe")


class _Loss(_Rows):
    """The loss."""

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes out, and totalWeightOut where there is a reduction."""
        rows, chosen = self.classes(memory)
        scores = self.specs["self"].view(memory["self"])
        scores = scores.reshape(-1, self.specs["self"].shape[-1])
        weights = self.floats(memory, "weight")[chosen]
        with np.errstate(all="ignore"):
            losses = -weights * scores[rows, chosen].astype(np.float32)
        if self.reduction == REDUCTIONS["none"]:
            every = np.zeros(scores.shape[0], np.float32)
            every[rows] = losses
            self.write(memory, "out", every)
            return
        total = np.asarray(weights.sum(dtype=np.float64))
        loss = losses.sum(dtype=np.float64)
        with np.errstate(all="ignore"):
            loss = loss / total if self.reduction == REDUCTIONS["mean"] else loss
        self.write(memory, "out", np.asarray(loss))
        self.write(memory, "totalWeightOut", total)


class _Gradient(_Rows):
    """The gradient."""

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes out."""
        rows, chosen = self.classes(memory)
        shape = self.specs["self"].shape
        grad = self.floats(memory, "gradOutput").reshape(-1)
        grad = grad[rows] if self.reduction == REDUCTIONS["none"] else grad
        weights = self.floats(memory, "weight")[chosen]
        with np.errstate(all="ignore"):
            share = -weights * grad
            if self.reduction == REDUCTIONS["mean"]:
                share = share / self.floats(memory, "totalWeight").reshape(-1)
            rounded = share.astype(self.specs["self"].numpy_dtype())
        slope = self.specs["out"].view(memory["out"])
        slope[...] = 0
        (slope if len(shape) > 1 else slope[None])[rows, chosen] = rounded


@NLL_LOSS.operator(
    """
    aclnnStatus aclnnNLLLossGetWorkspaceSize(
        const aclTensor* self, const aclTensor* target, const aclTensor* weight, int64_t reduction,
        int64_t ignoreIndex, aclTensor* out, aclTensor* totalWeightOut,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out", "totalWeightOut"),
    checks=(
        NotNull(_FORWARD),
        SameType(("weight",), "self"),
        Holds("self casts to the types of out and totalWeightOut", _check_casts),
        TypeIn(("self",), FLOATS),
        TypeIn(("target",), _TARGETS),
        OneOf("reduction", REDUCTIONS),
        Holds(
            "self is [classes] and target [], or self [rows, classes] and target [rows]; weight is "
            "[classes]",
            _check_rows,
        ),
        Holds(
            "out is [rows] for reduction 0, else it has one element, as totalWeightOut has",
            _check_result,
        ),
    ),
)
def nll_loss(call: Call) -> Work:
    """Negative log likelihood loss: the negative score of the right class of each row, weighted.

    $$l_i = -weight_{target_i} \\cdot self_{i, target_i}$$

    out is the loss of each row (reduction 0, none), their sum divided by the sum of the weights (1,
    mean), or their sum (2).

    - Rows whose target is ignoreIndex have loss 0 and weight 0.
    - totalWeightOut is the sum of the rows' weights; reduction 0 does not write it.
    - Of no rows, the mean is NaN, the sum and the weight 0.
    - Computed in FLOAT, sums in DOUBLE; rounded once to the type of self, then cast.
    - A class that does not exist fails the execution; on devices it is not checked.

    Source: the public documentation of aclnnNLLLoss, and for the order of checks its host code
    (hicann/ops-nn, loss/nll_loss).
    """
    return _Loss.of(call, _FORWARD)


@NLL_LOSS.operator(
    """
    aclnnStatus aclnnNLLLossBackwardGetWorkspaceSize(
        const aclTensor* gradOutput, const aclTensor* self, const aclTensor* target,
        const aclTensor* weight, int64_t reduction, int64_t ignoreIndex,
        const aclTensor* totalWeight, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(_BACKWARD),
        TypeIn(("gradOutput", "self", "weight", "totalWeight"), FLOATS),
        TypeIn(("target",), _TARGETS),
        SameType(("weight",), "self"),
        SameType(("out",), "self"),
        OneOf("reduction", REDUCTIONS),
        Holds(
            "self is [classes] and target [], or self [rows, classes] and target [rows]; weight is "
            "[classes]",
            _check_rows,
        ),
        Holds(
            "gradOutput is [rows] for reduction 0, else it has one element, as totalWeight has",
            _check_gradient,
        ),
        SameShape(("out",), "self"),
    ),
)
def nll_loss_backward(call: Call) -> Work:
    """Gradient of the negative log likelihood loss.

    $$out_{i, c} = \\begin{cases} -weight_c \\cdot gradOutput_i & c = target_i \\\\ 0 &
    \\text{otherwise} \\end{cases}$$

    - With reduction 1 (mean) it is divided by totalWeight. For reductions, gradOutput has one element.
    - Rows whose target is ignoreIndex are 0.
    - Computed in FLOAT, rounded once to the type of self.
    - A class that does not exist fails the execution; on devices it is not checked.

    Source: the public documentation of aclnnNLLLossBackward, and for the order of checks its host code
    (hicann/ops-nn, loss/nll_loss_grad).
    """
    return _Gradient.of(call, _BACKWARD)
