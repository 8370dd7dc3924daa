"""Normalisation of groups of channels, and its gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

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
from aclnn_server.operators.checking.masked_outputs import GivenWhereAsked, OutputsHave, asked
from aclnn_server.operators.definition import Call, Family, Work
from aclnn_server.operators.engines.reducing import total_along
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.staging import Arrays, in_blocks, staged
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.networks.normalization import FLOATS
from aclnn_server.operators.products import ASCEND310B

Array = npt.NDArray[Any]

GROUP_NORM = Family()

_SIZES = ("N", "C", "HxW")


class _Groups:
    """The groups of a call, as rows of (channels of a group, elements of a channel)."""

    def __init__(self, call: Call) -> None:
        self.samples, self.channels, self.points = (call[name] for name in _SIZES)
        self.groups = call["group"]
        self.width = self.channels // self.groups

    @property
    def count(self) -> int:
        """Groups of all samples."""
        rows: int = self.samples * self.groups
        return rows

    @property
    def elements(self) -> int:
        """Elements of one."""
        size: int = self.width * self.points
        return size

    def rows(self, array: Array) -> Array:
        """A tensor of the input's shape, a row per group."""
        return array.reshape(self.count, self.width, self.points)

    def of_channels(self, array: Array | None, cut: slice) -> Array | None:
        """A number per channel, for the rows of a block."""
        if array is None:
            return None
        places = np.arange(cut.start, cut.stop) % self.groups
        found: Array = array.reshape(self.groups, self.width, 1)[places]
        return found


def _check_sizes(call: Call) -> None:
    name = "self" if call.signature.name == "aclnnGroupNorm" else "input"
    spec = call.tensor(name)
    given = tuple(call[size] for size in _SIZES)
    for size, number in zip(_SIZES, given, strict=True):
        if number < 0:
            raise call.invalid(size, f"{size} is {number}; allowed are numbers of at least 0")
    if len(spec.shape) < 2 or spec.shape[:2] != given[:2]:
        raise call.invalid(
            name,
            f"{name} has shape {list(spec.shape)}; its first sizes must be N {given[0]} and C {given[1]}",
        )
    if math.prod(spec.shape[2:]) != given[2]:
        raise call.invalid(
            "HxW",
            f"HxW is {given[2]}, which is not the elements of a channel of {list(spec.shape)}",
        )


def _check_groups(call: Call) -> None:
    if call["group"] < 1 or call["C"] % call["group"]:
        raise call.invalid(
            "group", f"group is {call['group']}; it must be above 0 and divide C, {call['C']}"
        )


def _channels(call: Call) -> Shape:
    return (call["C"],)


def _statistics(call: Call) -> Shape:
    return call["N"], call["group"]


_SIZES_FIT = Holds(
    "N and C are the first sizes of the input, HxW the product of the others", _check_sizes
)
_GROUPS_FIT = Holds("group is above 0 and divides C", _check_groups)
_OF_GROUPS = "a number for each group, [N, group]"
_AFFINE = ("gamma", "beta")


@GROUP_NORM.operator(
    """
    aclnnStatus aclnnGroupNormGetWorkspaceSize(
        const aclTensor* self, const aclTensor* gamma, const aclTensor* beta, int64_t N, int64_t C,
        int64_t HxW, int64_t group, double eps, aclTensor* out, aclTensor* meanOut, aclTensor* rstdOut,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out", "meanOut", "rstdOut"),
    optional=_AFFINE,
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("self", "out", "meanOut", "rstdOut")),
        TypeIn(("self", "out", "meanOut", "rstdOut"), FLOATS),
        SameType(("out",), "self"),
        WhereGiven(_AFFINE, lambda name: TypeIn((name,), FLOATS)),
        RankUpTo(("self",)),
        _SIZES_FIT,
        _GROUPS_FIT,
        WhereGiven(_AFFINE, lambda name: HasShape(name, "a number for each channel", _channels)),
        SameShape(("out",), "self"),
        HasShape("meanOut", _OF_GROUPS, _statistics),
        HasShape("rstdOut", _OF_GROUPS, _statistics),
    ),
)
def group_norm(call: Call) -> Work:
    """Normalisation of groups of channels to mean 0 and variance 1, then scaled and shifted.

    $$out = (self - meanOut) \\cdot rstdOut \\cdot gamma + beta \\qquad
    rstdOut = \\frac{1}{\\sqrt{variance + eps}}$$

    Mean and variance are over C / group channels of a sample, the variance that of the whole.

    - gamma and beta are numbers of each channel, and may be null: 1 and 0.
    - Computed in FLOAT, and rounded once to the type of each output.
    - Of groups without elements, meanOut is 0 and rstdOut NaN.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnGroupNorm (hicann/ops-nn, norm/group_norm); the order of
    checks is not documented.
    """
    groups, eps = _Groups(call), np.float32(call["eps"])

    def compute(arrays: Arrays, threads: Threads) -> None:
        x, out = groups.rows(arrays["self"]), groups.rows(arrays["out"])
        means, rstds = arrays["meanOut"].reshape(-1), arrays["rstdOut"].reshape(-1)
        if not groups.elements:
            means.fill(0)
            rstds.fill(np.nan)
            return
        length = np.float32(groups.elements)

        def normalize(cut: slice) -> None:
            mean = total_along(x[cut], (1, 2)) / length
            centered = x[cut] - mean
            rstd = np.reciprocal(np.sqrt(total_along(centered * centered, (1, 2)) / length + eps))
            np.multiply(centered, rstd, out=centered)
            gamma, beta = (groups.of_channels(arrays.get(name), cut) for name in _AFFINE)
            if gamma is not None:
                np.multiply(centered, gamma, out=centered)
            np.add(centered, np.float32(0) if beta is None else beta, out=out[cut])
            means[cut], rstds[cut] = mean.reshape(-1), rstd.reshape(-1)

        in_blocks(threads, groups.count, groups.elements, normalize)

    return staged(call, compute, ("self", *_AFFINE), ("out", "meanOut", "rstdOut"))


_GRADIENTS = ("gradInput", "gradGammaOut", "gradBetaOut")


def _input_shape(call: Call) -> Shape:
    return call.tensor("input").shape


@GROUP_NORM.operator(
    """
    aclnnStatus aclnnGroupNormBackwardGetWorkspaceSize(
        const aclTensor* gradOut, const aclTensor* input, const aclTensor* mean, const aclTensor* rstd,
        const aclTensor* gamma, int64_t N, int64_t C, int64_t HxW, int64_t group,
        const aclBoolArray* outputMask, aclTensor* gradInput, aclTensor* gradGammaOut,
        aclTensor* gradBetaOut, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=_GRADIENTS,
    optional=("gamma", *_GRADIENTS),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("gradOut", "input", "mean", "rstd", "outputMask")),
        GivenWhereAsked(_GRADIENTS),
        TypeIn(("gradOut", "input", "mean", "rstd"), FLOATS),
        WhereGiven(("gamma",), lambda name: TypeIn((name,), FLOATS)),
        RankUpTo(("input",)),
        _SIZES_FIT,
        _GROUPS_FIT,
        SameShape(("gradOut",), "input"),
        HasShape("mean", _OF_GROUPS, _statistics),
        HasShape("rstd", _OF_GROUPS, _statistics),
        WhereGiven(("gamma",), lambda name: HasShape(name, "a number for each channel", _channels)),
        OutputsHave(_GRADIENTS, FLOATS, (_input_shape, _channels, _channels)),
    ),
)
def group_norm_backward(call: Call) -> Work:
    """Gradients of the normalisation of groups: of its input, of its weight and of its bias.

    $$gradInput = rstd \\cdot \\left(g - \\overline{g} - y \\cdot \\overline{g \\cdot y}\\right) \\qquad
    g = gradOut \\cdot gamma, \\quad y = (input - mean) \\cdot rstd$$

    $$gradGammaOut = \\sum gradOut \\cdot y \\qquad gradBetaOut = \\sum gradOut$$

    Means are over a group, sums over the samples and the elements of a channel.

    - gamma may be null: 1. outputMask says which outputs are computed, in their order; the others may be
      null.
    - Computed in FLOAT, and rounded once to the type of each output.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnGroupNormBackward (hicann/ops-nn, norm/group_norm_grad); the
    order of checks is not documented.
    """
    groups, wanted = _Groups(call), asked(call, _GRADIENTS)

    def compute(arrays: Arrays, threads: Threads) -> None:
        grad, x = groups.rows(arrays["gradOut"]), groups.rows(arrays["input"])
        mean, rstd = (arrays[name].reshape(-1, 1, 1) for name in ("mean", "rstd"))
        scaled, plain = arrays["sums"].reshape(2, groups.count, groups.width, 1)
        length = np.float32(max(1, groups.elements))

        def block(cut: slice) -> None:
            normal = (x[cut] - mean[cut]) * rstd[cut]
            scaled[cut] = total_along(grad[cut] * normal, (2,))
            plain[cut] = total_along(grad[cut], (2,))
            if "gradInput" not in wanted:
                return
            gamma = groups.of_channels(arrays.get("gamma"), cut)
            weight = np.float32(1) if gamma is None else gamma
            along = total_along(scaled[cut] * weight, (1,)) / length
            shift = total_along(plain[cut] * weight, (1,)) / length
            slope = grad[cut] * weight
            np.subtract(slope, shift, out=slope)
            np.multiply(normal, along, out=normal)
            np.subtract(slope, normal, out=slope)
            np.multiply(slope, rstd[cut], out=groups.rows(arrays["gradInput"])[cut])

        in_blocks(threads, groups.count, groups.elements, block)
        for name, sums in zip(_GRADIENTS[1:], (scaled, plain), strict=True):
            if name in wanted:
                by_sample = sums.reshape(groups.samples, groups.channels)
                arrays[name][...] = total_along(by_sample, (0,)).reshape(-1)

    return staged(
        call,
        compute,
        ("gradOut", "input", "mean", "rstd", "gamma"),
        wanted,
        rooms={"sums": (2, groups.samples, groups.channels)},
    )
