"""How long does one small call take?"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from benchmarks.computation import random_inputs
from benchmarks.lineup import Lineup
from benchmarks.measuring import Effort, Processor, Times, interleaved, time_calls
from benchmarks.questions.base import Question
from benchmarks.results import Figure
from benchmarks.systems.base import Call, Client, TwoPhases

ELEMENTS = 8
KEY = "small-calls"
ONE_LINE, TWO_PHASES = "one line", "two phases"
CLIENT, SERVER = "client CPU", "server CPU"


@dataclass(frozen=True, slots=True)
class Sample:
    """A system's turn in a round."""

    times: Times
    processor: Processor


def ask(lineup: Lineup, effort: Effort) -> list[Figure]:
    """Times single calls, one after the other."""
    seconds = effort.pick(0.3, 0.1)
    subjects = {}
    for key, running in lineup.take().items():
        for case, call in _calls(running.client).items():
            time_calls(call, seconds=0.05)  # warms up
            subjects[key, case] = functools.partial(_sample, call, running.served.pid, seconds)
    found = interleaved(effort.rounds(12, 3), subjects)
    return [figure for row, samples in found.items() for figure in _figures(*row, samples)]


def _calls(client: Client) -> dict[str, Call]:
    inputs = random_inputs(ELEMENTS)
    calls: dict[str, Call] = {ONE_LINE: functools.partial(client.call, inputs)}
    if isinstance(client, TwoPhases):
        calls[TWO_PHASES] = client.two_phases(inputs)
    return calls


def _sample(call: Call, server: int, seconds: float) -> Sample:
    before = Processor.used(server)
    times = time_calls(call, seconds=seconds)
    return Sample(times, Processor.used(server).per_call(before, times.count))


def _figures(key: str, case: str, samples: tuple[Sample, ...]) -> list[Figure]:
    columns = {
        "p50": [each.times.p50 for each in samples],
        "p99": [each.times.p99 for each in samples],
        CLIENT: [each.processor.client for each in samples],
        SERVER: [each.processor.server for each in samples],
    }
    if key == "in-process":
        del columns[SERVER]
    return [Figure(KEY, key, case, name, "s", tuple(values)) for name, values in columns.items()]


QUESTION = Question(
    KEY,
    "How long does a small call take?",
    f"{ELEMENTS} elements, one call after the other. One line: inputs from and result to the client. "
    "Two phases: both by hand and the wait for the end, warm, on inputs that the server has (the first "
    "draft cannot keep any; in-process there is nothing to send). Percentiles of the calls of a round. "
    "CPU is the processor time of a call, of all threads of the process.",
    ask,
)
