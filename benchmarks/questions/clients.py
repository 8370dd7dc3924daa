"""What do many clients get?"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

from benchmarks.client_process import KINDS, ClientProcesses, Counts
from benchmarks.lineup import Lineup
from benchmarks.measuring import Effort, interleaved
from benchmarks.questions.base import Question
from benchmarks.results import Figure

KEY = "clients"
COUNTS = (1, 8, 64)
SYSTEMS = ("ping-pong", "flight", "tcp")


def ask(lineup: Lineup, effort: Effort) -> list[Figure]:
    """Counts the calls that clients in other processes get through in a while."""
    seconds, most = effort.pick(0.7, 0.4), effort.pick(8, 2)
    subjects: dict[tuple[str, str, int], Callable[[], Counts]] = {}
    with contextlib.ExitStack() as stack:
        for key, running in lineup.take(*effort.pick(SYSTEMS, SYSTEMS[-1:])).items():
            for count in COUNTS:
                effort.tell(f"starting {count} clients of {running.system.title}")
                clients = stack.enter_context(
                    ClientProcesses(key, running.served.address, count, min(count, most))
                )
                for kind in KINDS:
                    clients.run(kind, 0.1)  # warms up
                    subjects[key, kind, count] = functools.partial(clients.run, kind, seconds)
        found = interleaved(effort.rounds(4, 2), subjects)
    return [figure for row, counts in found.items() for figure in _figures(*row, counts)]


def _figures(key: str, kind: str, clients: int, counts: tuple[Counts, ...]) -> list[Figure]:
    case = f"{kind}, {clients} client{'s' * (clients > 1)}"
    rates = tuple(sum(each.rates) for each in counts)
    slowest = tuple(min(each.rates) * len(each.rates) / sum(each.rates) for each in counts)
    return [
        Figure(KEY, key, case, "rate", "calls/s", rates),
        Figure(KEY, key, case, "slowest", "of the mean", slowest),
    ]


QUESTION = Question(
    KEY,
    "What do many clients get?",
    "Each client has a connection of its own. 8 clients are 8 processes, 64 are 8 processes of 8 threads. "
    "One line: one call after the other. In flight: 100 calls, then the wait for the last. Rate is the sum "
    "of all clients, slowest is the slowest client's rate over the mean one's.",
    ask,
)
