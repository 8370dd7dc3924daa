"""Normalisation of batches, with known statistics or their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aclnn import codes
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.axis_checks import WhereGiven, WhereNotEmpty
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    PlainFormat,
    RankUpTo,
    SameShape,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import HasShape, SameFormat
from aclnn_server.operators.definition import Call, Family, Work
from aclnn_server.operators.engines.axes import Grid
from aclnn_server.operators.engines.blocks import Elementwise, Types
from aclnn_server.operators.engines.rows import Rows, Target
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.tiling import lay_out
from aclnn_server.operators.networks.normalization import (
    FLOATS,
    SINGLE,
    Several,
    as_single,
    fill_all,
)
from aclnn_server.operators.networks.normalization_kernels import BatchNormBlock, BatchNormRows
from aclnn_server.operators.products import ASCEND310B

BATCH_NORM = Family()

_CHANNEL = ("weight", "bias", "runningMean", "runningVar")
_SAVED = ("saveMean", "saveInvstd")


def _check_saved(call: Call) -> None:
    if call["training"]:
        NotNull(_SAVED)(call)


def _check_saved_types(call: Call) -> None:
    if call["training"]:
        TypeIn(_SAVED, FLOATS)(call)


def _check_five_dims(call: Call) -> None:
    spec = call.tensor("input")
    if len(spec.shape) == 5 and spec.format.name != "NCDHW":
        raise call.invalid(
            "input", f"input has the format {spec.format}; with 5 dimensions it must have NCDHW"
        )


def _check_two_dims(call: Call) -> None:
    shape = call.tensor("input").shape
    if len(shape) < 2:
        raise call.invalid(
            "input", f"input has shape {list(shape)}; it must have 2 dimensions or more"
        )


def _channels(call: Call) -> Shape:
    return call.tensor("input").shape[1:2]


def _check_saved_shapes(call: Call) -> None:
    for name in _SAVED if call["training"] else ():
        HasShape(name, "the channels of input", _channels)(call)


@BATCH_NORM.operator(
    """
    aclnnStatus aclnnBatchNormGetWorkspaceSize(
        const aclTensor* input, const aclTensor* weight, const aclTensor* bias,
        aclTensor* runningMean, aclTensor* runningVar, bool training, double momentum, double eps,
        aclTensor* output, aclTensor* saveMean, aclTensor* saveInvstd,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("runningMean", "runningVar", "output", *_SAVED),
    optional=(*_CHANNEL, *_SAVED),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("input", "output")),
        Holds(
            "saveMean and saveInvstd are not null, for training",
            _check_saved,
            codes.ACLNN_ERR_PARAM_NULLPTR,
        ),
        WhereNotEmpty(("input",), TypeIn(("input", "output"), FLOATS)),
        WhereNotEmpty(
            ("input",),
            Holds(
                f"the types of saveMean and saveInvstd are among {', '.join(map(str, FLOATS))}, "
                "for training",
                _check_saved_types,
            ),
        ),
        WhereNotEmpty(("input",), WhereGiven(_CHANNEL, lambda name: TypeIn((name,), FLOATS))),
        WhereNotEmpty(("input",), SameFormat(("input", "output"))),
        WhereNotEmpty(
            ("input",), Holds("input has the format NCDHW if it has 5 dimensions", _check_five_dims)
        ),
        WhereNotEmpty(("input",), PlainFormat(("input",))),
        WhereNotEmpty(("input",), RankUpTo(("input", "output"))),
        WhereNotEmpty(("input",), Holds("input has 2 dimensions or more", _check_two_dims)),
        WhereNotEmpty(("input",), SameShape(("output",), "input")),
        WhereNotEmpty(
            ("input",),
            WhereGiven(_CHANNEL, lambda name: HasShape(name, "the channels of input", _channels)),
        ),
        WhereNotEmpty(
            ("input",),
            Holds(
                "saveMean and saveInvstd have the channels of input, for training",
                _check_saved_shapes,
            ),
        ),
    ),
)
def batch_norm(call: Call) -> Work:
    """Normalisation of each channel over a batch, then scaled and shifted.

    $$output = \\frac{input - mean}{\\sqrt{variance + eps}} \\cdot weight + bias$$

    Channels are dimension 1.

    - If training is false, mean and variance are runningMean and runningVar, and nothing but output is
      written.
    - If training is true, they are those of the channel's elements, and saveMean and saveInvstd, the
      reciprocal of the divisor, are written; runningMean and runningVar become
      (1 - momentum) * old + momentum * new, with the variance divided by the number of elements less 1.
    - weight, bias, runningMean and runningVar may be null: 1, 0, 0 and 1.
    - Computed in FLOAT, rounded to the type of input, then cast to that of output.
    - Of an empty input nothing is computed, except that saveMean, if given, becomes 0 and saveInvstd NaN.
    - Deterministic, at any number of threads.

    Source: host code of aclnnBatchNorm (hicann/ops-nn, norm/batch_norm_v3); the formula is of the public
    documentation.
    """
    if call.tensor("input").elements == 0:
        values = zip(_SAVED, (0.0, np.nan), strict=True)
        fills = (fill_all(call, name, value) for name, value in values if call[name] is not None)
        return Several(tuple(fills))
    return _trained(call) if call["training"] else _inferred(call)


def per_channel(call: Call, name: str) -> TensorSpec:
    """A tensor of one number per channel, as one that broadcasts to input."""
    spec, after = call.tensor(name), len(call.tensor("input").shape) - 2
    return replace(spec, shape=(*spec.shape, *(1,) * after), strides=(*spec.strides, *(0,) * after))


def _inferred(call: Call) -> Work:
    spec, output = call.tensors(("input", "output"))
    present = [call[name] is not None for name in _CHANNEL]
    numbers = [
        (name, per_channel(call, name))
        for name, flag in zip(_CHANNEL, present, strict=True)
        if flag
    ]
    tiling, operands = lay_out(
        spec.shape, [("input", spec), *numbers, ("output", output)], along_last=True
    )
    kernel = BatchNormBlock(call["eps"], present)
    types = Types(SINGLE, spec.numpy_dtype())
    return Elementwise(kernel, operands[:-1], operands[-1], tiling, types)


def _trained(call: Call) -> Work:
    spec = call.tensor("input")
    axes = tuple(axis for axis in range(len(spec.shape)) if axis != 1)
    grid = Grid.of(spec.shape, axes, whole=True)
    given = [name for name in _CHANNEL if call[name] is not None]
    running = [name for name in given if name.startswith("running")]
    flags = [name in given for name in _CHANNEL]
    kernel = BatchNormRows(call["eps"], call["momentum"], flags[0], flags[1], (flags[2], flags[3]))
    sources = [as_single(grid, name, per_channel(call, name)) for name in given]
    statistics = (
        Target(grid.result(name, call.tensor(name)), SINGLE) for name in (*_SAVED, *running)
    )
    output = Target(grid.operand("output", call.tensor("output")), spec.numpy_dtype())
    return Rows(
        kernel, (as_single(grid, "input", spec), *sources), (output, *statistics), grid, SINGLE
    )
