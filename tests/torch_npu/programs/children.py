"""Children of a program: forked before the device is used, spawned, and started as programs of their own."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from multiprocessing.queues import SimpleQueue


def square(number: int, answers: SimpleQueue[float]) -> None:
    import torch

    answers.put((torch.tensor(float(number), device="npu") ** 2).item())


if __name__ == "__main__":
    for context in (multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")):
        method = context.get_start_method()
        answers: SimpleQueue[float] = context.SimpleQueue()
        child = context.Process(target=square, args=(3, answers))
        child.start()
        print(method, answers.get())
        child.join()
        assert child.exitcode == 0
        if method == "fork":
            import torch

            assert torch.ones(2, device="npu").sum().item() == 2
    code = "import torch; print('program', torch.ones(2, device='npu').sum().item())"
    sys.stdout.flush()
    subprocess.run((sys.executable, "-c", code), check=True)
