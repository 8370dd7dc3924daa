"""``python -m benchmarks``: every question to every system, then tables and pictures."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine, plots, reach, readme, report
from benchmarks.lineup import Lineup
from benchmarks.measuring import Effort
from benchmarks.questions import QUESTIONS
from benchmarks.questions.base import NotAsked, Question
from benchmarks.results import Results
from benchmarks.systems import SYSTEMS

HERE = Path(__file__).resolve().parent
KEPT = HERE / "results"
"""Where the results of the last full run are kept."""
SCRATCH = HERE.parent / "build" / "benchmarks"
"""Where those of quick and partial runs go."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    options = _parse(arguments)
    if options.report:
        folder = options.out or KEPT
        deliver(Results.load(folder), folder)
        return 0
    results, failed = run(options.only, options.systems, quick=options.quick)
    partial = options.quick or options.only or options.systems or failed
    folder = options.out or (SCRATCH if partial else KEPT)
    results.save(folder)
    results = Results.load(folder)  # with as many digits as are kept
    deliver(results, folder)
    print(f"{reach.report(results)}\n\nwritten to {folder}")
    return int(failed)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help="less than a minute, coarse")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="QUESTION",
        choices=[question.key for question in QUESTIONS],
        help=f"some of {', '.join(question.key for question in QUESTIONS)}",
    )
    parser.add_argument(
        "--systems",
        nargs="+",
        metavar="SYSTEM",
        choices=[system.key for system in SYSTEMS],
        help=f"some of {', '.join(system.key for system in SYSTEMS)}",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where to write (default: benchmarks/results for a full run, else build/benchmarks)",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="measure nothing; write tables, pictures and the README's part from the JSON in DIR",
    )
    return parser.parse_args(arguments)


def run(
    only: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
    *,
    quick: bool = False,
) -> tuple[Results, bool]:
    """Asks; returns what was measured, and whether something failed."""
    questions = [question for question in QUESTIONS if not only or question.key in only]
    results = Results(machine.describe(), quick)
    start = time.perf_counter()
    failed = False
    with Lineup(systems) as lineup:
        for number, question in enumerate(questions, 1):
            progress = Progress(f"[{number}/{len(questions)}] {question.title}")
            failed |= not _ask(question, lineup, results, Effort(quick, progress.tell))
            progress.end()
        results.skipped |= lineup.skipped
    results.seconds = time.perf_counter() - start
    return results, failed


def _ask(question: Question, lineup: Lineup, results: Results, effort: Effort) -> bool:
    """Whether it went well; one question that fails does not keep the others from being asked."""
    try:
        results.figures += question.ask(lineup, effort)
    except NotAsked as reason:
        results.skipped[question.title] = str(reason)
    except Exception:
        results.skipped[question.title] = "failed"
        traceback.print_exc()
        return False
    return True


def deliver(results: Results, folder: Path) -> None:
    """Writes the tables and the pictures, and where `folder` is the kept one, the README's part."""
    (folder / "results.md").write_text(report.markdown(results), encoding="utf-8")
    plots.draw(results, folder)
    if folder.resolve() == KEPT:
        readme.write(results, KEPT.name)


class Progress:
    """One line on standard error, rewritten where it is a terminal."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._start = time.perf_counter()
        self._live = sys.stderr.isatty()
        self.tell("")

    def tell(self, what: str) -> None:
        """Shows what happens now."""
        if self._live:
            print(f"\r\x1b[K{self._title} {what}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Ends the line."""
        begin = "\r\x1b[K" if self._live else ""
        passed = time.perf_counter() - self._start
        print(f"{begin}{self._title} {passed:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
