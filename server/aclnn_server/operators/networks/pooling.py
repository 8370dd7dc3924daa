"""Pooling of planes: the largest element or the mean of each window, and the gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn_server.operators.checking.checks import Holds, NotNull, SameShape, SameType, TypeIn
from aclnn_server.operators.checking.layout_checks import INDEXES, HasShape
from aclnn_server.operators.definition import Call, Check, Family, Work, prototype
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.staging import Arrays, in_blocks, staged
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.movement.indexing import places_of
from aclnn_server.operators.networks.matmul import FLOATS
from aclnn_server.operators.networks.pooling_kernels import Windows
from aclnn_server.operators.products import ASCEND310B, ASCEND950

Array = npt.NDArray[Any]

POOLING = Family()

_NAMES = ("kernelSize", "stride", "padding", "dilation")


# --- checks -----------------------------------------------------------------------------------------


def of_planes(*names: str) -> Check:
    """Tensors hold planes, none of them empty."""

    def check(call: Call) -> None:
        for name in names:
            shape = call.tensor(name).shape
            if len(shape) not in (3, 4) or 0 in shape[-3:]:
                raise call.invalid(
                    name,
                    f"{name} has shape {list(shape)}; it must have 3 or 4 dimensions, the last three not "
                    "0",
                )

    return Holds(
        f"{' and '.join(names)} have 3 or 4 dimensions, of which the last three are not 0", check
    )


def lists(names: tuple[str, ...]) -> Check:
    """The lists of a window, in the order of :data:`_NAMES`; fewer where there is no dilation."""

    def check(call: Call) -> None:
        for name, lowest in zip(names, (1, 1, 0, 1), strict=False):
            numbers = tuple(call[name])
            lengths = (0, 1, 2) if name == names[1] else (1, 2)
            if len(numbers) not in lengths:
                raise call.invalid(
                    name,
                    f"{name} has {len(numbers)} numbers; it must have {', '.join(map(str, lengths[:-1]))} "
                    f"or {lengths[-1]}",
                )
            if any(number < lowest for number in numbers):
                raise call.invalid(
                    name, f"{name} is {list(numbers)}; allowed are numbers of at least {lowest}"
                )
        widths = tuple(call[names[0]])
        for zeros, width in zip(_both(call[names[2]]), _both(widths), strict=True):
            if zeros > width // 2:
                raise call.invalid(
                    names[2],
                    f"{names[2]} is {list(call[names[2]])}; allowed is at most half of {names[0]}, "
                    f"{list(widths)}",
                )

    return Holds(
        f"{', '.join(names)} have a number for each dimension or one for both, {names[1]} also none for "
        f"{names[0]}; all are above 0, except that {names[2]} is from 0 to half of {names[0]}",
        check,
    )


def _both(numbers: Shape) -> tuple[int, int]:
    return numbers[0], numbers[-1]


def _no_dilation(call: Call) -> None:
    if any(number != 1 for number in call["dilation"]):
        raise call.invalid("dilation", f"dilation is {list(call['dilation'])}; only 1 is allowed")


def windows_of(call: Call) -> Windows:
    """The windows of any of the operators."""
    names = {row.name for row in call.signature.parameters}
    stride, padding = (name if name in names else f"{name}s" for name in ("stride", "padding"))
    dilation = tuple(call["dilation"]) if "dilation" in names else (1, 1)
    return Windows.of(
        call.tensor("self").shape,
        tuple(call["kernelSize"]),
        tuple(call[stride]),
        tuple(call[padding]),
        dilation,
        ceil=bool(call["ceilMode"]),
    )


def pooled(call: Call) -> Shape:
    """Shape of the output, with a point for each window."""
    windows = windows_of(call)
    if min(windows.points) < 1:
        raise call.invalid(
            "self",
            f"self has planes of {list(windows.plane)}, in which no window of "
            f"{list(windows.kernel)} has a place",
        )
    return (*call.tensor("self").shape[:-2], *windows.points)


_POOLED = "the planes of self, with a point for each window"
OUT = HasShape("out", _POOLED, pooled)
GRAD = HasShape("gradOutput", _POOLED, pooled)


# --- computing --------------------------------------------------------------------------------------


def as_planes(array: Array) -> Array:
    """Its planes, in one dimension."""
    return array.reshape(math.prod(array.shape[:-2]), *array.shape[-2:])


def by_plane(threads: Threads, large: Array, compute: Callable[[slice], None]) -> None:
    """Computes blocks of planes, sized by those of the larger side."""
    in_blocks(threads, math.prod(large.shape[:-2]), math.prod(large.shape[-2:]), compute)


# --- the largest, with its index --------------------------------------------------------------------

_WINDOW = (
    "const aclIntArray* kernelSize, const aclIntArray* stride, const aclIntArray* padding, "
    "const aclIntArray* dilation, bool ceilMode"
)
_LARGEST = "const aclTensor* self, " + _WINDOW + ", aclTensor* out, aclTensor* indices"
_OF_LARGEST = (
    "const aclTensor* gradOutput, const aclTensor* self, const aclTensor* indices, "
    + _WINDOW
    + ", aclTensor* gradInput"
)


@POOLING.operator(
    prototype("aclnnMaxPool2dWithIndices", _LARGEST),
    outputs=("out", "indices"),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("self", *_NAMES, "out", "indices")),
        TypeIn(("self", "out"), FLOATS),
        SameType(("out",), "self"),
        TypeIn(("indices",), INDEXES),
        of_planes("self"),
        lists(_NAMES),
        OUT,
        HasShape("indices", _POOLED, pooled),
    ),
)
def max_pool_with_indices(call: Call) -> Work:
    """The largest element of each window, and where it is.

    $$out_{h,w} = \\max_{m,n} self_{stride_0 h - padding_0 + dilation_0 m, \\; stride_1 w - padding_1 +
    dilation_1 n}$$

    indices are places in the plane, row by row; of equal elements, that of the first. What lies outside of
    the plane is never the largest. NaN is larger than any number, the first of several. With ceilMode, a
    last window may lie partly outside, unless it begins there. No stride is that of kernelSize.

    - Planes are the last two dimensions of three or four.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnMaxPool2dWithIndices (hicann/ops-nn,
    pooling/max_pool3d_with_argmax_v2); the order of checks is not documented.
    """
    windows = windows_of(call)

    def compute(arrays: Arrays, threads: Threads) -> None:
        planes, out = as_planes(arrays["self"]), as_planes(arrays["out"])
        places = np.empty(out.shape, np.int64)

        def block(cut: slice) -> None:
            places[cut] = windows.largest(planes[cut], out[cut])

        by_plane(threads, planes, block)
        np.copyto(arrays["indices"], places.reshape(arrays["indices"].shape), casting="unsafe")

    return staged(call, compute, ("self",), ("out", "indices"), raw=("indices",))


@POOLING.operator(
    prototype("aclnnMaxPool2dWithIndicesBackward", _OF_LARGEST),
    outputs=("gradInput",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("gradOutput", "self", "indices", *_NAMES, "gradInput")),
        TypeIn(("gradOutput", "self", "gradInput"), FLOATS),
        SameType(("gradOutput", "gradInput"), "self"),
        TypeIn(("indices",), INDEXES),
        of_planes("self"),
        lists(_NAMES),
        GRAD,
        HasShape("indices", _POOLED, pooled),
        SameShape(("gradInput",), "self"),
    ),
)
def max_pool_with_indices_backward(call: Call) -> Work:
    """Gradient of the largest element of each window, by its index.

    Every element gets the sum of the gradients of the windows of which it is the largest. An index that is
    no place of the plane makes the execution fail, before anything is written.

    - Sums are in DOUBLE, in the order of the windows, and rounded once.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnMaxPool2dWithIndicesBackward (hicann/ops-nn,
    pooling/max_pool3d_grad_with_argmax); the order of checks is not documented.
    """
    name = call.signature.name

    def compute(arrays: Arrays, threads: Threads) -> None:
        grad, out = as_planes(arrays["gradOutput"]), as_planes(arrays["gradInput"])
        size = out.shape[1] * out.shape[2]
        places = as_planes(places_of(arrays["indices"], size, name))

        def block(cut: slice) -> None:
            count = cut.stop - cut.start
            # Places in the block, not in the plane, so that one pass adds all planes up.
            flat = places[cut] + (np.arange(count) * size)[:, np.newaxis, np.newaxis]
            sums = np.bincount(flat.reshape(-1), grad[cut].reshape(-1), count * size)
            out[cut] = sums.reshape(out[cut].shape)

        by_plane(threads, out, block)

    return staged(call, compute, ("gradOutput", "indices"), ("gradInput",), raw=("indices",))


# --- the largest, with a mask -----------------------------------------------------------------------

_MASK_BLOCK = 16


def _mask_shape(call: Call) -> Shape:
    windows = windows_of(call)
    blocks = -(-windows.points[0] * windows.points[1] // _MASK_BLOCK) + 1
    return (*call.tensor("self").shape[:-2], windows.places, blocks * 2 * _MASK_BLOCK)


_MASKED = HasShape(
    "indices",
    "the planes of self, with a row for each place of the kernel and 32 bytes for each 16 windows, and 32 "
    "more",
    _mask_shape,
)
_ONE_STEP = Holds("dilation is 1", _no_dilation)


@POOLING.operator(
    prototype("aclnnMaxPool2dWithMask", _LARGEST),
    outputs=("out", "indices"),
    missing_on=(ASCEND310B, ASCEND950),
    checks=(
        NotNull(("self", *_NAMES, "out", "indices")),
        TypeIn(("self", "out"), FLOATS),
        SameType(("out",), "self"),
        TypeIn(("indices",), (dtypes.INT8,)),
        of_planes("self"),
        lists(_NAMES),
        _ONE_STEP,
        OUT,
        _MASKED,
    ),
)
def max_pool_with_mask(call: Call) -> Work:
    """The largest element of each window, and a mask that tells which one it is.

    $$out_{h,w} = \\max_{m,n} self_{stride_0 h - padding_0 + m, \\; stride_1 w - padding_1 + n}$$

    The mask is for aclnnMaxPool2dWithMaskBackward alone: its layout is a device's own, and the one here is
    not that of any. Row k of a plane's mask has a byte for each window, 1 where the largest element is at
    place k of the kernel; the rest is 0. What else is said of aclnnMaxPool2dWithIndices holds.

    - Planes are the last two dimensions of three or four.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnMaxPool2dWithMask (hicann/ops-nn,
    pooling/max_pool3d_with_argmax_v2), for all but the mask's layout; the order of checks is not
    documented.
    """
    windows = windows_of(call)

    def compute(arrays: Arrays, threads: Threads) -> None:
        planes, out = as_planes(arrays["self"]), as_planes(arrays["out"])
        points = out.shape[1] * out.shape[2]
        mask = np.zeros((len(planes), *arrays["indices"].shape[-2:]), np.int8)

        def block(cut: slice) -> None:
            numbers = windows.largest(planes[cut], out[cut], numbers=True)
            flat = numbers.reshape(len(numbers), 1, points)
            mask[cut, :, :points] = flat == np.arange(windows.places)[:, np.newaxis]

        by_plane(threads, planes, block)
        np.copyto(arrays["indices"], mask.reshape(arrays["indices"].shape))

    return staged(call, compute, ("self",), ("out", "indices"), raw=("indices",))


@POOLING.operator(
    prototype("aclnnMaxPool2dWithMaskBackward", _OF_LARGEST),
    outputs=("gradInput",),
    missing_on=(ASCEND310B, ASCEND950),
    checks=(
        NotNull(("gradOutput", "self", "indices", *_NAMES, "gradInput")),
        TypeIn(("gradOutput", "self", "gradInput"), FLOATS),
        SameType(("gradOutput", "gradInput"), "self"),
        TypeIn(("indices",), (dtypes.INT8,)),
        of_planes("self"),
        lists(_NAMES),
        _ONE_STEP,
        GRAD,
        _MASKED,
        SameShape(("gradInput",), "self"),
    ),
)
def max_pool_with_mask_backward(call: Call) -> Work:
    """Gradient of the largest element of each window, by the mask of aclnnMaxPool2dWithMask.

    Every element gets the sum of the gradients of the windows of which it is the largest. The mask must be
    this server's: see there.

    - Computed in FLOAT, and rounded once.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnMaxPool2dWithMaskBackward (hicann/ops-nn,
    pooling/max_pool3d_grad_with_argmax), for all but the mask's layout; the order of checks is not
    documented.
    """
    windows = windows_of(call)

    def compute(arrays: Arrays, threads: Threads) -> None:
        grad, out = as_planes(arrays["gradOutput"]), as_planes(arrays["gradInput"])
        points = grad.shape[1] * grad.shape[2]
        mask = as_planes(arrays["indices"])[:, :, :points]

        def block(cut: slice) -> None:
            part = grad[cut]
            chosen = (mask[cut] != 0).reshape(len(part), windows.places, *windows.points)
            out[cut] = 0
            windows.spread_chosen(part, chosen, out[cut])

        by_plane(threads, out, block)

    return staged(call, compute, ("gradOutput", "indices"), ("gradInput",), raw=("indices",))
