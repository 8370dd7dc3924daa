"""Softmax, its logarithm, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.pythonic import Result
from aclnn_server.operators.checking.axis_checks import DIM_OF_SELF, WhereNotEmpty, axes_of
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import DimOf
from aclnn_server.operators.definition import Call, Family, OneLine, Work
from aclnn_server.operators.engines.axes import Axes, Grid
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.folds import computed
from aclnn_server.operators.engines.reducing import Source, total_along
from aclnn_server.operators.engines.rows import RowKernel, Rows, Target
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]
Outputs = tuple[Array, ...]

SOFTMAX = Family()

_FLOATS = (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BF16)
_FORWARD = (*_FLOATS, dtypes.DOUBLE)
_BACKWARD = ("gradOutput", "output")


# --- kernels ----------------------------------------------------------------------------------------


def softmax_rows(x: Array, *, out: Outputs, axes: Axes, scratch: Scratch) -> None:
    """Writes exp(x - max) / sum(exp(x - max))."""
    (y,) = out
    np.subtract(x, np.maximum.reduce(x, axis=axes, keepdims=True), out=y)
    np.exp(y, out=y)
    np.divide(y, total_along(y, axes), out=y)


def log_softmax_rows(x: Array, *, out: Outputs, axes: Axes, scratch: Scratch) -> None:
    """Writes x - max - log(sum(exp(x - max)))."""
    (y,) = out
    np.subtract(x, np.maximum.reduce(x, axis=axes, keepdims=True), out=y)
    powers = scratch.like(y)
    np.exp(y, out=powers)
    np.subtract(y, np.log(total_along(powers, axes)), out=y)


def softmax_gradient_rows(
    grad: Array, y: Array, *, out: Outputs, axes: Axes, scratch: Scratch
) -> None:
    """Writes (grad - sum(grad * y)) * y."""
    products = scratch.like(y)
    np.multiply(grad, y, out=products)
    np.subtract(grad, total_along(products, axes), out=products)
    np.multiply(products, y, out=out[0])


def log_softmax_gradient_rows(
    grad: Array, y: Array, *, out: Outputs, axes: Axes, scratch: Scratch
) -> None:
    """Writes grad - exp(y) * sum(grad)."""
    powers = scratch.like(y)
    np.exp(y, out=powers)
    np.multiply(powers, total_along(grad, axes), out=powers)
    np.subtract(grad, powers, out=out[0])


# --- planning ---------------------------------------------------------------------------------------


def _rows(call: Call, kernel: RowKernel, inputs: Sequence[str], common: DType) -> Work:
    """Plans rows along dim; inputs are cast to `common`, and results rounded to it."""
    specs = call.tensors(inputs)
    if not all(spec.elements for spec in specs):
        return Nothing()
    grid = Grid.of(specs[0].shape, axes_of(inputs[0], "dim")(call), whole=True)
    assert common.numpy is not None, "a check of the operator covers it"
    types = (common.numpy, computed(common))
    sources = (
        Source(grid.operand(name, spec), *types) for name, spec in zip(inputs, specs, strict=True)
    )
    target = Target(grid.operand("out", call.tensor("out")), common.numpy)
    return Rows(kernel, tuple(sources), (target,), grid, computed(common))


@SOFTMAX.operator(
    """
    aclnnStatus aclnnSoftmaxGetWorkspaceSize(
        const aclTensor* self, int64_t dim, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "out")),
        WhereNotEmpty(("self",), TypeIn(("self", "out"), _FORWARD)),
        WhereNotEmpty(("self",), DIM_OF_SELF),
        WhereNotEmpty(("self",), RankUpTo(("self",))),
        WhereNotEmpty(("self",), SameShape(("out",), "self")),
    ),
    python=OneLine("softmax", {"dim": -1}, result=Result("same", "first")),
)
def softmax(call: Call) -> Work:
    """Exponentials along a dimension, divided by their sum.

    $$out_i = \\frac{e^{self_i - m}}{\\sum_j e^{self_j - m}}$$

    where m is the greatest of self along dim.

    - Computed in FLOAT, or in DOUBLE for DOUBLE; rounded to the type of self, then cast to that of out.
    - NaN, or an infinite m, gives NaN along the whole row.
    - Of an empty self nothing is computed.
    - Deterministic, at any number of threads.

    Source: host code of aclnnSoftmax (hicann/ops-nn, activation/softmax_v2).
    """
    return _rows(call, softmax_rows, ("self",), call.tensor("self").dtype)


@SOFTMAX.operator(
    """
    aclnnStatus aclnnLogSoftmaxGetWorkspaceSize(
        const aclTensor* self, int64_t dim, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "out")),
        DIM_OF_SELF,
        TypeIn(("self", "out"), _FORWARD),
        RankUpTo(("self", "out")),
        SameShape(("out",), "self"),
    ),
    python=OneLine("log_softmax", {"dim": -1}, result=Result("same", "first")),
)
def log_softmax(call: Call) -> Work:
    """Logarithm of the softmax along a dimension.

    $$out_i = self_i - m - \\log \\sum_j e^{self_j - m}$$

    where m is the greatest of self along dim.

    - self is cast to the type of out first; computed in FLOAT, or in DOUBLE for DOUBLE.
    - NaN, or an infinite m, gives NaN along the whole row.
    - Of an empty self nothing is computed.
    - Deterministic, at any number of threads.

    Source: host code of aclnnLogSoftmax (hicann/ops-nn, activation/log_softmax_v2).
    """
    return _rows(call, log_softmax_rows, ("self",), call.tensor("out").dtype)


def _check_float_output(call: Call) -> None:
    if call.tensor("out").dtype.kind not in ("float", "complex"):
        raise call.invalid("out", f"out is {call.tensor('out').dtype}, to which floats do not cast")


_FLOAT_OUTPUT = WhereNotEmpty(
    _BACKWARD, Holds("floats cast to the type of out", _check_float_output)
)


@SOFTMAX.operator(
    """
    aclnnStatus aclnnSoftmaxBackwardGetWorkspaceSize(
        const aclTensor* gradOutput, const aclTensor* output, int64_t dim, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull((*_BACKWARD, "out")),
        WhereNotEmpty(_BACKWARD, TypeIn(_BACKWARD, _FLOATS)),
        WhereNotEmpty(_BACKWARD, SameType(("output",), "gradOutput")),
        WhereNotEmpty(_BACKWARD, DimOf("dim", "gradOutput")),
        WhereNotEmpty(_BACKWARD, RankUpTo(("gradOutput",))),
        WhereNotEmpty(_BACKWARD, SameShape(("output", "out"), "gradOutput")),
        _FLOAT_OUTPUT,
    ),
    python=OneLine("softmax_backward", {"dim": -1}, result=Result("same", "first")),
)
def softmax_backward(call: Call) -> Work:
    """Gradient of the softmax, from its result.

    $$out_i = (gradOutput_i - \\sum_j gradOutput_j \\cdot output_j) \\cdot output_i$$

    with the sum along dim.

    - Computed in FLOAT, rounded to the type of the inputs, then cast to that of out.
    - Of empty inputs nothing is computed.
    - Deterministic, at any number of threads.

    Source: host code of aclnnSoftmaxBackward (hicann/ops-nn, activation/softmax_grad); the formula is of
    the public documentation.
    """
    return _rows(call, softmax_gradient_rows, _BACKWARD, call.tensor("output").dtype)


@SOFTMAX.operator(
    """
    aclnnStatus aclnnLogSoftmaxBackwardGetWorkspaceSize(
        const aclTensor* gradOutput, const aclTensor* output, int64_t dim, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("output", "gradOutput", "out")),
        WhereNotEmpty(_BACKWARD, TypeIn(("output", "gradOutput"), _FLOATS)),
        WhereNotEmpty(_BACKWARD, SameType(("output",), "gradOutput")),
        WhereNotEmpty(_BACKWARD, RankUpTo(_BACKWARD)),
        WhereNotEmpty(_BACKWARD, SameShape(("output", "out"), "gradOutput")),
        WhereNotEmpty(_BACKWARD, DimOf("dim", "gradOutput")),
        _FLOAT_OUTPUT,
    ),
    python=OneLine("log_softmax_backward", {"dim": -1}, result=Result("same", "first")),
)
def log_softmax_backward(call: Call) -> Work:
    """Gradient of the logarithm of the softmax, from its result.

    $$out_i = gradOutput_i - e^{output_i} \\cdot \\sum_j gradOutput_j$$

    with the sum along dim.

    - Computed in FLOAT, rounded to the type of the inputs, then cast to that of out.
    - Of empty inputs nothing is computed.
    - Deterministic, at any number of threads.

    Source: host code of aclnnLogSoftmaxBackward (hicann/ops-nn, activation/log_softmax_grad); the formula
    is of the public documentation.
    """
    return _rows(call, log_softmax_gradient_rows, _BACKWARD, call.tensor("output").dtype)
