"""Planes of another size, by the nearest or the surrounding elements; reflected at their edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.checking.checks import Holds, NotNull, SameShape, SameType, TypeIn
from aclnn_server.operators.checking.layout_checks import HasShape
from aclnn_server.operators.definition import Call, Check, Family, Work, prototype
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.staging import Arrays, staged
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.networks.matmul import FLOATS
from aclnn_server.operators.networks.pooling import as_planes, by_plane, of_planes
from aclnn_server.operators.networks.resampling_kernels import (
    Taps,
    linear,
    nearest,
    reflected,
    repeated,
)
from aclnn_server.operators.products import ASCEND310B

Array = npt.NDArray[Any]
Pair = tuple[Taps, Taps]
"""Taps of rows and of columns."""
TapsOf = Callable[[Call, Shape, Shape], Pair]
"""Makes the taps of a call from the sizes of input and output."""

RESAMPLING = Family()

_SEMANTICS = """\
- FLOAT16 and BF16 are computed in FLOAT, and rounded once.
- Deterministic, at any number of threads."""


# --- taps -------------------------------------------------------------------------------------------


def _nearest(call: Call, plane: Shape, out: Shape) -> Pair:
    names = {row.name for row in call.signature.parameters}
    scales = [float(call[name]) if name in names else 0.0 for name in ("scalesH", "scalesW")]
    rows, columns = (nearest(*row) for row in zip(plane[-2:], out[-2:], scales, strict=True))
    return rows, columns


def _linear(call: Call, plane: Shape, out: Shape) -> Pair:
    corners, scales = bool(call["alignCorners"]), (call["scalesH"], call["scalesW"])
    rows, columns = (
        linear(size, count, float(scale), corners=corners)
        for size, count, scale in zip(plane[-2:], out[-2:], scales, strict=True)
    )
    return rows, columns


def _reflected(call: Call, plane: Shape, out: Shape) -> Pair:
    left, right, top, bottom = call["padding"]
    return reflected(plane[-2], top, bottom), reflected(plane[-1], left, right)


def _repeated(call: Call, plane: Shape, out: Shape) -> Pair:
    left, right, top, bottom = call["padding"]
    return repeated(plane[-2], top, bottom), repeated(plane[-1], left, right)


def _plan_forward(taps_of: TapsOf, source: str, target: str) -> Callable[[Call], Work]:
    def plan(call: Call) -> Work:
        rows, columns = taps_of(call, call.tensor(source).shape, call.tensor(target).shape)

        def compute(arrays: Arrays, threads: Threads) -> None:
            planes, out = as_planes(arrays[source]), as_planes(arrays[target])

            def block(cut: slice) -> None:
                out[cut] = columns.read(rows.read(planes[cut], 1), 2)

            by_plane(threads, max(planes, out, key=np.size), block)

        return staged(call, compute, (source,), (target,))

    return plan


def _plan_backward(taps_of: TapsOf, source: str, target: str) -> Callable[[Call], Work]:
    def plan(call: Call) -> Work:
        rows, columns = taps_of(call, call.tensor(target).shape, call.tensor(source).shape)

        def compute(arrays: Arrays, threads: Threads) -> None:
            grad, out = as_planes(arrays[source]), as_planes(arrays[target])

            def block(cut: slice) -> None:
                halfway = columns.spread(grad[cut], out.shape[2], 2)
                out[cut] = rows.spread(halfway, out.shape[1], 1)

            by_plane(threads, max(grad, out, key=np.size), block)

        return staged(call, compute, (source,), (target,))

    return plan


# --- another size -----------------------------------------------------------------------------------


def _check_output_size(call: Call) -> None:
    size = tuple(call["outputSize"])
    if len(size) != 2 or min(size) < 1:
        raise call.invalid(
            "outputSize", f"outputSize is {list(size)}; it must have 2 numbers above 0"
        )


def _check_four(name: str) -> Check:
    def check(call: Call) -> None:
        shape = call.tensor(name).shape
        if len(shape) != 4:
            raise call.invalid(name, f"{name} has shape {list(shape)}; it must have 4 dimensions")

    return Holds(f"{name} has 4 dimensions", check)


def _resized(call: Call) -> Shape:
    return (*call.tensor("self").shape[:2], *call["outputSize"])


def _input_size(call: Call) -> Shape:
    return tuple(call["inputSize"])


def _check_input_size(call: Call) -> None:
    size = tuple(call["inputSize"])
    if len(size) != 4 or min(size[1:]) < 1 or size[0] < 0:
        raise call.invalid(
            "inputSize",
            f"inputSize is {list(size)}; it must have 4 numbers, all but the first above 0",
        )


def _grad_size(call: Call) -> Shape:
    return (*call["inputSize"][:2], *call["outputSize"])


_OUTPUT_SIZE = Holds("outputSize has 2 numbers above 0", _check_output_size)
_FORWARD: tuple[Check, ...] = (
    NotNull(("self", "outputSize", "out")),
    TypeIn(("self", "out"), FLOATS),
    SameType(("out",), "self"),
    of_planes("self"),
    _check_four("self"),
    _OUTPUT_SIZE,
    HasShape("out", "the planes of self, of outputSize", _resized),
)


def _backward(out: str) -> tuple[Check, ...]:
    return (
        NotNull(("gradOut", "outputSize", "inputSize", out)),
        TypeIn(("gradOut", out), FLOATS),
        SameType((out,), "gradOut"),
        of_planes("gradOut"),
        _check_four("gradOut"),
        _OUTPUT_SIZE,
        Holds("inputSize has 4 numbers, all but the first above 0", _check_input_size),
        HasShape("gradOut", "the planes of inputSize, of outputSize", _grad_size),
        HasShape(out, "the shape inputSize", _input_size),
    )


_NEAREST = (
    "$$out_{n,c,h,w} = self_{n,c,\\lfloor h / scalesH \\rfloor, \\lfloor w / scalesW \\rfloor}$$\n\n"
    "A scale that is not above 0{0} is outputSize divided by the size of self. Places are at most the last."
)
_LINEAR = (
    "Between the four elements around $h' = (h + 1 / 2) / scalesH - 1 / 2$ and $w'$, by their distances; "
    "with alignCorners, around $h' = h \\cdot (H - 1) / (outputSize_0 - 1)$: corners lie on corners.\n\n"
    "A scale that is not above 0 is outputSize divided by the size of self. Places are at most the last and "
    "at least the first."
)
_SPREAD = (
    "Every gradient is added to the elements that the output was read from, times their weights there; the "
    "other parameters are those of {0}."
)
_SCALES = "double scalesH, double scalesW, "


def _define(
    name: str, parameters: str, plan: Callable[[Call], Work], summary: str, text: str, out: str
) -> None:
    forward = out == "out" and "Backward" not in name
    RESAMPLING.add(
        prototype(name, parameters),
        plan,
        f"{summary}\n\n{text}\n\n{_SEMANTICS}\n\nSource: the public documentation of {name} (hicann/ops-cv, "
        "image); the order of checks is not documented.",
        outputs=(out,),
        missing_on=(ASCEND310B,),
        checks=_FORWARD if forward else _backward(out),
    )


_SELF = "const aclTensor* self, const aclIntArray* outputSize, "
_GRAD = "const aclTensor* gradOut, const aclIntArray* outputSize, const aclIntArray* inputSize, "

_define(
    "aclnnUpsampleNearest2d",
    _SELF + "aclTensor* out",
    _plan_forward(_nearest, "self", "out"),
    "Planes of another size, each element from the nearest place.",
    _NEAREST.replace("{0}", ", as here, where none is given,"),
    "out",
)
_define(
    "aclnnUpsampleNearest2dV2",
    _SELF + "float scalesH, float scalesW, aclTensor* out",
    _plan_forward(_nearest, "self", "out"),
    "Planes of another size, each element from the nearest place, with scales.",
    _NEAREST.replace("{0}", ""),
    "out",
)
_define(
    "aclnnUpsampleNearest2dBackward",
    _GRAD + _SCALES + "aclTensor* gradInput",
    _plan_backward(_nearest, "gradOut", "gradInput"),
    "Gradient of planes of another size, each element from the nearest place.",
    _SPREAD.replace("{0}", "aclnnUpsampleNearest2dV2"),
    "gradInput",
)
_define(
    "aclnnUpsampleBilinear2d",
    _SELF + "const bool alignCorners, const double scalesH, const double scalesW, aclTensor* out",
    _plan_forward(_linear, "self", "out"),
    "Planes of another size, each element between the four around its place.",
    _LINEAR,
    "out",
)
_define(
    "aclnnUpsampleBilinear2dBackward",
    _GRAD + "bool alignCorners, " + _SCALES + "aclTensor* out",
    _plan_backward(_linear, "gradOut", "out"),
    "Gradient of planes of another size, each element between the four around its place.",
    _SPREAD.replace("{0}", "aclnnUpsampleBilinear2d"),
    "out",
)
_define(
    "aclnnUpsampleBilinear2dBackwardV2",
    _GRAD + "bool alignCorners, " + _SCALES + "aclTensor* out",
    _plan_backward(_linear, "gradOut", "out"),
    "Gradient of planes of another size, each element between the four around its place.",
    _SPREAD.replace("{0}", "aclnnUpsampleBilinear2d"),
    "out",
)


# --- edges that are reflected or repeated --------------------------------------------------------------


def _check_reflected(call: Call) -> None:
    padding, shape = tuple(call["padding"]), call.tensor("self").shape
    limits = (shape[-1], shape[-1], shape[-2], shape[-2])
    if len(padding) != 4 or any(
        not 0 <= count < size for count, size in zip(padding, limits, strict=False)
    ):
        raise call.invalid(
            "padding",
            f"padding is {list(padding)}; it must have 4 numbers, from 0 and below the size of self: "
            f"{list(limits)}",
        )


def _check_repeated(call: Call) -> None:
    padding = tuple(call["padding"])
    if len(padding) != 4 or min(padding) < 0:
        raise call.invalid(
            "padding", f"padding is {list(padding)}; it must have 4 numbers of at least 0"
        )


def _padded(call: Call) -> Shape:
    left, right, top, bottom = call["padding"]
    *rest, rows, columns = call.tensor("self").shape
    return (*rest, rows + top + bottom, columns + left + right)


_PADDED = "the planes of self, with padding"


def _define_padding(name: str, taps_of: TapsOf, allowed: Holds, what: str, detail: str) -> None:
    """Adds an operator that pads planes, and its gradient.

    Args:
        name: C name of the first.
        taps_of: where each element of a padded plane comes from.
        allowed: the check of the padding.
        what: what becomes of the planes.
        detail: one sentence more, or none.
    """
    source = (
        f"Source: the public documentation of {name}{{0}} (hicann/ops-nn); the order of checks is not "
        "documented."
    )
    planes = "- Planes are the last two dimensions of three or four."
    RESAMPLING.add(
        prototype(name, "const aclTensor* self, const aclIntArray* padding, aclTensor* out"),
        _plan_forward(taps_of, "self", "out"),
        "\n\n".join(
            (
                f"Planes with {what}.",
                f"padding is left, right, top and bottom.{detail}",
                f"{planes}\n- Deterministic, at any number of threads.",
                source.format(""),
            )
        ),
        outputs=("out",),
        missing_on=(ASCEND310B,),
        checks=(
            NotNull(("self", "padding", "out")),
            TypeIn(("self", "out"), FLOATS),
            SameType(("out",), "self"),
            of_planes("self"),
            allowed,
            HasShape("out", _PADDED, _padded),
        ),
    )
    RESAMPLING.add(
        prototype(
            f"{name}Backward",
            "const aclTensor* gradOutput, const aclTensor* self, const aclIntArray* padding, "
            "aclTensor* gradInput",
        ),
        _plan_backward(taps_of, "gradOutput", "gradInput"),
        "\n\n".join(
            (
                f"Gradient of planes with {what}.",
                "Every element gets the sum of the gradients of all places that it is at.",
                f"{planes}\n{_SEMANTICS}",
                source.format("Backward"),
            )
        ),
        outputs=("gradInput",),
        missing_on=(ASCEND310B,),
        checks=(
            NotNull(("gradOutput", "self", "padding", "gradInput")),
            TypeIn(("gradOutput", "self", "gradInput"), FLOATS),
            SameType(("gradOutput", "gradInput"), "self"),
            of_planes("self"),
            allowed,
            HasShape("gradOutput", _PADDED, _padded),
            SameShape(("gradInput",), "self"),
        ),
    )


_define_padding(
    "aclnnReflectionPad2d",
    _reflected,
    Holds(
        "padding has 4 numbers (left, right, top, bottom) from 0, below the size of self",
        _check_reflected,
    ),
    "their elements again in front of their edges and behind, turned",
    " The elements of the edge itself are not repeated.",
)
_define_padding(
    "aclnnReplicationPad2d",
    _repeated,
    Holds("padding has 4 numbers (left, right, top, bottom) of at least 0", _check_repeated),
    "the elements of their edges again outside of them",
    "",
)
