"""What a question is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.lineup import Lineup
from benchmarks.measuring import Effort
from benchmarks.results import Figure

Ask = Callable[[Lineup, Effort], list[Figure]]


class NotAsked(Exception):  # noqa: N818 - no error: the question is left out, and this is why
    """The question cannot be asked here; the text says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to some of the systems."""

    key: str
    """Name in the command line and the JSON."""
    title: str
    """The question."""
    how: str
    """How it is measured, for the report."""
    ask: Ask
