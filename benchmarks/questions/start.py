"""How long until one can begin?"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable

from benchmarks.lineup import Lineup
from benchmarks.measuring import Effort, interleaved
from benchmarks.questions.base import Question
from benchmarks.results import Figure
from benchmarks.systems import system
from benchmarks.systems.base import NotOffered
from benchmarks.systems.process import ROOT, ServerProcess

KEY = "start"
IMPORT, READY = "import", "server ready"
IMPORTS = {"client": "aclnn_client", "floor": "grpc, numpy, google.protobuf.message"}
SERVERS = ("ping-pong", "flight", "tcp")


def ask(lineup: Lineup, effort: Effort) -> list[Figure]:
    """Starts processes, again and again."""
    subjects: dict[tuple[str, str], Callable[[], float]] = {
        (key, IMPORT): functools.partial(_import_seconds, modules)
        for key, modules in IMPORTS.items()
    }
    for key in lineup.take(*SERVERS):
        subjects[key, READY] = functools.partial(_ready_seconds, key)
    found = interleaved(effort.rounds(9, 3), subjects)
    return [Figure(KEY, key, case, "time", "s", times) for (key, case), times in found.items()]


def _import_seconds(modules: str) -> float:
    code = f"import time; s = time.perf_counter(); import {modules}; print(time.perf_counter() - s)"
    done = subprocess.run(
        (sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def _ready_seconds(key: str) -> float:
    with system(key).serve() as server:
        if not isinstance(server, ServerProcess):
            raise NotOffered(f"{key} has no process of its own")
        return server.ready_seconds


QUESTION = Question(
    KEY,
    "How long until one can begin?",
    "Import: of the client in a new interpreter; the floor is what it rests on. Server ready: from the "
    "start of the process to the line that says that it listens.",
    ask,
)
