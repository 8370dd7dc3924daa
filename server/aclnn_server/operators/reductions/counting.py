"""Operators that count elements: in intervals, by their values, and those that differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.errors import ExecutionFailedError
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
from aclnn_server.operators.checking.layout_checks import BASIC, HasShape
from aclnn_server.operators.definition import Call, Family, Memory, Shapes, Work
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.pointwise import FLOATS, INTEGERS
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.movement.ordering import comparable
from aclnn_server.operators.movement.selecting import write_first

Array = npt.NDArray[Any]

COUNTING = Family()

_NUMBERS = (*FLOATS, dtypes.DOUBLE, *INTEGERS)


# --- aclnnHistc -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Histogram:
    """Numbers of elements in intervals of equal width."""

    own: TensorSpec
    output: TensorSpec
    low: float
    high: float
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output.view(memory["out"])
        x = np.array(self.own.view(memory["self"]), np.float64).reshape(-1)
        low, high = self._bounds(x)
        inside = x[(x >= low) & (x <= high)]
        places = ((inside - low) / (high - low) * out.size).astype(np.intp)
        # The last interval has its upper end too.
        counts = np.bincount(np.minimum(places, out.size - 1), minlength=out.size)
        np.copyto(out, counts, casting="unsafe")

    def _bounds(self, x: Array) -> tuple[float, float]:
        low, high = self.low, self.high
        if low == high and x.size:
            low, high = float(x.min()), float(x.max())
        if low == high:
            low, high = low - 1, high + 1
        if not (np.isfinite(low) and np.isfinite(high)):
            raise ExecutionFailedError(
                f"intervals from {low} to {high} have no width",
                operator="aclnnHistc",
                parameter="self",
            )
        return low, high


def _check_bins(call: Call) -> None:
    if call["bins"] < 1:
        raise call.invalid("bins", f"bins is {call['bins']}; it must be at least 1")
    for name in ("min", "max"):
        if isinstance(call[name].value, complex):
            raise call.invalid(name, f"{name} is {call[name].value}; it must be real")
    if not call["min"].value <= call["max"].value:
        raise call.invalid("max", f"max is {call['max'].value}, less than min, {call['min'].value}")


def _binned(call: Call) -> Shape:
    return (call["bins"],)


@COUNTING.operator(
    """
    aclnnStatus aclnnHistcGetWorkspaceSize(
        const aclTensor* self, int64_t bins, const aclScalar* min, const aclScalar* max,
        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "min", "max", "out")),
        TypeIn(("self", "out"), _NUMBERS),
        RankUpTo(("self",)),
        Holds("bins is at least 1, and min at most max", _check_bins),
        HasShape("out", "bins elements in one dimension", _binned),
    ),
)
def histc(call: Call) -> Work:
    """Numbers of elements in intervals of equal width.

    - bins intervals lie between min and max; the last one has its upper end too. Elements outside, and NaN,
      are not counted.
    - Where min and max are equal, the intervals lie between the least and the greatest element.

    Source: the public documentation of aclnnHistc (hicann/ops-math, math/histogram_v2).
    """
    own, out = call.tensors(("self", "out"))
    return _Histogram(own, out, float(call["min"].value), float(call["max"].value))


# --- aclnnBincount ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Counts:
    """How often each number from 0 on occurs, or the sum of the weights of each."""

    own: TensorSpec
    weights: TensorSpec | None
    output: TensorSpec
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output.view(memory["out"])
        found = np.array(self.own.view(memory["self"]), np.int64)
        if found.size and not (found.min() >= 0 and found.max() < out.size):
            odd = found[(found < 0) | (found >= out.size)][0]
            raise ExecutionFailedError(
                f"self has the element {odd}; allowed are 0 to {out.size - 1}",
                operator="aclnnBincount",
                parameter="self",
            )
        weights = None
        if self.weights is not None:
            weights = np.array(self.weights.view(memory["weights"]), np.float64)
        counts = np.bincount(found, weights, minlength=out.size)
        np.copyto(out, counts, casting="unsafe")


def _check_counted(call: Call) -> None:
    own, out = call.tensor("self").shape, call.tensor("out").shape
    if len(own) != 1:
        raise call.invalid("self", f"self has shape {list(own)}; it must have one dimension")
    if call["minlength"] < 0:
        raise call.invalid("minlength", f"minlength is {call['minlength']}; it must be at least 0")
    if len(out) != 1 or out[0] < call["minlength"]:
        raise call.invalid(
            "out",
            f"out has shape {list(out)}; it must have one dimension of at least {call['minlength']}",
        )


_WEIGHTED = ("weights",)


@COUNTING.operator(
    """
    aclnnStatus aclnnBincountGetWorkspaceSize(
        const aclTensor* self, const aclTensor* weights, int64_t minlength, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    optional=_WEIGHTED,
    checks=(
        NotNull(("self", "out")),
        TypeIn(("self",), INTEGERS),
        WhereGiven(_WEIGHTED, lambda name: TypeIn((name,), (*_NUMBERS, dtypes.BOOL))),
        TypeIn(("out",), (dtypes.INT32, dtypes.INT64, dtypes.FLOAT, dtypes.DOUBLE)),
        Holds("self has one dimension, and out one of at least minlength", _check_counted),
        WhereGiven(_WEIGHTED, lambda name: SameShape((name,), "self")),
    ),
)
def bincount(call: Call) -> Work:
    """How often each number from 0 on occurs, or the sum of the weights where it does.

    $$out_n = \\sum_{self_i = n} weights_i$$

    - weights may be null; each is 1 then. Sums are DOUBLE, in the order of the elements.
    - out is as large as the greatest number makes it; one that is below 0 or does not fit makes the execution
      fail, before anything is written.

    Source: the public documentation of aclnnBincount (hicann/ops-math, math/bincount).
    """
    own, out = call.tensors(("self", "out"))
    return _Counts(own, call["weights"], out) if out.elements else Nothing()


# --- aclnnUnique2 -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Distinct:
    """Elements that differ, in order; which of them each element is; and how often they occur."""

    own: TensorSpec
    values: TensorSpec
    inverse: TensorSpec | None
    counts: TensorSpec | None
    consecutive: bool = False
    """Whether only neighbours are compared, so that elements stay in their order."""
    dim: int | None = None
    """Dimension whose slices are compared; ``None`` compares elements, in C order."""
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> Shapes:
        """Writes the outputs; gives how many there are."""
        own = np.array(self.own.view(memory["self"]), order="C")
        rows = own.reshape(-1, 1) if self.dim is None else self._slices(own)
        keys, order = comparable(rows), None
        if not self.consecutive:
            order = np.argsort(keys[:, 0], kind="stable")
            keys = keys[order]
        first = np.ones(len(rows), np.bool_)
        # NaN differs from all, also from another.
        differ = keys[1:] != keys[:-1]
        first[1:] = differ[:, 0] if differ.shape[1] == 1 else differ.any(axis=1)
        starts = np.flatnonzero(first)
        chosen = starts if order is None else order[starts]
        shapes = {"valueOut": self._write_values(memory, own, chosen)}
        if self.inverse is not None:
            found = np.empty(len(rows), np.int64)
            found[slice(None) if order is None else order] = np.cumsum(first) - 1
            target = self.inverse.view(memory["inverseOut"])
            np.copyto(target, found.reshape(target.shape))
        if self.counts is not None:
            sizes = np.diff(starts, append=len(rows))
            write_first(self.counts.view(memory["countsOut"]), sizes)
            shapes["countsOut"] = (len(starts),)
        return shapes

    def _slices(self, own: Array) -> Array:
        slices = np.moveaxis(own, self.dim or 0, 0)
        return slices.reshape(len(slices), own.size // max(len(slices), 1))

    def _write_values(self, memory: Memory, own: Array, chosen: Array) -> Shape:
        found = own.reshape(-1)[chosen] if self.dim is None else np.take(own, chosen, self.dim)
        write_first(self.values.view(memory["valueOut"]), found)
        return found.shape


_OUTPUTS = ("valueOut", "inverseOut", "countsOut")
_SHAPED = ("valueOut", "countsOut")


def _check_room(call: Call, name: str, wanted: int) -> None:
    """Checks that an output is as large as its result may become."""
    out = call.tensor(name)
    if out.elements != wanted:
        raise call.invalid(
            name,
            f"{name} has {out.elements} elements; it must have {wanted}, as many as there may be",
        )


def _wants_inverse(call: Call) -> bool:
    return bool(call["returnInverse"] or call["returnCounts"]) and bool(
        call["returnInverse"] or call.tensor("inverseOut").elements
    )


def _check_distinct(call: Call) -> None:
    own = call.tensor("self")
    _check_room(call, "valueOut", own.elements)
    if _wants_inverse(call) and call.tensor("inverseOut").shape != own.shape:
        shape = list(call.tensor("inverseOut").shape)
        raise call.invalid(
            "inverseOut", f"inverseOut has shape {shape}; it must have {list(own.shape)}, as self"
        )
    if call["returnCounts"]:
        _check_room(call, "countsOut", own.elements)


@COUNTING.operator(
    """
    aclnnStatus aclnnUnique2GetWorkspaceSize(
        const aclTensor* self, bool sorted, bool returnInverse, bool returnCounts,
        aclTensor* valueOut, aclTensor* inverseOut, aclTensor* countsOut,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=_OUTPUTS,
    shaped_by_data=_SHAPED,
    checks=(
        NotNull(("self", *_OUTPUTS)),
        TypeIn(("self",), BASIC),
        SameType(("valueOut",), "self"),
        TypeIn(_OUTPUTS[1:], (dtypes.INT64,)),
        RankUpTo(("self",)),
        Holds(
            "valueOut has room for all elements, as countsOut has if returnCounts is true, and inverseOut "
            "the shape of self if it is wanted",
            _check_distinct,
        ),
    ),
)
def unique2(call: Call) -> Work:
    """Elements that differ, in order; which of them each is; and how often they occur.

    - They are in order, whether sorted is true or not. Each NaN differs from every other.
    - inverseOut is written if returnInverse is true, and also with returnCounts if it is not empty; countsOut
      if returnCounts is true.
    - valueOut and countsOut have the shape [n], of n elements that differ; those are the first n of the
      outputs.

    Source: the public documentation of aclnnUnique2 (hicann/ops-math, math/unique_with_counts_ext2).
    """
    own, values, inverse, counts = call.tensors(("self", *_OUTPUTS))
    return _Distinct(
        own,
        values,
        inverse if _wants_inverse(call) else None,
        counts if call["returnCounts"] else None,
    )


# --- aclnnUniqueConsecutive -------------------------------------------------------------------------

NO_DIMENSION = 1000
"""What dim is where there is none."""


def _along(call: Call) -> int | None:
    rank = len(call.tensor("self").shape)
    return None if call["dim"] == NO_DIMENSION or not rank else call["dim"] % rank


def _check_runs(call: Call) -> None:
    own, dim = call.tensor("self"), call["dim"]
    count = max(len(own.shape), 1)
    if dim != NO_DIMENSION and not -count <= dim < count:
        raise call.invalid(
            "dim", f"dim is {dim}; allowed are {-count} to {count - 1}, and {NO_DIMENSION} for none"
        )
    _check_room(call, "valueOut", own.elements)
    along = _along(call)
    shape = own.shape if along is None else (own.shape[along],)
    if call["returnInverse"] and call.tensor("inverseOut").shape != shape:
        found = list(call.tensor("inverseOut").shape)
        raise call.invalid(
            "inverseOut", f"inverseOut has shape {found}; it must have {list(shape)}"
        )
    if call["returnCounts"]:
        wanted = own.elements if along is None else own.shape[along]
        _check_room(call, "countsOut", wanted)


@COUNTING.operator(
    """
    aclnnStatus aclnnUniqueConsecutiveGetWorkspaceSize(
        const aclTensor* self, bool returnInverse, bool returnCounts, int64_t dim,
        aclTensor* valueOut, aclTensor* inverseOut, aclTensor* countsOut,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=_OUTPUTS,
    shaped_by_data=_SHAPED,
    checks=(
        NotNull(("self", *_OUTPUTS)),
        TypeIn(("self",), BASIC),
        SameType(("valueOut",), "self"),
        TypeIn(_OUTPUTS[1:], (dtypes.INT64,)),
        RankUpTo(("self",)),
        Holds(
            "dim is a dimension of self or 1000, valueOut has room for all elements, and the others for "
            "what is wanted",
            _check_runs,
        ),
    ),
)
def unique_consecutive(call: Call) -> Work:
    """The first of each run of equal elements or slices; the run of each; and their lengths.

    - dim is the dimension whose slices are compared; 1000 compares all elements, in C order.
    - Each NaN differs from its neighbours.
    - inverseOut is written if returnInverse is true, countsOut if returnCounts is.
    - valueOut has the shape of self with the number of runs in place of dim, or that number alone; countsOut
      that number. Those are the first elements of the outputs.

    Source: the public documentation of aclnnUniqueConsecutive (hicann/ops-math, math/unique_consecutive).
    """
    own, values, inverse, counts = call.tensors(("self", *_OUTPUTS))
    return _Distinct(
        own,
        values,
        inverse if call["returnInverse"] else None,
        counts if call["returnCounts"] else None,
        consecutive=True,
        dim=_along(call),
    )
