"""Times the NumPy kernels on large tensors.

usage: ``python benchmarks/kernels.py [--elements N] [--threads T] [--repeat R]``

Each is compared, in turn, with the same formula as a plain NumPy expression in float32, and with
PyTorch's operator where PyTorch is installed, which writes to a new tensor ("new") or to a given one
("out"). The least time of the repeats is shown. GB/s counts each tensor once.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.tensors import TensorSpec
from aclnn_server.backends.numpy import NumpyBackend, NumpyDevice

Array = npt.NDArray[Any]
Calls = dict[str, Callable[[], object]]

TYPES = (dtypes.FLOAT, dtypes.BF16, dtypes.FLOAT16)
_TORCH = {dtypes.FLOAT: "float32", dtypes.BF16: "bfloat16", dtypes.FLOAT16: "float16"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=1 << 24)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--repeat", type=int, default=9)
    options = parser.parse_args()
    device = NumpyBackend(threads=options.threads).devices[0]
    print(f"{device.name}, {options.elements} elements, threads: {options.threads or 'all'}")
    for name, dtype, tensors, calls in benchmarks(device, options.elements, options.threads):
        times = race(calls, options.repeat)
        rate = tensors * options.elements * dtype.itemsize / times["ours"] / 1e9
        row = ", ".join(f"{who} {seconds * 1e3:.1f} ms" for who, seconds in times.items())
        print(f"{name:9} {dtype.name:8} {rate:5.1f} GB/s: {row}", flush=True)


def race(calls: Calls, repeat: int) -> dict[str, float]:
    """Least seconds of each call; they take turns, so that other load hits them alike."""
    times = {who: [timed(call) for _ in range(1)] for who, call in calls.items()}
    for _ in range(repeat):
        for who, call in calls.items():
            times[who].append(timed(call))
    return {who: min(seconds) for who, seconds in times.items()}


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def benchmarks(
    device: NumpyDevice, elements: int, threads: int | None
) -> Iterator[tuple[str, DType, int, Calls]]:
    for dtype in TYPES:
        inputs = _inputs(dtype, elements)
        yield (
            "gradient",
            dtype,
            4,
            _gradient(device, dtype, inputs) | _torch_gradient(dtype, inputs, threads),
        )
        yield (
            "mean loss",
            dtype,
            2,
            _loss(device, dtype, inputs) | _torch_loss(dtype, inputs, threads),
        )


def _inputs(dtype: DType, elements: int) -> list[Array]:
    generator = np.random.default_rng(1)
    assert dtype.numpy is not None
    return [generator.standard_normal(elements, np.float32).astype(dtype.numpy) for _ in range(3)]


def _gradient(device: NumpyDevice, dtype: DType, inputs: list[Array]) -> Calls:
    spec = TensorSpec.contiguous(inputs[0].shape, dtype)
    plan = device.plan("aclnnSmoothL1LossBackward", [spec, spec, spec, 0, 1.0, spec])
    storages = [*(array.view(np.uint8) for array in inputs), None, None]
    storages.append(device.allocate(spec.storage_bytes))

    def plain() -> Array:
        grad, x, y = (array.astype(np.float32, copy=False) for array in inputs)
        difference = x - y
        slope = np.where(np.abs(difference) < 1, difference, np.sign(difference))
        return (grad * slope).astype(inputs[0].dtype, copy=False)

    return {"ours": lambda: device.run(plan, storages, None, None), "plain NumPy": plain}


def _loss(device: NumpyDevice, dtype: DType, inputs: list[Array]) -> Calls:
    spec = TensorSpec.contiguous(inputs[0].shape, dtype)
    result = TensorSpec.contiguous((), dtype)
    plan = device.plan("aclnnSmoothL1Loss", [spec, spec, 1, 1.0, result])
    storages = [*(array.view(np.uint8) for array in inputs[:2]), None, None, device.allocate(4)]
    workspace = device.allocate(plan.workspace_bytes)

    def plain() -> Array:
        x, y = (array.astype(np.float32, copy=False) for array in inputs[:2])
        distance = np.abs(x - y)
        losses = np.where(distance < 1, 0.5 * distance * distance, distance - 0.5)
        return np.asarray(losses.mean(dtype=np.float64)).astype(inputs[0].dtype)

    return {"ours": lambda: device.run(plan, storages, workspace, None), "plain NumPy": plain}


def _torch_gradient(dtype: DType, inputs: list[Array], threads: int | None) -> Calls:
    torch = _torch(threads)
    if torch is None:
        return {}
    tensors = [_tensor(torch, dtype, array) for array in inputs]
    out = torch.empty_like(tensors[0])
    operator = torch.ops.aten.smooth_l1_loss_backward
    return {
        "PyTorch new": lambda: operator(*tensors, 0, 1.0),
        "PyTorch out": lambda: operator(*tensors, 0, 1.0, grad_input=out),
    }


def _torch_loss(dtype: DType, inputs: list[Array], threads: int | None) -> Calls:
    torch = _torch(threads)
    if torch is None:
        return {}
    tensors = [_tensor(torch, dtype, array) for array in inputs[:2]]
    return {"PyTorch": lambda: torch.nn.functional.smooth_l1_loss(*tensors)}


def _torch(threads: int | None) -> Any:  # noqa: ANN401 - an optional package
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    if threads:
        torch.set_num_threads(threads)
    return torch


def _tensor(torch: Any, dtype: DType, array: Array) -> Any:  # noqa: ANN401
    return torch.from_numpy(array.view(np.uint8)).view(getattr(torch, _TORCH[dtype]))


if __name__ == "__main__":
    main()
