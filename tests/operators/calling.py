"""Calls operators on NumPy arrays, views included, through a device's two phases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from aclnn.tensors import describe
from aclnn_server.backends.base import Device, Plan, Shapes
from aclnn_server.backends.numpy import NumpyDevice
from aclnn_server.operators.catalogue import lookup
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.products import REFERENCE, product

Array = npt.NDArray[Any]
Argument = Any
"""A NumPy array for a tensor; anything else as phase one takes it."""
Json = Any

DATA = Path(__file__).resolve().parent.parent / "data"
BACKWARD = "aclnnSmoothL1LossBackward"
FORWARD = "aclnnSmoothL1Loss"
NUMPY_TYPES: Mapping[str, npt.DTypeLike] = {
    "FLOAT": np.float32,
    "FLOAT16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "DOUBLE": np.float64,
}


def device(threads: int = 1, soc: str = REFERENCE.name) -> NumpyDevice:
    """A device of its own, with threads that start only for large tensors."""
    return NumpyDevice(Threads(threads), product(soc))


def call(operator: str, *arguments: Argument, on: Device | None = None) -> Plan:
    """Plans and runs an operator in place on arrays; a sequence of views shares memory as they do."""
    return _both_phases(operator, arguments, on or device())[0]


def shapes(operator: str, *arguments: Argument, on: Device | None = None) -> dict[str, Any]:
    """The same, for an operator whose run tells the shapes of its results: those shapes."""
    found = _both_phases(operator, arguments, on or device())[1]
    assert found is not None
    return dict(found)


def _both_phases(
    operator: str, arguments: Sequence[Argument], on: Device
) -> tuple[Plan, Shapes | None]:
    described = [_describe(argument) for argument in arguments]
    plan = on.plan(operator, [value for value, _ in described])
    workspace = on.allocate(plan.workspace_bytes) if plan.workspace_bytes else None
    return plan, on.run(plan, [storage for _, storage in described], workspace, None)


def _describe(argument: Argument) -> tuple[Any, Any]:
    """What phase one takes of an argument, and its memory; a list of arrays is a list of tensors."""
    if isinstance(argument, np.ndarray):
        return describe(argument)
    if isinstance(argument, list):
        specs, storages = zip(*map(describe, argument), strict=True) if argument else ((), ())
        return specs, storages
    return argument, None


def backward(
    grad: Array,
    x: Array,
    y: Array,
    *,
    reduction: int = 0,
    beta: float = 1.0,
    out: npt.DTypeLike | None = None,
    on: Device | None = None,
) -> Array:
    """Runs aclnnSmoothL1LossBackward into a new array of the broadcast shape."""
    shape = np.broadcast_shapes(grad.shape, x.shape, y.shape)
    result: Array = np.full(shape, 7, x.dtype if out is None else out)
    call(BACKWARD, grad, x, y, reduction, beta, result, on=on)
    return result


def forward(
    x: Array,
    y: Array,
    *,
    reduction: int = 0,
    beta: float = 1.0,
    out: npt.DTypeLike | None = None,
    on: Device | None = None,
) -> Array:
    """Runs aclnnSmoothL1Loss into a new array."""
    shape = np.broadcast_shapes(x.shape, y.shape) if reduction == 0 else ()
    result: Array = np.full(shape, 7, x.dtype if out is None else out)
    call(FORWARD, x, y, reduction, beta, result, on=on)
    return result


def parameter_names(operator: str) -> list[str]:
    """Names of an operator's parameters, in order."""
    return [row.name for row in lookup(operator).signature.parameters]


def load_json(name: str) -> Json:
    """A file of tests/data."""
    return json.loads((DATA / name).read_text(encoding="utf-8"))
