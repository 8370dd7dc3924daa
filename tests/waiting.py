"""Waiting for what happens in other threads and processes."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 30.0
"""Seconds after which a wait counts as hung."""


def until(holds: Callable[[], object], patience: float = PATIENCE) -> None:
    """Asks until it holds."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.001)
