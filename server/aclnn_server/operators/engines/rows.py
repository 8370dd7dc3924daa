"""The engine of computations over whole rows: what lies along the reduced dimensions of one result.

Softmax and the normalisations read a row, find a few numbers about it and write the row. A block holds
whole rows, as many as fit the cache; a row is never cut, so scratch memory grows with its length. The
bits depend neither on the number of threads nor on strides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.definition import Memory
from aclnn_server.operators.engines.axes import Grid, Region
from aclnn_server.operators.engines.copies import apart, cast
from aclnn_server.operators.engines.reducing import Source
from aclnn_server.operators.engines.threads import Scratch, Threads, scratch_bytes
from aclnn_server.operators.engines.tiling import Operand

Array = npt.NDArray[Any]

KERNEL_ARRAYS = 2
"""Arrays of scratch memory that a kernel may take."""

RowKernel = Callable[..., object]
"""Computes one block: ``kernel(*inputs, out=outputs, axes=axes, scratch=scratch)``.

Rows lie along `axes`. It writes each of the tuple `out`, of which those with one number per row have
size 1 along `axes`. Inputs and outputs are of the computed type. It may take up to
:data:`KERNEL_ARRAYS` arrays like the first output from `scratch`. An output may be the same memory as an
input: no input may be read after an output is first written, except by the operation that writes it.
"""


@dataclass(frozen=True, slots=True)
class Target:
    """An output as it is written: rounded to one type, then cast to its own."""

    operand: Operand
    rounded: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """Outputs that follow from whole rows of the inputs."""

    kernel: RowKernel
    inputs: tuple[Source, ...]
    outputs: tuple[Target, ...]
    grid: Grid
    computed: np.dtype[Any]
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Computes the outputs."""
        outputs = [row.operand.array(memory[row.operand.name]) for row in self.outputs]
        inputs = [self._apart(source, memory, outputs) for source in self.inputs]

        def compute(scratch: Scratch, group: int) -> None:
            region = self.grid.region(group, 0)
            blocks = [
                self._load(scratch, source, array, region)
                for source, array in zip(self.inputs, inputs, strict=True)
            ]
            self._compute(scratch, blocks, outputs, region)

        threads.run(compute, self.grid.groups, self._scratch_bytes)

    def _apart(self, source: Source, memory: Memory, outputs: Sequence[Array]) -> Array:
        array = source.operand.array(memory[source.operand.name])
        for output in outputs:
            array = apart(array, output, output)
        return array

    @property
    def _scratch_bytes(self) -> int:
        elements = self.grid.largest
        arrays = len(self.outputs) + KERNEL_ARRAYS + 2  # two for one that is rounded and cast
        loads = sum(source.scratch_bytes(elements) for source in self.inputs)
        return loads + arrays * scratch_bytes(elements * self.computed.itemsize)

    def _load(self, scratch: Scratch, source: Source, array: Array, region: Region) -> Array:
        part = array[_within(region, array)]
        return source.load(scratch, part, self.grid.merged(part.shape))

    def _compute(
        self, scratch: Scratch, blocks: list[Array], outputs: list[Array], region: Region
    ) -> None:
        targets = [output[_within(region, output)] for output in outputs]
        rows = list(zip(self.outputs, targets, strict=True))
        results = [self._result(scratch, row, target) for row, target in rows]
        merged = tuple(array.reshape(self.grid.merged(array.shape)) for array in results)
        self.kernel(*blocks, out=merged, axes=self.grid.axes, scratch=scratch)
        for (row, target), result in zip(rows, results, strict=True):
            if result is not target:
                _store(scratch, result, row.rounded, target)

    def _result(self, scratch: Scratch, row: Target, target: Array) -> Array:
        direct = target.dtype == self.computed == row.rounded and target.flags.c_contiguous
        return target if direct else scratch.take(target.shape, self.computed)


def _within(region: Region, array: Array) -> Region:
    pairs = zip(region, array.shape, strict=True)
    return tuple(slice(None) if size == 1 else place for place, size in pairs)


def _store(scratch: Scratch, result: Array, rounded: np.dtype[Any], target: Array) -> None:
    mark = scratch.mark()
    if rounded not in (result.dtype, target.dtype):
        step = scratch.take(result.shape, rounded)
        cast(result, step, scratch)
        result = step
    cast(result, target, scratch)
    scratch.rewind(mark)
