"""Clients in processes of their own, which call for a while when told to.

``python -m benchmarks.client_process SYSTEM ADDRESS THREADS`` reads lines ``KIND SECONDS`` and answers each
with the calls per second of every thread, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from benchmarks.computation import random_inputs
from benchmarks.systems import system
from benchmarks.systems.base import Client, Pipelines
from benchmarks.systems.process import ROOT

ONE_LINE, IN_FLIGHT = KINDS = ("one line", "in flight")
ELEMENTS = 8
BATCH = 100
"""Calls under way of one client, of the second kind."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a round gave."""

    rates: tuple[float, ...]
    """Calls per second, by client."""


class ClientProcesses:
    """A number of clients, shared out among a few processes."""

    def __init__(self, key: str, address: str, clients: int, processes: int) -> None:
        """Starts them, and waits until all are connected; `clients` is a multiple of `processes`."""
        command = (sys.executable, "-m", "benchmarks.client_process", key, address)
        self._processes = [
            subprocess.Popen(
                (*command, str(clients // processes)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            for _ in range(processes)
        ]
        for process in self._processes:
            _read(process)

    def run(self, kind: str, seconds: float) -> Counts:
        """Lets all call at the same time."""
        for process in self._processes:
            assert process.stdin is not None
            print(json.dumps([kind, seconds]), file=process.stdin, flush=True)
        return Counts(tuple(rate for process in self._processes for rate in _read(process)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.communicate()


def _read(process: subprocess.Popen[str]) -> list[float]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a client's process ended")
    rates: list[float] = json.loads(line)
    return rates


# --- in the other process ---------------------------------------------------------------------------


def main(key: str, address: str, threads: str) -> None:
    """Connects, then does what the lines of standard input say."""
    clients = [system(key).connect(address) for _ in range(int(threads))]
    print("[]", flush=True)
    for line in sys.stdin:
        kind, seconds = json.loads(line)
        print(json.dumps(_run(clients, kind, seconds)), flush=True)
    for client in clients:
        client.close()


def _run(clients: list[Client], kind: str, seconds: float) -> list[float]:
    rates = [0.0] * len(clients)
    begin = threading.Barrier(len(clients))

    def work(index: int) -> None:
        step, calls = _step(clients[index], kind)
        begin.wait()
        rates[index] = calls * _rate(step, seconds)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rates


def _step(client: Client, kind: str) -> tuple[Callable[[], object], int]:
    """What a client does again and again, and how many calls that is."""
    inputs = random_inputs(ELEMENTS)
    if kind == ONE_LINE:
        return lambda: client.call(inputs), 1
    assert isinstance(client, Pipelines)
    return lambda: client.pipeline(inputs, BATCH), BATCH


def _rate(step: Callable[[], object], seconds: float) -> float:
    """Steps per second."""
    steps = 0
    start = time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        step()
        steps += 1
    return steps / passed


if __name__ == "__main__":
    main(*sys.argv[1:])
