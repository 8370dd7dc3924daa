"""Operators that read or write, add or multiply, at places that indexes of one dimension name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn.pythonic import Result
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    OneOf,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import (
    BASIC,
    COMPLEX,
    INDEXES,
    DimOf,
    HasShape,
    dimension,
)
from aclnn_server.operators.definition import Call, Check, Family, Memory, OneLine, Work, prototype
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.copies import apart, constant, copy, movement
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.movement.advanced_indexing import linear_places
from aclnn_server.operators.movement.indexing import places_of, with_dimension
from aclnn_server.operators.movement.scattering import scattered_places, summed_in

Array = npt.NDArray[Any]

SCATTER_FORMS = Family()

_TYPES = (*BASIC, *COMPLEX)
_REDUCTIONS = {"none": 0, "add": 1, "multiply": 2}


def _check_fits(own: str, *others: str) -> Check:
    """index has as many dimensions as the others, and is nowhere larger, but than the first in dim."""

    def check(call: Call) -> None:
        index = call.tensor("index").shape
        for name in (own, *others):
            shape = call.tensor(name).shape
            if len(shape or (1,)) != len(index or (1,)):
                raise call.invalid(
                    "index",
                    f"index has {len(index)} dimensions; it must have {len(shape)}, as {name}",
                )
            skip = dimension(call, "dim", len(shape), own) if name == own else None
            sizes = enumerate(zip(index, shape, strict=False))
            if any(count > size for dim, (count, size) in sizes if dim != skip):
                raise call.invalid(
                    "index",
                    f"index has shape {list(index)}, which is more than {list(shape)} of {name}",
                )

    places = " and ".join((own, *others))
    return Holds(f"index has the dimensions of {places}, and no more than they but in dim", check)


# --- aclnnGather ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Gather:
    """Elements at the places of one dimension that indexes name."""

    own: TensorSpec
    index: TensorSpec
    output: TensorSpec
    dim: int
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output.view(memory["out"])
        own = apart(self.own.view(memory["self"]), out, out)
        index = self.index.view(memory["index"])
        places = places_of(index, own.shape[self.dim], "aclnnGather", negative=True)
        cut = tuple(
            slice(None) if dim == self.dim else slice(size) for dim, size in enumerate(places.shape)
        )
        np.copyto(out, np.take_along_axis(own[cut], places, self.dim))


def _indexed(call: Call) -> Shape:
    return call.tensor("index").shape


@SCATTER_FORMS.operator(
    """
    aclnnStatus aclnnGatherGetWorkspaceSize(
        const aclTensor* self, const int64_t dim, const aclTensor* index, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "index", "out")),
        TypeIn(("self",), _TYPES),
        SameType(("out",), "self"),
        TypeIn(("index",), INDEXES),
        RankUpTo(("self", "index")),
        DimOf("dim", "self"),
        _check_fits("self"),
        HasShape("out", "the shape of index", _indexed),
    ),
)
def gather(call: Call) -> Work:
    """Elements at the places of one dimension that a tensor of indexes names.

    For dim 0: $out_{ij} = self_{index_{ij},j}$

    Indexes below 0 count from the end; one that names no place makes the execution fail, before anything
    is written.

    Source: the public documentation of aclnnGather (hicann/ops-nn, index/gather_elements_v2).
    """
    own, index, out = call.tensors(("self", "index", "out"))
    if not index.elements:
        return Nothing()
    dim = dimension(call, "dim", len(own.shape), "self")
    own, index, out = map(with_dimension, (own, index, out))
    return _Gather(own, index, out, dim)


# --- aclnnScatter, aclnnScatterValue, and both in place ---------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scatter:
    """Elements written at, or added to or multiplied with, the places that indexes name, in C order."""

    operator: str
    own: tuple[str, TensorSpec]
    index: TensorSpec
    source: TensorSpec | None
    """Tensor of the elements; ``None`` where there is one number."""
    value: Array | None
    output: tuple[str, TensorSpec]
    dim: int
    reduction: int
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output[1].view(memory[self.output[0]])
        own = self.own[1].view(memory[self.own[0]])
        index = self.index.view(memory["index"])
        places = scattered_places(self.operator, index, own.shape, self.dim).reshape(-1)
        computed = summed_in(out) if self.reduction else out.dtype
        made = np.array(own, computed, order="C").reshape(-1)
        added = self._elements(memory).astype(computed)
        with np.errstate(all="ignore"):
            if self.reduction == 0:
                made[places] = added
            else:
                (np.add if self.reduction == 1 else np.multiply).at(made, places, added)
            np.copyto(out, made.reshape(out.shape), casting="unsafe")

    def _elements(self, memory: Memory) -> Array:
        if self.source is None:
            assert self.value is not None, "there is a number where there is no tensor"
            return self.value
        return self.source.view(memory["src"])[tuple(map(slice, self.index.shape))].reshape(-1)


def _plan(call: Call, own: str, out: str, *, of_number: bool) -> Work:
    first, index, last = call.tensors((own, "index", out))
    if not first.elements:
        return Nothing()
    if not index.elements:
        return movement(out, last, [copy((own, first), (out, last))])
    source = None if of_number else with_dimension(call.tensor("src"))
    return _Scatter(
        call.signature.name,
        (own, with_dimension(first)),
        with_dimension(index),
        source,
        constant(call["value"], first.dtype) if of_number else None,
        (out, with_dimension(last)),
        dimension(call, "dim", len(first.shape), own),
        call["reduce"],
    )


def _define(*, in_place: bool, of_number: bool) -> None:
    """Adds one form."""
    own, out = ("selfRef", "selfRef") if in_place else ("self", "out")
    given = "const aclScalar* value" if of_number else "const aclTensor* src"
    name = f"aclnn{'Inplace' if in_place else ''}Scatter{'Value' if of_number else ''}"
    first = f"aclTensor* {own}" if in_place else f"const aclTensor* {own}"
    last = "" if in_place else ", aclTensor* out"
    others = () if of_number else ("src",)
    alike = others if in_place else (*others, out)
    what = "a number" if of_number else "elements"
    SCATTER_FORMS.add(
        prototype(
            name, f"{first}, int64_t dim, const aclTensor* index, {given}, int64_t reduce{last}"
        ),
        lambda call: _plan(call, own, out, of_number=of_number),
        f"""Writes {what} at the places of one dimension that a tensor of indexes names.

        For dim 0 and reduce 0: ${out}_{{index_{{ij}},j}} = {"value" if of_number else "src_{ij}"}$

        - reduce 1 adds {what}, reduce 2 multiplies by {what}, in the C order of index. FLOAT16 and BF16 are
          computed in FLOAT and rounded once. Of several that are written to a place, the last one stays.
        - Indexes below 0 count from the end; one that names no place makes the execution fail, before
          anything is written.

        Source: the public documentation of {name} (hicann/ops-nn, index/scatter_elements_v2).
        """,
        outputs=(out,),
        checks=(
            NotNull((own, "index", "value" if of_number else "src", *(() if in_place else (out,)))),
            TypeIn((own,), _TYPES),
            *([SameType(alike, own)] if alike else []),
            TypeIn(("index",), INDEXES),
            OneOf("reduce", _REDUCTIONS),
            RankUpTo((own,)),
            DimOf("dim", own),
            _check_fits(own, *others),
            *([] if in_place else [SameShape((out,), own)]),
        ),
        python=None
        if in_place or of_number
        else OneLine(
            "scatter",
            {"dim": 0, "reduce": "none"},
            {"reduce": _REDUCTIONS},
            Result("same", "first"),
        ),
    )


for _in_place in (False, True):
    for _of_number in (False, True):
        _define(in_place=_in_place, of_number=_of_number)


# --- aclnnIndexAdd ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _IndexAdd:
    """Slices added at the places of one dimension, in order."""

    own: TensorSpec
    index: TensorSpec
    source: TensorSpec
    output: TensorSpec
    dim: int
    alpha: Array
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output.view(memory["out"])
        own = self.own.view(memory["self"])
        index = self.index.view(memory["index"])
        places = places_of(index, own.shape[self.dim], "aclnnIndexAdd", negative=True)
        computed = summed_in(out)
        sums = np.array(own, computed, order="C").reshape(-1)
        where = linear_places(
            own.shape, [places if dim == self.dim else None for dim in range(own.ndim)]
        )
        added = self.source.view(memory["source"]).astype(computed)
        with np.errstate(all="ignore"):
            np.multiply(added, self.alpha.astype(computed), out=added)
            np.add.at(sums, where.reshape(-1), added.reshape(-1))
            np.copyto(out, sums.reshape(out.shape), casting="unsafe")


def _check_index_list(call: Call) -> None:
    shape = call.tensor("index").shape
    if len(shape) > 1:
        raise call.invalid(
            "index", f"index has shape {list(shape)}; it must have 0 or 1 dimensions"
        )


def _added(call: Call) -> Shape:
    own, index = call.tensors(("self", "index"))
    shape = own.shape or (1,)
    dim = dimension(call, "dim", len(own.shape), "self")
    found = (*shape[:dim], index.elements, *shape[dim + 1 :])
    return found if own.shape else call.tensor("source").shape


@SCATTER_FORMS.operator(
    """
    aclnnStatus aclnnIndexAddGetWorkspaceSize(
        const aclTensor* self, const int64_t dim, const aclTensor* index, const aclTensor* source,
        const aclScalar* alpha, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "index", "source", "alpha", "out")),
        TypeIn(("self",), BASIC),
        SameType(("source", "out"), "self"),
        TypeIn(("index",), INDEXES),
        RankUpTo(("self",)),
        DimOf("dim", "self"),
        Holds("index has 1 dimension, or none", _check_index_list),
        HasShape("source", "the shape of self, with the size of index in dim", _added),
        SameShape(("out",), "self"),
    ),
)
def index_add(call: Call) -> Work:
    """Adds slices, scaled, to the places of one dimension that a list of indexes names.

    For dim 0: $out = self$, then for each i:
    $out_{index_i,\\dots} \\mathrel{+}= alpha \\cdot source_{i,\\dots}$

    - Added in the order of index, so that sums are deterministic. FLOAT16 and BF16 are added in FLOAT and
      rounded once.
    - Indexes below 0 count from the end; one that names no place makes the execution fail, before anything
      is written.

    Source: the public documentation of aclnnIndexAdd (hicann/ops-nn, index/inplace_index_add).
    """
    own, index, source, out = call.tensors(("self", "index", "source", "out"))
    if not own.elements:
        return Nothing()
    if not index.elements:
        return movement("out", out, [copy(("self", own), ("out", out))])
    dim = dimension(call, "dim", len(own.shape), "self")
    own, index, source, out = map(with_dimension, (own, index, source, out))
    return _IndexAdd(own, index, source, out, dim, np.asarray(call["alpha"].value))
