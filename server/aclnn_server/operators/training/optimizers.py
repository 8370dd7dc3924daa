"""Optimisers: updates of weights by their gradients."""

from __future__ import annotations

from collections.abc import Sequence
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
from aclnn_server.operators.checking.layout_checks import HasShape
from aclnn_server.operators.definition import Call, Family, Memory, Work
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.copies import apart, cast
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Scratch, Threads, scratch_bytes
from aclnn_server.operators.engines.tiling import Operand, Tiling, lay_out
from aclnn_server.operators.products import (
    ASCEND310B,
    ASCEND310P,
    ASCEND910,
    ASCEND910_93,
    ASCEND910B,
)

Array = npt.NDArray[Any]

OPTIMIZERS = Family()

FLOATS = (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BF16)
_SINGLE = np.dtype(np.float32)
_STATE = ("varRef", "mRef", "vRef")
_NUMBERS = ("beta1Power", "beta2Power", "lr", "weightDecay", "beta1", "beta2", "eps")
_LIMIT = "maxGradNormOptional"


@dataclass(frozen=True, slots=True)
class AdamW:
    """One step of AdamW on weights and moments, in FLOAT, a block at a time."""

    state: tuple[Operand, Operand, Operand]
    """Weights, first and second moment."""
    inputs: tuple[Operand, ...]
    """The gradient, and the limit of the second moment where there is one."""
    numbers: tuple[Operand, ...]
    """One number each, in the order of the signature."""
    tiling: Tiling
    maximize: bool
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Updates weights and moments."""
        factors = _Factors(*(float(row.array(memory[row.name])[0]) for row in self.numbers))
        state = [row.array(memory[row.name]) for row in self.state]
        inputs = [self._apart(row, memory, state) for row in self.inputs]

        def compute(scratch: Scratch, number: int) -> None:
            index = self.tiling.index(number)
            rows = (*self.state, *self.inputs)
            parts = [
                array[row.part(index)] for row, array in zip(rows, (*state, *inputs), strict=True)
            ]
            self._step(scratch, parts, factors)

        # Five blocks may be cast, two are for work, and one is what a cast takes.
        threads.run(compute, self.tiling.blocks, 8 * scratch_bytes(self.tiling.largest * 4))

    def _apart(self, row: Operand, memory: Memory, state: list[Array]) -> Array:
        array = row.array(memory[row.name])
        for written in state:
            array = apart(array, written, written)
        return array

    def _step(self, scratch: Scratch, parts: list[Array], factors: _Factors) -> None:
        weights, first, second, grad, *limit = (as_single(scratch, part) for part in parts)
        work = scratch.like(weights)
        update_moments(first, second, grad, work, factors, maximize=self.maximize)
        if limit:
            np.maximum(second, limit[0], out=second)
        np.divide(second, factors.second_left, out=work)
        np.sqrt(work, out=work)
        np.add(work, factors.eps, out=work)
        np.divide(first, work, out=work)
        np.multiply(work, factors.step, out=work)
        np.multiply(weights, factors.decay, out=weights)
        np.subtract(weights, work, out=weights)
        store(scratch, parts, (weights, first, second))


class Betas:
    """What moments are multiplied by, in FLOAT."""

    def __init__(self, beta1: float, beta2: float) -> None:
        single = np.float32
        self.beta1, self.first_new = single(beta1), single(1 - beta1)
        self.beta2, self.second_new = single(beta2), single(1 - beta2)


def update_moments(
    first: Array, second: Array, grad: Array, work: Array, betas: Betas, *, maximize: bool
) -> None:
    """Takes a gradient into both moments, all FLOAT; `work` is overwritten."""
    sign = np.float32(-1 if maximize else 1)
    np.multiply(grad, grad, out=work)
    np.multiply(work, betas.second_new, out=work)
    np.multiply(second, betas.beta2, out=second)
    np.add(second, work, out=second)
    np.multiply(grad, betas.first_new * sign, out=work)
    np.multiply(first, betas.beta1, out=first)
    np.add(first, work, out=first)


def store(scratch: Scratch, parts: Sequence[Array], arrays: Sequence[Array]) -> None:
    """Writes FLOAT arrays to the first of the parts that they were made of, where those are others."""
    for part, array in zip(parts, arrays, strict=False):
        if part is not array:
            mark = scratch.mark()
            cast(array, part, scratch)
            scratch.rewind(mark)


class _Factors(Betas):
    """What a step multiplies by and adds, in FLOAT."""

    def __init__(
        self,
        beta1_power: float,
        beta2_power: float,
        rate: float,
        decay: float,
        beta1: float,
        beta2: float,
        eps: float,
    ) -> None:
        super().__init__(beta1, beta2)
        single = np.float32
        with np.errstate(all="ignore"):
            self.step = single(np.float64(rate) / (1 - beta1_power * beta1))
        self.second_left = single(1 - beta2_power * beta2)
        self.decay, self.eps = single(1 - rate * decay), single(eps)


def as_single(scratch: Scratch, part: Array) -> Array:
    """A block in FLOAT: itself, or a copy."""
    if part.dtype == _SINGLE:
        return part
    target = scratch.take(part.shape, _SINGLE)
    cast(part, target, scratch)
    return target


def _one(call: Call) -> Shape:
    return (1,)


def _check_limit(call: Call) -> None:
    if call["amsgrad"]:
        NotNull((_LIMIT,))(call)


@OPTIMIZERS.operator(
    """
    aclnnStatus aclnnApplyAdamWGetWorkspaceSize(
        aclTensor* varRef, aclTensor* mRef, aclTensor* vRef, const aclTensor* beta1Power,
        const aclTensor* beta2Power, const aclTensor* lr, const aclTensor* weightDecay,
        const aclTensor* beta1, const aclTensor* beta2, const aclTensor* eps, const aclTensor* grad,
        const aclTensor* maxGradNormOptional, bool amsgrad, bool maximize,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=_STATE,
    missing_on=(ASCEND910_93, ASCEND910B, ASCEND910, ASCEND310P, ASCEND310B),
    checks=(
        NotNull((*_STATE, *_NUMBERS, "grad")),
        Holds(
            f"{_LIMIT} is not null, if amsgrad is true",
            _check_limit,
            codes.ACLNN_ERR_PARAM_NULLPTR,
        ),
        TypeIn((*_STATE, *_NUMBERS, "grad"), FLOATS),
        SameType((*_STATE[1:], *_NUMBERS, "grad"), "varRef"),
        WhereGiven((_LIMIT,), lambda name: TypeIn((name,), FLOATS)),
        WhereGiven((_LIMIT,), lambda name: SameType((name,), "varRef")),
        RankUpTo(("varRef",)),
        SameShape((*_STATE[1:], "grad"), "varRef"),
        WhereGiven((_LIMIT,), lambda name: SameShape((name,), "varRef")),
        *(HasShape(name, "one number", _one) for name in _NUMBERS),
    ),
)
def apply_adam_w(call: Call) -> Work:
    """One step of the optimiser AdamW, in place.

    With g = grad, or -grad if maximize is true:

    $$m \\leftarrow beta1 \\cdot m + (1 - beta1) \\cdot g \\qquad
    v \\leftarrow beta2 \\cdot v + (1 - beta2) \\cdot g^2$$

    $$var \\leftarrow var \\cdot (1 - lr \\cdot weightDecay) -
    \\frac{lr}{1 - beta1Power \\cdot beta1} \\cdot
    \\frac{m}{\\sqrt{v / (1 - beta2Power \\cdot beta2)} + eps}$$

    - If amsgrad is true, v is not less than maxGradNormOptional, before it is used and stored.
    - beta1Power and beta2Power are the powers of beta1 and beta2 up to the step before; they are not
      updated here. They, lr, weightDecay, beta1, beta2 and eps are tensors of shape [1].
    - Computed in FLOAT, rounded once to the type of varRef, mRef and vRef.
    - Of empty weights nothing is computed.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnApplyAdamW, and its kernel for Ascend 950 (hicann/ops-nn,
    optim/apply_adam_w). Other products do not have it.
    """
    spec = call.tensor("varRef")
    if spec.elements == 0:
        return Nothing()
    limit = (_LIMIT,) if call["amsgrad"] else ()
    names = ("grad", *limit, *_STATE[::-1])
    specs = [(name, call.tensor(name)) for name in names]
    tiling, operands = lay_out(spec.shape, specs, along_last=True)
    second, first, weights = operands[-3:]
    numbers = (
        Operand(name, own.dtype, own.shape, own.strides, own.offset)
        for name, own in ((name, call.tensor(name)) for name in _NUMBERS)
    )
    return AdamW((weights, first, second), operands[:-3], tuple(numbers), tiling, call["maximize"])
