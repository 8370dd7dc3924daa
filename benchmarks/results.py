"""What was measured, as it is kept in JSON."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

FILE = "results.json"


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity, measured once a round."""

    question: str
    """Key of the question."""
    subject: str
    """Key of the system, or of whatever else was measured."""
    case: str
    """Which of the question's cases, for example a number of elements."""
    measure: str
    """What was measured, for example ``"p50"``."""
    unit: str
    """Unit of it: ``"s"``, ``"calls/s"``, ``"B"``."""
    rounds: tuple[float, ...]
    """The values, by round."""

    @property
    def value(self) -> float:
        """The middle of the rounds."""
        return statistics.median(self.rounds)


@dataclass(frozen=True, slots=True)
class Ratio:
    """One figure over another, round by round."""

    value: float
    """The middle of the rounds' ratios."""
    lowest: float
    highest: float

    @classmethod
    def of(cls, above: Figure, below: Figure) -> Self:
        """Divides each round's value by the same round's; a constant has one for all rounds."""
        constant = len(below.rounds) == 1
        others = below.rounds * len(above.rounds) if constant else below.rounds
        ratios = [a / b for a, b in zip(above.rounds, others, strict=True)]
        return cls(statistics.median(ratios), min(ratios), max(ratios))


@dataclass(slots=True)
class Results:
    """A run."""

    machine: dict[str, str]
    """Where it ran and of what; see :func:`benchmarks.machine.describe`."""
    quick: bool
    figures: list[Figure] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Why something was not measured, by its name."""
    seconds: float = 0.0
    """How long it took."""

    def find(self, question: str, subject: str, case: str = "", measure: str = "p50") -> Figure:
        """A figure.

        Raises:
            KeyError: it was not measured.
        """
        wanted = (question, subject, case, measure)
        for row in self.figures:
            if (row.question, row.subject, row.case, row.measure) == wanted:
                return row
        raise KeyError(" ".join(wanted))

    def of(self, question: str) -> list[Figure]:
        """A question's figures, as they were measured."""
        return [row for row in self.figures if row.question == question]

    def save(self, folder: Path) -> None:
        """Writes the JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = asdict(self)
        for row in content["figures"]:
            row["rounds"] = [float(f"{value:.5g}") for value in row["rounds"]]
        (folder / FILE).write_text(_lines(content), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads the JSON."""
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        figures = [Figure(**row | {"rounds": tuple(row["rounds"])}) for row in content["figures"]]
        return cls(**content | {"figures": figures})


def _lines(content: dict[str, Any]) -> str:
    """JSON with one figure a line."""
    figures = content.pop("figures")
    head = json.dumps(content, indent=1)[:-2]
    rows = ",\n".join(f"  {json.dumps(row)}" for row in figures)
    return f'{head},\n "figures": [\n{rows}\n ]\n}}\n'
