"""AdamW with the number of steps in a tensor and settings as numbers, as PyTorch's fused one calls it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import codes, dtypes
from aclnn_server.operators.checking.axis_checks import WhereGiven
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.definition import Call, Family, Memory, Work
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.copies import apart
from aclnn_server.operators.engines.pointwise import FLOATS
from aclnn_server.operators.engines.threads import Scratch, Threads, scratch_bytes
from aclnn_server.operators.engines.tiling import Operand, Tiling, lay_out
from aclnn_server.operators.training.optimizers import Betas, as_single, store, update_moments

Array = npt.NDArray[Any]

ADAM_STEPS = Family()

_STATE = ("varRef", "mRef", "vRef")
_LIMIT = "maxGradNormOptionalRef"


@dataclass(frozen=True, slots=True)
class Settings:
    """The numbers of a call."""

    rate: float
    beta1: float
    beta2: float
    decay: float
    eps: float
    maximize: bool

    @classmethod
    def of(cls, call: Call) -> Settings:
        """The numbers of a call."""
        names = ("lr", "beta1", "beta2", "weightDecay", "eps", "maximize")
        return cls(*(call[name] for name in names))


class _Factors(Betas):
    """What a step multiplies by and adds, in FLOAT."""

    def __init__(self, settings: Settings, steps: float) -> None:
        super().__init__(settings.beta1, settings.beta2)
        single = np.float32
        with np.errstate(all="ignore"):
            self.step = single(settings.rate / (1 - np.float64(settings.beta1) ** steps))
            self.root = single(np.sqrt(1 - np.float64(settings.beta2) ** steps))
        self.decay = single(1 - settings.rate * settings.decay)
        self.eps = single(settings.eps)


@dataclass(frozen=True, slots=True)
class Step:
    """One step on weights and moments, in FLOAT, a block at a time."""

    state: tuple[Operand, ...]
    """Weights, both moments, and the largest second moments where they are kept."""
    grad: Operand
    steps: Operand
    tiling: Tiling
    settings: Settings
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Updates weights and moments."""
        done = float(self.steps.array(memory[self.steps.name]).reshape(-1)[0])
        factors = _Factors(self.settings, done + 1)
        state = [row.array(memory[row.name]) for row in self.state]
        grad = self.grad.array(memory[self.grad.name])
        for written in state:
            grad = apart(grad, written, written)
        rows, arrays = (*self.state, self.grad), (*state, grad)

        def compute(scratch: Scratch, number: int) -> None:
            index = self.tiling.index(number)
            pairs = zip(rows, arrays, strict=True)
            self._step(scratch, [array[row.part(index)] for row, array in pairs], factors)

        # Five blocks may be cast, one is for work, and one is what a cast takes.
        threads.run(compute, self.tiling.blocks, 7 * scratch_bytes(self.tiling.largest * 4))

    def _step(self, scratch: Scratch, parts: list[Array], factors: _Factors) -> None:
        weights, first, second, *limit, grad = (as_single(scratch, part) for part in parts)
        work = scratch.like(weights)
        update_moments(first, second, grad, work, factors, maximize=self.settings.maximize)
        for largest in limit:
            np.maximum(largest, second, out=largest)
        np.sqrt(limit[0] if limit else second, out=work)
        np.divide(work, factors.root, out=work)
        np.add(work, factors.eps, out=work)
        np.divide(first, work, out=work)
        np.multiply(work, factors.step, out=work)
        np.multiply(weights, factors.decay, out=weights)
        np.subtract(weights, work, out=weights)
        store(scratch, parts, (weights, first, second, *limit))


def _check_limit(call: Call) -> None:
    if call["amsgrad"]:
        NotNull((_LIMIT,))(call)


def _check_one(call: Call) -> None:
    spec = call.tensor("step")
    if spec.elements != 1:
        raise call.invalid("step", f"step has shape {list(spec.shape)}; it must have one element")


@ADAM_STEPS.operator(
    """
    aclnnStatus aclnnApplyAdamWV2GetWorkspaceSize(
        aclTensor* varRef, aclTensor* mRef, aclTensor* vRef, aclTensor* maxGradNormOptionalRef,
        const aclTensor* grad, const aclTensor* step, float lr, float beta1, float beta2,
        float weightDecay, float eps, bool amsgrad, bool maximize,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=(*_STATE, _LIMIT),
    optional=(_LIMIT,),
    checks=(
        NotNull((*_STATE, "grad", "step")),
        Holds(
            f"{_LIMIT} is not null, if amsgrad is true",
            _check_limit,
            codes.ACLNN_ERR_PARAM_NULLPTR,
        ),
        TypeIn((*_STATE, "grad"), FLOATS),
        SameType(_STATE[1:], "varRef"),
        TypeIn(("step",), (dtypes.FLOAT, dtypes.INT64)),
        WhereGiven((_LIMIT,), lambda name: TypeIn((name,), FLOATS)),
        WhereGiven((_LIMIT,), lambda name: SameType((name,), "grad")),
        RankUpTo(("varRef",)),
        SameShape((*_STATE[1:], "grad"), "varRef"),
        WhereGiven((_LIMIT,), lambda name: SameShape((name,), "varRef")),
        Holds("step has one element", _check_one),
    ),
)
def apply_adam_w_v2(call: Call) -> Work:
    """One step of the optimiser AdamW, in place, after a number of steps in a tensor.

    With g = grad, or -grad if maximize is true, and t = step + 1:

    $$m \\leftarrow beta1 \\cdot m + (1 - beta1) \\cdot g \\qquad
    v \\leftarrow beta2 \\cdot v + (1 - beta2) \\cdot g^2$$

    $$var \\leftarrow var \\cdot (1 - lr \\cdot weightDecay) - \\frac{lr}{1 - beta1^t} \\cdot
    \\frac{m}{\\sqrt{v} / \\sqrt{1 - beta2^t} + eps}$$

    - If amsgrad is true, maxGradNormOptionalRef becomes the larger of itself and v, and is used for v.
    - step is the number of steps before this one; it is not changed.
    - Computed in FLOAT, rounded once to the types of the tensors. Of empty weights nothing is computed.
    - Deterministic, at any number of threads.

    Source: the public documentation and the tests of aclnnApplyAdamWV2 (hicann/ops-nn,
    optim/apply_adam_w_v2).
    """
    spec = call.tensor("varRef")
    if spec.elements == 0:
        return Nothing()
    names = ("grad", *((_LIMIT,) if call["amsgrad"] else ()), *_STATE[::-1])
    tiling, operands = lay_out(
        spec.shape, [(name, call.tensor(name)) for name in names], along_last=True
    )
    grad, *state = operands
    step = call.tensor("step")
    steps = Operand("step", step.dtype, step.shape, step.strides, step.offset)
    return Step(tuple(reversed(state)), grad, steps, tiling, Settings.of(call))
