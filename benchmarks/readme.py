"""The part of the README that is written from the last results."""

from __future__ import annotations

from pathlib import Path

from benchmarks import reach
from benchmarks.plots import PLOTS
from benchmarks.report import facts
from benchmarks.results import Results

FILE = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- generated: python -m benchmarks --report -->", "<!-- end -->"


def generated(results: Results, pictures: str) -> str:
    """Table, machine and pictures.

    Args:
        results: the run.
        pictures: folder of the pictures, as the README sees it.
    """
    drawn = [f"![{question}]({pictures}/{name}.png)" for name, (question, _) in PLOTS.items()]
    return "\n\n".join((reach.report(results), facts(results), "\n".join(drawn)))


def write(results: Results, pictures: str, file: Path = FILE) -> None:
    """Replaces the generated part.

    Raises:
        ValueError: the file has no such part.
    """
    text = file.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{file} has no part between {BEGIN} and {END}")
    part = generated(results, pictures)
    file.write_text(f"{before}{BEGIN}\n\n{part}\n\n{END}{after}", encoding="utf-8")
