"""Gradients of the normalisations of layers, by root mean square, and of batches."""

from __future__ import annotations

from dataclasses import replace

from aclnn import codes, dtypes
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
from aclnn_server.operators.checking.masked_outputs import GivenWhereAsked, OutputsHave
from aclnn_server.operators.definition import Call, Family, Work
from aclnn_server.operators.engines.axes import Axes, Grid
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.rows import Rows, Target
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.networks.batch_norm import per_channel
from aclnn_server.operators.networks.norm_gradient_kernels import (
    BatchNormGradientRows,
    NormGradientRows,
    NormWeightRows,
)
from aclnn_server.operators.networks.normalization import (
    FLOATS,
    SINGLE,
    Several,
    as_single,
    check_normalized_shape,
    fill_all,
    normalized_shape,
    statistics_shape,
)
from aclnn_server.operators.products import ASCEND310B, ASCEND910

NORM_GRADIENTS = Family()


# --- layers -----------------------------------------------------------------------------------------

_LAYER_OUTPUTS = ("gradInputOut", "gradWeightOut", "gradBiasOut")


def _input_shape(call: Call) -> Shape:
    return call.tensor("input").shape


@NORM_GRADIENTS.operator(
    """
    aclnnStatus aclnnLayerNormBackwardGetWorkspaceSize(
        const aclTensor* gradOut, const aclTensor* input, const aclIntArray* normalizedShape,
        const aclTensor* mean, const aclTensor* rstd, const aclTensor* weightOptional,
        const aclTensor* biasOptional, const aclBoolArray* outputMask, aclTensor* gradInputOut,
        aclTensor* gradWeightOut, aclTensor* gradBiasOut, uint64_t* workspaceSize,
        aclOpExecutor** executor)
    """,
    outputs=_LAYER_OUTPUTS,
    optional=_LAYER_OUTPUTS,
    checks=(
        NotNull(("gradOut", "input", "normalizedShape", "mean", "rstd", "outputMask")),
        GivenWhereAsked(_LAYER_OUTPUTS),
        TypeIn(("gradOut", "input", "mean", "rstd"), FLOATS),
        WhereGiven(("weightOptional", "biasOptional"), lambda name: TypeIn((name,), FLOATS)),
        RankUpTo(("gradOut", "input")),
        Holds("normalizedShape is 1 to 8 last sizes of input", check_normalized_shape),
        SameShape(("gradOut",), "input"),
        HasShape("mean", "the shape of input with 1 for the normalised sizes", statistics_shape),
        HasShape("rstd", "the shape of input with 1 for the normalised sizes", statistics_shape),
        WhereGiven(
            ("weightOptional", "biasOptional"),
            lambda name: HasShape(name, "the shape normalizedShape", normalized_shape),
        ),
        OutputsHave(_LAYER_OUTPUTS, FLOATS, (_input_shape, normalized_shape, normalized_shape)),
    ),
)
def layer_norm_backward(call: Call) -> Work:
    """Gradients of the normalisation of layers: of its input, of its weight and of its bias.

    $$gradInputOut = rstd \\cdot \\left(g - \\overline{g} - y \\cdot \\overline{g \\cdot y}\\right)
    \\qquad g = gradOut \\cdot weight, \\quad y = (input - mean) \\cdot rstd$$

    $$gradWeightOut = \\sum gradOut \\cdot y \\qquad gradBiasOut = \\sum gradOut$$

    Means are over the normalised dimensions, sums over all others.

    - outputMask says which outputs are computed, in their order; the others may be null.
    - weightOptional may be null: 1. biasOptional is not read.
    - Computed in FLOAT, and rounded once to the type of each output.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnLayerNormBackward (hicann/ops-nn, norm/layer_norm_grad_v3);
    the order of checks is not documented.
    """
    spec, rank = call.tensor("input"), len(call.tensor("input").shape)
    normalized = tuple(range(rank - len(call["normalizedShape"]), rank))
    wanted = tuple(bool(flag) for flag in call["outputMask"])
    if spec.elements == 0:
        return _zeros(call, _LAYER_OUTPUTS[1:], wanted[1:])
    weight = ("weightOptional",) if call["weightOptional"] is not None else ()
    works = _affine_gradients(
        call, ("gradOut", "input", "rstd", "mean"), normalized, _LAYER_OUTPUTS[1:], wanted[1:]
    )
    if wanted[0]:
        grid = Grid.of(spec.shape, normalized, whole=True)
        names = ("gradOut", "input", "rstd", "mean", *weight)
        kernel = NormGradientRows(True, bool(weight))
        works += (_whole_rows(call, kernel, names, {}, "gradInputOut", grid),)
    return Several(works)


def _whole_rows(
    call: Call,
    kernel: NormGradientRows,
    names: tuple[str, ...],
    shaped: dict[str, TensorSpec],
    output: str,
    grid: Grid,
) -> Work:
    target = call.tensor(output)
    return Rows(
        kernel,
        tuple(as_single(grid, name, shaped.get(name, call.tensor(name))) for name in names),
        (Target(grid.operand(output, target), target.numpy_dtype()),),
        grid,
        SINGLE,
    )


def _affine_gradients(
    call: Call,
    names: tuple[str, ...],
    normalized: Axes,
    outputs: tuple[str, ...],
    wanted: tuple[bool, ...],
    shaped: dict[str, TensorSpec] | None = None,
) -> tuple[Work, ...]:
    """Plans the gradients of weight and bias: sums over all dimensions that are not normalised."""
    if not any(wanted):
        return ()
    spec = call.tensor(names[1])
    axes = tuple(axis for axis in range(len(spec.shape)) if axis not in normalized)
    grid = Grid.of(spec.shape, axes, whole=True)
    kernel = NormWeightRows(len(names) == 4, (wanted[0], wanted[-1] if len(wanted) == 2 else False))
    targets = [call.tensor(name) for name, flag in zip(outputs, wanted, strict=True) if flag]
    kept = [name for name, flag in zip(outputs, wanted, strict=True) if flag]
    return (
        Rows(
            kernel,
            tuple(
                as_single(grid, name, (shaped or {}).get(name, call.tensor(name))) for name in names
            ),
            tuple(
                Target(grid.result(name, target), target.numpy_dtype())
                for name, target in zip(kept, targets, strict=True)
            ),
            grid,
            SINGLE,
        ),
    )


def _zeros(call: Call, names: tuple[str, ...], wanted: tuple[bool, ...]) -> Work:
    """Plans sums over nothing."""
    given = [name for name, flag in zip(names, wanted, strict=True) if flag]
    filled = [fill_all(call, name, 0.0) for name in given if call.tensor(name).elements]
    return Several(tuple(filled))


# --- root mean square -------------------------------------------------------------------------------


def _check_gamma(call: Call) -> None:
    shape, gamma = call.tensor("x").shape, call.tensor("gamma").shape
    if not gamma or shape[-len(gamma) :] != gamma:
        raise call.invalid(
            "gamma",
            f"gamma has shape {list(gamma)}; it must have the last sizes of {list(shape)} of x",
        )


def _check_rstd(call: Call) -> None:
    shape, count = call.tensor("x").shape, len(call.tensor("gamma").shape)
    found, leading = call.tensor("rstd").shape, shape[:-count]
    if found not in (leading, leading + (1,) * count):
        raise call.invalid(
            "rstd",
            f"rstd has shape {list(found)}; it must have {list(leading + (1,) * count)}, that of x "
            "with 1 for the normalised sizes, or be without these",
        )


@NORM_GRADIENTS.operator(
    """
    aclnnStatus aclnnRmsNormGradGetWorkspaceSize(
        const aclTensor* dy, const aclTensor* x, const aclTensor* rstd, const aclTensor* gamma,
        const aclTensor* dxOut, const aclTensor* dgammaOut, uint64_t* workspaceSize,
        aclOpExecutor** executor)
    """,
    outputs=("dxOut", "dgammaOut"),
    missing_on=(ASCEND910, ASCEND310B),
    checks=(
        NotNull(("dy", "x", "rstd", "gamma", "dxOut", "dgammaOut")),
        TypeIn(("dy", "x", "gamma", "dxOut"), FLOATS),
        TypeIn(("rstd", "dgammaOut"), (dtypes.FLOAT,)),
        SameType(("dy", "dxOut"), "x"),
        Holds("gamma has the last sizes of x", _check_gamma),
        SameShape(("dy", "dxOut"), "x"),
        SameShape(("dgammaOut",), "gamma"),
        Holds("rstd has the sizes of x that are not normalised", _check_rstd),
    ),
)
def rms_norm_grad(call: Call) -> Work:
    """Gradients of the division of rows by their root mean square: of its input and of its weight.

    $$dxOut = rstd \\cdot \\left(g - y \\cdot \\overline{g \\cdot y}\\right) \\qquad
    dgammaOut = \\sum dy \\cdot y \\qquad g = dy \\cdot gamma, \\quad y = x \\cdot rstd$$

    The mean is over the last dimensions, as many as gamma has; the sum over all others.

    - rstd may have 1 for the normalised sizes, or be without these dimensions.
    - Computed in FLOAT, and rounded once to the type of each output.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnRmsNormGrad (hicann/ops-nn, norm/rms_norm_grad); the order of
    checks is not documented.
    """
    spec, gamma, rstd = call.tensors(("x", "gamma", "rstd"))
    if spec.elements == 0:
        return _zeros(call, ("dgammaOut",), (True,))
    rank, count = len(spec.shape), len(gamma.shape)
    normalized = tuple(range(rank - count, rank))
    if len(rstd.shape) < rank:
        ones, zeros = (1,) * count, (0,) * count
        rstd = replace(rstd, shape=(*rstd.shape, *ones), strides=(*rstd.strides, *zeros))
    shaped = {"rstd": rstd}
    works = _affine_gradients(
        call, ("dy", "x", "rstd"), normalized, ("dgammaOut",), (True,), shaped
    )
    grid = Grid.of(spec.shape, normalized, whole=True)
    kernel = NormGradientRows(False, True)
    names = ("dy", "x", "rstd", "gamma")
    return Several((*works, _whole_rows(call, kernel, names, shaped, "dxOut", grid)))


# --- batches ----------------------------------------------------------------------------------------

_BATCH_OUTPUTS = ("gradInput", "gradWeight", "gradBias")
_RUNNING = ("runningMean", "runningVar")
_SAVED = ("saveMean", "saveInvstd")


def _check_saved(call: Call) -> None:
    if call["training"]:
        NotNull(_SAVED)(call)


def _check_two_dims(call: Call) -> None:
    shape = call.tensor("input").shape
    if len(shape) < 2:
        raise call.invalid(
            "input", f"input has shape {list(shape)}; it must have 2 dimensions or more"
        )


def _channels(call: Call) -> Shape:
    return call.tensor("input").shape[1:2]


@NORM_GRADIENTS.operator(
    """
    aclnnStatus aclnnBatchNormBackwardGetWorkspaceSize(
        const aclTensor* gradOut, const aclTensor* input, const aclTensor* weight,
        const aclTensor* runningMean, const aclTensor* runningVar, const aclTensor* saveMean,
        const aclTensor* saveInvstd, bool training, double eps, const aclBoolArray* outputMask,
        aclTensor* gradInput, aclTensor* gradWeight, aclTensor* gradBias, uint64_t* workspaceSize,
        aclOpExecutor** executor)
    """,
    outputs=_BATCH_OUTPUTS,
    optional=("weight", *_RUNNING, *_SAVED, *_BATCH_OUTPUTS),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("gradOut", "input", "outputMask")),
        Holds(
            "saveMean and saveInvstd are not null, for training",
            _check_saved,
            codes.ACLNN_ERR_PARAM_NULLPTR,
        ),
        GivenWhereAsked(_BATCH_OUTPUTS),
        TypeIn(("gradOut", "input"), FLOATS),
        WhereGiven(("weight", *_RUNNING, *_SAVED), lambda name: TypeIn((name,), FLOATS)),
        RankUpTo(("gradOut", "input")),
        Holds("input has 2 dimensions or more", _check_two_dims),
        SameShape(("gradOut",), "input"),
        WhereGiven(
            ("weight", *_RUNNING, *_SAVED),
            lambda name: HasShape(name, "the channels of input", _channels),
        ),
        OutputsHave(_BATCH_OUTPUTS, FLOATS, (_input_shape, _channels, _channels)),
    ),
)
def batch_norm_backward(call: Call) -> Work:
    """Gradients of the normalisation of batches: of its input, of its weight and of its bias.

    $$gradInput = rstd \\cdot weight \\cdot \\left(gradOut - \\overline{gradOut} - y \\cdot
    \\overline{gradOut \\cdot y}\\right) \\qquad y = (input - mean) \\cdot rstd$$

    $$gradWeight = \\sum gradOut \\cdot y \\qquad gradBias = \\sum gradOut$$

    Means and sums are over all elements of a channel, which is dimension 1.

    - If training is true, mean and rstd are saveMean and saveInvstd; if it is false, they are runningMean
      and 1 / sqrt(runningVar + eps), and the two means are left out of the gradient of input.
    - weight may be null: 1. So may be runningMean and runningVar: 0 and 1.
    - outputMask says which outputs are computed, in their order; the others may be null.
    - Computed in FLOAT, and rounded once to the type of each output.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnBatchNormBackward (hicann/ops-nn, norm/batch_norm_grad_v3);
    the order of checks is not documented.
    """
    spec, training = call.tensor("input"), bool(call["training"])
    flags = [bool(flag) for flag in call["outputMask"]]
    wanted = (flags[0], flags[1], flags[2])
    if not any(wanted):
        return Nothing()
    if spec.elements == 0:
        return _zeros(call, _BATCH_OUTPUTS[1:], wanted[1:])
    numbers = ("weight", *(_SAVED if training else _RUNNING))
    given = [name for name in numbers if call[name] is not None]
    present = [name in given for name in numbers]
    axes = tuple(axis for axis in range(len(spec.shape)) if axis != 1)
    grid = Grid.of(spec.shape, axes, whole=True)
    kernel = BatchNormGradientRows(
        call["eps"], training, (present[0], present[1], present[2]), wanted
    )
    sources = [as_single(grid, name, call.tensor(name)) for name in ("gradOut", "input")]
    sources += [as_single(grid, name, per_channel(call, name)) for name in given]
    targets = []
    for name, flag in zip(_BATCH_OUTPUTS, wanted, strict=True):
        if flag:
            target = call.tensor(name)
            place = grid.operand if name == "gradInput" else grid.result
            targets.append(Target(place(name, target), target.numpy_dtype()))
    return Rows(kernel, tuple(sources), tuple(targets), grid, SINGLE)
