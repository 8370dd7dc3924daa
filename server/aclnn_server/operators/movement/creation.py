"""Operators that make elements: filled with a value, counted, and triangles of what was there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import codes, dtypes
from aclnn.dtypes import DType
from aclnn.errors import NullPointerError
from aclnn.promotion import promote
from aclnn.pythonic import Result
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import Holds, NotNull, RankUpTo, TypeIn
from aclnn_server.operators.checking.layout_checks import BASIC, COMPLEX
from aclnn_server.operators.definition import Call, Family, Memory, OneLine, Work
from aclnn_server.operators.engines.copies import constant, fill, movement
from aclnn_server.operators.engines.threads import Scratch, Threads, scratch_bytes
from aclnn_server.operators.engines.tiling import Tiling

Array = npt.NDArray[Any]

CREATION = Family()

_FILLABLE = BASIC + COMPLEX
_COUNTED = (
    dtypes.FLOAT16,
    dtypes.FLOAT,
    dtypes.DOUBLE,
    dtypes.INT64,
    dtypes.INT32,
    dtypes.BF16,
)


# --- fills ------------------------------------------------------------------------------------------


def _check_value(call: Call) -> None:
    own, value = call.tensor("selfRef").dtype, call["value"].dtype
    if promote(own, value) is None:
        raise call.invalid("value", f"value is {value}, which meets {own} of selfRef in no type")


@CREATION.operator(
    """
    aclnnStatus aclnnInplaceFillScalarGetWorkspaceSize(
        aclTensor* selfRef, const aclScalar* value,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("selfRef",),
    checks=(
        NotNull(("selfRef", "value")),
        TypeIn(("selfRef",), _FILLABLE),
        Holds("value and selfRef meet in a common type", _check_value),
        RankUpTo(("selfRef",)),
    ),
)
def inplace_fill_scalar(call: Call) -> Work:
    """Fills a tensor with one value.

    $$selfRef_i = (dtype_{selfRef}) value$$

    value is cast as aclnnCast casts elements.

    Source: host code of aclnnInplaceFillScalar (hicann/ops-math, conversion/fill).
    """
    own = call.tensor("selfRef")
    return _filled(own, constant(call["value"], own.dtype))


@CREATION.operator(
    """
    aclnnStatus aclnnInplaceZeroGetWorkspaceSize(
        aclTensor* selfRef, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("selfRef",),
    checks=(NotNull(("selfRef",)), TypeIn(("selfRef",), (*_FILLABLE, dtypes.UINT16))),
)
def inplace_zero(call: Call) -> Work:
    """Fills a tensor with 0.

    Source: host code of aclnnInplaceZero (hicann/ops-math, math/zero_op).
    """
    own = call.tensor("selfRef")
    return _filled(own, constant(0, own.dtype))


@CREATION.operator(
    """
    aclnnStatus aclnnInplaceOneGetWorkspaceSize(
        const aclTensor* selfRef, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("selfRef",),
    checks=(NotNull(("selfRef",)), TypeIn(("selfRef",), BASIC), RankUpTo(("selfRef",))),
)
def inplace_one(call: Call) -> Work:
    """Fills a tensor with 1.

    Source: host code of aclnnInplaceOne (hicann/ops-math, math/ones_like).
    """
    own = call.tensor("selfRef")
    return _filled(own, constant(1, own.dtype))


def _filled(own: TensorSpec, value: Array) -> Work:
    return movement("selfRef", own, [fill(("selfRef", own), value)])


# --- aclnnArange ------------------------------------------------------------------------------------

_BOUNDS = ("start", "end", "step")


def _check_no_null(call: Call) -> None:
    for name in (*_BOUNDS, "out"):
        if call[name] is None:
            raise call.invalid(
                name, f"{name} is a null pointer", NullPointerError, codes.ACLNN_ERR_INNER_NULLPTR
            )


def _check_bound_types(call: Call) -> None:
    allowed = call.product.allowed(BASIC)
    for name in _BOUNDS:
        if call[name].dtype not in allowed:
            raise call.invalid(name, f"{name} is {call[name].dtype}, of which no range is made")


def _bounds(call: Call, dtype: DType) -> tuple[Any, Any, Any]:
    """start, end and step in the type that they are compared in: INT64, DOUBLE or FLOAT."""
    if dtype.kind == "signed":
        compared = dtypes.INT64
    else:
        compared = dtypes.DOUBLE if dtype is dtypes.DOUBLE else dtypes.FLOAT
    start, end, step = (constant(call[name], compared)[()] for name in _BOUNDS)
    return start, end, step


def _check_direction(call: Call) -> None:
    start, end, step = _bounds(call, call.tensor("out").dtype)
    if not (step > 0 or step < 0):
        raise call.invalid("step", f"step is {step}; it must be other than 0")
    if (step > 0 and start > end) or (step < 0 and start < end):
        raise call.invalid("end", f"no step of {step} leads from start, {start}, to end, {end}")


def _terms(call: Call) -> tuple[float, float, int]:
    """First number, step and count; integers for an integer output, which INT64 is counted in."""
    exact = dtypes.INT64 if call.tensor("out").dtype is dtypes.INT64 else dtypes.DOUBLE
    start, end, step = (constant(call[name], exact).item() for name in _BOUNDS)
    if exact is dtypes.INT64:
        return start, step, max(0, -(-(end - start) // step))
    count = (end - start) / step
    return start, step, math.ceil(count) if math.isfinite(count) else -1


def _check_count(call: Call) -> None:
    out, (_, _, count) = call.tensor("out"), _terms(call)
    if out.elements != count:
        raise call.invalid(
            "out",
            f"out has {out.elements} elements; the range has {'no end' if count < 0 else count}",
        )


_RUN = 1 << 12
"""Numbers that are counted once; what follows is they and a number, so that only results use memory."""


def _count(first: Array, start: int, out: Array) -> None:
    """Writes `start` and the numbers after it."""
    whole = out.size // first.size * first.size
    starts = np.arange(start, start + whole, first.size).astype(first.dtype)
    np.add(first, starts[:, None], out=out[:whole].reshape(-1, first.size))
    np.add(first[: out.size - whole], start + whole, out=out[whole:])


@dataclass(frozen=True, slots=True)
class _Range:
    """Numbers at equal distances, in C order of the output."""

    output: TensorSpec
    start: float
    step: float
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output.view(memory["out"])
        if not out.size:
            return
        flat = out.reshape(-1) if out.flags.c_contiguous else np.empty(out.size, out.dtype)
        tiling = Tiling.of((out.size,))
        computed = np.dtype(np.int64 if isinstance(self.start, int) else np.float64)
        first = np.arange(min(out.size, _RUN), dtype=computed)

        def compute(scratch: Scratch, number: int) -> None:
            target = flat[tiling.index(number)]
            numbers = target if target.dtype == computed else scratch.take(target.shape, computed)
            _count(first, number * tiling.step, numbers)
            if self.step != 1:
                np.multiply(numbers, self.step, out=numbers)
            if self.start != 0:
                np.add(numbers, self.start, out=numbers)
            if numbers is not target:
                np.copyto(target, numbers, casting="unsafe")

        threads.run(compute, tiling.blocks, scratch_bytes(tiling.step * computed.itemsize))
        if not out.flags.c_contiguous:
            np.copyto(out, flat.reshape(out.shape))


@CREATION.operator(
    """
    aclnnStatus aclnnArangeGetWorkspaceSize(
        const aclScalar* start, const aclScalar* end, const aclScalar* step, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        Holds(
            "start, end, step and out are not null", _check_no_null, codes.ACLNN_ERR_INNER_NULLPTR
        ),
        Holds(f"start, end and step are of {', '.join(map(str, BASIC))}", _check_bound_types),
        TypeIn(("out",), _COUNTED),
        Holds("step is other than 0, and leads from start to end", _check_direction),
        Holds("out has as many elements as the range", _check_count),
    ),
    python=OneLine("arange", {"start": 0, "end": None, "step": 1}, result=Result("range", "range")),
)
def arange(call: Call) -> Work:
    """Numbers at equal distances, from a start up to but not including an end.

    $$out_i = start + i \\cdot step, \\quad 0 \\le i < \\lceil (end - start) / step \\rceil$$

    Computed in INT64 for an INT64 output and in DOUBLE for any other, then rounded once. That out has
    exactly so many elements is checked here; the vendor's code leaves it open what becomes of others.

    Source: host code of aclnnArange (hicann/ops-math, math/range).
    """
    start, step, _ = _terms(call)
    return _Range(call.tensor("out"), start, step)
