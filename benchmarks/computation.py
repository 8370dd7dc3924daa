"""The work that every system is given: the gradient of the smooth L1 loss, no reduction, beta 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

REDUCTION = "none"
REDUCTION_NUMBER = 0
BETA = 1.0
BLOCK = 1 << 15
"""Elements of a block: what three of them read and write stays in the second-level cache."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The three inputs of a call, one-dimensional and of one length."""

    grad: Array
    x: Array
    target: Array

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """In the C prototype's order."""
        return self.grad, self.x, self.target

    def __len__(self) -> int:
        return len(self.grad)


def random_inputs(elements: int) -> Inputs:
    """Inputs that are the same at each call; about every third element is in the loss's linear part."""
    random = np.random.default_rng(elements)
    grad, x, target = (random.standard_normal(elements, np.float32) for _ in range(3))
    return Inputs(grad, x, target)


def steep_inputs(elements: int) -> Inputs:
    """Inputs whose slopes are all 1 or -1: a chain of calls neither grows nor vanishes."""
    inputs = random_inputs(elements)
    return Inputs(inputs.grad, inputs.target + np.copysign(np.float32(8), inputs.x), inputs.target)


def gradient(grad: Array, x: Array, target: Array) -> Array:
    """The plain NumPy kernel of the systems that are not this project, blocked to the cache."""
    out = np.empty_like(grad)
    slope = np.empty(min(BLOCK, len(grad)), np.float32)
    for start in range(0, len(grad), BLOCK):
        part = slice(start, start + BLOCK)
        block = slope[: len(out[part])]
        np.subtract(x[part], target[part], out=block)
        np.clip(block, -1, 1, out=block)
        np.multiply(block, grad[part], out=out[part])
    return out


def expected(inputs: Inputs) -> npt.NDArray[np.float64]:
    """The result, computed in another way and in double precision."""
    grad, x, target = (array.astype(np.float64) for array in inputs.arrays)
    distance = x - target
    slope = np.where(np.abs(distance) < BETA, distance / BETA, np.sign(distance))
    return grad * slope
