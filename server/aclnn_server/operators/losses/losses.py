"""Losses and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.pythonic import REDUCTIONS, Result
from aclnn_server.operators.checking.checks import (
    AtLeast,
    Broadcasts,
    NotNull,
    OneElement,
    OneOf,
    Promotes,
    RankUpTo,
    ShapeIsBroadcast,
    TypeIn,
    broadcast_shape,
)
from aclnn_server.operators.definition import Call, Family, OneLine, Work
from aclnn_server.operators.engines.blocks import FEW, elementwise, reduction
from aclnn_server.operators.engines.casts import bits_of, has_compiler
from aclnn_server.operators.engines.threads import Scratch
from aclnn_server.operators.losses import device_smooth_l1
from aclnn_server.operators.products import ASCEND310B

Array = npt.NDArray[Any]

LOSSES = Family()

FLOATS = (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BF16)
_LOSS = ("self", "target")
_BACKWARD = ("gradOutput", "self", "target")
_ONE = np.float32(1)

_LARGEST = float(np.finfo(np.float32).max)


class SmoothL1Gradient:
    """Kernel of the gradient of the smooth L1 loss.

    x / beta, cut off at -1 and 1, is the slope: it reaches them where abs(x) reaches beta.
    """

    def __init__(self, beta: float, factor: float) -> None:
        self._beta = _single(beta)
        self._factor = np.float32(factor)

    def __call__(self, grad: Array, x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
        """Writes grad * slope(x - y) * factor."""
        slope = scratch.like(out)
        np.subtract(x, y, out=slope)
        self._to_slope(slope)
        if self._factor == _ONE:
            np.multiply(slope, grad, out=out)
        else:
            np.multiply(slope, grad, out=slope)
            np.multiply(slope, self._factor, out=out)

    def fused(self, dtype: np.dtype[Any]) -> Callable[..., object] | None:
        """One compiled pass, where numba is installed and beta is neither 0 nor infinite."""
        if not (has_compiler() and 0 < self._beta < np.inf):
            return None
        from aclnn_server.operators.engines import compiled

        loops = {
            np.dtype(np.float32): compiled.gradient_single,
            np.dtype(np.float16): compiled.gradient_half,
            dtypes.BF16.numpy: compiled.gradient_brain,
        }
        loop = loops.get(dtype)
        if loop is None:
            return None

        def compute(grad: Array, x: Array, y: Array, out: Array) -> None:
            inputs = map(bits_of, (grad, x, y))
            loop(*inputs, self._beta, self._factor, bits_of(out))

        return compute

    def _to_slope(self, x: Array) -> None:
        if self._beta == 0:
            np.sign(x.copy(), out=x)  # in place it is an order of magnitude slower
            return
        if self._beta == np.inf:
            np.copyto(x, 0, where=np.isfinite(x))
        elif self._beta != _ONE:
            np.divide(x, self._beta, out=x)
        _cut_off(x)


def _cut_off(x: Array) -> None:
    """Cuts off what is outside of -1 and 1; NaN stays."""
    if x.size < FEW:  # np.clip takes longer to begin than two functions
        np.maximum(x, -_ONE, out=x)
        np.minimum(x, _ONE, out=x)
    else:
        np.clip(x, -_ONE, _ONE, out=x)


class SmoothL1:
    """Kernel of the smooth L1 loss.

    With a = abs(x - y) and t = min(a / beta, 1), both branches are t * (a - beta * t / 2).
    """

    def __init__(self, beta: float) -> None:
        self._beta = _single(beta)

    def __call__(self, x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
        """Writes the loss of each element."""
        distance = scratch.like(out)
        np.subtract(x, y, out=distance)
        np.abs(distance, out=distance)
        if self._beta == 0:
            np.copyto(out, distance)
        elif self._beta == np.inf:
            np.multiply(distance, 0, out=out)
        else:
            self._loss(distance, out, scratch)

    def _loss(self, distance: Array, out: Array, scratch: Scratch) -> None:
        slope, excess = scratch.like(out), scratch.like(out)
        np.divide(distance, self._beta, out=slope)
        np.minimum(slope, _ONE, out=slope)
        np.multiply(slope, self._beta / 2, out=excess)
        np.subtract(distance, excess, out=excess)
        np.multiply(slope, excess, out=out)


def _single(value: float) -> np.float32:
    """A number of at least 0 as C passes it in a float."""
    return np.float32(value if value <= _LARGEST else np.inf)


@LOSSES.operator(
    """
    aclnnStatus aclnnSmoothL1LossBackwardGetWorkspaceSize(
        const aclTensor* gradOutput, const aclTensor* self, const aclTensor* target,
        int64_t reduction, float beta, aclTensor* gradInput,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("gradInput",),
    checks=(
        NotNull((*_BACKWARD, "gradInput")),
        TypeIn((*_BACKWARD, "gradInput"), FLOATS),
        RankUpTo(_BACKWARD),
        OneOf("reduction", REDUCTIONS),
        AtLeast("beta", 0),
        Promotes(_BACKWARD, to="gradInput"),
        Broadcasts(_BACKWARD, to="gradInput"),
    ),
    missing_on=(ASCEND310B,),
    python=OneLine(
        "smooth_l1_loss_backward",
        {"reduction": "mean", "beta": 1.0},
        {"reduction": REDUCTIONS},
    ),
)
def smooth_l1_loss_backward(call: Call) -> Work:
    """Gradient of the smooth L1 loss with respect to self.

    With x = self - target, and n the number of elements of gradInput:

    $$gradInput = gradOutput \\cdot \\frac{1}{n} \\cdot
    \\begin{cases} x / beta & |x| < beta \\\\ sign(x) & \\text{otherwise} \\end{cases}$$

    where the factor 1/n is there for reduction 1 (mean) only. Nothing is summed: gradInput has the
    broadcast shape of the three inputs, whatever the reduction.

    - sign(0) is 0, so beta 0 gives 0 where self equals target.
    - beta may be infinite: finite x give 0, infinite x give gradOutput with the sign of x.
    - NaN in any input gives NaN.
    - Computed in FLOAT, rounded once to the common type of the inputs, then cast to the type of
      gradInput. FLOAT16 and BF16 meet in FLOAT.
    - An empty broadcast shape plans no workspace and computes nothing.
    - gradInput may be the same memory as an input of the same type, strides and shape.
    - Deterministic.

    That is the documentation's formula, and what ``--soc reference`` computes. With another ``--soc``
    the arithmetic is that of the product's kernel, from public source and not checked on hardware:

    - Ascend 950 multiplies by the reciprocal of beta. A beta below 1e-6 gives NaN where self equals
      target, unless gradOutput has one element. Where |x| is beta, the slope is x times the
      reciprocal, or with a gradOutput of one element -1 or 1.
    - All others divide by beta + 1e-6. Where |x| is beta, the slope is -1 or 1. With beta 0, NaN in
      self or target gives 0.
    - A mean divides by the number of elements of self before broadcasting; on all but Ascend 950
      by its sizes one after the other, rounding each time.

    Source: the public documentation of aclnnSmoothL1LossBackward, and for the order of checks its
    host code (hicann/ops-nn, loss/smooth_l1_loss_grad_v2).
    """
    shape = broadcast_shape(call, _BACKWARD)
    factor = 1 / max(math.prod(shape), 1) if call["reduction"] == REDUCTIONS["mean"] else 1.0
    kernel = device_smooth_l1.gradient(
        call.product,
        call["beta"],
        grad=call.tensor("gradOutput").shape,
        own=call.tensor("self").shape,
        mean=call["reduction"] == REDUCTIONS["mean"],
    )
    return elementwise(
        call,
        kernel or SmoothL1Gradient(call["beta"], factor),
        _BACKWARD,
        "gradInput",
        shape,
    )


@LOSSES.operator(
    """
    aclnnStatus aclnnSmoothL1LossGetWorkspaceSize(
        const aclTensor* self, const aclTensor* target, int64_t reduction, float beta,
        aclTensor* result, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("result",),
    checks=(
        NotNull((*_LOSS, "result")),
        TypeIn(_LOSS, FLOATS),
        Promotes(_LOSS, to="result"),
        OneOf("reduction", REDUCTIONS),
        RankUpTo(_LOSS),
        Broadcasts(_LOSS),
        ShapeIsBroadcast("result", _LOSS),
        AtLeast("beta", 0),
        OneElement("result"),
    ),
    missing_on=(ASCEND310B,),
    python=OneLine(
        "smooth_l1_loss",
        {"reduction": "mean", "beta": 1.0},
        {"reduction": REDUCTIONS},
        Result("reduced"),
    ),
)
def smooth_l1_loss(call: Call) -> Work:
    """Smooth L1 loss: quadratic where self is near target, linear elsewhere.

    With x = self - target:

    $$loss = \\begin{cases} 0.5 x^2 / beta & |x| < beta \\\\
    |x| - 0.5 beta & \\text{otherwise} \\end{cases}$$

    result is the loss of each element of the broadcast shape (reduction 0, none), their mean (1) or
    their sum (2); for the latter two it has one element, of any rank.

    - beta 0 gives |x|; beta may be infinite, which gives 0 for finite x and NaN for infinite x.
    - NaN in any input gives NaN.
    - Of an empty broadcast shape, the mean is NaN and the sum 0.
    - Computed in FLOAT, sums in DOUBLE over blocks of a fixed size; rounded once to the common type
      of the inputs, then cast to the type of result. FLOAT16 and BF16 meet in FLOAT.
    - result may be of any type that floats cast to: any float or complex, not integer or BOOL.
    - Deterministic, at any number of threads.

    With a ``--soc`` other than reference, an element's loss is that of the product's kernel, from public
    source and not checked on hardware: the quadratic branch multiplies by the reciprocal of beta.

    Source: the public documentation of aclnnSmoothL1Loss, and for the order of checks its host code
    (hicann/ops-nn, loss/smooth_l1_loss_v2).
    """
    shape = broadcast_shape(call, _LOSS)
    kernel = device_smooth_l1.loss(call.product, call["beta"]) or SmoothL1(call["beta"])
    if call["reduction"] == REDUCTIONS["none"]:
        return elementwise(call, kernel, _LOSS, "result", shape)
    mean = call["reduction"] == REDUCTIONS["mean"]
    return reduction(call, kernel, _LOSS, "result", shape, mean=mean)
