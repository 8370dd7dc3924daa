"""Normalisations: of layers, by root mean square, and of batches with known statistics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import codes, dtypes
from aclnn.pythonic import Result
from aclnn.tensors import TensorSpec
from aclnn_server.operators.axes import Grid
from aclnn_server.operators.axis_checks import WhereGiven, WhereNotEmpty
from aclnn_server.operators.blocks import Elementwise, Types
from aclnn_server.operators.checks import (
    Holds,
    NotNull,
    PlainFormat,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.copies import constant, fill, movement
from aclnn_server.operators.definition import Call, Family, Memory, OneLine, Work
from aclnn_server.operators.layout_checks import HasShape, SameFormat
from aclnn_server.operators.normalization_kernels import (
    BatchNormBlock,
    BatchNormRows,
    LayerNormRows,
    RmsNormRows,
)
from aclnn_server.operators.products import ASCEND310B, ASCEND910
from aclnn_server.operators.reducing import Source
from aclnn_server.operators.rows import Rows, Target
from aclnn_server.operators.shapes import Shape
from aclnn_server.operators.threads import Threads
from aclnn_server.operators.tiling import lay_out

Array = npt.NDArray[Any]

NORMALIZATION = Family()

FLOATS = (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BF16)
_SINGLE = np.dtype(np.float32)


# --- layers -----------------------------------------------------------------------------------------

_AFFINE = ("weightOptional", "biasOptional")
_STATISTICS = ("meanOutOptional", "rstdOutOptional")


def _check_affine_types(call: Call) -> None:
    own = call.tensor("input").dtype
    given = [name for name in _AFFINE if call[name] is not None]
    for name in given:
        found = call.tensor(name).dtype
        if found not in (own, dtypes.FLOAT):
            raise call.invalid(name, f"{name} is {found}; it must be FLOAT, or {own} as input is")
    if len({call.tensor(name).dtype for name in given}) > 1:
        raise call.invalid(
            "biasOptional",
            f"biasOptional is {call.tensor('biasOptional').dtype}; it must be "
            f"{call.tensor('weightOptional').dtype}, as weightOptional is",
        )


def _check_normalized_shape(call: Call) -> None:
    shape, trailing = call.tensor("input").shape, tuple(call["normalizedShape"])
    if not 1 <= len(trailing) <= 8 or shape[-len(trailing) :] != trailing:
        raise call.invalid(
            "normalizedShape",
            f"normalizedShape is {list(trailing)}; it must be 1 to 8 last sizes of {list(shape)} of "
            "input",
        )


def _normalized_shape(call: Call) -> Shape:
    return tuple(call["normalizedShape"])


def _statistics_shape(call: Call) -> Shape:
    shape, count = call.tensor("input").shape, len(call["normalizedShape"])
    return shape[:-count] + (1,) * count


@NORMALIZATION.operator(
    """
    aclnnStatus aclnnLayerNormGetWorkspaceSize(
        const aclTensor* input, const aclIntArray* normalizedShape, const aclTensor* weightOptional,
        const aclTensor* biasOptional, double eps, aclTensor* out, aclTensor* meanOutOptional,
        aclTensor* rstdOutOptional, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out", *_STATISTICS),
    checks=(
        NotNull(("input", "normalizedShape", "out")),
        TypeIn(("input",), FLOATS),
        WhereGiven(_AFFINE, lambda name: TypeIn((name,), FLOATS)),
        Holds(
            "weightOptional and biasOptional are of one type, FLOAT or that of input",
            _check_affine_types,
        ),
        TypeIn(("out",), FLOATS),
        WhereGiven(_STATISTICS, lambda name: TypeIn((name,), FLOATS)),
        RankUpTo(("input", "out")),
        Holds("normalizedShape is 1 to 8 last sizes of input", _check_normalized_shape),
        WhereGiven(
            _AFFINE, lambda name: HasShape(name, "the shape normalizedShape", _normalized_shape)
        ),
        SameShape(("out",), "input"),
        WhereGiven(
            _STATISTICS,
            lambda name: HasShape(
                name, "the shape of input with 1 for the normalised sizes", _statistics_shape
            ),
        ),
    ),
    python=OneLine(
        "layer_norm",
        {"normalizedShape": None, "eps": 1e-5},
        result=Result("same", "first"),
        takes=_AFFINE,
    ),
)
def layer_norm(call: Call) -> Work:
    """Normalisation of each layer to mean 0 and variance 1, then scaled and shifted.

    $$out = \\frac{input - mean}{\\sqrt{variance + eps}} \\cdot weight + bias$$

    Mean and variance are over the last dimensions, as many as normalizedShape has; the variance is that
    of the whole, divided by the number of elements.

    - weightOptional and biasOptional may be null: 1 and 0. So may meanOutOptional, for the mean, and
      rstdOutOptional, for the divisor's reciprocal.
    - Computed in FLOAT, rounded to the type of input, then cast to that of out.
    - Of an input without layers nothing is computed; of layers without elements the mean is 0 and the
      reciprocal NaN.
    - Deterministic, at any number of threads.

    Source: host code of aclnnLayerNorm (hicann/ops-nn, norm/layer_norm_v4); the shape of the statistics,
    which it checks on Ascend 950 only, is always checked here.
    """
    spec = call.tensor("input")
    given = [name for name in _STATISTICS if call[name] is not None]
    if spec.elements == 0:
        fills = (fill_all(call, name, {"m": 0.0, "r": np.nan}[name[0]]) for name in given)
        return Several(tuple(fills))
    count = len(call["normalizedShape"])
    rank = len(spec.shape)
    grid = Grid.of(spec.shape, tuple(range(rank - count, rank)), whole=True)
    affine = [name for name in _AFFINE if call[name] is not None]
    flags = [call[name] is not None for name in (*_AFFINE, *_STATISTICS)]
    kernel = LayerNormRows(call["eps"], flags[0], flags[1], (flags[2], flags[3]))
    return Rows(
        kernel,
        tuple(_source(grid, name, call.tensor(name)) for name in ("input", *affine)),
        (
            Target(grid.operand("out", call.tensor("out")), spec.numpy_dtype()),
            *(Target(grid.result(name, call.tensor(name)), _SINGLE) for name in given),
        ),
        grid,
        _SINGLE,
    )


def _source(grid: Grid, name: str, spec: TensorSpec) -> Source:
    return Source(grid.operand(name, spec), spec.numpy_dtype(), _SINGLE)


def fill_all(call: Call, name: str, value: float) -> Work:
    """Plans that every element of an output is one value."""
    spec = call.tensor(name)
    return movement(name, spec, [fill((name, spec), constant(value, spec.dtype))])


@dataclass(frozen=True, slots=True)
class Several:
    """Computations without workspace, one after the other."""

    works: tuple[Work, ...]
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Runs them."""
        for work in self.works:
            work.run(memory, workspace, threads)


# --- root mean square -------------------------------------------------------------------------------


def _check_rms_types(call: Call) -> None:
    own, gamma = call.tensor("x").dtype, call.tensor("gamma").dtype
    if gamma not in (own, dtypes.FLOAT):
        raise call.invalid("gamma", f"gamma is {gamma}; it must be FLOAT, or {own} as x is")


def _check_gamma_shape(call: Call) -> None:
    shape, gamma = call.tensor("x").shape, call.tensor("gamma").shape
    if not gamma or shape[-len(gamma) :] != gamma:
        raise call.invalid(
            "gamma",
            f"gamma has shape {list(gamma)}; it must have the last sizes of {list(shape)} of x",
            code=codes.ACLNN_ERR_INNER_TILING_ERROR,
        )


def _check_rstd_shape(call: Call) -> None:
    shape, count = call.tensor("x").shape, len(call.tensor("gamma").shape)
    found, leading = call.tensor("rstdOut").shape, shape[:-count]
    if found not in (leading, leading + (1,) * count):
        raise call.invalid(
            "rstdOut",
            f"rstdOut has shape {list(found)}; it must have {list(leading + (1,) * count)}, that of x "
            "with 1 for the normalised sizes, or be without these",
            code=codes.ACLNN_ERR_INNER_TILING_ERROR,
        )


def _x_shape(call: Call) -> Shape:
    return call.tensor("x").shape


_TILING = codes.ACLNN_ERR_INNER_TILING_ERROR


@NORMALIZATION.operator(
    """
    aclnnStatus aclnnRmsNormGetWorkspaceSize(
        const aclTensor* x, const aclTensor* gamma, double epsilon, const aclTensor* yOut,
        const aclTensor* rstdOut, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("yOut", "rstdOut"),
    missing_on=(ASCEND910, ASCEND310B),
    checks=(
        NotNull(("x", "gamma", "yOut", "rstdOut")),
        TypeIn(("x", "gamma", "yOut"), FLOATS),
        TypeIn(("rstdOut",), (dtypes.FLOAT,)),
        Holds("gamma is FLOAT, or of the type of x", _check_rms_types),
        SameType(("yOut",), "x"),
        Holds("gamma has the last sizes of x", _check_gamma_shape, _TILING),
        HasShape("yOut", "the shape of x", _x_shape, _TILING),
        Holds("rstdOut has the sizes of x that are not normalised", _check_rstd_shape, _TILING),
    ),
    python=OneLine(
        "rms_norm",
        {"epsilon": 1e-6},
        result=Result("same", "first"),
        results={"rstdOut": Result("rows", "single")},
    ),
)
def rms_norm(call: Call) -> Work:
    """Division of each row by its root mean square, then scaled.

    $$yOut = x \\cdot rstdOut \\cdot gamma \\qquad
    rstdOut = \\frac{1}{\\sqrt{\\frac{1}{n} \\sum x^2 + epsilon}}$$

    The mean is over the last dimensions, as many as gamma has.

    - rstdOut may have 1 for the normalised sizes, or be without these dimensions.
    - Computed in FLOAT, rounded once to the type of yOut.
    - Of an x without rows nothing is computed; of rows without elements rstdOut is NaN.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnRmsNorm (hicann/ops-nn, norm/rms_norm); the order of checks
    is not documented.
    """
    spec, gamma = call.tensors(("x", "gamma"))
    if spec.elements == 0:
        return fill_all(call, "rstdOut", np.nan)
    rank, count = len(spec.shape), len(gamma.shape)
    grid = Grid.of(spec.shape, tuple(range(rank - count, rank)), whole=True)
    return Rows(
        RmsNormRows(call["epsilon"]),
        (_source(grid, "x", spec), _source(grid, "gamma", gamma)),
        (
            Target(grid.operand("yOut", call.tensor("yOut")), spec.numpy_dtype()),
            Target(grid.result("rstdOut", call.tensor("rstdOut")), _SINGLE),
        ),
        grid,
        _SINGLE,
    )


# --- batches ----------------------------------------------------------------------------------------

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


@NORMALIZATION.operator(
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


def _per_channel(call: Call, name: str) -> TensorSpec:
    """A tensor of one number per channel, as one that broadcasts to input."""
    spec, after = call.tensor(name), len(call.tensor("input").shape) - 2
    return replace(spec, shape=(*spec.shape, *(1,) * after), strides=(*spec.strides, *(0,) * after))


def _inferred(call: Call) -> Work:
    spec, output = call.tensors(("input", "output"))
    present = [call[name] is not None for name in _CHANNEL]
    numbers = [
        (name, _per_channel(call, name))
        for name, flag in zip(_CHANNEL, present, strict=True)
        if flag
    ]
    tiling, operands = lay_out(
        spec.shape, [("input", spec), *numbers, ("output", output)], along_last=True
    )
    kernel = BatchNormBlock(call["eps"], present)
    types = Types(_SINGLE, spec.numpy_dtype())
    return Elementwise(kernel, operands[:-1], operands[-1], tiling, types)


def _trained(call: Call) -> Work:
    spec = call.tensor("input")
    axes = tuple(axis for axis in range(len(spec.shape)) if axis != 1)
    grid = Grid.of(spec.shape, axes, whole=True)
    given = [name for name in _CHANNEL if call[name] is not None]
    running = [name for name in given if name.startswith("running")]
    flags = [name in given for name in _CHANNEL]
    kernel = BatchNormRows(call["eps"], call["momentum"], flags[0], flags[1], (flags[2], flags[3]))
    sources = [_source(grid, name, _per_channel(call, name)) for name in given]
    statistics = (
        Target(grid.result(name, call.tensor(name)), _SINGLE) for name in (*_SAVED, *running)
    )
    output = Target(grid.operand("output", call.tensor("output")), spec.numpy_dtype())
    return Rows(
        kernel, (_source(grid, "input", spec), *sources), (output, *statistics), grid, _SINGLE
    )
