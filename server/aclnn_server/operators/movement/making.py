"""Operators that make tensors: unit matrices, classes as vectors, and numbers between two others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import Holds, NotNull, RankUpTo, SameType, TypeIn
from aclnn_server.operators.checking.layout_checks import BASIC, INDEXES, HasShape
from aclnn_server.operators.definition import Call, Family, Memory, Work
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Scratch, Threads
from aclnn_server.operators.engines.tiling import Tiling

Array = npt.NDArray[Any]

MAKING = Family()


# --- aclnnEye ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Eye:
    """Ones on the diagonal of a matrix, zeros elsewhere."""

    output: TensorSpec
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output
        out.view(memory["out"])[...] = 0
        diagonal = replace(out, shape=(min(out.shape),), strides=(sum(out.strides),))
        diagonal.view(memory["out"])[...] = 1


def _check_sizes(call: Call) -> None:
    for name in ("n", "m"):
        if call[name] < 0:
            raise call.invalid(name, f"{name} is {call[name]}; it must be at least 0")


def _square(call: Call) -> Shape:
    return (call["n"], call["m"])


@MAKING.operator(
    """
    aclnnStatus aclnnEyeGetWorkspaceSize(
        int64_t n, int64_t m, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("out",)),
        TypeIn(("out",), BASIC),
        Holds("n and m are at least 0", _check_sizes),
        HasShape("out", "n rows and m columns", _square),
    ),
)
def eye(call: Call) -> Work:
    """A matrix with ones on its diagonal and zeros elsewhere.

    $$out_{ij} = \\begin{cases} 1 & i = j \\\\ 0 & \\text{otherwise} \\end{cases}$$

    Source: the public documentation of aclnnEye (hicann/ops-math, math/eye).
    """
    out = call.tensor("out")
    return _Eye(out) if out.elements else Nothing()


# --- aclnnOneHot ------------------------------------------------------------------------------------

_VALUES = ("onValue", "offValue")
_CLASS_TYPES = (*INDEXES, dtypes.UINT8)
_VALUE_TYPES = (
    dtypes.FLOAT16,
    dtypes.FLOAT,
    dtypes.INT32,
    dtypes.INT64,
    dtypes.INT8,
    dtypes.UINT8,
)


@dataclass(frozen=True, slots=True)
class _OneHot:
    """One value at the place of each class, another elsewhere."""

    own: TensorSpec
    on: TensorSpec
    off: TensorSpec
    output: TensorSpec
    axis: int
    classes: int
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        own = np.array(self.own.view(memory["self"]))
        on, off = (
            np.array(spec.view(memory[name]).reshape(()))
            for name, spec in zip(_VALUES, (self.on, self.off), strict=True)
        )
        out = np.moveaxis(self.output.view(memory["out"]), self.axis, -1)
        np.copyto(out, off)
        np.copyto(out, on, where=own[..., None] == np.arange(self.classes))


def _check_classes(call: Call) -> None:
    if call["numClasses"] < 0:
        raise call.invalid(
            "numClasses", f"numClasses is {call['numClasses']}; it must be at least 0"
        )
    rank = len(call.tensor("self").shape)
    if not -1 <= call["axis"] <= rank:
        raise call.invalid("axis", f"axis is {call['axis']}; allowed are -1 to {rank}")
    for name in _VALUES:
        if call.tensor(name).elements != 1:
            shape = list(call.tensor(name).shape)
            raise call.invalid(name, f"{name} has shape {shape}; it must have one element")


def _with_classes(call: Call) -> Shape:
    shape = call.tensor("self").shape
    axis = call["axis"] if call["axis"] >= 0 else len(shape)
    return (*shape[:axis], call["numClasses"], *shape[axis:])


@MAKING.operator(
    """
    aclnnStatus aclnnOneHotGetWorkspaceSize(
        const aclTensor* self, int numClasses, const aclTensor* onValue, const aclTensor* offValue,
        int64_t axis, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", *_VALUES, "out")),
        TypeIn(("self",), _CLASS_TYPES),
        TypeIn(("out",), _VALUE_TYPES),
        SameType(_VALUES, "out"),
        RankUpTo(("self", "out")),
        Holds(
            "numClasses is at least 0, axis a place between dimensions, and the values have one element",
            _check_classes,
        ),
        HasShape("out", "the shape of self, with numClasses at axis", _with_classes),
    ),
)
def one_hot(call: Call) -> Work:
    """Classes as vectors: one value at the place of the class, another elsewhere.

    For axis -1: $out_{i,c} = \\begin{cases} onValue & self_i = c \\\\ offValue & \\text{otherwise}
    \\end{cases}$

    - axis is where the new dimension stands; -1 is the last.
    - A class that is below 0, or not less than numClasses, has offValue everywhere.

    Source: the public documentation of aclnnOneHot (hicann/ops-math, math/one_hot).
    """
    own, on, off, out = call.tensors(("self", *_VALUES, "out"))
    if not out.elements:
        return Nothing()
    axis = call["axis"] if call["axis"] >= 0 else len(own.shape)
    return _OneHot(own, on, off, out, axis, call["numClasses"])


# --- aclnnLinspace ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Linspace:
    """Numbers at equal distances, both ends included."""

    output: TensorSpec
    start: float
    end: float
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output.view(memory["out"])
        tiling = Tiling.of(out.shape)

        def compute(scratch: Scratch, number: int) -> None:
            (cut,) = tiling.index(number)
            assert isinstance(cut, slice)
            np.copyto(out[cut], self._numbers(cut, out.size), casting="unsafe")

        threads.run(compute, tiling.blocks, 0)

    def _numbers(self, cut: slice, count: int) -> Array:
        """The numbers of a block, each half from its own end, so that both ends are met exactly."""
        places = np.arange(cut.start, cut.stop, dtype=np.float64)
        step = (self.end - self.start) / max(count - 1, 1)
        first = max(-(-count // 2) - cut.start, 0)
        head, tail = places[:first], places[first:]
        np.add(np.multiply(head, step, out=head), self.start, out=head)
        np.subtract(tail, count - 1, out=tail)
        np.add(np.multiply(tail, step, out=tail), self.end, out=tail)
        return places


def _check_steps(call: Call) -> None:
    if call["steps"] < 0:
        raise call.invalid("steps", f"steps is {call['steps']}; it must be at least 0")
    for name in ("start", "end"):
        if call[name].dtype not in call.product.allowed(BASIC):
            raise call.invalid(name, f"{name} is {call[name].dtype}, between which are no numbers")


def _stepped(call: Call) -> Shape:
    return (call["steps"],)


@MAKING.operator(
    """
    aclnnStatus aclnnLinspaceGetWorkspaceSize(
        const aclScalar* start, const aclScalar* end, int64_t steps, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("start", "end", "out")),
        TypeIn(("out",), BASIC[:-1]),
        Holds("steps is at least 0, and start and end are numbers", _check_steps),
        HasShape("out", "steps elements in one dimension", _stepped),
    ),
)
def linspace(call: Call) -> Work:
    """Numbers at equal distances from one to another, both included.

    $$out_i = start + i \\cdot \\frac{end - start}{steps - 1}$$

    Computed in DOUBLE, each half from its own end, and cast to the type of out.

    Source: the public documentation of aclnnLinspace (hicann/ops-math, math/lin_space).
    """
    out = call.tensor("out")
    if not out.elements:
        return Nothing()
    return _Linspace(out, float(call["start"].value), float(call["end"].value))
