"""Random numbers that follow from a seed and an offset alone, in any number of threads.

The elements of an output, in C order, are divided into blocks, and each block has a generator of its own:
Philox, a generator that is a function of a key and a counter. Seed and offset are the key, the number of
the block is in the counter. So an element's number depends on its place in the tensor only, neither on the
layout in memory nor on which thread draws it; and equal seeds give equal numbers at every run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn.tensors import TensorSpec
from aclnn_server.operators.definition import Memory
from aclnn_server.operators.engines.threads import Scratch, Threads
from aclnn_server.operators.engines.tiling import Tiling

Array = npt.NDArray[Any]
Inputs = tuple[Array, ...]

Draw = Callable[[np.random.Generator, Array, Inputs], None]
"""Writes the elements of a block, in one dimension, from its generator; given with it are the elements of
each input at the same places."""

_WORD = (1 << 64) - 1
_DIGITS = {np.dtype(np.float64): 53, np.dtype(np.float32): 24, np.dtype(np.float16): 11}
_BRAIN_DIGITS = 8


def generator(seed: int, offset: int, block: int = 0) -> np.random.Generator:
    """The generator of a block of the sequence that a seed and an offset name, both of any sign."""
    key = np.array([seed & _WORD, offset & _WORD], np.uint64)
    # Blocks are 2^128 numbers apart.
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, block, 0]))


@dataclass(frozen=True, slots=True)
class Drawing:
    """An output whose elements are drawn."""

    name: str
    output: TensorSpec
    seed: int
    offset: int
    draw: Draw
    inputs: tuple[tuple[str, TensorSpec], ...] = ()
    """Parameters and tensors that broadcast to the output."""
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Draws every element."""
        out = self.output.view(memory[self.name])
        if not out.size:
            return
        inputs = tuple(self._flat(spec.view(memory[name])) for name, spec in self.inputs)
        in_order = out.flags.c_contiguous
        flat = out.reshape(-1) if in_order else np.empty(out.size, out.dtype)
        tiling = Tiling.of((out.size,))

        def compute(scratch: Scratch, number: int) -> None:
            place = tiling.index(number)
            parts = tuple(array[place] for array in inputs)
            self.draw(generator(self.seed, self.offset, number), flat[place], parts)

        threads.run(compute, tiling.blocks, 0)
        if not in_order:
            np.copyto(out, flat.reshape(out.shape))

    def _flat(self, array: Array) -> Array:
        """The elements of an input at the places of the output; a copy where it lies otherwise."""
        return np.broadcast_to(array, self.output.shape).reshape(-1)


def unit_interval(source: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """Numbers from 0 up to but not including 1, which `dtype` holds exactly: DOUBLE, or FLOAT for others."""
    digits = _DIGITS.get(dtype, _BRAIN_DIGITS)
    if digits == 53:
        return source.random(count)
    found = source.random(count, np.float32)
    if digits < 24:
        scale = np.float32(1 << digits)
        np.multiply(found, scale, out=found)
        np.floor(found, out=found)
        np.divide(found, scale, out=found)
    return found


def happens(source: np.random.Generator, probability: Array | float, out: Array) -> None:
    """Writes 1 with a probability, or with the probabilities of each element, and 0 otherwise."""
    np.copyto(out, source.random(out.size) < probability, casting="unsafe")
