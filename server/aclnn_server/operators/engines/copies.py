"""The engine of data movement: views are copied, cast and filled into views of one output.

A block at a time, in the order of the output's memory, without temporaries of full size; only an input
that shares memory with the output is copied first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.tensors import Scalar, TensorSpec
from aclnn_server.operators.definition import Memory, Work
from aclnn_server.operators.engines.casts import narrow, widen
from aclnn_server.operators.engines.threads import Scratch, Threads, address, scratch_bytes
from aclnn_server.operators.engines.tiling import BLOCK, Operand, Tiling, lay_out

Array = npt.NDArray[Any]

_HALF = np.dtype(np.float16)
_SINGLE = np.dtype(np.float32)
RUN = 8 * BLOCK
"""Elements of a block that is written from one end to the other, and needs no room in the cache."""

_CAST = RUN // 4
"""Elements of a block that is cast in one go, which takes longer than a copy."""


class Step(Protocol):
    """One part of a movement: what it writes, no other step writes."""

    def prepare(self, memory: Memory, written: Callable[[], Array]) -> Job:
        """Finds its arrays; `written` gives all that the steps write."""


class Job(Protocol):
    """A step on its arrays."""

    @property
    def tiling(self) -> Tiling:
        """The division into blocks."""

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory that a block takes."""

    def __call__(self, scratch: Scratch, number: int) -> None:
        """Writes a block."""


@dataclass(frozen=True, slots=True)
class Movement:
    """Steps that write one output."""

    name: str
    output: TensorSpec
    steps: tuple[Step, ...]
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""

        def written() -> Array:
            return self.output.view(memory[self.name])

        jobs = [step.prepare(memory, written) for step in self.steps]
        if len(jobs) == 1:
            threads.run(jobs[0], jobs[0].tiling.blocks, jobs[0].scratch)
            return
        blocks = [(job, number) for job in jobs for number in range(job.tiling.blocks)]

        def compute(scratch: Scratch, number: int) -> None:
            job, block = blocks[number]
            job(scratch, block)

        threads.run(compute, len(blocks), max((job.scratch for job in jobs), default=0))


def movement(name: str, output: TensorSpec, steps: Iterable[Step | None]) -> Work:
    """Plans steps that write the output of a parameter; ``None`` is a step with nothing to do."""
    return Movement(name, output, tuple(step for step in steps if step is not None))


# --- copies -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copy:
    """A view copied into another of equal shape, with a cast."""

    source: Operand
    target: Operand
    tiling: Tiling
    via: np.dtype[Any] | None
    """Type that elements are rounded to on the way."""
    item: int | None
    """Position in the list, where the source is one of a list of tensors."""

    def prepare(self, memory: Memory, written: Callable[[], Array]) -> Job:
        """Finds its arrays."""
        storage = memory[self.source.name]
        source = self.source.array(storage if self.item is None else storage[self.item])
        output = memory[self.target.name]
        target = self.target.array(output)
        if np.may_share_memory(source, output):
            source = apart(source, target, written())
        return _CopyJob(self, source, target)


def copy(
    source: tuple[str, TensorSpec],
    target: tuple[str, TensorSpec],
    *,
    via: DType | None = None,
    item: int | None = None,
) -> Copy | None:
    """Plans the copy of one view into another; sizes of 1 and missing dimensions are repeated.

    Args:
        source: parameter and view.
        target: parameter and view, of the shape to fill.
        via: type that elements are rounded to on the way.
        item: position in the list, where the source is one of a list of tensors.
    """
    shape = target[1].shape
    if 0 in shape:
        return None
    tiling, (read, write) = lay_out(shape, [source, target], along_last=True)
    if write.strides[-1] == 1 and read.strides[-1] in (0, 1):
        if read.dtype is write.dtype:
            tiling = Tiling.of(tiling.shape, RUN)
        elif via in (None, read.dtype, write.dtype) and write.dtype is not dtypes.FLOAT16:
            tiling = Tiling.of(tiling.shape, _CAST)
    return Copy(read, write, tiling, None if via is None else via.numpy, item)


def apart(source: Array, target: Array, written: Array) -> Array:
    """A source that no step changes before it is read: a copy, where it lies in what is written."""
    if not np.may_share_memory(source, written):
        return source
    same = (
        address(source) == address(target)
        and source.strides == target.strides
        and source.shape == target.shape
        and source.dtype == target.dtype
    )
    return source if same else source.copy()


@dataclass(frozen=True, slots=True)
class _CopyJob:
    step: Copy
    source: Array
    target: Array

    @property
    def tiling(self) -> Tiling:
        return self.step.tiling

    @property
    def scratch(self) -> int:
        if self.step.via in (None, self.target.dtype) and self.source.dtype == self.target.dtype:
            return 0
        sizes = [_SINGLE.itemsize, self.step.via.itemsize if self.step.via is not None else 0]
        return sum(scratch_bytes(size * self.tiling.largest) for size in sizes)

    def __call__(self, scratch: Scratch, number: int) -> None:
        index = self.tiling.index(number)
        source = self.source[self.step.source.part(index)]
        target = self.target[self.step.target.part(index)]
        if (via := self.step.via) is not None and via not in (source.dtype, target.dtype):
            rounded = scratch.take(source.shape, via)
            cast(source, rounded, scratch)
            source = rounded
        cast(source, target, scratch)


def cast(source: Array, target: Array, scratch: Scratch) -> None:
    """Casts a block into another, to which it broadcasts.

    Floats become integers by cutting off their fraction; where the integer type does not hold the value,
    the result is what the processor makes of it. Complex numbers lose their imaginary part, except that
    they become BOOL by being other than 0, as all types do.
    """
    if source.dtype.kind == "c" and target.dtype.kind not in "cb":
        source = source.real
    if source.shape != target.shape and source.dtype != target.dtype:
        source = np.broadcast_to(source, target.shape)
    if source.dtype == _SINGLE and target.dtype == _HALF:
        narrow(source, target, scratch.take(source.shape, _SINGLE))
    else:
        widen(source, target)


# --- fills ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fill:
    """A view filled with one value of its type."""

    target: Operand
    tiling: Tiling
    value: Array

    def prepare(self, memory: Memory, written: Callable[[], Array]) -> Job:
        """Finds its array."""
        return _FillJob(self, self.target.array(memory[self.target.name]))


def fill(target: tuple[str, TensorSpec], value: Array) -> Fill | None:
    """Plans the filling of a view with a value of its type."""
    shape = target[1].shape
    if 0 in shape:
        return None
    tiling, (write,) = lay_out(shape, [target], along_last=True)
    return Fill(write, Tiling.of(tiling.shape, RUN), value)


def constant(scalar: Scalar | complex, dtype: DType) -> Array:
    """A number as one element of a type, cast as :func:`cast` does."""
    with np.errstate(all="ignore"):
        exact = (
            np.array(scalar.value, scalar.dtype.numpy)
            if isinstance(scalar, Scalar)
            else np.array(scalar)
        )
        if exact.dtype.kind == "c" and dtype.kind not in ("complex", "bool"):
            exact = exact.real
        converted: Array = exact.astype(dtype.numpy)
    return converted


@dataclass(frozen=True, slots=True)
class _FillJob:
    step: Fill
    target: Array
    scratch: int = 0

    @property
    def tiling(self) -> Tiling:
        return self.step.tiling

    def __call__(self, scratch: Scratch, number: int) -> None:
        part = self.target[self.step.target.part(self.tiling.index(number))]
        np.copyto(part, self.step.value)
