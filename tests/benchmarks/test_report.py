"""Tables, verdicts, pictures and the README's part, from figures that are known."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from benchmarks import plots, reach, readme
from benchmarks.__main__ import KEPT
from benchmarks.measuring import interleaved
from benchmarks.report import markdown, quantity, times
from benchmarks.results import Figure, Ratio, Results

MACHINE = {"commit": "abc", "processor": "a processor", "date": "today"}


def small_calls(seconds: float) -> list[Figure]:
    """One-line calls of 200 µs of the floor, and `seconds` of aclnn-serve."""
    rows = {"ping-pong": 200e-6, "first-draft": 1e-3, "tcp": seconds}
    return [
        Figure(
            "small-calls",
            key,
            "one line",
            measure,
            "s",
            tuple(round(n * value, 9) for n in (1, 2, 3)),
        )
        for key, value in rows.items()
        for measure in ("p50", "p99")
    ]


@pytest.fixture
def results() -> Results:
    return Results(MACHINE, quick=False, figures=small_calls(250e-6), skipped={"This": "no reason"})


def test_a_table_has_values_and_ratios(results: Results) -> None:
    text = markdown(results)
    assert "| aclnn-serve, TCP | 500 µs (1.25 ×) | 500 µs (1.25 ×) |" in text
    assert "| bare gRPC ping-pong | 400 µs | 400 µs |" in text
    assert "- not measured: This: no reason" in text
    assert "commit: abc" in text


def test_a_wide_table_is_turned_on_its_side() -> None:
    rows = [Figure("sizes", "flight", str(size), "p50", "s", (1.0,)) for size in range(9)]
    assert "| 8, p50 | 1 s |" in markdown(Results(MACHINE, quick=True, figures=rows))


def test_a_ratio_is_taken_inside_each_round() -> None:
    def figure(*rounds: float) -> Figure:
        return Figure("sizes", "tcp", "8", "p50", "s", rounds)

    assert Ratio.of(figure(1, 20, 3), figure(1, 10, 1)) == Ratio(2.0, 1.0, 3.0)
    assert Ratio.of(figure(1, 20, 3), figure(2)) == Ratio(1.5, 0.5, 10.0)


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(270e-6, "| reached |"), (300e-6, "| **not reached** |")]
)
def test_a_verdict_follows_the_figures(seconds: float, verdict: str) -> None:
    table = reach.report(Results(MACHINE, quick=False, figures=small_calls(seconds)))
    row = next(line for line in table.splitlines() if line.startswith("| one-line call"))
    assert verdict in row
    assert "× bare gRPC ping-pong (rounds 1." in row
    assert table.count("not measured") == len(reach.TARGETS) - 1


def test_many_clients_are_judged_by_the_best_of_one_and_by_the_slowest() -> None:
    def results(slowest: float) -> Results:
        rows = [
            Figure("clients", "tcp", f"{kind}, {clients}", measure, "", values)
            for kind in ("one line", "in flight")
            for clients, measure, values in (
                ("1 client", "rate", (90.0, 100.0)),
                ("64 clients", "rate", (91.0, 91.0)),
                ("64 clients", "slowest", (slowest, slowest)),
            )
        ]
        return Results(MACHINE, quick=False, figures=rows)

    assert "0.91 × of one client's best 100/s, slowest 0.60" in reach.report(results(0.6))
    assert "**not reached**" not in reach.report(results(0.6))
    assert "**not reached**" in reach.report(results(0.4))


def test_an_absolute_limit_is_judged_by_the_best_round() -> None:
    def results(seconds: float) -> Results:
        rows = [("client", "import", (seconds, 9.0)), ("tcp", "server ready", (0.8, 0.9))]
        figures = [Figure("start", key, case, "time", "s", values) for key, case, values in rows]
        return Results(MACHINE, quick=False, figures=figures)

    told = "aclnn_client 300 ms; aclnn-serve, TCP 800 ms | reached |"
    assert told in reach.report(results(0.3))
    assert "**not reached**" in reach.report(results(0.4))


def test_results_survive_json(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path)
    assert Results.load(tmp_path) == results


def test_only_the_readme_s_part_is_written(results: Results, tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text(f"before\n{readme.BEGIN}\nold\n{readme.END}\nafter\n")
    for _ in range(2):
        readme.write(results, "results", file)
        text = file.read_text()
        assert text.startswith(f"before\n{readme.BEGIN}\n\n| what | reach | measured | verdict |")
        assert text.endswith(f"{readme.END}\nafter\n")
        assert "old" not in text
    file.write_text("nothing of the kind")
    with pytest.raises(ValueError, match="has no part"):
        readme.write(results, "results", file)


def test_the_readme_shows_the_results_that_are_kept() -> None:
    kept = Results.load(KEPT)
    assert not kept.quick
    assert readme.generated(kept, KEPT.name) in readme.FILE.read_text(encoding="utf-8")
    for name in plots.PLOTS:
        assert (KEPT / f"{name}.png").exists()


def test_pictures_are_drawn_of_what_was_measured(results: Results, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert plots.draw(results, tmp_path) == [tmp_path / "small_calls.png"]
    assert (tmp_path / "small_calls.png").read_bytes().startswith(b"\x89PNG")


def test_every_subject_is_measured_once_a_round_and_none_always_first() -> None:
    order: list[str] = []

    def subject(name: str) -> int:
        order.append(name)
        return len(order)

    subjects = {name: functools.partial(subject, name) for name in "abc"}
    found = interleaved(iter(range(3)), subjects)
    assert "".join(order) == "abc" + "bca" + "cab"
    assert found["a"] == (1, 6, 8)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.5e-6, "s", "1.5 µs"),
        (0.0123, "s", "12.3 ms"),
        (12.3456, "s", "12.3 s"),
        (20_000, "calls/s", "20,000/s"),
        (2**20, "B", "1.00 MiB"),
        (0.5, "of the mean", "0.50 of the mean"),
    ],
)
def test_quantities(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_times() -> None:
    assert times(0.4) == "0.4 ×"
    assert times(123.4) == "123 ×"
