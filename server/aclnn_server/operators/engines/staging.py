"""The engine of computations over whole tensors as FLOAT: convolutions, pooling, attention.

Inputs that are FLOAT and contiguous are read where they lie; all others are cast or moved into the
workspace first. So are outputs, afterwards. What computes sees contiguous FLOAT arrays only, divides
the work itself, and gives the same bits at every number of threads if no block depends on another: the
library of linear algebra is held to one thread meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.tensors import TensorSpec
from aclnn_server.linear_algebra import in_one_thread
from aclnn_server.operators.definition import Call, Memory
from aclnn_server.operators.engines.blocks import workspace_bytes
from aclnn_server.operators.engines.copies import Copy, copy
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Scratch, Threads
from aclnn_server.operators.engines.tiling import BLOCK

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Compute = Callable[[Arrays, Threads], None]
"""Computes the outputs from the inputs, all by name of parameter; tensor ``i`` of a list is ``name.i``."""

SINGLE = np.dtype(np.float32)
_EMPTY = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Staged:
    """Outputs that a function computes from whole inputs."""

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    rooms: tuple[tuple[str, Shape], ...]
    """Names and shapes of FLOAT arrays that the function has besides."""
    compute: Compute

    @property
    def workspace_bytes(self) -> int:
        """Bytes for what is cast or moved, and for the rooms."""
        return sum(size for _, size in self._sizes)

    @property
    def _sizes(self) -> list[tuple[str, int]]:
        rows = [(row.room, row.floats) for row in (*self.inputs, *self.outputs) if row.staged]
        own = [(name, TensorSpec.contiguous(shape, dtypes.FLOAT)) for name, shape in self.rooms]
        return [(name, workspace_bytes(spec.storage_bytes)) for name, spec in (*rows, *own)]

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Computes the outputs."""
        memory = {**dict(_flat(memory)), **divided(workspace, self._sizes)}
        outputs = {row.name: row.target(memory) for row in self.outputs}
        arrays = {row.name: row.load(memory, threads, outputs.values()) for row in self.inputs}
        for name, shape in self.rooms:
            arrays[name] = TensorSpec.contiguous(shape, dtypes.FLOAT).view(memory.get(name, _EMPTY))
        with np.errstate(all="ignore"), in_one_thread():
            self.compute(arrays | outputs, threads)
        for row in self.outputs:
            row.store(memory, threads)


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that is read or written as a contiguous FLOAT array, or as it is."""

    name: str
    spec: TensorSpec
    raw: bool = False
    """Whether it is no number to compute with: an input is copied, an output written where it lies."""
    via: DType | None = None
    """Type that elements are rounded to before they are used."""

    @property
    def staged(self) -> bool:
        """Whether it has a place in the workspace."""
        plain = self.spec.dtype is dtypes.FLOAT and self.spec.is_contiguous
        return not self.raw and not (plain and self.via in (None, dtypes.FLOAT))

    @property
    def floats(self) -> TensorSpec:
        """It as a contiguous FLOAT tensor."""
        return TensorSpec.contiguous(self.spec.shape, dtypes.FLOAT)

    @property
    def room(self) -> str:
        """Name of its place in the workspace."""
        return f"{self.name} in the workspace"

    def load(self, memory: Memory, threads: Threads, written: Iterable[Array]) -> Array:
        """Its elements, apart from all that is written."""
        if self.staged:
            step = copy((self.name, self.spec), (self.room, self.floats), via=self.via)
            _move(step, memory, memory.get(self.room, _EMPTY), threads)
            return self.floats.view(memory.get(self.room, _EMPTY))
        found = self.spec.view(memory.get(self.name, _EMPTY))
        if self.raw or any(np.may_share_memory(found, array) for array in written):
            return found.copy()
        return found

    def target(self, memory: Memory) -> Array:
        """The array to write to."""
        if self.staged:
            return self.floats.view(memory.get(self.room, _EMPTY))
        return self.spec.view(memory.get(self.name, _EMPTY))

    def store(self, memory: Memory, threads: Threads) -> None:
        """Rounds what was written to its type, and moves it to its place."""
        if self.staged:
            step = copy((self.room, self.floats), (self.name, self.spec))
            _move(step, memory, memory.get(self.name, _EMPTY), threads)


def _move(step: Copy | None, memory: Memory, written: Array, threads: Threads) -> None:
    if step is not None:
        job = step.prepare(memory, lambda: written)
        threads.run(job, job.tiling.blocks, job.scratch)


def _flat(memory: Memory) -> Iterator[tuple[str, Array]]:
    storages: Mapping[str, Any] = memory
    for name, storage in storages.items():
        if isinstance(storage, Sequence):
            yield from ((f"{name}.{item}", part) for item, part in enumerate(storage))
        else:
            yield name, storage


def divided(workspace: Array | None, rooms: Iterable[tuple[str, int]]) -> dict[str, Array]:
    """Divides a workspace into storages of the given sizes, by name."""
    found, start = {}, 0
    for name, size in rooms:
        if workspace is not None and size:
            found[name] = workspace[start : start + size]
        start += size
    return found


def staged(
    call: Call,
    compute: Compute,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    raw: Sequence[str] = (),
    via: DType | None = None,
    rooms: Mapping[str, Shape] | None = None,
) -> Staged:
    """Plans a computation over whole tensors; those that are null are left out.

    Args:
        call: the call.
        compute: computes it.
        inputs: parameters that are read.
        outputs: parameters that are written.
        raw: those of both that are no numbers to compute with: indexes, masks.
        via: type that inputs are rounded to first.
        rooms: shapes of FLOAT arrays that `compute` has besides, by name.
    """
    return Staged(
        tuple(
            Operand(name, spec, name in raw, None if name in raw else via)
            for name, spec in _given(call, inputs)
        ),
        tuple(Operand(name, spec, name in raw) for name, spec in _given(call, outputs)),
        tuple((rooms or {}).items()),
        compute,
    )


def _given(call: Call, names: Sequence[str]) -> Iterator[tuple[str, TensorSpec]]:
    for name in names:
        value = call[name]
        if isinstance(value, TensorSpec):
            yield name, value
        elif value is not None:
            yield from ((f"{name}.{item}", spec) for item, spec in enumerate(value))


def in_blocks(
    threads: Threads, count: int, elements: int, compute: Callable[[slice], None]
) -> None:
    """Computes places 0 to `count` of a dimension a block at a time.

    Args:
        threads: what computes the blocks.
        count: places.
        elements: elements of one place.
        compute: computes the places of a slice.
    """
    step = max(1, BLOCK // max(1, elements))

    def block(scratch: Scratch, number: int) -> None:
        compute(slice(number * step, min((number + 1) * step, count)))

    threads.run(block, -(-count // step), 0)
