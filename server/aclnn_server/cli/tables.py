"""Text tables and sizes, for people to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Sets rows in columns, numbers to the right.

    Args:
        headings: one per column.
        rows: cells, as many as headings.
    """
    rows = [tuple(row) for row in rows]
    right = [bool(rows) and all(_is_number(row[at]) for row in rows) for at in range(len(headings))]
    lines = [tuple(headings), *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(headings))]
    return "\n".join(_line(line, widths, right) for line in lines)


def _is_number(cell: object) -> bool:
    return isinstance(cell, (int, float)) or cell in ("", "-")


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    set_out = (
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return "  ".join(set_out).rstrip()


def indented(text: str, by: int = 2) -> str:
    """The text with `by` spaces before each line that is not empty."""
    return "\n".join(" " * by + line if line else "" for line in text.splitlines())


def size(count: int) -> str:
    """A number of bytes: ``"512 B"``, ``"1.5 GiB"``."""
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
    return f"{value / 1024:.3g} TiB"


def seconds(value: float) -> str:
    """A time: ``"60 s"``, ``"0.5 s"``."""
    return f"{value:g} s"
