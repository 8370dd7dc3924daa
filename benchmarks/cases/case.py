"""What a case is, and numbers for its arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn.tensors import Scalar, describe
from aclnn_server.backends.numpy import NumpyDevice

Array = npt.NDArray[Any]

SIDE = 1024
ELEMENTS = SIDE * SIDE
f = np.float32


@dataclass(frozen=True, slots=True)
class Case:
    """One call, and the NumPy expression that gives what it gives."""

    operator: str
    """C name without the aclnn prefix."""
    arguments: Sequence[Any]
    """In the prototype's order; a list of arrays is an aclTensorList."""
    expression: Callable[[], object]
    variant: str = ""
    """What is special, where the operator has several cases."""

    @property
    def title(self) -> str:
        return f"{self.operator} {self.variant}".rstrip()

    def prepared(self, device: NumpyDevice) -> Callable[[], object]:
        """Phase one; gives phase two."""
        specs, memory = zip(*map(_described, self.arguments), strict=True)
        plan = device.plan(f"aclnn{self.operator}", specs)
        workspace = device.allocate(plan.workspace_bytes) if plan.workspace_bytes else None
        return lambda: device.run(plan, memory, workspace, None)


def _described(argument: Any) -> tuple[Any, Any]:  # noqa: ANN401 - as the signature says
    if isinstance(argument, np.ndarray):
        return describe(argument)
    if isinstance(argument, list):
        specs, memory = zip(*map(describe, argument), strict=True)
        return specs, memory
    return argument, None


def floats(*shape: int, count: int = 1) -> list[Array]:
    """Arrays of FLOAT between 0.1 and 0.9, where all functions are defined and none is extreme."""
    generator = np.random.default_rng(1)
    return [generator.uniform(0.1, 0.9, shape).astype(f) for _ in range(count)]


def scalar(value: float) -> Scalar:
    return Scalar(value, "FLOAT")
