"""How much of the chaos: half a minute with ``make chaos``, a quarter of an hour with ``CHAOS_LONG=1``."""

from __future__ import annotations

import os

import hypothesis

LONG = bool(os.environ.get("CHAOS_LONG"))
"""Whether this is the long form."""
TEST_SECONDS = 3600 if LONG else 60
"""Time limit of a test."""


def count(short: int, long: int) -> int:
    """How many rounds."""
    return long if LONG else short


def settings(short: int, long: int) -> hypothesis.settings:
    """How many examples; what takes long is not unhealthy here."""
    return hypothesis.settings(
        max_examples=count(short, long),
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=True,
        deadline=None,
    )
