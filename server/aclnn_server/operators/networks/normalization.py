"""Normalisations: of layers, by root mean square, and of batches with known statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import codes, dtypes
from aclnn.pythonic import Result
from aclnn.tensors import TensorSpec
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
from aclnn_server.operators.definition import Call, Family, Memory, OneLine, Work
from aclnn_server.operators.engines.axes import Grid
from aclnn_server.operators.engines.copies import constant, fill, movement
from aclnn_server.operators.engines.reducing import Source
from aclnn_server.operators.engines.rows import Rows, Target
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.networks.normalization_kernels import (
    LayerNormRows,
    RmsNormRows,
)
from aclnn_server.operators.products import ASCEND310B, ASCEND910

Array = npt.NDArray[Any]

NORMALIZATION = Family()

FLOATS = (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BF16)
SINGLE = np.dtype(np.float32)
"""What everything is computed in."""


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


def check_normalized_shape(call: Call) -> None:
    """Checks that normalizedShape is 1 to 8 last sizes of input."""
    shape, trailing = call.tensor("input").shape, tuple(call["normalizedShape"])
    if not 1 <= len(trailing) <= 8 or shape[-len(trailing) :] != trailing:
        raise call.invalid(
            "normalizedShape",
            f"normalizedShape is {list(trailing)}; it must be 1 to 8 last sizes of {list(shape)} of "
            "input",
        )


def normalized_shape(call: Call) -> Shape:
    """Shape of weight and bias."""
    return tuple(call["normalizedShape"])


def statistics_shape(call: Call) -> Shape:
    """Shape of mean and reciprocal of the divisor."""
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
        Holds("normalizedShape is 1 to 8 last sizes of input", check_normalized_shape),
        WhereGiven(
            _AFFINE, lambda name: HasShape(name, "the shape normalizedShape", normalized_shape)
        ),
        SameShape(("out",), "input"),
        WhereGiven(
            _STATISTICS,
            lambda name: HasShape(
                name, "the shape of input with 1 for the normalised sizes", statistics_shape
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
        tuple(as_single(grid, name, call.tensor(name)) for name in ("input", *affine)),
        (
            Target(grid.operand("out", call.tensor("out")), spec.numpy_dtype()),
            *(Target(grid.result(name, call.tensor(name)), SINGLE) for name in given),
        ),
        grid,
        SINGLE,
    )


def as_single(grid: Grid, name: str, spec: TensorSpec) -> Source:
    """An input that is loaded as FLOAT."""
    return Source(grid.operand(name, spec), spec.numpy_dtype(), SINGLE)


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
        (as_single(grid, "x", spec), as_single(grid, "gamma", gamma)),
        (
            Target(grid.operand("yOut", call.tensor("yOut")), spec.numpy_dtype()),
            Target(grid.result("rstdOut", call.tensor("rstdOut")), SINGLE),
        ),
        grid,
        SINGLE,
    )
