"""What every system under test looks like: a server in a process of its own, and clients of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from benchmarks.computation import Array, Inputs


class NotOffered(Exception):  # noqa: N818 - no error: the system is left out, and this is why
    """The system cannot be measured here; the text says why."""


class Served(Protocol):
    """A server that runs."""

    @property
    def address(self) -> str: ...

    @property
    def pid(self) -> int: ...


class Client(ABC):
    """One connection to a server, for one thread."""

    @abstractmethod
    def call(self, inputs: Inputs) -> Array:
        """The whole call: inputs from this process, result to this process."""

    def chain(self, inputs: Inputs, count: int) -> Array:
        """`count` calls, each with the last one's result in place of grad."""
        result = inputs.grad
        for _ in range(count):
            result = self.call(Inputs(result, inputs.x, inputs.target))
        return result

    def close(self) -> None:
        """Ends the connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Call = Callable[[], object]
"""One call on inputs that were given before."""


@runtime_checkable
class TwoPhases(Protocol):
    """A client that offers the two phases one by one."""

    def two_phases(self, inputs: Inputs) -> Call:
        """Both phases by hand and the wait for the end, on inputs that the server has where it can."""


@runtime_checkable
class InPlace(Protocol):
    """A client that computes on memory which both sides see."""

    def in_place(self, inputs: Inputs) -> Callable[[], Array]:
        """Both phases and the wait, with inputs and output in that memory; gives the output."""

    def in_place_in_flight(self, inputs: Inputs, count: int) -> Call:
        """`count` times both phases in that memory, and one wait for all."""


@runtime_checkable
class Pipelines(Protocol):
    """A client that sends calls before earlier ones are answered."""

    def pipeline(self, inputs: Inputs, count: int) -> None:
        """`count` calls under way at the same time; returns when all are done."""


@dataclass(frozen=True, slots=True)
class System:
    """A system under test."""

    key: str
    """Name in the command line and the JSON."""
    title: str
    """Name in tables and plots."""
    serve: Callable[[], AbstractContextManager[Served]]
    """Starts its server; leaving the block stops it."""
    connect: Callable[[str], Client]
    """Connects to an address of it; raises NotOffered where it cannot be measured here."""
    computes: bool = True
    """Whether its answer is the operator's result."""
