"""Pooling of planes by means: of windows, and of as many parts as the output has; and the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    OneOf,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import HasShape
from aclnn_server.operators.definition import Call, Family, Work, prototype
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.staging import Arrays, staged
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.networks.matmul import CUBE_MATH_TYPES, FLOATS
from aclnn_server.operators.networks.pooling import (
    GRAD,
    OUT,
    as_planes,
    by_plane,
    lists,
    of_planes,
    windows_of,
)
from aclnn_server.operators.networks.pooling_kernels import Windows, mean_shares, spread_shares
from aclnn_server.operators.products import ASCEND310B

MEAN_POOLING = Family()

_CUBE = {name: number for name, number in CUBE_MATH_TYPES.items() if number < 4}


# --- means ------------------------------------------------------------------------------------------


def _divisors(call: Call, windows: Windows) -> Any:  # noqa: ANN401 - a number or one for each point
    if call["divisorOverride"]:
        return np.float32(call["divisorOverride"])
    return windows.areas if call["countIncludePad"] else windows.counts


_MEAN_LISTS = ("kernelSize", "strides", "paddings")
_MEAN_GRADIENT_LISTS = ("kernelSize", "stride", "padding")


@MEAN_POOLING.operator(
    """
    aclnnStatus aclnnAvgPool2dGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* kernelSize, const aclIntArray* strides,
        const aclIntArray* paddings, const bool ceilMode, const bool countIncludePad,
        const int64_t divisorOverride, const int8_t cubeMathType, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("self", *_MEAN_LISTS, "out")),
        TypeIn(("self", "out"), FLOATS),
        SameType(("out",), "self"),
        OneOf("cubeMathType", _CUBE),
        of_planes("self"),
        lists(_MEAN_LISTS),
        OUT,
    ),
)
def avg_pool(call: Call) -> Work:
    """The mean of each window.

    $$out_{h,w} = \\frac{1}{d} \\sum_{m,n} self_{strides_0 h - paddings_0 + m, \\; strides_1 w - paddings_1
    + n}$$

    d is divisorOverride, where it is not 0; else the elements of the window, with countIncludePad those in
    the padding as well, but none behind it. With ceilMode, a last window may lie partly outside, unless it
    begins there. No strides are those of kernelSize. cubeMathType makes no difference here.

    - Planes are the last two dimensions of three or four.
    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnAvgPool2d (hicann/ops-nn, pooling/avg_pool3_d); the order of
    checks is not documented.
    """
    windows = windows_of(call)
    divisors = _divisors(call, windows)

    def compute(arrays: Arrays, threads: Threads) -> None:
        planes, out = as_planes(arrays["self"]), as_planes(arrays["out"])

        def block(cut: slice) -> None:
            windows.total(planes[cut], out[cut])
            np.divide(out[cut], divisors, out=out[cut])

        by_plane(threads, planes, block)

    return staged(call, compute, ("self",), ("out",))


@MEAN_POOLING.operator(
    """
    aclnnStatus aclnnAvgPool2dBackwardGetWorkspaceSize(
        const aclTensor* gradOutput, const aclTensor* self, const aclIntArray* kernelSize,
        const aclIntArray* stride, const aclIntArray* padding, bool ceilMode, bool countIncludePad,
        int64_t divisorOverride, int8_t cubeMathType, aclTensor* gradInput,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("gradInput",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("gradOutput", "self", *_MEAN_GRADIENT_LISTS, "gradInput")),
        TypeIn(("gradOutput", "self", "gradInput"), FLOATS),
        SameType(("gradOutput", "gradInput"), "self"),
        OneOf("cubeMathType", _CUBE),
        of_planes("self"),
        lists(_MEAN_GRADIENT_LISTS),
        GRAD,
        SameShape(("gradInput",), "self"),
    ),
)
def avg_pool_backward(call: Call) -> Work:
    """Gradient of the mean of each window.

    Every element gets the sum of gradOutput / d over the windows that see it; d and the other parameters
    are those of aclnnAvgPool2d.

    - Computed in FLOAT, and rounded once.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnAvgPool2dBackward (hicann/ops-nn, pooling/avg_pool3_d_grad);
    the order of checks is not documented.
    """
    windows = windows_of(call)
    divisors = _divisors(call, windows)

    def compute(arrays: Arrays, threads: Threads) -> None:
        grad, out = as_planes(arrays["gradOutput"]), as_planes(arrays["gradInput"])

        def block(cut: slice) -> None:
            out[cut] = 0
            windows.spread(grad[cut] / divisors, out[cut])

        by_plane(threads, out, block)

    return staged(call, compute, ("gradOutput",), ("gradInput",))


# --- means of a given number ------------------------------------------------------------------------


def _check_output_size(call: Call) -> None:
    size = tuple(call["outputSize"])
    if len(size) != 2 or min(size) < 1:
        raise call.invalid(
            "outputSize", f"outputSize is {list(size)}; it must have 2 numbers above 0"
        )


def _adapted(call: Call) -> Shape:
    return (*call.tensor("self").shape[:-2], *call["outputSize"])


@MEAN_POOLING.operator(
    prototype(
        "aclnnAdaptiveAvgPool2d",
        "const aclTensor* self, const aclIntArray* outputSize, aclTensor* out",
    ),
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("self", "outputSize", "out")),
        TypeIn(("self", "out"), FLOATS),
        SameType(("out",), "self"),
        of_planes("self"),
        Holds("outputSize has 2 numbers above 0", _check_output_size),
        HasShape("out", "the planes of self, of outputSize", _adapted),
    ),
)
def adaptive_avg_pool(call: Call) -> Work:
    """The means of as many parts of each plane as the output has points.

    Part i of n along a dimension of size s is from floor(i s / n) up to ceil((i + 1) s / n); parts may
    overlap.

    - Planes are the last two dimensions of three or four.
    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnAdaptiveAvgPool2d (hicann/ops-nn,
    pooling/adaptive_avg_pool3d); the order of checks is not documented.
    """

    def compute(arrays: Arrays, threads: Threads) -> None:
        planes, out = as_planes(arrays["self"]), as_planes(arrays["out"])
        by_plane(threads, planes, lambda cut: mean_shares(planes[cut], out[cut]))

    return staged(call, compute, ("self",), ("out",))


def _check_same_planes(call: Call) -> None:
    grad, own = call.tensor("gradOutput").shape, call.tensor("self").shape
    if len(grad) != len(own) or grad[:-2] != own[:-2]:
        raise call.invalid(
            "gradOutput",
            f"gradOutput has shape {list(grad)}; it must have as many planes as {list(own)} of self",
        )


@MEAN_POOLING.operator(
    prototype(
        "aclnnAdaptiveAvgPool2dBackward",
        "const aclTensor* gradOutput, const aclTensor* self, aclTensor* out",
    ),
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("gradOutput", "self", "out")),
        TypeIn(("gradOutput", "self", "out"), FLOATS),
        SameType(("gradOutput", "out"), "self"),
        of_planes("gradOutput", "self"),
        Holds("gradOutput has as many planes as self", _check_same_planes),
        SameShape(("out",), "self"),
    ),
)
def adaptive_avg_pool_backward(call: Call) -> Work:
    """Gradient of the means of as many parts of each plane as gradOutput has points.

    Every element gets the sum, over the parts that it is in, of the part's gradient divided by its elements.

    - Computed in FLOAT, and rounded once.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnAdaptiveAvgPool2dBackward (hicann/ops-nn,
    pooling/adaptive_avg_pool3d_grad); the order of checks is not documented.
    """

    def compute(arrays: Arrays, threads: Threads) -> None:
        grad, out = as_planes(arrays["gradOutput"]), as_planes(arrays["out"])

        def block(cut: slice) -> None:
            out[cut] = 0
            spread_shares(grad[cut], out[cut])

        by_plane(threads, out, block)

    return staged(call, compute, ("gradOutput",), ("out",))
