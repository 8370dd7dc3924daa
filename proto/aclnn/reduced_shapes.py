"""Shapes of the results of reductions, normalisations and products, for their one-line Python forms.

A wrong argument raises ValueError, IndexError or TypeError here; the operator's own checks say it better
where they get to see it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aclnn.tensors import TensorSpec

Shape = tuple[int, ...]
Specs = Sequence[TensorSpec]
Attributes = Mapping[str, Any]


def along(inputs: Specs, attributes: Attributes) -> Shape:
    """The first input's without the dimensions that `dim` or `dims` names, all where none is, or with 1
    for each if `keepdim`, or as it may be spelt, is true."""
    shape = inputs[0].shape
    named = next((attributes[name] for name in ("dim", "dims") if name in attributes), ())
    keep = any(value for name, value in attributes.items() if name.lower().startswith("keepdim"))
    dims = (named,) if isinstance(named, int) else tuple(named or range(len(shape)))
    places = range(len(shape) or 1)
    gone = {places[dim] for dim in dims}
    if keep:
        return tuple(1 if dim in gone else size for dim, size in enumerate(shape))
    return tuple(size for dim, size in enumerate(shape) if dim not in gone)


def product(inputs: Specs, attributes: Attributes) -> Shape:
    """That of the product of the last two inputs: matrices, vectors, or batches of matrices."""
    left, right = inputs[-2].shape, inputs[-1].shape
    before, batch = left[:-2], right[:-2]
    rank = max(len(before), len(batch))
    pairs = zip(_padded(before, rank), _padded(batch, rank), strict=True)
    sizes = tuple(one if other == 1 else other for one, other in pairs)
    return (*sizes, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def rows(inputs: Specs, attributes: Attributes) -> Shape:
    """The first input's with 1 for as many last dimensions as the second input has."""
    count = len(inputs[1].shape)
    shape = inputs[0].shape
    return shape[: len(shape) - count] + (1,) * count


def _padded(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape


SHAPES: dict[str, Callable[[Specs, Attributes], Shape]] = {
    "along": along,
    "product": product,
    "rows": rows,
}
"""The rules by name."""
