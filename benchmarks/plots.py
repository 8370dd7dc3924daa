"""Results as pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.client_process import KINDS
from benchmarks.questions import clients, in_flight, kernels, sizes, small_calls
from benchmarks.report import title
from benchmarks.results import Figure, Results
from benchmarks.systems import SYSTEMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "ping-pong": "#7f7f7f",
    "first-draft": "#d62728",
    "flight": "#ff7f0e",
    "tcp": "#1f77b4",
    "unix": "#17becf",
    "shm": "#2ca02c",
    "in-process": "#111111",
    "torch": "#ee4c2c",
}


def draw(results: Results, folder: Path) -> list[Path]:
    """Draws what was measured.

    Returns:
        The files; none where matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        return []
    mpl.use("agg")
    return [
        _save(results, folder / f"{name}.png", draw_one)
        for name, (question, draw_one) in PLOTS.items()
        if results.of(question)
    ]


def _save(results: Results, path: Path, draw_one: Callable[[Results, Any], None]) -> Path:
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(rect=(0, 0.03, 1, 0.97))  # leaves room for the source
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout=layout)
    draw_one(results, axes)
    figure.text(
        0.995, 0.005, _source(results), ha="right", va="bottom", fontsize=6, color="#666666"
    )
    figure.savefig(path, dpi=120, metadata={"Software": None})
    pyplot.close(figure)
    return path


def _source(results: Results) -> str:
    machine = results.machine
    return f"commit {machine['commit']}; {machine['processor']}; {machine['date']}"


def _latency(results: Results, axes: Axes) -> None:
    rows = [row for row in results.of(small_calls.KEY) if row.measure == "p50"]
    names = [f"{title(row.subject)}, {row.case}" for row in rows]
    values = [row.value * 1e6 for row in rows]
    tails = [results.find(row.question, row.subject, row.case, "p99").value * 1e6 for row in rows]
    colours = [COLOURS[row.subject] for row in rows]
    axes.barh(names, values, color=colours)
    axes.plot(tails, range(len(rows)), "|", color="black", markersize=12, label="p99")
    _finish(axes, "One small call after the other", "microseconds, p50")
    axes.invert_yaxis()
    axes.legend()


def _rate(results: Results, axes: Axes) -> None:
    rows = [row for row in results.of(in_flight.KEY) if row.measure == "rate"]
    colours = [COLOURS[row.subject] for row in rows]
    axes.barh([title(row.subject) for row in rows], [row.value for row in rows], color=colours)
    _finish(axes, "A thousand small calls under way", "calls per second")
    axes.invert_yaxis()


def _sizes(results: Results, axes: Axes) -> None:
    for system in SYSTEMS:
        found = [_find(results, system.key, size, "p50") for size in sizes.SIZES]
        points = [(size, row.value) for size, row in zip(sizes.SIZES, found, strict=True) if row]
        if points:
            elements, seconds = zip(*points, strict=True)
            axes.loglog(
                elements,
                [value * 1e3 for value in seconds],
                "o-",
                label=system.title,
                color=COLOURS[system.key],
            )
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes.SIZES, [sizes.label(size) for size in sizes.SIZES])
    axes.set_ylabel("milliseconds, p50")
    _finish(axes, "One call, inputs from and result to the client", "fp32 elements")
    axes.legend(fontsize=8)


def _find(results: Results, key: str, size: int, measure: str) -> Figure | None:
    try:
        return results.find(sizes.KEY, key, sizes.label(size), measure)
    except KeyError:
        return None


def _clients(results: Results, axes: Axes) -> None:
    styles = dict(zip(KINDS, ("o--", "o-"), strict=True))
    for key in clients.SYSTEMS:
        for kind, style in styles.items():
            rows = [
                row
                for row in results.of(clients.KEY)
                if (row.subject, row.measure) == (key, "rate") and row.case.startswith(kind)
            ]
            if rows:
                rates = [row.value for row in rows]
                axes.plot(rates, style, label=f"{title(key)}, {kind}", color=COLOURS[key])
    axes.set_xticks(range(len(clients.COUNTS)), [str(count) for count in clients.COUNTS])
    axes.set_ylim(bottom=0)
    axes.set_ylabel("calls per second, all clients together")
    _finish(axes, "Many clients of small calls", "clients")
    axes.legend(fontsize=8)


def _kernels(results: Results, axes: Axes) -> None:
    width = 0.4
    for shift, key in ((0.0, "in-process"), (width, "torch")):
        rows = [row for row in results.of(kernels.KEY) if row.subject == key]
        places = [place + shift for place in range(len(rows))]
        values = [row.value * 1e3 for row in rows]
        axes.bar(places, values, width, label=title(key), color=COLOURS[key])
    axes.set_xticks([place + width / 2 for place in range(len(kernels.TYPES))], list(kernels.TYPES))
    axes.set_ylabel("milliseconds")
    _finish(axes, "The kernel, as many threads as cores", "dtype")
    axes.legend()


def _finish(axes: Axes, name: str, below: str) -> None:
    axes.set_title(name, fontsize=10)
    axes.set_xlabel(below)
    axes.grid(visible=True, alpha=0.3)
    axes.set_axisbelow(True)


PLOTS: dict[str, tuple[str, Callable[[Results, Any], None]]] = {
    "small_calls": (small_calls.KEY, _latency),
    "in_flight": (in_flight.KEY, _rate),
    "sizes": (sizes.KEY, _sizes),
    "clients": (clients.KEY, _clients),
    "kernels": (kernels.KEY, _kernels),
}
