"""Calls of torch, with inputs, that are made on the CPU and on the device and compared.

Inputs are functions of a generator, so that both sides, and every run, have the same numbers. Those of
floating point take the element type that is tried; gradients flow to them where the call has a backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Make = Callable[[torch.Generator], Tensor]

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
FLOAT = (torch.float32,)
EXACT = (torch.int64,)
"""Of a call whose inputs have types of their own."""


@dataclass(frozen=True)
class Call:
    """One call of torch."""

    name: str
    run: Callable[..., Any]
    inputs: tuple[Make, ...]
    types: tuple[torch.dtype, ...] = FLOATS
    backward: bool = True
    random: bool = False
    """Its numbers are not the CPU's; shape and type are compared, tests of their own look at the rest."""
    slack: float = 1.0
    """Factor on the tolerance, for long sums and steep functions."""


def normal(*shape: int) -> Make:
    """Numbers around 0."""
    return lambda generator: torch.randn(shape, generator=generator)


def positive(*shape: int) -> Make:
    """Numbers from 0.5 to 2.5."""
    return lambda generator: torch.rand(shape, generator=generator) * 2 + 0.5


def unit(*shape: int) -> Make:
    """Numbers from 0.05 to 0.95."""
    return lambda generator: torch.rand(shape, generator=generator) * 0.9 + 0.05


def apart(*shape: int) -> Make:
    """Numbers of which no two are equal in any type, in random order."""

    def make(generator: torch.Generator) -> Tensor:
        count = 1
        for size in shape:
            count *= size
        return (torch.randperm(count, generator=generator).float() - count / 3).reshape(shape) / 8

    return make


def whole(low: int, high: int, *shape: int) -> Make:
    """Whole numbers of INT64, high excluded."""
    return lambda generator: torch.randint(low, high, shape, generator=generator)


def truth(*shape: int) -> Make:
    """BOOL."""
    return lambda generator: torch.rand(shape, generator=generator).gt(0.4)


def none(_: torch.Generator) -> Tensor:
    """A place for a call that makes its own tensors: only the device is taken from it."""
    return torch.zeros(1)


def cases(groups: Sequence[Sequence[Call]]) -> dict[str, Call]:
    """Calls by name.

    Raises:
        ValueError: two have the same name.
    """
    found: dict[str, Call] = {}
    for group in groups:
        for call in group:
            if call.name in found:
                raise ValueError(f"{call.name} is there twice")
            found[call.name] = call
    return found
