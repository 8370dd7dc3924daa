"""Joining of many small tensors by few calls of NumPy, since to begin a copy takes longer than to do it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn.tensors import TensorSpec
from aclnn_server.operators.definition import Memory
from aclnn_server.operators.engines.copies import RUN, Job
from aclnn_server.operators.engines.threads import Scratch
from aclnn_server.operators.engines.tiling import BLOCK, Tiling

Array = npt.NDArray[Any]
Part = tuple[int, TensorSpec]
"""Position of a tensor in the list, and its view."""


@dataclass(frozen=True, slots=True)
class Join:
    """Tensors of a list, of the type of the output, one after the other along a dimension of it."""

    name: str
    """Parameter of the list."""
    tiling: Tiling
    """A division of the list."""
    positions: tuple[int, ...]
    finders: tuple[Callable[[Array], Array], ...]
    """What makes an array of each tensor's storage."""
    starts: tuple[int, ...]
    """Where each tensor begins along the dimension, and the last one ends."""
    dim: int
    flat: bool
    """Whether arrays are of bytes, with one dimension."""

    def prepare(self, memory: Memory, written: Callable[[], Array]) -> Job:
        """Finds its arrays."""
        output = written()
        storages = memory[self.name]
        found = zip(self.finders, self.positions, strict=True)
        sources = [find(storages[position]) for find, position in found]
        if any(map(np.may_share_memory, sources, itertools.repeat(output))):
            sources = [source.copy() for source in sources]
        target = output.reshape(-1).view(np.uint8) if self.flat else output
        return _JoinJob(self, sources, target)


def join(name: str, parts: Sequence[Part], output: TensorSpec, dim: int) -> Join | None:
    """Plans the joining of tensors that have elements, where they are small and need no cast.

    Args:
        name: parameter of the list.
        parts: tensors whose sizes along `dim` add up to that of the output.
        output: what is written.
        dim: along which they are joined, at least 0.
    """
    specs = [spec for _, spec in parts]
    small = output.elements <= BLOCK * len(parts)
    if len(parts) < 2 or not small or any(spec.dtype is not output.dtype for spec in specs):
        return None
    cuts = -(-output.elements // RUN)
    tiling = Tiling((len(parts),), 0, -(-len(parts) // cuts))
    flat = math.prod(output.shape[:dim]) == 1 and all(
        spec.is_contiguous for spec in (output, *specs)
    )
    finders = tuple(_bytes_of(spec) if flat else spec.view for spec in specs)
    sizes = [spec.elements * spec.dtype.itemsize if flat else spec.shape[dim] for spec in specs]
    starts = tuple(itertools.accumulate(sizes, initial=0))
    positions = tuple(position for position, _ in parts)
    return Join(name, tiling, positions, finders, starts, 0 if flat else dim, flat)


def with_place(spec: TensorSpec, dim: int) -> TensorSpec:
    """The view with one more dimension, of size 1, before dimension `dim`."""
    shape, strides = spec.shape, spec.strides
    return replace(
        spec,
        shape=(*shape[:dim], 1, *shape[dim:]),
        strides=(*strides[:dim], 1, *strides[dim:]),
    )


def _bytes_of(spec: TensorSpec) -> Callable[[Array], Array]:
    size = spec.dtype.itemsize
    place = slice(spec.offset * size, (spec.offset + spec.elements) * size)
    return itemgetter(place)


@dataclass(frozen=True, slots=True)
class _JoinJob:
    step: Join
    sources: list[Array]
    target: Array
    scratch: int = 0

    @property
    def tiling(self) -> Tiling:
        return self.step.tiling

    def __call__(self, scratch: Scratch, number: int) -> None:
        some = self.step.tiling.index(number)[0]
        assert isinstance(some, slice), "the list is what is cut"
        starts, dim = self.step.starts, self.step.dim
        place = (*(slice(None),) * dim, slice(starts[some.start], starts[some.stop]))
        np.concatenate(self.sources[some], dim, out=self.target[place])
