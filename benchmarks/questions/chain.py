"""What does a chain of operators move?"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass

import numpy as np

from benchmarks.computation import Inputs, expected, steep_inputs
from benchmarks.lineup import Lineup, Running
from benchmarks.measuring import Effort, interleaved
from benchmarks.questions.base import Question
from benchmarks.results import Figure
from benchmarks.socket_bytes import Traffic

KEY = "chain"
ELEMENTS = 1 << 20
SYSTEMS = ("first-draft", "flight", "tcp")


@dataclass(frozen=True, slots=True)
class Passage:
    """One chain."""

    seconds: float
    traffic: Traffic


def ask(lineup: Lineup, effort: Effort) -> list[Figure]:
    """Times a chain, and counts its bytes at the socket."""
    inputs = steep_inputs(effort.pick(ELEMENTS, ELEMENTS // 16))
    operators = effort.pick(100, 20)
    subjects = {
        key: functools.partial(_pass, running, inputs, operators)
        for key, running in lineup.take(*SYSTEMS).items()
    }
    found = interleaved(effort.rounds(2, 2), subjects)
    case = f"{operators} operators"
    figures = [figure for key, rows in found.items() for figure in _figures(key, case, rows)]
    # Three inputs up and one output down.
    return [*figures, Figure(KEY, "payload", case, "both", "B", (4.0 * inputs.grad.nbytes,))]


def _pass(running: Running, inputs: Inputs, operators: int) -> Passage:
    pid = running.served.pid
    before, start = Traffic.with_server(pid), time.perf_counter()
    result = running.client.chain(inputs, operators)
    passage = Passage(time.perf_counter() - start, Traffic.with_server(pid) - before)
    # An even number of signs: every other operator gives the same.
    np.testing.assert_array_equal(np.abs(result), np.abs(expected(inputs)))
    return passage


def _figures(key: str, case: str, rows: tuple[Passage, ...]) -> list[Figure]:
    sent = tuple(float(row.traffic.sent) for row in rows)
    received = tuple(float(row.traffic.received) for row in rows)
    both = tuple(map(sum, zip(sent, received, strict=True)))
    return [
        Figure(KEY, key, case, "time", "s", tuple(row.seconds for row in rows)),
        Figure(KEY, key, case, "sent", "B", sent),
        Figure(KEY, key, case, "received", "B", received),
        Figure(KEY, key, case, "both", "B", both),
    ]


QUESTION = Question(
    KEY,
    "What does a chain of 100 operators move?",
    "1 Mi elements; each operator's result is the next one's gradOutput. Bytes are those that the kernel "
    "counts at the client's TCP connections, framing included. Payload is the three inputs up and the last "
    "result down.",
    ask,
)
