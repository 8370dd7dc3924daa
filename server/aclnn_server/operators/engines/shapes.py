"""Shapes: broadcasting of operands."""

from __future__ import annotations

Shape = tuple[int, ...]


class ShapeMismatchError(ValueError):
    """Two shapes do not broadcast together."""


def broadcast(left: Shape, right: Shape) -> Shape:
    """Broadcasts two shapes, aligned at their last dimension.

    Of two sizes, equal ones stay and 1 gives way to the other, to 0 too.

    Raises:
        ShapeMismatchError: two sizes differ and neither is 1.
    """
    if left == right:
        return left
    rank = max(len(left), len(right))
    pairs = zip(_padded(left, rank), _padded(right, rank), strict=True)
    return tuple(_size(one, other) for one, other in pairs)


def _padded(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape


def _size(left: int, right: int) -> int:
    if left == right or right == 1:
        return left
    if left == 1:
        return right
    raise ShapeMismatchError(f"{left} and {right} are unequal and neither is 1")
