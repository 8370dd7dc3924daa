"""What a two-phase call through the ascend backend costs, beyond the C calls that it makes.

Runs on the double of CANN that the tests build, so it needs a C compiler and no NPU::

    python benchmarks/ascend_call.py

The call is aclnnSmoothL1LossBackward with its six arguments on tensors of 32 elements that lie in buffers.
The same C calls are made from C, on the same double: the difference is Python's share, changes of thread
included. Of batches of 64 calls each the first figure is the 10th percentile, which is what a quiet machine
gives, and the second the median.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PROJECT), *(str(PROJECT / root) for root in ("proto", "server"))]

from aclnn import dtypes  # noqa: E402
from aclnn.tensors import TensorSpec  # noqa: E402
from aclnn_server.backends.ascend import AscendBackend  # noqa: E402
from aclnn_server.backends.ascend.device import AscendDevice  # noqa: E402
from tests.ascend import building  # noqa: E402

OPERATOR = "aclnnSmoothL1LossBackward"
BATCH = 64
"""Calls that are measured together."""
LIMIT_MICROSECONDS = 60.0
"""Python's share that is allowed, on a quiet machine."""


def main() -> int:
    """Measures and prints; exit code 1 where the share is above the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=5000, help="calls of each kind (5000)")
    count = parser.parse_args().calls
    if reason := building.why_not():
        print(reason)
        return 2
    home = building.home()
    backend = AscendBackend(environment={"ASCEND_HOME_PATH": str(home)})
    try:
        in_c = calls_from_c(home, count)
        device = backend.devices[0]
        one_shot, processor = measured(device, count, repeatable=False)
        repeated, _ = measured(device, count, repeatable=True)
    finally:
        backend.close()
    share = [whole - part for whole, part in zip(one_shot, in_c, strict=True)]
    print(f"{'µs a call':36}{'quiet':>8}{'median':>8}")
    for name, figures in (
        ("two-phase call, six arguments", one_shot),
        ("the same C calls, made from C", in_c),
        (f"Python's share (allowed: {LIMIT_MICROSECONDS:g})", share),
        ("processor time of the two threads", processor),
        ("phase two of a repeatable executor", repeated),
    ):
        print(f"{name:36}{figures[0]:8.1f}{figures[1]:8.1f}")
    return int(share[0] > LIMIT_MICROSECONDS)


Figures = tuple[float, float]
"""Microseconds: 10th percentile and median."""


def figures_of(times: Sequence[float]) -> Figures:
    """The figures of many measurements."""
    return sorted(times)[len(times) // 10], statistics.median(times)


def calls_from_c(home: Path, count: int) -> Figures:
    """Microseconds of the C calls alone."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "loop.so"
        sources = building.SOURCES
        command = [
            *(building.COMPILER, *building.FLAGS, "-o", str(library), str(sources / "loop.c")),
            *(f"-I{sources / 'include'}", f"-I{sources}", f"-L{home / 'lib64'}"),
            *("-lopapi_nn", "-lnnopbase", "-lascendcl"),
        ]
        subprocess.run(command, check=True)
        loop = ctypes.CDLL(str(library)).loopTwoPhase
        loop.restype = ctypes.c_double
        times = (ctypes.c_double * count)()
        if loop(1, count, times) != 0:
            raise RuntimeError("a call failed in C")
        return figures_of(list(times))


def measured(device: AscendDevice, count: int, *, repeatable: bool) -> tuple[Figures, Figures]:
    """Microseconds of a call, until the device's thread has queued it; what the device does is left out.

    Returns:
        By the clock, and processor time of the calling and the device's thread.
    """
    spec = TensorSpec.contiguous((4, 8), dtypes.FLOAT)
    arguments = (spec, spec, spec, 1, 1.0, spec)
    grad, self, target, out = (device.allocate(spec.storage_bytes) for _ in range(4))
    storages = [grad, self, target, None, None, out]
    stream = device.create_stream()
    kept = device.plan(OPERATOR, arguments, storages, repeatable=True) if repeatable else None
    times, worked = [], []
    for _ in range(count // BATCH):
        before = processor_time(device)
        begin = time.perf_counter()
        for _ in range(BATCH):
            plan = kept or device.plan(OPERATOR, arguments, storages)
            device.run(plan, storages, None, stream)
            if kept is None:
                device.discard(plan)
        device.is_idle(stream)  # answered when everything before it was queued
        times.append((time.perf_counter() - begin) / BATCH * 1e6)
        worked.append((processor_time(device) - before) / BATCH * 1e6)
        device.synchronize(stream)
    return figures_of(times), figures_of(worked)


def processor_time(device: AscendDevice) -> float:
    """Seconds of processor time that the calling and the device's thread have used."""
    return time.thread_time() + device._thread.call(time.thread_time)


if __name__ == "__main__":
    sys.exit(main())
