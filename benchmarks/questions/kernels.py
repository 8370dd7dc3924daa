"""How fast is the kernel, beside PyTorch's?"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Self

import numpy as np

from aclnn import dtypes
from aclnn.dtypes import DType
from benchmarks.lineup import Lineup
from benchmarks.measuring import Effort, interleaved, time_once
from benchmarks.questions.base import Question
from benchmarks.results import Figure
from benchmarks.systems.in_process import InProcessClient

KEY = "kernels"
TYPES = {"fp32": dtypes.FLOAT, "bf16": dtypes.BF16, "fp16": dtypes.FLOAT16}
TORCH_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
TORCH_PYTHON = "BENCHMARKS_TORCH_PYTHON"
"""Environment variable with the interpreter that has torch, where this one has not."""
WORKER = Path(__file__).resolve().parents[1] / "torch_worker.py"


class Torch:
    """The worker process."""

    def __init__(self, elements: int, threads: int) -> None:
        """Starts it.

        Raises:
            FileNotFoundError: no torch there.
        """
        python = os.environ.get(TORCH_PYTHON, sys.executable)
        self._process = subprocess.Popen(
            (python, str(WORKER), str(elements), str(threads)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # torch_npu, where that is installed as well, wants libraries that need not be there.
            env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        )
        assert self._process.stdout is not None
        self.version = self._process.stdout.readline().strip()
        if not self.version:
            self._process.communicate()
            raise FileNotFoundError(
                f"torch is not installed; {TORCH_PYTHON} names a Python that has it"
            )

    def seconds(self, name: str) -> float:
        """Runs the kernel once."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def ask(lineup: Lineup, effort: Effort) -> list[Figure]:
    """Times the kernel of both for each dtype, with as many threads as there are cores."""
    elements = effort.pick(1 << 24, 1 << 22)
    client = InProcessClient()
    subjects: dict[tuple[str, str], Callable[[], float]] = {
        ("in-process", name): functools.partial(time_once, _ours(client, dtype, elements))
        for name, dtype in TYPES.items()
    }
    with contextlib.ExitStack() as stack, contextlib.closing(client):
        try:
            torch = stack.enter_context(Torch(elements, len(os.sched_getaffinity(0))))
        except FileNotFoundError as reason:
            lineup.skipped["PyTorch CPU"] = str(reason)
        else:
            for name, torch_name in TORCH_NAMES.items():
                subjects["torch", name] = functools.partial(torch.seconds, torch_name)
        for subject in subjects.values():
            subject()  # warms up
        found = interleaved(effort.rounds(20, 5), subjects)
    return [Figure(KEY, key, case, "time", "s", times) for (key, case), times in found.items()]


def _ours(client: InProcessClient, dtype: DType, elements: int) -> Callable[[], object]:
    assert dtype.numpy is not None
    random = np.random.default_rng(0)
    grad, x, target = (
        random.standard_normal(elements, np.float32).astype(dtype.numpy) for _ in range(3)
    )
    return client.compute_into(np.zeros_like(grad), grad, x, target, dtype=dtype)


QUESTION = Question(
    KEY,
    "How fast is the kernel, beside PyTorch's?",
    "16 Mi elements, inputs and output in place, as many threads as cores; both phases of the numpy "
    "backend in-process, and aten::smooth_l1_loss_backward.grad_input of PyTorch's CPU build.",
    ask,
)
