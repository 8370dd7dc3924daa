"""A bit of everything that the backend does with CANN, for tests that let one call after another fail."""

from __future__ import annotations

from typing import Any

import numpy as np

from aclnn import dtypes
from aclnn.tensors import TensorSpec
from aclnn_server.backends.ascend.device import AscendDevice
from aclnn_server.backends.ascend.streams import AscendStream
from tests.ascend.building import Control
from tests.ascend.calling import GRADIENT, Prepared, one, put, spec_of

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)


def everything(device: AscendDevice, double: Control) -> None:
    """Memory, copies, streams, events, and calls of every kind; what fails ends it."""
    first, second = device.create_stream(), device.create_stream()
    _calls(device, first)
    _repeated(device, first)
    _copies(device, first)
    double.hold()
    try:
        moment = device.record(first)
        moment.hold(second)
    finally:
        double.let_go()
    device.synchronize(second)
    later = device.record(second)
    later.wait(30)
    later.nanoseconds_since(moment)
    for stream in (first, second):
        device.synchronize(stream)
        device.destroy_stream(stream)
    device.memory_info()


def _calls(device: AscendDevice, stream: AscendStream) -> None:
    calls: list[tuple[str, list[Any]]] = [
        (GRADIENT, [X, X, X, 1, 1.0, np.zeros_like(X)]),
        ("aclnnAdd", [X, X, one(2), np.zeros_like(X)]),
        ("aclnnReduceSum", [X, (0,), False, dtypes.FLOAT, np.zeros(6, "f")]),
        ("aclnnCat", [[X, X], 0, np.zeros((8, 6), "f")]),
        ("aclnnForeachAddScalarList", [[X], (one(1),), [np.zeros_like(X)]]),
        ("aclnnScratch", [X, 1000, np.zeros_like(X)]),
    ]
    for operator, arguments in calls:
        call = Prepared(device, operator, arguments)
        plan = call.plan(known=operator != "aclnnAdd")
        call.run(plan, stream)
        device.discard(plan)
    out, nothing = np.zeros(2048, np.uint8), [None] * 4
    arrays = [(1.5, 2.5), (True,), "text", "name"]
    numbers = [1, 2, 3, 4, 5, True, 6.0, 7.0, dtypes.FLOAT]
    echo = Prepared(device, "aclnnEcho", [*nothing, (1, 2), *arrays, *numbers, out])
    echo.run(echo.plan(), stream)
    abandoned = Prepared(device, GRADIENT, calls[0][1]).plan()
    device.discard(abandoned)


def _repeated(device: AscendDevice, stream: AscendStream) -> None:
    lists = [[X], (one(1),), [np.zeros_like(X)]]
    for operator, arguments in (
        (GRADIENT, [X, X, X, 0, 1.0, np.zeros_like(X)]),
        ("aclnnForeachAddScalarList", lists),
    ):
        plan = Prepared(device, operator, arguments).plan(repeatable=True)
        for _ in range(2):
            Prepared(device, operator, arguments).run(plan, stream)
        device.discard(plan)


def _copies(device: AscendDevice, stream: AscendStream) -> None:
    a, b = put(device, X), device.allocate(X.nbytes)
    data = X.reshape(-1).view(np.uint8).data
    for at in (None, stream):
        device.write(a, data, at)
        device.copy(b, a, at)
        device.fill(a, 1, at)
        device.copy(device.slice(b, 8, 40), device.slice(b, 0, 40), at)
    device.read(b)
    large = device.allocate(3 * 2**20)
    device.release(large)
    spec = TensorSpec(dtypes.FLOAT, (6, 4), (1, 6), 0, (24,))
    plan = device.plan("aclnnRelu", [spec, spec_of(np.zeros((6, 4), "f"))], [a, b])
    device.run(plan, [a, b], device.allocate(plan.workspace_bytes), stream)
    for region in (a, b):
        device.release(region)
