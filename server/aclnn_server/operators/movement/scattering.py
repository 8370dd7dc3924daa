"""Operators that write at places that a tensor of indexes names: aclnnScatterAdd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn.pythonic import Result
from aclnn.tensors import TensorSpec, contiguous_strides
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import BASIC, COMPLEX, INDEXES, DimOf, dimension
from aclnn_server.operators.definition import Call, Family, Memory, OneLine, Work
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.copies import copy, movement
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.movement.indexing import places_of, with_dimension

Array = npt.NDArray[Any]

SCATTERING = Family()


@dataclass(frozen=True, slots=True)
class Scatter:
    """Elements added at the places of one dimension that the indexes name, in C order of the indexes."""

    own: TensorSpec
    index: TensorSpec
    source: TensorSpec
    output: TensorSpec
    dim: int
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output.view(memory["out"])
        own = self.own.view(memory["self"])
        index = self.index.view(memory["index"])
        places = scattered_places("aclnnScatterAdd", index, own.shape, self.dim)
        added = self.source.view(memory["src"])[tuple(map(slice, self.index.shape))]
        computed = summed_in(out)
        sums = np.array(own, computed, order="C").reshape(-1)
        with np.errstate(all="ignore"):
            np.add.at(sums, places.reshape(-1), added.astype(computed).reshape(-1))
            np.copyto(out, sums.reshape(out.shape), casting="unsafe")


def scattered_places(operator: str, index: Array, shape: Shape, along: int) -> Array:
    """Where each index of a dimension leads, in the C order of a tensor of a shape.

    Raises:
        ExecutionFailedError: 361001, one names no place.
    """
    places = places_of(index, shape[along], operator, negative=True)
    strides = contiguous_strides(shape)
    places = places * strides[along]
    for dim, (size, stride) in enumerate(zip(index.shape, strides, strict=True)):
        if dim != along:
            steps = np.arange(size) * stride
            places += steps.reshape(-1, *(1,) * (index.ndim - dim - 1))
    return places


def summed_in(array: Array) -> np.dtype[Any]:
    """Type that elements are summed up in: FLOAT of the 16-bit floats, else their own."""
    narrow = array.dtype.itemsize == 2 and array.dtype.kind not in "iub"
    return np.dtype(np.float32) if narrow else array.dtype


def _check_index_type(call: Call) -> None:
    index = call.tensor("index")
    if index.elements and index.dtype not in INDEXES:
        raise call.invalid("index", f"index is {index.dtype}; allowed are INT32, INT64")


def _check_ranks(call: Call) -> None:
    ranks = [len(spec.shape) for spec in call.tensors(_SCATTERED)]
    if len(set(ranks)) > 1:
        raise call.invalid(
            "index", f"self, index and src have {ranks} dimensions; they must have as many each"
        )


def _check_scatter_shapes(call: Call) -> None:
    own, index, src = (spec.shape for spec in call.tensors(_SCATTERED))
    if any(count > size for count, size in zip(index, src, strict=True)):
        raise call.invalid(
            "index", f"index has shape {list(index)}, which is more than {list(src)} of src"
        )
    dim = max(min(call["dim"], len(own) - 1), -len(own)) % max(len(own), 1)
    others = (pair for i, pair in enumerate(zip(index, own, strict=True)) if i != dim)
    if any(count > size for count, size in others):
        raise call.invalid(
            "index",
            f"index has shape {list(index)}, which is more than {list(own)} of self in another "
            f"dimension than {call['dim']}",
        )


_SCATTERED = ("self", "index", "src")


@SCATTERING.operator(
    """
    aclnnStatus aclnnScatterAddGetWorkspaceSize(
        const aclTensor* self, int64_t dim, const aclTensor* index, const aclTensor* src,
        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull((*_SCATTERED, "out")),
        TypeIn(("self", "src", "out"), (*BASIC, *COMPLEX)),
        SameType(("src", "out"), "self"),
        Holds("index is of INT32 or INT64, unless it is empty", _check_index_type),
        Holds("self, index and src have as many dimensions", _check_ranks),
        SameShape(("out",), "self"),
        Holds("index is nowhere larger than src, nor than self but in dim", _check_scatter_shapes),
        RankUpTo(("self",)),
        DimOf("dim", "self"),
    ),
    python=OneLine("scatter_add", {"dim": 0}, result=Result("same", "first")),
)
def scatter_add(call: Call) -> Work:
    """Adds elements to the places of one dimension that a tensor of indexes names.

    For dim 0: $out = self$, then for each i and j: $out_{index_{ij},j} \\mathrel{+}= src_{ij}$

    - Added in the C order of index, so that sums are deterministic. FLOAT16 and BF16 are added in FLOAT
      and rounded once. BOOL is set where anything added is.
    - Indexes below 0 count from the end; one that names no place makes the execution fail, before
      anything is written.
    - out may be self.

    Source: host code of aclnnScatterAdd (hicann/ops-nn, index/scatter_elements_v2).
    """
    own, index, source, out = call.tensors((*_SCATTERED, "out"))
    if not own.elements:
        return Nothing()
    if not index.elements:
        return movement("out", out, [copy(("self", own), ("out", out))])
    dim = dimension(call, "dim", len(own.shape), "self")
    own, index, source, out = map(with_dimension, (own, index, source, out))
    return Scatter(own, index, source, out, dim)
