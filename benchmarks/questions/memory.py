"""How much memory does the server need for a large tensor?"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from benchmarks.lineup import Lineup
from benchmarks.measuring import Effort
from benchmarks.questions.base import NotAsked, Question
from benchmarks.results import Figure
from benchmarks.systems import aclnn_serve

KEY = "memory"
FULL, QUICK = 1 << 30, 1 << 27
WAYS = ("auto", "off")
"""Settings of the data port: over a connection of its own, and in chunks."""


def ask(lineup: Lineup, effort: Effort) -> list[Figure]:
    """Uploads a tensor to a new server, and compares the server's peak with what it had before."""
    size = effort.pick(FULL, QUICK)
    array = np.ones(size // 4, np.float32)
    peaks = tuple(max(_peak(array, way) for way in WAYS) for _ in effort.rounds(2, 1))
    case = "upload"
    return [
        Figure(KEY, "tcp", case, "peak", "B", peaks),
        Figure(KEY, "payload", case, "peak", "B", (float(size),)),
    ]


def _peak(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]], way: str) -> float:
    with aclnn_serve.serve_tcp("--data-port", way) as server:
        client = aclnn_serve.AclnnClient(server.address)
        with client:
            before = _kibibytes(server.pid, "VmRSS")
            tensor = client.context.tensor(array)
            client.context.synchronize()
            peak = _kibibytes(server.pid, "VmHWM")
            tensor.free()
    return (peak - before) * 1024.0


def _kibibytes(pid: int, field: str) -> int:
    """A size of a process, as Linux tells it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        raise NotAsked("this system does not tell a process's peak memory") from None
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1])


QUESTION = Question(
    KEY,
    "How much memory does the server need for a large tensor?",
    "A 1 GiB tensor, uploaded with context.tensor to a new server over TCP, over a data connection and in "
    "chunks; the higher counts. Peak is the highest resident "
    "size that the server had, less the one that it had before.",
    ask,
)
