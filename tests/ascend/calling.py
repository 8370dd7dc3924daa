"""Calls of operators with NumPy arrays, straight through a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.tensors import Scalar, TensorSpec
from aclnn_server.backends.ascend.device import AscendDevice
from aclnn_server.backends.ascend.memory import Region
from aclnn_server.backends.ascend.streams import AscendStream
from aclnn_server.backends.base import Plan, Storage, Value

Array = npt.NDArray[Any]

GRADIENT = "aclnnSmoothL1LossBackward"


def spec_of(array: Array) -> TensorSpec:
    """A tensor that fills its storage."""
    return TensorSpec.contiguous(array.shape, dtypes.dtype(array.dtype))


def put(device: AscendDevice, array: Array) -> Region:
    """The array's bytes in device memory."""
    return device.wrap(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def get(device: AscendDevice, memory: Region, like: Array) -> Array:
    """Device memory as an array of another's shape and type."""
    return np.frombuffer(device.read(memory), like.dtype).reshape(like.shape)


class Prepared:
    """A call whose arrays are in device memory; lists of arrays are tensor lists."""

    def __init__(self, device: AscendDevice, operator: str, arguments: Sequence[Any]) -> None:
        self.device = device
        self.operator = operator
        self.given = arguments
        self.values: list[Value] = [_value(argument) for argument in arguments]
        self.storages: list[Storage] = [_storage(device, argument) for argument in arguments]

    def plan(self, *, repeatable: bool = False, known: bool = True) -> Plan:
        """Phase one; `known` tells it where the tensors lie."""
        storages = self.storages if known else ()
        return self.device.plan(self.operator, self.values, storages, repeatable=repeatable)

    def workspace(self, plan: Plan) -> Region | None:
        """Scratch memory for a plan."""
        return self.device.allocate(plan.workspace_bytes) if plan.workspace_bytes else None

    def run(self, plan: Plan, stream: AscendStream) -> None:
        """Phase two, with a workspace of its own."""
        workspace = self.workspace(plan)
        self.device.run(plan, self.storages, workspace, stream)
        if workspace is not None:
            self.device.release(workspace)

    def result(self, position: int, element: int | None = None) -> Array:
        """The array of an argument as it is on the device now."""
        storage, array = self.storages[position], self.given[position]
        if element is not None:
            assert isinstance(storage, tuple)
            storage, array = storage[element], array[element]
        assert isinstance(storage, Region)
        return get(self.device, storage, array)


def call(device: AscendDevice, operator: str, *arguments: Any) -> Prepared:  # noqa: ANN401
    """Both phases of a call, and a wait."""
    prepared = Prepared(device, operator, arguments)
    stream = device.create_stream()
    plan = prepared.plan()
    prepared.run(plan, stream)
    device.discard(plan)
    device.synchronize(stream)
    device.destroy_stream(stream)
    return prepared


def _value(argument: Any) -> Any:  # noqa: ANN401
    if isinstance(argument, np.ndarray):
        return spec_of(argument)
    if isinstance(argument, list):
        return tuple(map(_value, argument))
    return argument


def _storage(device: AscendDevice, argument: Any) -> Storage:  # noqa: ANN401
    if isinstance(argument, np.ndarray):
        return put(device, argument)
    if isinstance(argument, list) and all(isinstance(element, np.ndarray) for element in argument):
        return tuple(put(device, element) for element in argument)
    return None


def one(value: float, dtype: str = "FLOAT") -> Scalar:
    """An aclScalar."""
    return Scalar(value, dtype)


def gradient(inputs: Iterable[Array], beta: float, *, mean: bool = False) -> Array:
    """What aclnnSmoothL1LossBackward computes of gradOut, self and target."""
    grad, self, target = inputs
    x = self - target
    slope = np.where(np.abs(x) < beta, x / beta, np.sign(x)) if beta else np.sign(x)
    result: Array = slope * grad / (x.size if mean else 1)
    return result.astype(grad.dtype)
