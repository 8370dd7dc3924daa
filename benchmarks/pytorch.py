"""What torch_npu on the C library costs: an operator in the caller's thread, and a step of a small network.

    aclnn-serve torch -- python -m benchmarks.pytorch

The step is compared with the same operators called by the Python client, both phases each, on that server.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from aclnn_client import Context, Tensor, connect, ops

ROUNDS, CALLS, STEPS = 5, 1000, 50
BATCH, INPUTS, HIDDEN, OUTPUTS, RATE = 32, 64, 32, 10, 0.01
MEAN, KEEP_DTYPE = 1, 0


def operators() -> dict[str, Callable[[], object]]:
    """Small operators, of tensors of 64×64."""
    x, y = torch.randn(2, 64, 64).npu()
    return {
        "a + b": lambda: x + y,
        "a * 2": lambda: x * 2,
        "a @ b": lambda: x @ y,
        "relu": lambda: torch.relu(x),
        "sum": lambda: x.sum(1),
        "smooth_l1_loss": lambda: F.smooth_l1_loss(x, y),
    }


def in_caller(call: Callable[[], object]) -> float:
    """Microseconds that a call keeps its caller, the median of rounds."""
    times = []
    for _ in range(ROUNDS + 1):
        torch.npu.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - start) / CALLS)
    torch.npu.synchronize()
    return statistics.median(times[1:]) * 1e6


class Torch:
    """A step of a perceptron by torch_npu."""

    def __init__(self) -> None:
        layers = (
            torch.nn.Linear(INPUTS, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, OUTPUTS),
        )
        self.network = torch.nn.Sequential(*layers).npu()
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=RATE, foreach=False)
        self.x, self.y = torch.randn(BATCH, INPUTS).npu(), torch.randn(BATCH, OUTPUTS).npu()

    def step(self) -> None:
        self.optimizer.zero_grad()
        F.mse_loss(self.network(self.x), self.y).backward()
        self.optimizer.step()

    def wait(self) -> None:
        torch.npu.synchronize()


class Client:
    """The same operators by the Python client."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.workspace = context.malloc(2**20)
        random = np.random.default_rng(1)

        def normal(*shape: int) -> Tensor:
            return context.tensor(random.standard_normal(shape, np.float32) / 8)

        def room(*shape: int) -> Tensor:
            return context.empty(shape, np.float32)

        self.w1, self.b1 = normal(HIDDEN, INPUTS), normal(HIDDEN)
        self.w2, self.b2 = normal(OUTPUTS, HIDDEN), normal(OUTPUTS)
        self.x, self.y = normal(BATCH, INPUTS), normal(BATCH, OUTPUTS)
        self.before, self.hidden = room(BATCH, HIDDEN), room(BATCH, HIDDEN)
        self.found, self.d_found = room(BATCH, OUTPUTS), room(BATCH, OUTPUTS)
        self.d_hidden, self.loss, self.one = room(BATCH, HIDDEN), room(), room()
        self.d_w1, self.d_b1 = room(HIDDEN, INPUTS), room(HIDDEN)
        self.d_w2, self.d_b2 = room(OUTPUTS, HIDDEN), room(OUTPUTS)
        self.turned = {
            name: context.create_tensor(
                tensor.shape[::-1], np.float32, (1, tensor.shape[1]), buffer=tensor.buffer
            )
            for name, tensor in (("w1", self.w1), ("w2", self.w2), ("d_found", self.d_found),
                                 ("d_hidden", self.d_hidden))
        }  # fmt: skip

    def step(self) -> None:
        turned = self.turned
        both = self._both
        both("Addmm", self.b1, self.x, turned["w1"], 1.0, 1.0, self.before, KEEP_DTYPE)
        both("Relu", self.before, self.hidden)
        both("Addmm", self.b2, self.hidden, turned["w2"], 1.0, 1.0, self.found, KEEP_DTYPE)
        both("MseLoss", self.found, self.y, MEAN, self.loss)
        both("InplaceFillScalar", self.one, 1.0)
        both("MseLossBackward", self.one, self.found, self.y, MEAN, self.d_found)
        both("Mm", turned["d_found"], self.hidden, self.d_w2, KEEP_DTYPE)
        both("ReduceSum", self.d_found, (0,), False, "FLOAT", self.d_b2)
        both("Mm", self.d_found, self.w2, self.d_hidden, KEEP_DTYPE)
        both("ThresholdBackward", self.d_hidden, self.hidden, 0.0, self.d_hidden)
        both("Mm", turned["d_hidden"], self.x, self.d_w1, KEEP_DTYPE)
        both("ReduceSum", self.d_hidden, (0,), False, "FLOAT", self.d_b1)
        both("InplaceAdd", self.w1, self.d_w1, -RATE)
        both("InplaceAdd", self.b1, self.d_b1, -RATE)
        both("InplaceAdd", self.w2, self.d_w2, -RATE)
        both("InplaceAdd", self.b2, self.d_b2, -RATE)

    def _both(self, name: str, *arguments: object) -> None:
        size, executor = getattr(ops, f"aclnn{name}GetWorkspaceSize")(*arguments)
        getattr(ops, f"aclnn{name}")(self.workspace if size else None, size, executor)

    def wait(self) -> None:
        self.context.synchronize()


def step_time(side: Torch | Client) -> float:
    """Microseconds of a step, the wait at the end of many included."""
    side.wait()
    start = time.perf_counter()
    for _ in range(STEPS):
        side.step()
    side.wait()
    return (time.perf_counter() - start) / STEPS * 1e6


def main() -> None:
    """Measures, and prints a table of the documentation."""
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors, ", end="")
    print(f"load {os.getloadavg()[0]:.1f}, TASK_QUEUE_ENABLE={os.environ['TASK_QUEUE_ENABLE']}\n")
    print("| in the caller's thread | µs |\n|---|---|")
    for name, call in operators().items():
        print(f"| `{name}` | {in_caller(call):.0f} |")
    with connect(os.environ["ACLNN_SERVER"]) as context:
        sides: dict[str, Torch | Client] = {
            "torch_npu": Torch(),
            "the Python client": Client(context),
        }
        times: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(ROUNDS + 1):  # in turns, as the machine is shared
            for name, side in sides.items():
                times[name].append(step_time(side))
    medians = {name: statistics.median(rounds[1:]) for name, rounds in times.items()}
    print("\n| a step of a perceptron | µs |\n|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median:.0f} |")
    print(f"\nratio {medians['torch_npu'] / medians['the Python client']:.2f}")


if __name__ == "__main__":
    main()
