"""How long these tests go on: seconds in the default suite, as long as ``HOSTILE_SECONDS`` says else."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

LONG_SECONDS = float(os.environ.get("HOSTILE_SECONDS", "0"))
"""Seconds that each of them takes; 0: the short form, whose cases are the same at every run."""
SEED = int(os.environ.get("HOSTILE_SEED", "0"))
"""What the cases follow from."""


def seeds(short: int) -> Iterator[int]:
    """Seeds of cases: so many in the short form, else as many as there is time for."""
    first = SEED * 1_000_000
    end = time.monotonic() + LONG_SECONDS
    number = 0
    while number < short if not LONG_SECONDS else time.monotonic() < end:
        yield first + number
        number += 1
