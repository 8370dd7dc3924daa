"""Results as Markdown: a table for each question, with ratios."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from benchmarks.questions import QUESTIONS
from benchmarks.questions.base import Question
from benchmarks.results import Figure, Ratio, Results
from benchmarks.systems import SYSTEMS

REFERENCES = {
    "small-calls": "ping-pong",
    "in-flight": "flight",
    "sizes": "flight",
    "clients": "ping-pong",
    "chain": "payload",
    "memory": "payload",
    "start": "",
    "kernels": "torch",
}
"""What the figures of a question are divided by."""
CASE_OF_REFERENCE = {"small-calls": "one line"}
"""The reference's case, where it has not the figure's own."""
MEASURES_WITHOUT_RATIO = ("slowest", "rate")
MOST_COLUMNS = 8
"""Columns of a table; one that has more is turned on its side."""
OTHER_TITLES = {
    "torch": "PyTorch CPU",
    "payload": "payload",
    "client": "aclnn_client",
    "floor": "grpc, numpy and protobuf alone",
}


def markdown(results: Results) -> str:
    """The whole report."""
    sections = [_section(results, question) for question in QUESTIONS if results.of(question.key)]
    return "\n\n".join(["# Results", facts(results), *sections]) + "\n"


def facts(results: Results) -> str:
    """Where and when."""
    rows = [f"- {name}: {value}" for name, value in results.machine.items()]
    rows.append(f"- {'quick' if results.quick else 'full'} run, {results.seconds:.0f} s")
    rows += [f"- not measured: {name}: {reason}" for name, reason in results.skipped.items()]
    return "\n".join(rows)


def _section(results: Results, question: Question) -> str:
    figures = results.of(question.key)
    columns = list(dict.fromkeys((row.case, row.measure) for row in figures))
    subjects = list(dict.fromkeys(row.subject for row in figures))
    rows = [
        ["", *(f"{case}, {measure}" for case, measure in columns)],
        *(
            [
                title(subject),
                *(_cell(results, question.key, subject, *column) for column in columns),
            ]
            for subject in subjects
        ),
    ]
    if len(columns) > MOST_COLUMNS:
        rows = [list(column) for column in zip(*rows, strict=True)]
    reference = REFERENCES[question.key]
    note = f"In brackets: over {title(reference)}, round by round." if reference else ""
    return "\n\n".join(
        (f"## {question.title}", f"{question.how} {note}".strip(), table(rows[0], rows[1:]))
    )


def _cell(results: Results, question: str, subject: str, case: str, measure: str) -> str:
    try:
        figure = results.find(question, subject, case, measure)
    except KeyError:
        return ""
    text = quantity(figure.value, figure.unit)
    found = _ratio(results, figure)
    return f"{text} ({times(found.value)})" if found else text


def _ratio(results: Results, figure: Figure) -> Ratio | None:
    reference = REFERENCES[figure.question]
    if figure.subject == reference or figure.measure in MEASURES_WITHOUT_RATIO:
        return None
    for case in (figure.case, CASE_OF_REFERENCE.get(figure.question, "")):
        with contextlib.suppress(KeyError):
            below = results.find(figure.question, reference, case, figure.measure)
            return Ratio.of(figure, below)
    return None


def title(subject: str) -> str:
    """What a subject is called in tables."""
    titles = {system.key: system.title for system in SYSTEMS} | OTHER_TITLES
    return titles.get(subject, subject)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column to the left, the others to the right."""
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def quantity(value: float, unit: str) -> str:
    """A value with its unit, to three digits."""
    if unit == "s":
        return _seconds(value)
    if unit == "B":
        return f"{value / 2**20:.2f} MiB"
    if unit == "calls/s":
        return f"{value:,.0f}/s"
    return f"{value:.2f} {unit}"


def _seconds(value: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if value >= scale:
            return f"{_digits(value / scale)} {unit}"
    return f"{_digits(value * 1e6)} µs"


def times(value: float) -> str:
    """A ratio: ``"0.4 ×"``."""
    return f"{_digits(value)} ×"


def _digits(value: float) -> str:
    """Three digits, all of them before the point where the value is large."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
