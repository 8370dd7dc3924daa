"""PyTorch's CPU operator, in an interpreter that has torch: any, not only this one.

``python torch_worker.py ELEMENTS THREADS`` reads names of dtypes, one a line, and answers each with the
seconds that the kernel took. It needs nothing but torch.
"""

from __future__ import annotations

import sys
import time


def main(elements: int, threads: int) -> None:
    """Answers until standard input ends."""
    import torch

    torch.set_num_threads(threads)
    tensors = {}
    print(torch.__version__, flush=True)
    for line in sys.stdin:
        name = line.strip()
        if name not in tensors:
            tensors[name] = [torch.randn(elements).to(getattr(torch, name)) for _ in range(4)]
        grad, x, target, out = tensors[name]
        start = time.perf_counter()
        torch.ops.aten.smooth_l1_loss_backward.grad_input(grad, x, target, 0, 1.0, grad_input=out)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
