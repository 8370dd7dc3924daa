"""Shapes of the results of operators that move data, for their one-line Python forms.

Inputs that are lists of tensors stand among the others one by one.

A wrong argument raises ValueError, IndexError or TypeError here; the operator's own checks say it better
where they get to see it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aclnn.tensors import Scalar, TensorSpec

Shape = tuple[int, ...]
Specs = Sequence[TensorSpec]
Attributes = Mapping[str, Any]


def same(inputs: Specs, attributes: Attributes) -> Shape:
    """Shape of the first input."""
    return inputs[0].shape


def permuted(inputs: Specs, attributes: Attributes) -> Shape:
    """Sizes of the first input in the order of `dims`."""
    return tuple(inputs[0].shape[dim] for dim in attributes["dims"])


def expanded(inputs: Specs, attributes: Attributes) -> Shape:
    """The shape `size`."""
    return tuple(attributes["size"])


def sliced(inputs: Specs, attributes: Attributes) -> Shape:
    """The first input's with the dimension `dim` cut to a range."""
    shape = list(inputs[0].shape)
    size = shape[attributes["dim"]]
    bounds = slice(attributes["start"], attributes["end"], attributes["step"]).indices(size)
    shape[attributes["dim"]] = len(range(*bounds))
    return tuple(shape)


def padded(inputs: Specs, attributes: Attributes) -> Shape:
    """The first input's with two numbers of `pad` added to each dimension, from the last on."""
    shape, pad = list(inputs[0].shape), attributes["pad"]
    for position, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True), 1):
        shape[-position] = max(0, shape[-position] + before + after)
    return tuple(shape)


def indexed(inputs: Specs, attributes: Attributes) -> Shape:
    """The first input's with the second's in place of the dimension `dim`."""
    own, index = inputs[0].shape, inputs[1].shape or (1,)
    if not own:
        return ()
    dim = range(len(own))[attributes["dim"]]
    return (*own[:dim], *index, *own[dim + 1 :])


def embedded(inputs: Specs, attributes: Attributes) -> Shape:
    """The second input's, then the columns of the first."""
    return (*inputs[1].shape, *inputs[0].shape[1:])


def joined(inputs: Specs, attributes: Attributes) -> Shape:
    """The inputs' after one another along the dimension `dim`; those of the shape [0] do not count."""
    shapes = [spec.shape for spec in inputs if spec.shape != (0,)]
    if not shapes:
        return (0,)
    dim = range(len(shapes[0]))[attributes["dim"]]
    size = sum(shape[dim] for shape in shapes)
    return (*shapes[0][:dim], size, *shapes[0][dim + 1 :])


def stacked(inputs: Specs, attributes: Attributes) -> Shape:
    """The first input's with a new dimension `dim`, as long as there are inputs."""
    shape = inputs[0].shape
    dim = range(len(shape) + 1)[attributes["dim"]]
    return (*shape[:dim], len(inputs), *shape[dim:])


def counted(inputs: Specs, attributes: Attributes) -> Shape:
    """As many numbers as there are from `start` to `end`, `step` apart."""
    start, end, step = (_number(attributes[name]) for name in ("start", "end", "step"))
    if all(isinstance(number, int) for number in (start, end, step)):
        return (len(range(start, end, step)),)
    return (max(0, math.ceil((end - start) / step)),)


def _number(value: Any) -> Any:  # noqa: ANN401 - an int or a float
    return value.value if isinstance(value, Scalar) else value


SHAPES: dict[str, Callable[[Specs, Attributes], Shape]] = {
    "same": same,
    "permuted": permuted,
    "expanded": expanded,
    "sliced": sliced,
    "padded": padded,
    "indexed": indexed,
    "embedded": embedded,
    "joined": joined,
    "stacked": stacked,
    "range": counted,
}
"""The rules by name."""
