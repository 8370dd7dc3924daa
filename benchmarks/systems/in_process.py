"""No server: the numpy backend's two phases, called directly. What the computation itself costs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.tensors import TensorSpec
from aclnn_server.backends.numpy import NumpyBackend
from benchmarks.computation import BETA, REDUCTION_NUMBER, Array, Inputs
from benchmarks.systems.base import Call, Client, System

AnyArray = npt.NDArray[Any]
OPERATOR = "aclnnSmoothL1LossBackward"


class InProcessClient(Client):
    """A device of the numpy backend."""

    def __init__(self, address: str = "") -> None:
        self._backend = NumpyBackend()
        self._device = self._backend.devices[0]

    def call(self, inputs: Inputs) -> Array:
        output = np.empty_like(inputs.grad)
        self.compute_into(output, *inputs.arrays)()
        return output

    def in_place(self, inputs: Inputs) -> Callable[[], Array]:
        output = np.zeros_like(inputs.grad)
        compute = self.compute_into(output, *inputs.arrays)

        def call() -> Array:
            compute()
            return output

        return call

    def in_place_in_flight(self, inputs: Inputs, count: int) -> Call:
        compute = self.compute_into(np.zeros_like(inputs.grad), *inputs.arrays)

        def call() -> None:
            for _ in range(count):
                compute()

        return call

    def two_phases(self, inputs: Inputs) -> Call:
        return self.in_place(inputs)

    def compute_into(
        self, output: AnyArray, *inputs: AnyArray, dtype: DType = dtypes.FLOAT
    ) -> Callable[[], None]:
        """Both phases; `inputs` are in the C prototype's order, and all of one dtype."""
        spec = TensorSpec.contiguous(output.shape, dtype)
        arguments = (spec, spec, spec, REDUCTION_NUMBER, BETA, spec)
        grad, x, target, out = (array.view(np.uint8) for array in (*inputs, output))
        storages = (grad, x, target, None, None, out)

        def compute() -> None:
            plan = self._device.plan(OPERATOR, arguments)
            size = plan.workspace_bytes
            workspace = self._device.allocate(size) if size else None
            self._device.run(plan, storages, workspace, None)

        return compute

    def close(self) -> None:
        self._backend.close()


@dataclass(frozen=True, slots=True)
class Nothing:
    """The server of a system that has none."""

    address: str = ""
    pid: int = field(default_factory=os.getpid)


@contextlib.contextmanager
def _serve() -> Iterator[Nothing]:
    yield Nothing()


SYSTEM = System("in-process", "in-process, no server", _serve, InProcessClient)
