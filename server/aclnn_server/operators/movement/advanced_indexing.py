"""Operators that read or write where several tensors of indexes name places together.

A list has an index for each of the first dimensions of a tensor; one of shape [0] takes its dimension whole.
The others broadcast together. Where they stand side by side their shape takes the place of their dimensions,
else it comes first.

Indexes are values: they are checked when a call runs, before anything is written, and a copy of what was
checked is used, since a tensor's memory may change meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.errors import ExecutionFailedError
from aclnn.tensors import TensorSpec, contiguous_strides
from aclnn_server.operators.checking.checks import Holds, NotNull, RankUpTo, SameType, TypeIn
from aclnn_server.operators.checking.layout_checks import BASIC, COMPLEX, INDEXES
from aclnn_server.operators.definition import Call, Family, Memory, Work
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.copies import apart
from aclnn_server.operators.engines.shapes import Shape, ShapeMismatchError, broadcast
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.movement.indexing import places_of, take_into
from aclnn_server.operators.movement.scattering import summed_in

Array = npt.NDArray[Any]
Places = list[Array | None]
"""Of each dimension the places, which broadcast together, or ``None`` where it is taken whole."""

ADVANCED_INDEXING = Family()

_TYPES = (*BASIC, *COMPLEX)
_INDEX_TYPES = (*INDEXES, dtypes.BOOL, dtypes.UINT8)
_MASKS = (dtypes.BOOL, dtypes.UINT8)


# --- places -----------------------------------------------------------------------------------------


def _is_whole(spec: TensorSpec) -> bool:
    return spec.shape == (0,)


def find_places(
    operator: str, shape: Shape, specs: Sequence[TensorSpec], storages: Array
) -> Places:
    """The places that indexes name in a tensor of a shape, checked.

    Args:
        operator: for the error.
        shape: of the tensor.
        specs: the indexes.
        storages: the memory of each, as that of a list of tensors is given.

    Raises:
        ExecutionFailedError: 361001, one names no place, or masks name numbers of places that do not meet.
    """
    found: Places = []
    for spec, storage in zip(specs, storages, strict=True):
        index = spec.view(storage)
        if _is_whole(spec):
            found.append(None)
        elif spec.dtype in _MASKS:
            found += np.nonzero(np.atleast_1d(index != 0))
        else:
            size = shape[len(found)]
            found.append(places_of(index, size, operator, negative=True))
    try:
        np.broadcast_shapes(*(row.shape for row in found if row is not None))
    except ValueError as error:
        raise ExecutionFailedError(
            f"indices name numbers of places that do not meet: {error}",
            operator=operator,
            parameter="indices",
        ) from None
    return found + [None] * (len(shape) - len(found))


def _result_shape(shape: Shape, whole: Sequence[bool], indexed: Shape) -> Shape:
    """Shape of what is taken: `whole` tells of each dimension whether it is, `indexed` is of the rest."""
    dims = [dim for dim, flag in enumerate(whole) if not flag]
    rest = [shape[dim] for dim, flag in enumerate(whole) if flag]
    side_by_side = bool(dims) and dims == list(range(dims[0], dims[-1] + 1))
    place = dims[0] if side_by_side else 0
    return (*rest[:place], *indexed, *rest[place:])


def _named_shape(shape: Shape, places: Places) -> Shape:
    """Shape of what places name in a tensor of a shape."""
    together = np.broadcast_shapes(*(row.shape for row in places if row is not None))
    return _result_shape(shape, [row is None for row in places], together)


def linear_places(shape: Shape, places: Places) -> Array:
    """Where each element that is taken lies, in the C order of a tensor of a shape."""
    strides = contiguous_strides(shape)
    named = [(row, step) for row, step in zip(places, strides, strict=True) if row is not None]
    indexed: Array = np.zeros((), np.int64)
    for row, step in named:
        indexed = indexed + row * step
    whole = [row is None for row in places]
    result = _result_shape(shape, whole, indexed.shape)
    dims = [dim for dim, flag in enumerate(whole) if not flag]
    side_by_side = bool(dims) and dims == list(range(dims[0], dims[-1] + 1))
    first = dims[0] if side_by_side else 0
    found: Array = np.zeros(result, np.int64)
    found += indexed.reshape((*indexed.shape, *(1,) * (len(result) - first - indexed.ndim)))
    rest = [dim for dim, flag in enumerate(whole) if flag]
    for position, dim in enumerate(rest):
        axis = position if position < first else position + indexed.ndim
        steps = np.arange(shape[dim]) * strides[dim]
        found += steps.reshape(-1, *(1,) * (len(result) - axis - 1))
    return found


# --- checks -----------------------------------------------------------------------------------------


def _check_indexes(call: Call, own: str) -> None:
    """Types of the indexes, how many there are, and that they broadcast together."""
    shape, covered = call.tensor(own).shape, 0
    together: Shape = ()
    for place, spec in enumerate(call["indices"]):
        if _is_whole(spec):
            covered += 1
            continue
        if spec.dtype not in _INDEX_TYPES:
            raise call.invalid(
                "indices",
                f"indices[{place}] is {spec.dtype}; allowed are {', '.join(map(str, _INDEX_TYPES))}",
            )
        if spec.dtype in _MASKS:
            fitting = shape[covered : covered + len(spec.shape)]
            if spec.shape != fitting:
                raise call.invalid(
                    "indices",
                    f"indices[{place}] is a mask of shape {list(spec.shape)}, over dimensions of "
                    f"{list(fitting)}",
                )
            covered += len(spec.shape)
            continue
        covered += 1
        try:
            together = broadcast(together, spec.shape)
        except ShapeMismatchError:
            raise call.invalid(
                "indices",
                f"indices[{place}] has shape {list(spec.shape)}, which does not broadcast with "
                f"{list(together)} of those before it",
            ) from None
    if covered > len(shape):
        raise call.invalid(
            "indices", f"indices are for {covered} dimensions; {own} has {len(shape)}"
        )


def _expected(call: Call, own: str) -> Shape | None:
    """Shape of what is taken; ``None`` where a mask decides it."""
    shape, specs = call.tensor(own).shape, call["indices"]
    if any(spec.dtype in _MASKS and not _is_whole(spec) for spec in specs):
        return None
    together: Shape = ()
    whole = [True] * len(shape)
    for dim, spec in enumerate(specs):
        if not _is_whole(spec):
            whole[dim], together = False, broadcast(together, spec.shape)
    return _result_shape(shape, whole, together)


# --- aclnnIndex -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Take:
    """Elements at the places that indexes name."""

    own: TensorSpec
    indices: tuple[TensorSpec, ...]
    output: TensorSpec
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output.view(memory["out"])
        own = apart(self.own.view(memory["self"]), out, out)
        places = find_places("aclnnIndex", self.own.shape, self.indices, memory["indices"])
        shape = _named_shape(own.shape, places)
        if shape != out.shape:
            raise ExecutionFailedError(
                f"indices name {list(shape)} elements; out has shape {list(out.shape)}",
                operator="aclnnIndex",
                parameter="out",
            )
        named = [(dim, row) for dim, row in enumerate(places) if row is not None]
        if len(named) == 1:
            ((dim, row),) = named
            take_into(own, row, dim, out)
        else:
            np.copyto(out, own[tuple(slice(None) if row is None else row for row in places)])


def _check_taken(call: Call) -> None:
    expected, out = _expected(call, "self"), call.tensor("out").shape
    if expected is not None and out != expected:
        raise call.invalid(
            "out", f"out has shape {list(out)}; it must have {list(expected)}, which indices take"
        )


@ADVANCED_INDEXING.operator(
    """
    aclnnStatus aclnnIndexGetWorkspaceSize(
        const aclTensor* self, const aclTensorList* indices, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "indices", "out")),
        TypeIn(("self",), _TYPES),
        SameType(("out",), "self"),
        RankUpTo(("self", "out")),
        Holds(
            "indices are for dimensions of self, are integers or masks, and broadcast together",
            lambda call: _check_indexes(call, "self"),
        ),
        Holds("out has the shape of what indices take, unless a mask decides it", _check_taken),
    ),
)
def index(call: Call) -> Work:
    """Elements at the places that tensors of indexes name together.

    For two indexes: $out_{i,\\dots} = self_{indices0_i, indices1_i, \\dots}$

    - An index of shape [0] takes its dimension whole, as do dimensions behind the last index. The others
      broadcast together; their shape takes the place of their dimensions if those are side by side, else it
      comes first.
    - A mask, BOOL or UINT8, is the positions where it is true, one index for each of its dimensions.
    - Indexes below 0 count from the end; one that names no place makes the execution fail, before anything
      is written.

    Source: the public documentation of aclnnIndex (hicann/ops-nn, index/index).
    """
    own, out = call.tensors(("self", "out"))
    return _Take(own, call["indices"], out) if own.elements or out.elements else Nothing()


# --- aclnnIndexPutImpl ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Put:
    """Elements written at, or added to, the places that indexes name, in C order of the indexes."""

    own: TensorSpec
    indices: tuple[TensorSpec, ...]
    values: TensorSpec
    accumulate: bool
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the tensor."""
        name = "aclnnIndexPutImpl"
        own = self.own.view(memory["selfRef"])
        values = apart(self.values.view(memory["values"]), own, own)
        places = find_places(name, self.own.shape, self.indices, memory["indices"])
        shape = _named_shape(own.shape, places)
        try:
            values = np.broadcast_to(values, shape)
        except ValueError:
            raise ExecutionFailedError(
                f"values have shape {list(values.shape)}, which does not broadcast to {list(shape)}, the "
                "shape of what indices name",
                operator=name,
                parameter="values",
            ) from None
        with np.errstate(all="ignore"):
            if self.accumulate:
                self._add(own, places, values)
            else:
                own[tuple(slice(None) if row is None else row for row in places)] = values

    def _add(self, own: Array, places: Places, values: Array) -> None:
        computed = summed_in(own)
        sums = np.array(own, computed, order="C").reshape(-1)
        where = linear_places(self.own.shape, places)
        np.add.at(sums, where.reshape(-1), values.astype(computed).reshape(-1))
        np.copyto(own, sums.reshape(own.shape), casting="unsafe")


def _check_values(call: Call) -> None:
    expected, found = _expected(call, "selfRef"), call.tensor("values").shape
    if expected is None:
        return
    try:
        fits = broadcast(found, expected) == expected
    except ShapeMismatchError:
        fits = False
    if not fits:
        raise call.invalid(
            "values",
            f"values have shape {list(found)}, which does not broadcast to {list(expected)}, the shape "
            "of what indices name",
        )


@ADVANCED_INDEXING.operator(
    """
    aclnnStatus aclnnIndexPutImplGetWorkspaceSize(
        aclTensor* selfRef, const aclTensorList* indices, const aclTensor* values,
        const bool accumulate, const bool unsafe,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("selfRef",),
    checks=(
        NotNull(("selfRef", "indices", "values")),
        TypeIn(("selfRef",), _TYPES),
        SameType(("values",), "selfRef"),
        RankUpTo(("selfRef", "values")),
        Holds(
            "indices are for dimensions of selfRef, are integers or masks, and broadcast together",
            lambda call: _check_indexes(call, "selfRef"),
        ),
        Holds(
            "values broadcast to the shape of what indices name, unless a mask decides it",
            _check_values,
        ),
    ),
)
def index_put_impl(call: Call) -> Work:
    """Writes elements to, or adds them to, the places that tensors of indexes name together.

    For two indexes: $selfRef_{indices0_i, indices1_i, \\dots} = values_{i,\\dots}$, or $\\mathrel{+}=$ if
    accumulate is true

    - Indexes name places as for aclnnIndex; values broadcast to what they name.
    - Of several elements for a place the last one is written, or all are added in the C order of the indexes,
      so that sums are deterministic. FLOAT16 and BF16 are added in FLOAT and rounded once.
    - One that names no place makes the execution fail, before anything is written, whatever unsafe says.

    Source: the public documentation of aclnnIndexPutImpl (hicann/ops-nn, index/index_put_v2).
    """
    own, values = call.tensors(("selfRef", "values"))
    if not (own.elements and values.elements):
        return Nothing()
    return _Put(own, call["indices"], values, call["accumulate"])
