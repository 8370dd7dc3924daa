"""What is counted while work is done: plain numbers, added up when somebody looks.

A :class:`Tally` is written by one thread at a time without a lock: the work of one stream, or the commands of
one Submit call. What has no tally of its own is counted under the lock of :class:`Meters`, as are looks.
"""

from __future__ import annotations

import operator
import threading
from collections import defaultdict
from typing import TypeVar

from aclnn.errors import AclnnError, InternalError

_K = TypeVar("_K")

PARTS = ("queue", "copy_in", "run", "copy_out")
"""Where the time of a run goes."""
WIDTH = 64
"""Numbers of one distribution: how many took up to 2^n ns, for n of 0 to 62, and the sum of all in ns."""
SUM = WIDTH - 1
WHOLE, QUEUE, COPY_IN, RUN, COPY_OUT = range(0, 5 * WIDTH, WIDTH)
"""Where the distributions of a cell begin."""
CELL = 5 * WIDTH
AT_ONCE = ("get_workspace_size", "execute")
"""The two calls that one step can do."""

Group = tuple[int | None, str]
"""Index of a device, and the name of an owner; ``None`` for what belongs to no context."""
Failure = tuple[str, str, int]
"""Operator, reason and ACL code."""


class Tally:
    """Counts of what one thread at a time does."""

    __slots__ = ("at_once", "cells", "errors", "failures", "methods", "received", "sent")

    def __init__(self) -> None:
        self.cells: dict[str, list[int]] = {}
        """Distributions of the times of runs that ended well, by operator: :data:`WHOLE` and the parts."""
        self.at_once: dict[str, list[int]] = {}
        """Distributions of the times of calls that were planned and run in one step."""
        self.failures: dict[Failure, int] = defaultdict(int)
        """Runs that failed."""
        self.methods: dict[str, int] = defaultdict(int)
        """Calls and commands, by their name in the schema."""
        self.errors: dict[tuple[str, Failure], int] = defaultdict(int)
        """Calls and commands that were answered with an error."""
        self.received = 0
        """Bytes of requests."""
        self.sent = 0
        """Bytes of answers."""

    def note_run(self, name: str, queue: int, copy_in: int, run: int, copy_out: int) -> None:
        """Counts a run that ended well: the operator's name, and its times in nanoseconds."""
        cell = self.cells.get(name)
        if cell is None:
            cell = self.cells[name] = [0] * CELL
        whole = queue + copy_in + run + copy_out
        # The bits of n - 1: the exponent of the power of two that n is up to.
        cell[WHOLE + (whole - 1).bit_length()] += 1
        cell[WHOLE + SUM] += whole
        cell[QUEUE + (queue - 1).bit_length()] += 1
        cell[QUEUE + SUM] += queue
        cell[RUN + (run - 1).bit_length()] += 1
        cell[RUN + SUM] += run
        if copy_in:
            cell[COPY_IN + (copy_in - 1).bit_length()] += 1
            cell[COPY_IN + SUM] += copy_in
        if copy_out:
            cell[COPY_OUT + (copy_out - 1).bit_length()] += 1
            cell[COPY_OUT + SUM] += copy_out

    def note_at_once(self, name: str, run: int) -> None:
        """Counts a call that was planned and run in one step, and ended well: both phases and the run.

        These are the quickest calls, and this is what counting adds to each.
        """
        times = self.at_once.get(name)
        if times is None:
            times = self.at_once[name] = [0] * WIDTH
        times[(run - 1).bit_length()] += 1
        times[SUM] += run

    def note_failure(self, name: str, error: BaseException) -> None:
        """Counts a run that failed."""
        self.failures[failure_of(error, name)] += 1

    def add(self, other: Tally) -> None:
        """Adds another's counts to these; the other may be written meanwhile."""
        for name, cell in list(other.cells.items()):
            self._add_cell(name, cell)
        for name, times in list(other.at_once.items()):
            self._add_at_once(name, list(times))
        _add_counts(self.failures, other.failures)
        _add_counts(self.methods, other.methods)
        _add_counts(self.errors, other.errors)
        self.received += other.received
        self.sent += other.sent

    def _add_at_once(self, name: str, times: list[int]) -> None:
        count = sum(times[:SUM])
        if not count:
            return
        cell = [0] * CELL
        cell[WHOLE : WHOLE + WIDTH] = cell[RUN : RUN + WIDTH] = times
        cell[QUEUE] = count
        self._add_cell(name, cell)
        for method in AT_ONCE:
            self.methods[method] += count

    def _add_cell(self, name: str, cell: list[int]) -> None:
        mine = self.cells.get(name)
        self.cells[name] = list(map(operator.add, mine, cell)) if mine else list(cell)

    def note_failure_at_once(self, name: str, error: BaseException) -> None:
        """Counts a call that was planned and run in one step, and failed."""
        self.note_failure(name, error)
        for method in AT_ONCE:
            self.methods[method] += 1

    @property
    def runs(self) -> int:
        """Runs that ended well, of a tally that others were added to."""
        return sum(sum(cell[WHOLE : WHOLE + SUM]) for cell in self.cells.values())


def _add_counts(mine: dict[_K, int], others: dict[_K, int]) -> None:
    for key, count in list(others.items()):
        mine[key] += count


def failure_of(error: BaseException, operator_name: str) -> Failure:
    """What is counted of an error; what is none of ours counts as the internal one that it becomes."""
    told = error if isinstance(error, AclnnError) else InternalError("")
    return operator_name, told.reason, told.code


class ContextMeter:
    """Counts of one context, or of what belongs to none. Thread-safe."""

    def __init__(self, group: Group, lock: threading.Lock) -> None:
        self.group = group
        self._lock = lock
        self._open: set[Tally] = set()
        self._rest = Tally()

    def open(self) -> Tally:
        """A tally for what one thread at a time will do, until :meth:`close`."""
        tally = Tally()
        with self._lock:
            self._open.add(tally)
        return tally

    def close(self, tally: Tally) -> None:
        """Ends a tally; nobody writes it any more."""
        with self._lock:
            if tally in self._open:
                self._open.remove(tally)
                self._rest.add(tally)

    def note_call(self, method: str) -> None:
        """Counts a call."""
        with self._lock:
            self._rest.methods[method] += 1

    def note_bytes(self, received: int, sent: int) -> None:
        """Counts bytes of a request and of its answer."""
        with self._lock:
            self._rest.received += received
            self._rest.sent += sent

    def note_error(self, method: str, failure: Failure) -> None:
        """Counts a call or command that was answered with an error."""
        with self._lock:
            self._rest.errors[method, failure] += 1

    def total(self) -> Tally:
        """All counts so far."""
        with self._lock:
            return self._total()

    def _total(self) -> Tally:
        total = Tally()
        for tally in (self._rest, *self._open):
            total.add(tally)
        return total

    def _pour_into(self, tally: Tally) -> None:
        """Counts in `tally` from now on, what was counted so far included. The lock is held."""
        tally.add(self._total())
        self._open.clear()
        self._rest = tally


class Meters:
    """Counts of a server, by device and owner. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[ContextMeter] = set()
        self._ended: dict[Group, Tally] = defaultdict(Tally)
        self._contexts_opened: dict[Group, int] = defaultdict(int)
        self._contexts_ended: dict[tuple[Group, str], int] = defaultdict(int)
        self.server = ContextMeter((None, ""), self._lock)
        """Counts of calls that name no context."""
        self._open.add(self.server)

    def open(self, device: int, owner: str) -> ContextMeter:
        """The meter of a context that is opened."""
        meter = ContextMeter((device, owner), self._lock)
        with self._lock:
            self._open.add(meter)
            self._contexts_opened[meter.group] += 1
        return meter

    def end(self, meter: ContextMeter, reason: str) -> None:
        """Ends a context's meter; what is still counted with it is not lost."""
        with self._lock:
            if meter in self._open:
                self._open.remove(meter)
                self._contexts_ended[meter.group, reason] += 1
                meter._pour_into(self._ended[meter.group])

    def totals(self) -> dict[Group, Tally]:
        """All counts so far, those of contexts that have ended included."""
        totals: dict[Group, Tally] = defaultdict(Tally)
        with self._lock:
            for group, tally in self._ended.items():
                totals[group].add(tally)
            for meter in self._open:
                totals[meter.group].add(meter._total())
        return totals

    @property
    def contexts_opened(self) -> dict[Group, int]:
        """Contexts that were opened."""
        with self._lock:
            return dict(self._contexts_opened)

    @property
    def contexts_ended(self) -> dict[tuple[Group, str], int]:
        """Contexts that have ended, by reason too."""
        with self._lock:
            return dict(self._contexts_ended)
