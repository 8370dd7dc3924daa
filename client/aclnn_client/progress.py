"""A progress bar for long transfers, on standard error."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_WIDTH = 30
_PAUSE_SECONDS = 0.1


class Progress:
    """Shows how far a transfer is: a line that is drawn anew on a terminal, else one per tenth."""

    def __init__(self, label: str, total: int, *, shown: bool, out: TextIO | None = None) -> None:
        """Prepares the bar.

        Args:
            label: what goes on, for example ``"upload"``.
            total: bytes in all.
            shown: whether to show anything.
            out: where to; default standard error.
        """
        self._label = label
        self._total = total
        self._shown = shown and total > 0
        self._out = out or sys.stderr
        self._terminal = self._out.isatty()
        self._done = 0
        self._started = time.monotonic()
        self._drawn_at = 0.0
        self._drawn_tenth = 0

    def advance(self, count: int) -> None:
        """Notes that `count` more bytes are through."""
        self._done += count
        if self._shown and self._due():
            self._draw()

    def _due(self) -> bool:
        if self._terminal:
            over = time.monotonic() - self._drawn_at >= _PAUSE_SECONDS
            return over or self._done >= self._total
        return self._done * 10 // self._total > self._drawn_tenth

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        self._drawn_tenth = self._done * 10 // self._total
        filled = _WIDTH * self._done // self._total
        seconds = max(self._drawn_at - self._started, 1e-9)
        mib, total = self._done / 2**20, self._total / 2**20
        text = (
            f"{self._label} [{'#' * filled}{' ' * (_WIDTH - filled)}] "
            f"{self._done * 100 // self._total:3d} % of {total:.1f} MiB, {mib / seconds:.0f} MiB/s"
        )
        last = self._done >= self._total
        self._out.write(f"\r{text}{chr(10) if last else ''}" if self._terminal else f"{text}\n")
        self._out.flush()
