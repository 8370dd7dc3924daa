"""What does a call cost when a thousand are under way?"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from benchmarks.computation import random_inputs
from benchmarks.lineup import Lineup
from benchmarks.measuring import Effort, Processor, interleaved, time_once
from benchmarks.questions.base import Question
from benchmarks.questions.small_calls import CLIENT, SERVER
from benchmarks.results import Figure
from benchmarks.systems.base import Call, Pipelines

CALLS = 1000
ELEMENTS = 8
KEY = "in-flight"


@dataclass(frozen=True, slots=True)
class Sample:
    """A system's turn in a round."""

    seconds: float
    processor: Processor


def ask(lineup: Lineup, effort: Effort) -> list[Figure]:
    """Times a thousand calls that do not wait for each other."""
    inputs = random_inputs(ELEMENTS)
    subjects = {}
    for key, running in lineup.offering(Pipelines).items():
        assert isinstance(running.client, Pipelines)
        call = functools.partial(running.client.pipeline, inputs, CALLS)
        call()  # warms up
        subjects[key] = functools.partial(_sample, call, running.served.pid)
    found = interleaved(effort.rounds(15, 3), subjects)
    return [figure for key, samples in found.items() for figure in _figures(key, samples)]


def _sample(call: Call, server: int) -> Sample:
    before = Processor.used(server)
    seconds = time_once(call)
    return Sample(seconds, Processor.used(server).per_call(before, CALLS))


def _figures(key: str, samples: tuple[Sample, ...]) -> list[Figure]:
    case = f"{CALLS} calls"
    columns = {
        "per call": [each.seconds / CALLS for each in samples],
        CLIENT: [each.processor.client for each in samples],
        SERVER: [each.processor.server for each in samples],
    }
    rates = tuple(CALLS / each.seconds for each in samples)
    return [
        Figure(KEY, key, case, "rate", "calls/s", rates),
        *(Figure(KEY, key, case, name, "s", tuple(values)) for name, values in columns.items()),
    ]


QUESTION = Question(
    KEY,
    "What does a call cost when a thousand are under way?",
    f"{CALLS} calls of {ELEMENTS} elements, none of which waits for an earlier one, from one thread that "
    "calls. aclnn-serve runs both phases of each on tensors that stay on the server; the others exchange "
    "the inputs and the result, Arrow Flight with a second thread that reads. CPU is the processor "
    "time of a call, of all threads of the process.",
    ask,
)
