"""Operators whose results are as large as their elements make them: what a mask selects, what is not 0.

Outputs are given as large as they may become. A run tells the shape of the result, whose elements are the
first of the output, in C order; those behind them are left as they are.

Flags are copied before anything is counted, since a tensor's memory may change while it is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import (
    Broadcasts,
    Holds,
    NotNull,
    RankUpTo,
    TypeIn,
    broadcast_shape,
)
from aclnn_server.operators.checking.layout_checks import BASIC, WIDE_UNSIGNED, OnlyOn950
from aclnn_server.operators.definition import Call, Family, Memory, Shapes, Work
from aclnn_server.operators.engines.copies import apart
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Threads

Array = npt.NDArray[Any]

SELECTING = Family()

_SELECTABLE = (*BASIC, *WIDE_UNSIGNED)


def write_first(output: Array, elements: Array) -> None:
    """Writes the first elements of an output, in C order, cast to its type."""
    with np.errstate(all="ignore"):
        if output.flags.c_contiguous:
            np.copyto(output.reshape(-1)[: elements.size], elements.reshape(-1), casting="unsafe")
        else:
            output.flat[: elements.size] = elements.reshape(-1).astype(output.dtype)


# --- aclnnMaskedSelect ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Select:
    """Elements where a mask is true."""

    own: TensorSpec
    mask: TensorSpec
    output: TensorSpec
    shape: Shape
    """What both broadcast to."""
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> Shapes:
        """Writes what is selected; gives the number of elements."""
        out = self.output.view(memory["out"])
        own = apart(self.own.view(memory["self"]), out, out)
        flags = np.broadcast_to(self.mask.view(memory["mask"]) != 0, self.shape)
        found = np.broadcast_to(own, self.shape)[flags]
        write_first(out, found)
        return {"out": found.shape}


def _check_room(call: Call) -> None:
    shape, out = broadcast_shape(call, ("self", "mask")), call.tensor("out").shape
    if out != (math.prod(shape),):
        raise call.invalid(
            "out",
            f"out has shape {list(out)}; it must have [{math.prod(shape)}], the number of elements of "
            "self and mask broadcast together",
        )


@SELECTING.operator(
    """
    aclnnStatus aclnnMaskedSelectGetWorkspaceSize(
        const aclTensor* self, const aclTensor* mask, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    shaped_by_data=("out",),
    checks=(
        NotNull(("self", "mask", "out")),
        TypeIn(("self",), _SELECTABLE),
        OnlyOn950(("self",), WIDE_UNSIGNED),
        TypeIn(("mask",), (dtypes.UINT8, dtypes.BOOL)),
        TypeIn(("out",), _SELECTABLE),
        OnlyOn950(("out",), WIDE_UNSIGNED),
        RankUpTo(("self", "mask")),
        Broadcasts(("self", "mask")),
        Holds("out has 1 dimension, as large as self and mask broadcast together", _check_room),
    ),
)
def masked_select(call: Call) -> Work:
    """Elements where a mask is true, in C order.

    $$out = [self_i \\mid mask_i \\ne 0]$$

    - self and mask broadcast together. Elements are cast to the type of out.
    - The result has the shape [n], of n elements where the mask is true; it is the first n of out.

    Source: host code of aclnnMaskedSelect (hicann/ops-math, conversion/masked_select_v3).
    """
    shape = broadcast_shape(call, ("self", "mask"))
    own, mask, out = call.tensors(("self", "mask", "out"))
    return _Select(own, mask, out, shape)


# --- aclnnNonzero, aclnnNonzeroV2 -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Positions:
    """Positions of the elements that are not 0."""

    own: TensorSpec
    output: TensorSpec
    turned: bool
    """Whether a position is a column, not a row."""
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> Shapes:
        """Writes the positions; gives their number and that of the dimensions."""
        flags = self.own.view(memory["self"]) != 0
        out = self.output.view(memory["out"])
        places = np.flatnonzero(flags)
        found = np.empty((len(self.own.shape), places.size), np.int64)
        if flags.ndim:
            np.stack(np.unravel_index(places, flags.shape), out=found)
        result = found if self.turned else found.transpose()
        write_first(out, result)
        return {"out": result.shape}


def _check_positions(call: Call) -> None:
    own, out = call.tensors(("self", "out"))
    most = own.elements * len(own.shape)
    if out.elements < most:
        raise call.invalid(
            "out",
            f"out has {out.elements} elements; it must have {most}, {len(own.shape)} for each element "
            "of self",
        )


for _name, _shape, _turned in (("Nonzero", "[n, d]", False), ("NonzeroV2", "[d, n]", True)):

    def _plan(call: Call, *, turned: bool = _turned) -> Work:
        own, out = call.tensors(("self", "out"))
        return _Positions(own, out, turned)

    SELECTING.add(
        f"""
        aclnnStatus aclnn{_name}GetWorkspaceSize(
            const aclTensor* self, aclTensor* out,
            uint64_t* workspaceSize, aclOpExecutor** executor)
        """,
        _plan,
        f"""Positions of the elements that are other than 0, in C order.

        - NaN is other than 0.
        - The result has the shape {_shape}, of n such elements of a self with d dimensions. Its elements are
          the first of out, which has room for all elements of self.

        Source: host code and public documentation of aclnn{_name} (hicann/ops-nn, index/non_zero).
        """,
        outputs=("out",),
        shaped_by_data=("out",),
        checks=(
            NotNull(("self", "out")),
            TypeIn(("self",), _SELECTABLE),
            OnlyOn950(("self",), WIDE_UNSIGNED),
            TypeIn(("out",), (dtypes.INT64,)),
            RankUpTo(("self", "out")),
            Holds("out has room for the position of every element of self", _check_positions),
        ),
    )
