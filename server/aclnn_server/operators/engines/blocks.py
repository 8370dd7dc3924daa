"""The engine of elementwise computations and of their full reductions.

A block at a time, the inputs are cast to the type that is computed in, the kernel is called, and its
result is rounded to the common type of the inputs and then cast to the type of the output. Memory
besides the operands is a few blocks per thread. The bits do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.promotion import promote
from aclnn_server.operators.definition import Call, Memory, Work
from aclnn_server.operators.engines.casts import narrow, widen
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Scratch, Threads, address, scratch_bytes
from aclnn_server.operators.engines.tiling import Index, Operand, Tiling, lay_out

Array = npt.NDArray[Any]

WORKSPACE_UNIT = 512
"""Workspaces are multiples of so many bytes."""
KERNEL_ARRAYS = 6
"""Arrays of scratch memory that a kernel may take."""
_PARTIAL = np.dtype(np.float64)
FEW = 4096
"""Elements of a block below which a compiled pass is not worth its beginning."""
_STREAM = 1 << 19
"""Elements of a block that each operation reads and writes once, so that it needs no room in the cache."""


Kernel = Callable[..., object]
"""Computes one block: ``kernel(*inputs, out=out, scratch=scratch)``.

It writes the result of the inputs, which broadcast together, to `out`; all are of the type that is
computed in, where :class:`Types` says nothing else. It may take up to :data:`KERNEL_ARRAYS` arrays like
`out` from `scratch`, a :class:`~aclnn_server.operators.engines.threads.Scratch`. `out` may be the same memory
as an input: no input may be read after `out` is first written, except by the operation that writes it.
"""

Fusing = Callable[[np.dtype[Any]], Callable[..., object] | None]
"""A kernel's method ``fused``, if it has one. For an element type it gives what casts, computes and rounds
in one pass, ``compute(*inputs, out)``, where all tensors are of that type, contiguous and of one shape. The
bits are the kernel's own, but for which NaN comes of two."""


@dataclass(frozen=True, slots=True)
class OnePass:
    """The kernel that calls one function of NumPy, with numbers after the inputs; it takes no scratch."""

    function: Callable[..., object]
    numbers: tuple[Any, ...] = ()

    def __call__(self, *inputs: Array, out: Array, scratch: Scratch) -> None:
        """Computes a block."""
        self.function(*inputs, *self.numbers, out=out)


def workspace_bytes(size: int) -> int:
    """Bytes of a workspace that holds `size` bytes."""
    return -(-size // WORKSPACE_UNIT) * WORKSPACE_UNIT


@dataclass(frozen=True, slots=True)
class Types:
    """The types of a computation, in the order in which values pass through them."""

    computed: np.dtype[Any]
    """What inputs are cast to."""
    rounded: np.dtype[Any]
    """What the kernel's result is rounded to, before it is cast to the output's type."""
    produced: np.dtype[Any] | None = None
    """What the kernel writes, where that is not `computed`."""
    first: np.dtype[Any] | None = None
    """What the first input is cast to, where that is not `computed`: a condition."""

    @classmethod
    def of(cls, promoted: DType) -> Types:
        """The types for inputs that meet in `promoted`: 16-bit floats are computed in FLOAT."""
        assert promoted.numpy is not None
        narrow_float = promoted in (dtypes.FLOAT16, dtypes.BF16)
        return cls(np.dtype(np.float32) if narrow_float else promoted.numpy, promoted.numpy)

    @property
    def result(self) -> np.dtype[Any]:
        """What the kernel writes."""
        return self.computed if self.produced is None else self.produced

    @property
    def itemsize(self) -> int:
        """Bytes of the largest element in work."""
        return max(self.computed.itemsize, self.result.itemsize)

    def loaded(self, position: int) -> np.dtype[Any]:
        """What an input is cast to."""
        return self.first if position == 0 and self.first is not None else self.computed


@dataclass(frozen=True, slots=True)
class Nothing:
    """The work of an empty computation."""

    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Leaves everything as it is."""


class Elementwise:
    """An output each of whose elements follows from one element of each input.

    Args:
        kernel: computes a block.
        inputs: the inputs, in the kernel's order.
        output: the output.
        tiling: of the broadcast shape.
        types: of the computation.
        streams: whether a block is one call of a function, which reads and writes tensors where they lie.
    """

    workspace_bytes = 0

    def __init__(
        self,
        kernel: Kernel,
        inputs: tuple[Operand, ...],
        output: Operand,
        tiling: Tiling,
        types: Types,
        *,
        streams: bool = False,
    ) -> None:
        self._blocks = _Blocks(kernel, inputs, types)
        self._output = output
        self._tiling = tiling
        self._scratch = 0 if streams else self._blocks.scratch_bytes(tiling)
        self._single = tiling.blocks == 1

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Computes the output."""
        output = self._output.array(memory[self._output.name])
        inputs = self._blocks.inputs(memory, output)

        def compute(scratch: Scratch, number: int) -> None:
            index = self._tiling.index(number)
            place = output[self._output.part(index)]
            self._blocks.write(scratch, self._blocks.parts(inputs, index), place)

        def compute_all(scratch: Scratch, _: int) -> None:
            self._blocks.write(scratch, inputs, output)

        if self._single:
            threads.run(compute_all, 1, self._scratch)
        else:
            threads.run(compute, self._tiling.blocks, self._scratch)


class Reduction:
    """The sum over all elements of what a kernel computes, times a factor, as the one element of the
    output. The sums of the blocks lie in the workspace, and are added in their order.

    Args:
        kernel: computes a block.
        inputs: the inputs, in the kernel's order.
        output: the output.
        tiling: of the broadcast shape.
        types: of the computation.
        divisor: what the sum is divided by.
    """

    def __init__(
        self,
        kernel: Kernel,
        inputs: tuple[Operand, ...],
        output: Operand,
        tiling: Tiling,
        types: Types,
        divisor: int,
    ) -> None:
        self._blocks = _Blocks(kernel, inputs, types)
        self._output = output
        self._tiling = tiling
        self._types = types
        self._divisor = divisor
        self._scratch = self._blocks.scratch_bytes(tiling)
        self.workspace_bytes = workspace_bytes(tiling.blocks * _PARTIAL.itemsize)
        """Bytes for the sum of each block."""

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Computes the output."""
        assert workspace is not None
        tiling = self._tiling
        sums: Array = np.ndarray((tiling.blocks,), _PARTIAL, workspace.data)
        inputs = self._blocks.inputs(memory)

        def compute(scratch: Scratch, number: int) -> None:
            index = tiling.index(number)
            parts = self._blocks.parts(inputs, index)
            sums[number] = self._blocks.sum(scratch, parts, tiling.shape_at(index))

        threads.run(compute, tiling.blocks, self._scratch)
        with np.errstate(all="ignore"):
            _write_one(self._output, memory, self._types, sums.sum() / self._divisor)


@dataclass(frozen=True, slots=True)
class Constant:
    """One value as the one element of the output."""

    output: Operand
    types: Types
    value: float
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        _write_one(self.output, memory, self.types, self.value)


def _write_one(output: Operand, memory: Memory, types: Types, value: float) -> None:
    rounded = np.array(value).astype(types.rounded)
    np.copyto(output.array(memory[output.name]), rounded, casting="unsafe")


class _Blocks:
    """The computation of blocks."""

    def __init__(self, kernel: Kernel, operands: Sequence[Operand], types: Types) -> None:
        self._kernel = kernel
        self._operands = operands
        self._types = types
        self._fused: Fusing | None = getattr(kernel, "fused", None)
        self._loaded = [types.loaded(place) for place in range(len(operands))]
        self._written = types.result if types.result == types.rounded else None
        """Type of an output that the kernel can write to."""

    def scratch_bytes(self, tiling: Tiling) -> int:
        """Scratch memory that a block takes."""
        # The result, the inputs cast and what the kernel takes; the rounding, after the kernel, takes
        # two besides the result.
        arrays = 1 + max(len(self._operands) + KERNEL_ARRAYS, 2)
        return arrays * scratch_bytes(tiling.largest * self._types.itemsize)

    def inputs(self, memory: Memory, output: Array | None = None) -> list[Array]:
        """The inputs, which the writing of `output` does not change."""
        return [_apart(operand.array(memory[operand.name]), output) for operand in self._operands]

    def parts(self, inputs: Sequence[Array], index: Index) -> list[Array]:
        """What of the inputs belongs to a block."""
        return [
            array[operand.part(index)]
            for operand, array in zip(self._operands, inputs, strict=True)
        ]

    def write(self, scratch: Scratch, inputs: Sequence[Array], output: Array) -> None:
        """Computes a block into its place in the output."""
        if output.size >= FEW and self._in_one_pass(inputs, output):
            return
        if output.dtype == self._written:
            self._kernel(*self._load(scratch, inputs), out=output, scratch=scratch)
            return
        result = scratch.take(output.shape, self._types.result)
        self._compute(scratch, inputs, result)
        _round(scratch, result, self._types.rounded, output)

    def _in_one_pass(self, inputs: Sequence[Array], output: Array) -> bool:
        if self._fused is None or not all(
            array.dtype == output.dtype and array.shape == output.shape and array.flags.c_contiguous
            for array in (*inputs, output)
        ):
            return False
        compute = self._fused(output.dtype)
        if compute is None or output.dtype != self._types.rounded:
            return False
        compute(*inputs, output)
        return True

    def sum(self, scratch: Scratch, inputs: Sequence[Array], shape: Shape) -> np.floating[Any]:
        """Computes a block of the given shape and gives the sum of its elements."""
        result = scratch.take(shape, self._types.result)
        self._compute(scratch, inputs, result)
        total: np.floating[Any] = np.add.reduce(result.reshape(-1))
        return total

    def _compute(self, scratch: Scratch, inputs: Sequence[Array], result: Array) -> None:
        mark = scratch.mark()
        self._kernel(*self._load(scratch, inputs), out=result, scratch=scratch)
        scratch.rewind(mark)

    def _load(self, scratch: Scratch, inputs: Sequence[Array]) -> Sequence[Array]:
        """The blocks in the type that is computed in, cast where they are of another."""
        if all(block.dtype is dtype for block, dtype in zip(inputs, self._loaded, strict=True)):
            return inputs
        blocks = []
        for block, dtype in zip(inputs, self._loaded, strict=True):
            if block.dtype != dtype:
                cast = scratch.take(block.shape, dtype)
                widen(block, cast)
                blocks.append(cast)
            else:
                blocks.append(block)
        return blocks


def _round(scratch: Scratch, result: Array, rounded: np.dtype[Any], output: Array) -> None:
    """Rounds a block to one type and casts it to the output's."""
    room = scratch.like(result)
    if rounded in (result.dtype, output.dtype):
        narrow(result, output, room)
    else:
        step = scratch.take(result.shape, rounded)
        narrow(result, step, room)
        widen(step, output)


def _apart(array: Array, output: Array | None) -> Array:
    """An input that the writing of the output does not change: a copy, where they overlap other than
    element by element."""
    if output is None or not np.may_share_memory(array, output):
        return array
    same = (
        address(array) == address(output)
        and array.strides == output.strides
        and array.shape == output.shape
        and array.dtype == output.dtype
    )
    return array if same else array.copy()


def elementwise(
    call: Call,
    kernel: Kernel,
    inputs: Sequence[str],
    output: str,
    shape: Shape,
    types: Types | None = None,
) -> Work:
    """Plans an output of the given broadcast shape of the inputs, computed element by element.

    Without `types`, the inputs are computed in the type that they meet in.
    """
    if 0 in shape:
        return Nothing()
    specs = [(name, call.tensor(name)) for name in (*inputs, output)]
    tiling, (*operands, result) = lay_out(shape, specs, along_last=True)
    types = types or _types(call, inputs)
    streams = isinstance(kernel, OnePass) and _lie_ready(operands, result, types)
    if streams:
        tiling = Tiling.of(tiling.shape, _STREAM)
    return Elementwise(kernel, tuple(operands), result, tiling, types, streams=streams)


def _lie_ready(inputs: Sequence[Operand], output: Operand, types: Types) -> bool:
    """Whether nothing is cast, and what is read and written together lies together."""
    return (
        output.dtype.numpy == types.result == types.rounded
        and all(row.dtype.numpy == types.loaded(place) for place, row in enumerate(inputs))
        and all(row.strides[-1] in (0, 1) for row in inputs)
        and output.strides[-1] == 1
    )


def reduction(
    call: Call,
    kernel: Kernel,
    inputs: Sequence[str],
    output: str,
    shape: Shape,
    *,
    mean: bool,
    divisor: int | None = None,
    types: Types | None = None,
) -> Work:
    """Plans the sum or mean over the broadcast shape of what a kernel computes; output has one element.

    A mean divides by the number of elements, where no `divisor` is given. Of an empty shape, the sum
    is 0 and the mean NaN.
    """
    types = types or _types(call, inputs)
    divisor = math.prod(shape) if divisor is None else divisor
    spec = call.tensor(output)
    result = Operand(output, spec.dtype, (1,), (0,), spec.offset)
    if 0 in shape:
        return Constant(result, types, math.nan if mean else 0.0)
    tiling, operands = lay_out(shape, [(name, call.tensor(name)) for name in inputs])
    return Reduction(kernel, operands, result, tiling, types, divisor if mean else 1)


def _types(call: Call, inputs: Sequence[str]) -> Types:
    promoted = promote(*(spec.dtype for spec in call.tensors(inputs)))
    assert promoted is not None, "a check of the operator covers it"
    return Types.of(promoted)
