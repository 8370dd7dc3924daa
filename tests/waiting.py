"""Waiting for what happens in other threads and processes."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 30.0
"""Seconds after which a wait counts as hung."""


def until(
    holds: Callable[[], object],
    patience: float = PATIENCE,
    told: Callable[[], object] = lambda: "",
) -> None:
    """Asks until it holds; where it never does, `told` says what is there instead."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, f"it never held in {patience:g} s: {told()}".rstrip(": ")
        time.sleep(0.001)
