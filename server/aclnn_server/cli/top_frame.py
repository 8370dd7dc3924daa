"""What ``aclnn-serve top`` shows: an overview of a server as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aclnn.overview import Activity, ContextOverview, Overview
from aclnn_server.cli.parsing import PROGRAM
from aclnn_server.cli.tables import indented, size, table

FEWEST_ROWS = 3
"""Rows that a table gets, however little room there is."""


def frame(overview: Overview, address: str, height: int | None = None) -> list[str]:
    """The lines of one look.

    Args:
        overview: the look.
        address: of the server.
        height: lines that there is room for; the longest tables are cut. ``None``: any number.
    """
    tables = [_devices(overview), _contexts(overview), _operators(overview)]
    head = _head(overview, address)
    room = None if height is None else height - len(head) - 2 * len(tables)
    kept = _fit([len(rows) for _, _, rows in tables], room)
    lines = head
    for (headings, none, rows), count in zip(tables, kept, strict=True):
        lines += ["", *_table(headings, none, rows, count)]
    return lines


_Table = tuple[tuple[str, ...], str, list[tuple[object, ...]]]
"""Headings, what to say where there are no rows, and the rows."""


def _table(
    headings: Sequence[str], none: str, rows: list[tuple[object, ...]], count: int
) -> list[str]:
    if not rows:
        return [f"  {none}"]
    text = indented(table(headings, rows[:count])).splitlines()
    left = len(rows) - count
    return [*text[:-1], f"{text[-1]}   … and {left} more"] if left > 0 else text


def _fit(wanted: list[int], room: int | None) -> list[int]:
    """Rows of each table, so that all of them fit: the longest one gives first."""
    kept = list(wanted)
    while room is not None and sum(kept) > room and max(kept) > FEWEST_ROWS:
        kept[kept.index(max(kept))] -= 1
    return kept


def _head(overview: Overview, address: str) -> list[str]:
    usage, activity = overview.usage, overview.activity
    latency = activity.latency
    state = "serving" if overview.ready else "draining"
    counted = "" if overview.counted else "; calls are not counted: --no-metering"
    return [
        f"{PROGRAM} {overview.version} at {address}: {state}, backend {overview.backend}, "
        f"up {age(overview.uptime)}",
        f"  {number(activity.calls_per_second)} calls/s, {number(activity.runs_per_second)} runs/s, "
        f"{number(activity.errors_per_second)} errors/s in the last {number(overview.window)} s{counted}",
        f"  run: half within {time(latency.p50_seconds)}, 99 of 100 within {time(latency.p99_seconds)}; "
        f"in {size(round(activity.received_per_second))}/s, out {size(round(activity.sent_per_second))}/s",
        f"  {usage.contexts} contexts, {usage.streams} streams, {usage.queued_commands} commands queued, "
        f"{size(usage.bytes)} in {usage.buffers} buffers; {overview.submit_calls} open Submit calls, "
        f"{overview.calls_in_hand} calls in hand",
    ]


def _devices(overview: Overview) -> _Table:
    headings = ("device", "name", "contexts", "in use", "free", "total", "queue", "runs/s", "busy")
    rows: list[tuple[object, ...]] = [
        (
            row.device.index,
            row.device.name,
            row.device.context_count,
            size(row.usage.bytes),
            size(row.device.free_bytes) if row.device.total_bytes else "?",
            size(row.device.total_bytes) if row.device.total_bytes else "?",
            row.usage.queued_commands,
            number(row.activity.runs_per_second),
            f"{100 * row.activity.runs_per_second * row.activity.latency.run_seconds:.0f} %",
        )
        for row in overview.devices
    ]
    return headings, "no devices", rows


def _contexts(overview: Overview) -> _Table:
    headings = (
        *("context", "token", "device", "streams", "executors", "buffers", "memory", "queue"),
        *("calls/s", "runs/s", "half", "99 %", "silent", "client"),
    )
    rows = [row for context in overview.contexts for row in _context(context)]
    return headings, "no client is connected", rows


def _context(context: ContextOverview) -> Iterable[tuple[object, ...]]:
    usage, activity = context.usage, context.activity
    yield (
        context.label,
        printable(context.owner) or "-",
        context.device_index,
        usage.streams,
        usage.executors,
        usage.buffers,
        size(usage.bytes),
        usage.queued_commands,
        number(activity.calls_per_second),
        *_rate_and_times(activity),
        age(context.silent),
        printable(context.client_name),
    )
    if len(context.streams) < 2:
        return  # its only stream does what the context does
    for stream in context.streams:
        yield (
            f"  {stream.label}",
            *("stream", "", "", "", "", "", stream.queued_commands, ""),
            *_rate_and_times(stream.activity),
            *("", ""),
        )


def _rate_and_times(activity: Activity) -> tuple[str, str, str]:
    latency = activity.latency
    return (
        number(activity.runs_per_second),
        time(latency.p50_seconds),
        time(latency.p99_seconds),
    )


def _operators(overview: Overview) -> _Table:
    headings = (
        *("operator", "runs", "failures", "runs/s", "queue", "copy in", "run", "copy out"),
        *("half", "99 %"),
    )
    rows: list[tuple[object, ...]] = []
    for row in overview.operators:
        latency = row.activity.latency
        parts = (
            latency.queue_seconds,
            latency.copy_in_seconds,
            latency.run_seconds,
            latency.copy_out_seconds,
            latency.p50_seconds,
            latency.p99_seconds,
        )
        rate = number(row.activity.runs_per_second)
        rows.append((row.operator, row.runs, row.failures, rate, *map(time, parts)))
    return headings, "nothing was run yet", rows


# --- numbers ----------------------------------------------------------------------------------------


def number(value: float) -> str:
    """A rate: ``"0"``, ``"0.25"``, ``"12.5"``, ``"1234"``."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def time(seconds: float) -> str:
    """A time of a run: ``"-"`` for none, ``"12.3 us"``, ``"1.5 ms"``, ``"2 s"``."""
    if not seconds:
        return "-"
    for unit, scale in (("us", 1e6), ("ms", 1e3)):
        if seconds * scale < 1000:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def age(seconds: float) -> str:
    """A long time: ``"12 s"``, ``"5 min"``, ``"3 h 20 min"``, ``"4 d 1 h"``."""
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if minutes < 1:
        return f"{int(seconds)} s"
    if hours < 1:
        return f"{minutes} min"
    if hours < 24:
        return f"{hours} h {minutes % 60} min"
    return f"{hours // 24} d {hours % 24} h"


def printable(text: str) -> str:
    """Text that a client chose, without what would move a terminal's cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
