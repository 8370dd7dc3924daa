"""How long does a call take, by size?"""

from __future__ import annotations

import functools
from collections.abc import Callable

from benchmarks.computation import Inputs, random_inputs
from benchmarks.lineup import Lineup
from benchmarks.measuring import Effort, Times, interleaved, time_calls
from benchmarks.questions.base import Question
from benchmarks.results import Figure
from benchmarks.systems.base import InPlace

KEY = "sizes"
IN_PLACE = "in place"
IN_FLIGHT = "in place, in flight"
"""The same, many calls before one wait: what one of them takes."""


def label(elements: int) -> str:
    """A number of elements: ``"8"``, ``"64 Ki"``, ``"16 Mi"``."""
    for power, unit in ((20, "Mi"), (10, "Ki")):
        if elements >= 1 << power:
            return f"{elements >> power} {unit}"
    return str(elements)


SIZES = (8, 1 << 16, 1 << 20, 1 << 24)
UNDER_WAY = {8: 64, 1 << 16: 64, 1 << 20: 64, 1 << 24: 8}
"""Calls in flight."""
ROUNDS = {8: (10, 2), 1 << 16: (12, 3), 1 << 20: (12, 3), 1 << 24: (8, 2)}
"""Rounds of a full and of a quick run."""


def ask(lineup: Lineup, effort: Effort) -> list[Figure]:
    """Times calls of each size."""
    return [figure for size in SIZES for figure in _ask(size, lineup, effort)]


def _ask(elements: int, lineup: Lineup, effort: Effort) -> list[Figure]:
    inputs = random_inputs(elements)
    subjects = _subjects(elements, lineup, inputs)
    # The first draft takes seconds for the largest.
    if effort.quick and elements == SIZES[-1]:
        subjects.pop(("first-draft", "p50"), None)
    for call in subjects.values():
        call()  # warms up
    seconds = effort.pick(0.15, 0.03) if elements < SIZES[-1] else 0.0
    timed = {
        row: functools.partial(time_calls, call, seconds=seconds) for row, call in subjects.items()
    }
    effort.tell(f"{label(elements)} elements")
    found = interleaved(effort.rounds(*ROUNDS[elements]), timed)
    return [_figure(elements, *row, times) for row, times in found.items()]


def _subjects(
    elements: int, lineup: Lineup, inputs: Inputs
) -> dict[tuple[str, str], Callable[[], object]]:
    subjects: dict[tuple[str, str], Callable[[], object]] = {}
    for key, running in lineup.take().items():
        subjects[key, "p50"] = functools.partial(running.client.call, inputs)
        if isinstance(running.client, InPlace):
            subjects[key, IN_PLACE] = running.client.in_place(inputs)
            subjects[key, IN_FLIGHT] = running.client.in_place_in_flight(
                inputs, UNDER_WAY[elements]
            )
    return subjects


def _figure(elements: int, key: str, measure: str, times: tuple[Times, ...]) -> Figure:
    calls = UNDER_WAY[elements] if measure == IN_FLIGHT else 1
    rounds = tuple(each.p50 / calls for each in times)
    return Figure(KEY, key, label(elements), measure, "s", rounds)


QUESTION = Question(
    KEY,
    "How long does a call take, by size?",
    "fp32, inputs from and a new result array to the client. In place: inputs and output in memory that "
    "both sides see, so that nothing has to be moved; in flight, the time of one of "
    f"{UNDER_WAY[1 << 20]} calls ({UNDER_WAY[1 << 24]} of the largest) before one wait.",
    ask,
)
