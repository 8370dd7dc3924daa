"""Triangles of matrices: aclnnTriu and aclnnTril."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.pythonic import Result
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import (
    BASIC,
    WIDE_UNSIGNED,
    OnlyOn950,
    SameFormat,
)
from aclnn_server.operators.definition import Call, Check, Family, Memory, OneLine, Work
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.copies import apart
from aclnn_server.operators.engines.threads import Scratch, Threads, scratch_bytes
from aclnn_server.operators.engines.tiling import Index, Tiling

Array = npt.NDArray[Any]

TRIANGLES = Family()

_BOTH = ("self", "out")
_ONE_LINE = {"diagonal": 0}
_SAME = Result("same", "first")


def _check_matrix(call: Call) -> None:
    own = call.tensor("self")
    if own.elements and len(own.shape) < 2:
        raise call.invalid("self", f"self has {len(own.shape)} dimensions; it must have 2 to 8")


def _check_matrix_even_if_empty(call: Call) -> None:
    if len(call.tensor("self").shape) < 2:
        raise call.invalid("self", f"self has shape {list(call.tensor('self').shape)}; no matrix")


def _checks(has_matrices: Holds) -> tuple[Check, ...]:
    return (
        NotNull(_BOTH),
        TypeIn(_BOTH, (*BASIC, *WIDE_UNSIGNED, dtypes.COMPLEX64)),
        OnlyOn950(_BOTH, (dtypes.COMPLEX64,)),
        SameType(("out",), "self"),
        SameFormat(_BOTH),
        RankUpTo(("self",)),
        has_matrices,
        SameShape(("out",), "self"),
    )


@dataclass(frozen=True, slots=True)
class Triangle:
    """Matrices of which one triangle is copied, and the rest is 0."""

    source: TensorSpec
    output: TensorSpec
    diagonal: int
    """Places that the main diagonal is moved by, to the right."""
    upper: bool
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output.view(memory["out"])
        source = apart(self.source.view(memory["self"]), out, out)
        # As bits, an element times 1 is itself, NaN or not, and times 0 is 0.
        bits = np.dtype(f"u{out.itemsize}")
        written, read = out.view(bits), source.view(bits)
        tiling = Tiling.of(out.shape)

        def compute(scratch: Scratch, number: int) -> None:
            index = tiling.index(number)
            np.multiply(read[index], self._kept(index, scratch), out=written[index])

        threads.run(compute, tiling.blocks, scratch_bytes(tiling.largest))

    def _kept(self, index: Index, scratch: Scratch) -> Array:
        """Which elements of a block stay, for every matrix in it."""
        rows, columns = (self._places(index, dim) for dim in (-2, -1))
        border = rows + max(-self.output.shape[-2], min(self.diagonal, self.output.shape[-1]))
        border = border if border.ndim == 0 else border[:, None]
        kept = scratch.take(np.broadcast_shapes(border.shape, columns.shape), np.dtype(np.bool_))
        compare = np.greater_equal if self.upper else np.less_equal
        compare(columns, border, out=kept)
        return kept

    def _places(self, index: Index, dim: int) -> Array:
        """The places of a dimension, counted from the last, that a block has."""
        size = self.output.shape[dim]
        position = len(self.output.shape) + dim
        place = index[position] if position < len(index) else slice(0, size)
        # The comparisons are twice as fast in 32 bits.
        dtype = np.int32 if max(self.output.shape) < 2**30 else np.int64
        if isinstance(place, int):
            return np.array(place, dtype)
        return np.arange(place.start, place.stop, dtype=dtype)


def _triangle(call: Call, *, upper: bool) -> Work:
    source, out = call.tensors(_BOTH)
    if not out.elements:
        return Nothing()
    return Triangle(source, out, call["diagonal"], upper)


@TRIANGLES.operator(
    """
    aclnnStatus aclnnTriuGetWorkspaceSize(
        const aclTensor* self, int64_t diagonal, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=_checks(Holds("self has 2 dimensions or more, unless it is empty", _check_matrix)),
    python=OneLine("triu", _ONE_LINE, result=_SAME),
)
def triu(call: Call) -> Work:
    """Upper triangle of each matrix; the rest is 0.

    $$out_{ij} = \\begin{cases} self_{ij} & j - i \\ge diagonal \\\\ 0 & \\text{otherwise} \\end{cases}$$

    The last two dimensions are the matrices'. COMPLEX64 is for Ascend 950.

    Source: host code of aclnnTriu (hicann/ops-math, conversion/triu).
    """
    return _triangle(call, upper=True)


@TRIANGLES.operator(
    """
    aclnnStatus aclnnTrilGetWorkspaceSize(
        const aclTensor* self, int64_t diagonal, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=_checks(Holds("self has 2 dimensions or more", _check_matrix_even_if_empty)),
    python=OneLine("tril", _ONE_LINE, result=_SAME),
)
def tril(call: Call) -> Work:
    """Lower triangle of each matrix; the rest is 0.

    $$out_{ij} = \\begin{cases} self_{ij} & j - i \\le diagonal \\\\ 0 & \\text{otherwise} \\end{cases}$$

    The last two dimensions are the matrices'. COMPLEX64 is for Ascend 950.

    Source: host code of aclnnTril (hicann/ops-math, conversion/tril).
    """
    return _triangle(call, upper=False)
