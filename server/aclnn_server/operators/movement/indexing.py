"""Operators that read or write at places that a tensor of indexes names.

Indexes are values, which nobody knows when a call is planned. They are checked when it runs, before
anything is written: one that names no place makes the execution fail. Devices leave that open.

A tensor's memory may change while a kernel reads it, by another stream's work or by a client that shares
it. So what is checked is a copy, and nothing but the copy is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import codes, dtypes
from aclnn.errors import ExecutionFailedError
from aclnn.pythonic import Result
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import Holds, NotNull, RankUpTo, SameType, TypeIn
from aclnn_server.operators.checking.layout_checks import (
    ALL,
    BASIC,
    COMPLEX,
    INDEXES,
    DimOf,
    HasShape,
    OnlyOn950,
    dimension,
)
from aclnn_server.operators.definition import Call, Family, Memory, OneLine, Work
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.copies import apart, copy, movement
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Scratch, Threads
from aclnn_server.operators.engines.tiling import BLOCK, Tiling

Array = npt.NDArray[Any]

INDEXING = Family()


def places_of(index: Array, size: int, operator: str, *, negative: bool = False) -> Array:
    """The indexes of a dimension of `size` places, counted from its front; never the array itself.

    Raises:
        ExecutionFailedError: 361001, one names no place.
    """
    places = np.array(index, np.intp, order="C")
    # Without a sign, those below 0 are the largest.
    if not places.size or places.view(np.uintp).max() < size:
        return places
    low, high = int(places.min()), int(places.max())
    lowest = -size if negative else 0
    if low < lowest or high >= size:
        raise ExecutionFailedError(
            f"index has the element {low if low < lowest else high}; allowed are {lowest} to "
            f"{size - 1}",
            operator=operator,
        )
    return np.where(places < 0, places + size, places)


def with_dimension(spec: TensorSpec) -> TensorSpec:
    """The spec, or where it has no dimensions, one of a single place."""
    return spec if spec.shape else replace(spec, shape=(1,), strides=(1,))


# --- gathering --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gather:
    """Places of one dimension, taken in the order of the indexes."""

    operator: str
    names: tuple[str, str]
    """Parameters of the source and of the indexes."""
    source: TensorSpec
    index: TensorSpec
    output: TensorSpec
    dim: int
    negative: bool = False
    """Whether indexes below 0 count from the end."""
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output.view(memory["out"])
        source = apart(self.source.view(memory[self.names[0]]), out, out)
        index = self.index.view(memory[self.names[1]])
        places = places_of(index, source.shape[self.dim], self.operator, negative=self.negative)
        source = np.ascontiguousarray(source)
        # Blocks are cut along the first dimension that has more than one place.
        axis = next((i for i, size in enumerate(out.shape) if size > 1), 0)
        step = max(1, 8 * BLOCK * out.shape[axis] // out.size) if out.shape else 1
        tiling = Tiling((out.shape or (1,))[: axis + 1], axis, step)

        def compute(scratch: Scratch, number: int) -> None:
            index = tiling.index(number)
            self._take(source, places, out, index[-1] if out.shape else slice(None), axis)

        threads.run(compute, tiling.cuts, 0)

    def _take(self, source: Array, places: Array, out: Array, cut: Any, axis: int) -> None:  # noqa: ANN401
        before = (slice(None),) * axis
        target = out[(*before, cut)] if out.shape else out
        if axis < self.dim:
            source = source[(*before, cut)]
        elif axis < self.dim + places.ndim:
            places = places[(*(slice(None),) * (axis - self.dim), cut)]
        else:
            source = source[(*(slice(None),) * (axis - places.ndim + 1), cut)]
        take_into(source, places, self.dim, target)


def take_into(source: Array, places: Array, dim: int, target: Array) -> None:
    """Writes the places of a dimension, which are known to be inside, in the order of `places`."""
    if target.flags.c_contiguous and target.shape == _taken_shape(source.shape, dim, places.shape):
        # With "clip" NumPy writes to `out` itself.
        np.take(source, places, dim, out=target, mode="clip")
    else:
        np.copyto(target, np.take(source, places, dim, mode="clip").reshape(target.shape))


def _taken_shape(shape: Shape, dim: int, places: Shape) -> Shape:
    return (*shape[:dim], *places, *shape[dim + 1 :])


def _gathered(call: Call) -> Shape | None:
    """Shape of self with dim replaced by the shape of index, which has one dimension at least."""
    own, index = call.tensor("self").shape, call.tensor("index").shape
    if not own:
        return ()
    return _taken_shape(own, dimension(call, "dim", len(own), "self"), index or (1,))


def _along(call: Call, operator: str, *, negative: bool) -> Work:
    """Plans what aclnnIndexSelect and aclnnGatherV2 have in common."""
    own, index, out = call.tensors(("self", "index", "out"))
    if not own.shape:
        # One element has one place, which every index names.
        return movement("out", out, [copy(("self", own), ("out", out))])
    if not (own.elements and index.elements):
        return Nothing()
    dim = dimension(call, "dim", len(own.shape), "self")
    index = with_dimension(index)
    return Gather(operator, ("self", "index"), own, index, out, dim, negative)


def _check_index_list(call: Call) -> None:
    shape = call.tensor("index").shape
    if len(shape) > 1:
        raise call.invalid(
            "index", f"index has shape {list(shape)}; it must have 0 or 1 dimensions"
        )


def _selected(call: Call) -> Shape | None:
    own, index = call.tensors(("self", "index"))
    return _gathered(call) if not own.shape or (own.elements and index.elements) else None


_ONE_LINE = {"dim": 0}
_INDEXED = Result("indexed", "first")
_AS_SAID = "the shape of self, with that of index in place of dim"


@INDEXING.operator(
    """
    aclnnStatus aclnnIndexSelectGetWorkspaceSize(
        const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "index", "out")),
        TypeIn(("self", "out"), ALL),
        SameType(("out",), "self"),
        TypeIn(("index",), INDEXES),
        RankUpTo(("self",)),
        DimOf("dim", "self"),
        Holds("index has 1 dimension, or none", _check_index_list),
        HasShape("out", _AS_SAID, _selected),
    ),
    python=OneLine("index_select", _ONE_LINE, result=_INDEXED),
)
def index_select(call: Call) -> Work:
    """Takes places of one dimension, in the order of a list of indexes.

    For dim 0: $out_{i,\\dots} = self_{index_i,\\dots}$

    An index outside of 0 to size - 1 makes the execution fail, before anything is written. An index
    without dimensions is a list of one.

    Source: host code of aclnnIndexSelect (hicann/ops-nn, index/gather_v2).
    """
    return _along(call, "aclnnIndexSelect", negative=False)


@INDEXING.operator(
    """
    aclnnStatus aclnnGatherV2GetWorkspaceSize(
        const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "index", "out")),
        SameType(("out",), "self"),
        TypeIn(("self", "out"), (*BASIC, *COMPLEX, dtypes.UINT16)),
        OnlyOn950(("self",), (dtypes.UINT16,)),
        TypeIn(("index",), INDEXES),
        RankUpTo(("self", "index")),
        DimOf("dim", "self"),
        HasShape("out", _AS_SAID, _gathered),
    ),
    python=OneLine("gather_v2", _ONE_LINE, result=_INDEXED),
)
def gather_v2(call: Call) -> Work:
    """Takes places of one dimension, as a tensor of indexes says.

    For dim 0: $out_{i,j,\\dots} = self_{index_{i,j},\\dots}$

    Indexes below 0 count from the end; one that names no place makes the execution fail, before anything
    is written. An index without dimensions is a list of one. A self without dimensions is copied.

    Source: host code of aclnnGatherV2 (hicann/ops-nn, index/gather_v2).
    """
    return _along(call, "aclnnGatherV2", negative=True)


def _check_embedding_shape(call: Call) -> None:
    out, index = call.tensor("out").shape, call.tensor("indices").shape
    if len(out) != len(index) + 1 or out[:-1] != index:
        raise call.invalid(
            "out",
            f"out has shape {list(out)}; it must have {list(index)}, the shape of indices, and one "
            "dimension more",
        )


def _check_weight(call: Call) -> None:
    weight = call.tensor("weight").shape
    if len(weight) != 2 and 0 not in (*weight, *call.tensor("indices").shape):
        raise call.invalid("weight", f"weight has shape {list(weight)}; it must have 2 dimensions")


def _embedded(call: Call) -> Shape | None:
    weight, index = call.tensors(("weight", "indices"))
    return (*index.shape, weight.shape[1]) if weight.elements and index.elements else None


@INDEXING.operator(
    """
    aclnnStatus aclnnEmbeddingGetWorkspaceSize(
        const aclTensor* weight, const aclTensor* indices, const aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("weight", "indices", "out")),
        TypeIn(("weight", "out"), (*BASIC, *COMPLEX)),
        SameType(("out",), "weight"),
        TypeIn(("indices",), INDEXES),
        RankUpTo(("weight", "indices", "out")),
        Holds("out has the shape of indices and one dimension more", _check_embedding_shape),
        Holds(
            "weight has 2 dimensions, unless it is empty",
            _check_weight,
            codes.ACLNN_ERR_PARAM_INVALID,
        ),
        HasShape(
            "out",
            "the shape of indices, then the columns of weight",
            _embedded,
            codes.ACLNN_ERR_INNER_NULLPTR,
        ),
    ),
    python=OneLine("embedding", result=Result("embedded", "first")),
)
def embedding(call: Call) -> Work:
    """Looks rows of a table up.

    $$out_{i,\\dots} = weight_{indices_i,\\dots}$$

    An index outside of 0 to rows - 1 makes the execution fail, before anything is written.

    Source: host code of aclnnEmbedding (hicann/ops-nn, index/gather_v2).
    """
    weight, index, out = call.tensors(("weight", "indices", "out"))
    if not (weight.elements and index.elements):
        return Nothing()
    return Gather("aclnnEmbedding", ("weight", "indices"), weight, index, out, 0)
