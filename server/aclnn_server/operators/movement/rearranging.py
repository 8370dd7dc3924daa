"""Operators that put elements elsewhere: turned around, rolled, repeated, cut in several dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.axis_checks import DimsOf
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import BASIC, COMPLEX, WIDE_UNSIGNED, HasShape
from aclnn_server.operators.definition import Call, Family, Memory, Work
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.copies import copy, movement
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.engines.views import sliced

Array = npt.NDArray[Any]

REARRANGING = Family()

_TYPES = (*BASIC, *WIDE_UNSIGNED, *COMPLEX)


def _moved(call: Call, source: TensorSpec, target: TensorSpec, name: str = "self") -> Work:
    return movement("out", call.tensor("out"), [copy((name, source), ("out", target))])


# --- aclnnFlip --------------------------------------------------------------------------------------


def _turned(spec: TensorSpec, dims: Sequence[int]) -> TensorSpec:
    """The view that walks dimensions backwards."""
    strides = tuple(-step if dim in dims else step for dim, step in enumerate(spec.strides))
    last = sum((spec.shape[dim] - 1) * spec.strides[dim] for dim in dims)
    return replace(spec, strides=strides, offset=spec.offset + last)


@REARRANGING.operator(
    """
    aclnnStatus aclnnFlipGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* dims, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "dims", "out")),
        TypeIn(("self",), _TYPES),
        SameType(("out",), "self"),
        RankUpTo(("self",)),
        DimsOf("dims", "self"),
        SameShape(("out",), "self"),
    ),
)
def flip(call: Call) -> Work:
    """Turns dimensions around.

    For dim 0: $out_{i,\\dots} = self_{n - 1 - i,\\dots}$

    Source: the public documentation of aclnnFlip (hicann/ops-math, conversion/reverse).
    """
    own, out = call.tensors(("self", "out"))
    if not own.elements:
        return Nothing()
    dims = {dim % len(own.shape) for dim in call["dims"]} if own.shape else set()
    return _moved(call, _turned(own, sorted(dims)), out)


# --- aclnnRoll --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _RollAll:
    """All elements in C order moved on, those behind the end to the front; tensors need not lie so."""

    own: TensorSpec
    output: TensorSpec
    shift: int
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output.view(memory["out"])
        np.copyto(out, np.roll(self.own.view(memory["x"]), self.shift))


def _roll(own: TensorSpec, out: TensorSpec, shifts: dict[int, int]) -> Work:
    """Moves elements on along dimensions: each of these is cut where its end comes to the front."""
    pairs = [(own, out)]
    for dim, shift in shifts.items():
        size = own.shape[dim]
        cut = size - shift % size
        pieces = ((0, size - cut, cut), (cut, 0, size - cut))
        pairs = [
            (sliced(source, dim, start, count), sliced(target, dim, goal, count))
            for source, target in pairs
            for start, goal, count in pieces
        ]
    return movement("out", out, [copy(("x", source), ("out", target)) for source, target in pairs])


def _check_shifts(call: Call) -> None:
    shifts, dims = call["shifts"], call["dims"]
    if dims and len(dims) != len(shifts):
        raise call.invalid(
            "dims", f"dims has {len(dims)} numbers; it must have {len(shifts)}, as shifts"
        )
    if not dims and len(shifts) != 1:
        raise call.invalid(
            "shifts", f"shifts has {len(shifts)} numbers; without dims it must have one"
        )


@REARRANGING.operator(
    """
    aclnnStatus aclnnRollGetWorkspaceSize(
        const aclTensor* x, const aclIntArray* shifts, const aclIntArray* dims, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("x", "shifts", "dims", "out")),
        TypeIn(("x",), _TYPES),
        SameType(("out",), "x"),
        RankUpTo(("x",)),
        Holds("dims has as many numbers as shifts, or none where that has one", _check_shifts),
        DimsOf("dims", "x", repeated=True),
        SameShape(("out",), "x"),
    ),
)
def roll(call: Call) -> Work:
    """Moves elements on along dimensions; those behind the end come to the front.

    For dim 0: $out_{(i + shift) \\bmod n,\\dots} = x_{i,\\dots}$

    Without dims, all elements in C order are one dimension.

    Source: the public documentation of aclnnRoll (hicann/ops-math, conversion/roll).
    """
    own, out = call.tensors(("x", "out"))
    if not own.elements:
        return Nothing()
    if not own.shape:
        return _moved(call, own, out, "x")
    shifts: dict[int, int] = {}
    for dim, shift in zip(call["dims"] or (0,), call["shifts"], strict=True):
        place = dim % len(own.shape)
        shifts[place] = shifts.get(place, 0) + shift
    if call["dims"] or len(own.shape) == 1:
        return _roll(own, out, shifts)
    if own.is_contiguous and out.is_contiguous:
        source, target = (replace(spec, shape=(own.elements,), strides=(1,)) for spec in (own, out))
        return _roll(source, target, shifts)
    return _RollAll(own, out, shifts[0])


# --- aclnnRepeat ------------------------------------------------------------------------------------


def _check_repeats(call: Call) -> None:
    repeats, rank = call["repeats"], len(call.tensor("self").shape)
    if len(repeats) < rank:
        raise call.invalid(
            "repeats", f"repeats has {len(repeats)} numbers; self has {rank} dimensions"
        )
    if any(count < 0 for count in repeats):
        raise call.invalid("repeats", f"repeats is {list(repeats)}; numbers must be at least 0")


def _whole_shape(call: Call) -> Shape:
    """The shape of self with sizes of 1 before it, one size for each of the repeats."""
    shape = call.tensor("self").shape
    return (*(1,) * (len(call["repeats"]) - len(shape)), *shape)


def _repeated(call: Call) -> Shape:
    pairs = zip(call["repeats"], _whole_shape(call), strict=True)
    return tuple(count * size for count, size in pairs)


@REARRANGING.operator(
    """
    aclnnStatus aclnnRepeatGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* repeats, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "repeats", "out")),
        TypeIn(("self",), _TYPES),
        SameType(("out",), "self"),
        RankUpTo(("self", "out")),
        Holds("repeats has a number of at least 0 for each dimension, and more", _check_repeats),
        HasShape("out", "the sizes of self, each as often as repeats says", _repeated),
    ),
)
def repeat(call: Call) -> Work:
    """Repeats a tensor along its dimensions, and along new ones before them.

    $$out_i = self_{i \\bmod n}$$

    Source: the public documentation of aclnnRepeat (hicann/ops-math, conversion/tile).
    """
    own, out = call.tensors(("self", "out"))
    if not out.elements:
        return Nothing()
    # Each dimension of the output as two: how often, and how large.
    whole = _whole_shape(call)
    counted = zip(call["repeats"], whole, out.strides, strict=True)
    pairs = [((count, size), (size * step, step)) for count, size, step in counted]
    missing = len(whole) - len(own.shape)
    source = replace(
        own,
        shape=tuple(item for size in whole for item in (1, size)),
        strides=(0,) * 2 * missing + tuple(item for step in own.strides for item in (0, step)),
    )
    target = replace(
        out,
        shape=tuple(item for sizes, _ in pairs for item in sizes),
        strides=tuple(item for _, steps in pairs for item in steps),
    )
    return _moved(call, source, target)


# --- aclnnSliceV2 -----------------------------------------------------------------------------------

_LISTS = ("starts", "ends", "axes", "steps")


def _check_lists(call: Call) -> None:
    count = len(call["starts"])
    for name in _LISTS[1:]:
        if len(call[name]) != count:
            raise call.invalid(
                name, f"{name} has {len(call[name])} numbers; it must have {count}, as starts"
            )
    for step in call["steps"]:
        if step < 1:
            raise call.invalid("steps", f"steps is {list(call['steps'])}; they must be at least 1")


def _cut(call: Call) -> TensorSpec:
    """The view of self that is cut out."""
    found = call.tensor("self")
    for start, end, axis, step in zip(*(call[name] for name in _LISTS), strict=True):
        dim = axis % len(found.shape)
        places = range(*slice(start, end).indices(found.shape[dim]))[::step]
        found = sliced(found, dim, places.start, len(places), step)
    return found


def _cut_shape(call: Call) -> Shape:
    return _cut(call).shape


def _check_dimensions(call: Call) -> None:
    if not call.tensor("self").shape:
        raise call.invalid("self", "self has no dimensions; it must have one at least")


@REARRANGING.operator(
    """
    aclnnStatus aclnnSliceV2GetWorkspaceSize(
        const aclTensor* self, const aclIntArray* starts, const aclIntArray* ends,
        const aclIntArray* axes, const aclIntArray* steps, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", *_LISTS, "out")),
        TypeIn(("self",), _TYPES),
        SameType(("out",), "self"),
        RankUpTo(("self",)),
        Holds("self has dimensions", _check_dimensions),
        Holds("ends, axes and steps are as long as starts, and steps are above 0", _check_lists),
        DimsOf("axes", "self"),
        HasShape("out", "the shape of what is cut out", _cut_shape),
    ),
)
def slice_v2(call: Call) -> Work:
    """Cuts a part out of several dimensions.

    For axis 0: $out_{i,\\dots} = self_{start + i \\cdot step,\\dots}$

    starts and ends below 0 count from the end, and are moved inside the dimension.

    Source: the public documentation of aclnnSliceV2 (hicann/ops-math, conversion/strided_slice).
    """
    if not call.tensor("out").elements:
        return Nothing()
    return _moved(call, _cut(call), call.tensor("out"))
