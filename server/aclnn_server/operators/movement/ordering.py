"""Operators that order elements along a dimension, and extremes of all elements up to each.

NaN is greater than any number, as in PyTorch. Of equal elements the first comes first, in either direction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.pythonic import Result
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.axis_checks import DIM_OF_SELF
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import BASIC, INDEXES, HasShape, dimension
from aclnn_server.operators.definition import Call, Check, Family, Memory, OneLine, Work, prototype
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Scratch, Threads
from aclnn_server.operators.engines.tiling import BLOCK

Array = npt.NDArray[Any]

ORDERING = Family()

_BOTH = ("valuesOut", "indicesOut")

FEW = 4
"""Part of a row up to which it is faster to choose elements than to order all."""

Order = Callable[[Array], tuple[Array, Array]]
"""Gives values and positions of a block, of which rows lie along the last dimension."""


@dataclass(frozen=True, slots=True)
class Along:
    """Values and positions that follow from whole rows along a dimension."""

    order: Order
    own: TensorSpec
    values: tuple[str, TensorSpec] | None
    """Parameter and tensor of the values, where they are wanted."""
    positions: tuple[str, TensorSpec]
    dim: int
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the outputs, some rows at a time."""
        own = self._rows(self.own, memory["self"])
        outputs = [
            None if row is None else self._rows(row[1], memory[row[0]])
            for row in (self.values, self.positions)
        ]
        length = own.shape[-1]
        step = max(1, BLOCK // max(length, 1))
        lead = own.shape[:-1]
        count = int(np.prod(lead, dtype=np.int64))
        # A copy: outputs may be the same memory as the input, and the input may change.
        flat = np.array(own, order="C").reshape(count, length)
        results = [
            None if out is None else np.empty((count, out.shape[-1]), out.dtype) for out in outputs
        ]

        def compute(scratch: Scratch, number: int) -> None:
            some = slice(number * step, (number + 1) * step)
            for result, found in zip(results, self.order(flat[some]), strict=True):
                if result is not None:
                    np.copyto(result[some], found, casting="unsafe")

        if count:
            threads.run(compute, -(-count // step), 0)
        for out, result in zip(outputs, results, strict=True):
            if out is not None and result is not None:
                np.copyto(out, result.reshape(out.shape))

    def _rows(self, spec: TensorSpec, storage: Array) -> Array:
        array = spec.view(storage)
        return np.moveaxis(array, self.dim, -1) if array.ndim else array.reshape(1)


def comparable(block: Array) -> Array:
    """The elements in a type that NumPy compares fast, 16-bit floats exactly in FLOAT."""
    if block.dtype.itemsize == 2 and block.dtype.kind not in "iu":
        return block.astype(np.float32)
    return block.view(np.uint8) if block.dtype.kind == "b" else block


def positions_in_order(block: Array, *, descending: bool) -> Array:
    """Positions of a block's elements in order, row by row."""
    keys = comparable(block)
    found: Array
    if not descending:
        found = np.argsort(keys, axis=-1, kind="stable")
        return found
    # Ordered from behind, equal elements come out in their own order again once that is turned around.
    found = np.argsort(keys[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    np.subtract(block.shape[-1] - 1, found, out=found)
    return found


def _ordering(*, descending: bool) -> Order:
    def order(block: Array) -> tuple[Array, Array]:
        found = positions_in_order(block, descending=descending)
        return np.take_along_axis(block, found, -1), found

    return order


def _first(count: int, *, descending: bool) -> Order:
    """The first `count` of what :func:`_ordering` gives, without ordering the rest where they are few."""

    def order(block: Array) -> tuple[Array, Array]:
        # NumPy orders short integers by their digits, faster than it chooses among them.
        short = block.dtype.itemsize <= 2 and block.dtype.kind in "iub"
        few = 0 < count <= block.shape[-1] // FEW and not short
        find = _positions_of_first if few else _positions_of_all
        found = find(block, count, descending=descending)
        return np.take_along_axis(block, found, -1), found

    return order


def _positions_of_all(block: Array, count: int, *, descending: bool) -> Array:
    return positions_in_order(block, descending=descending)[..., :count]


def _positions_of_first(block: Array, count: int, *, descending: bool) -> Array:
    """Orders the elements that reach the last one that is wanted; where these are more, as several equal that
    one or it is NaN, the whole row."""
    keys = comparable(block)
    last = keys.shape[-1] - count if descending else count - 1
    bound = np.partition(keys, last, axis=-1)[..., last : last + 1]
    # NaN is less than nothing, and so among the greatest.
    chosen = ~(keys < bound) if descending else keys <= bound
    clear = np.count_nonzero(chosen, axis=-1) == count
    found = np.empty((*block.shape[:-1], count), np.intp)
    if not clear.all():
        found[~clear] = _positions_of_all(block[~clear], count, descending=descending)
        keys, chosen = keys[clear], chosen[clear]
    places = np.nonzero(chosen)[-1].reshape(-1, count)
    own = np.take_along_axis(keys, places, -1)
    inner = positions_in_order(own, descending=descending)
    found[clear] = np.take_along_axis(places, inner, -1)
    return found


def _plan(call: Call, order: Order, *, values: bool = True) -> Work:
    own = call.tensor("self")
    if not own.elements:
        return Nothing()
    name = "indicesOut" if values else "out"
    first = ("valuesOut", call.tensor("valuesOut")) if values else None
    dim = dimension(call, "dim", len(own.shape), "self")
    return Along(order, own, first, (name, call.tensor(name)), dim)


# --- sorting ----------------------------------------------------------------------------------------

_SORTED: tuple[Check, ...] = (
    NotNull(("self", *_BOTH)),
    TypeIn(("self",), BASIC),
    SameType(("valuesOut",), "self"),
    TypeIn(("indicesOut",), (dtypes.INT64,)),
    RankUpTo(("self",)),
    DIM_OF_SELF,
)


@ORDERING.operator(
    """
    aclnnStatus aclnnSortGetWorkspaceSize(
        const aclTensor* self, bool stable, int64_t dim, bool descending,
        aclTensor* valuesOut, aclTensor* indicesOut,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=_BOTH,
    checks=(*_SORTED, SameShape(_BOTH, "self")),
    python=OneLine(
        "sort",
        {"stable": True, "dim": -1, "descending": False},
        result=Result("same", "first"),
        results={"indicesOut": Result("same", "index")},
    ),
)
def sort(call: Call) -> Work:
    """Elements along a dimension in order, and the positions that they had.

    - NaN is greater than any number. Equal elements keep their order, whether stable is true or not.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnSort (hicann/ops-math, math/sort).
    """
    return _plan(call, _ordering(descending=call["descending"]))


@ORDERING.operator(
    """
    aclnnStatus aclnnArgsortGetWorkspaceSize(
        const aclTensor* self, int64_t dim, bool descending, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "out")),
        TypeIn(("self",), BASIC),
        TypeIn(("out",), (dtypes.INT64,)),
        RankUpTo(("self",)),
        DIM_OF_SELF,
        SameShape(("out",), "self"),
    ),
    python=OneLine("argsort", {"dim": -1, "descending": False}, result=Result("same", "index")),
)
def argsort(call: Call) -> Work:
    """Positions that elements along a dimension have, in the order of the elements.

    - NaN is greater than any number. Equal elements keep their order.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnArgsort (hicann/ops-math, math/sort).
    """
    return _plan(call, _ordering(descending=call["descending"]), values=False)


def _check_k(call: Call) -> None:
    own = call.tensor("self").shape or (1,)
    size = own[dimension(call, "dim", len(own), "self")]
    if not 0 <= call["k"] <= size:
        raise call.invalid("k", f"k is {call['k']}; allowed are 0 to {size}, the size of dim")


def _topk_shape(call: Call) -> Shape:
    own = call.tensor("self").shape
    if not own:
        return ()
    dim = dimension(call, "dim", len(own), "self")
    return (*own[:dim], call["k"], *own[dim + 1 :])


@ORDERING.operator(
    """
    aclnnStatus aclnnTopkGetWorkspaceSize(
        const aclTensor* self, int64_t k, int64_t dim, bool largest, bool sorted,
        aclTensor* valuesOut, aclTensor* indicesOut,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=_BOTH,
    checks=(
        *_SORTED,
        Holds("k is at most the size of dim", _check_k),
        *(
            HasShape(name, "the shape of self, with k in place of dim", _topk_shape)
            for name in _BOTH
        ),
    ),
)
def topk(call: Call) -> Work:
    """The k greatest or least elements along a dimension, and their positions.

    - NaN is greater than any number. Of equal elements the first are taken.
    - They are in order, whether sorted is true or not.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnTopk (hicann/ops-math, math/topk).
    """
    return _plan(call, _first(call["k"], descending=call["largest"]))


# --- extremes so far --------------------------------------------------------------------------------


def _so_far(extreme: np.ufunc, reaches: np.ufunc) -> Order:
    def order(block: Array) -> tuple[Array, Array]:
        keys = comparable(block)
        values = extreme.accumulate(keys, axis=-1)
        # An element that reaches the extreme of all up to it is where that stands; and each NaN is.
        own = reaches(keys, values)
        if keys.dtype.kind == "f":
            own |= np.isnan(keys)
        places = np.where(own, np.arange(block.shape[-1]), 0)
        return values, np.maximum.accumulate(places, axis=-1)

    return order


_RUNNING = (
    dtypes.FLOAT,
    dtypes.FLOAT16,
    dtypes.BF16,
    dtypes.DOUBLE,
    dtypes.INT8,
    dtypes.INT32,
    dtypes.INT64,
    dtypes.UINT8,
    dtypes.BOOL,
)
for _name, _word, _extreme, _reaches in (
    ("aclnnCummax", "greatest", np.maximum, np.greater_equal),
    ("aclnnCummin", "least", np.minimum, np.less_equal),
):

    def _planned(call: Call, *, pair: tuple[np.ufunc, np.ufunc] = (_extreme, _reaches)) -> Work:
        return _plan(call, _so_far(*pair))

    ORDERING.add(
        prototype(
            _name, "const aclTensor* self, int64_t dim, aclTensor* valuesOut, aclTensor* indicesOut"
        ),
        _planned,
        f"""The {_word} of all elements up to each, along a dimension, and its position.

        - From the first NaN on it is NaN. Of equal elements the position is the last one's, and of several
          NaN too.

        Source: the public documentation of {_name} (hicann/ops-math, math/{_name[5:].lower()}).
        """,
        outputs=_BOTH,
        checks=(
            NotNull(("self", *_BOTH)),
            TypeIn(("self",), _RUNNING),
            SameType(("valuesOut",), "self"),
            TypeIn(("indicesOut",), INDEXES),
            RankUpTo(("self",)),
            DIM_OF_SELF,
            SameShape(_BOTH, "self"),
        ),
        python=OneLine(
            _name[5:].lower(),
            {"dim": 0},
            result=Result("same", "first"),
            results={"indicesOut": Result("same", "index")},
        ),
    )
