"""The C library beside the Python client: the same small calls, in one run, against each backend.

make -C client/cpp bench && python client/cpp/bench/compare.py
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from aclnn_client import connect, ops

PROGRAM = Path(__file__).parents[1] / "build" / "bench" / "two_phase"
SYNCHRONOUS, ASYNCHRONOUS = 1000, 10_000
ROUNDS = 3

Figures = tuple[float, float, float]
"""Microseconds of a call that is waited for, of one that is not, and such calls a second."""


def of_cpp(address: str) -> Figures:
    """Runs the C++ program."""
    output = subprocess.run(
        [PROGRAM, str(SYNCHRONOUS), str(ASYNCHRONOUS)],
        env={**os.environ, "ACLNN_SERVER": address},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    waited, sent, rate = map(float, output.split())
    return waited, sent, rate


def of_python(address: str) -> Figures:
    """Makes the same calls with the Python client."""
    with connect(address) as context:
        stream = context.create_stream()
        grad, x, target = (context.tensor(np.arange(8, dtype=np.float32)) for _ in range(3))
        out = context.empty((8,), "float32")

        def send() -> None:
            size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
                grad, x, target, 1, 1.0, out
            )
            ops.aclnnSmoothL1LossBackward(None, size, executor, stream)

        times = []
        for _ in range(SYNCHRONOUS):
            begin = time.perf_counter()
            send()
            stream.synchronize()
            times.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        for _ in range(ASYNCHRONOUS):
            send()
        sent = time.perf_counter()
        stream.synchronize()
        whole = time.perf_counter() - begin
    return (
        statistics.median(times) * 1e6,
        (sent - begin) / ASYNCHRONOUS * 1e6,
        ASYNCHRONOUS / whole,
    )


def main() -> None:
    """Prints a table."""
    print("backend  client  waited for, µs  not waited for, µs  calls a second")
    for backend in ("null", "numpy"):
        command = [sys.executable, "-m", "aclnn_server", "serve", "--listen", "127.0.0.1:0"]
        command += ["--backend", backend, "--log-level", "error"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().split("listening on ")[1].split()[0]
                rounds = [(of_cpp(address), of_python(address)) for _ in range(ROUNDS)]
            finally:
                server.terminate()
        for client, figures in zip(("C++", "Python"), zip(*rounds, strict=True), strict=True):
            waited, sent, rate = (
                statistics.median(column) for column in zip(*figures, strict=True)
            )
            print(f"{backend:8} {client:7} {waited:14.0f} {sent:19.1f} {rate:15.0f}")


if __name__ == "__main__":
    main()
