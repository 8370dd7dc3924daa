"""The systems under test, in the order of the tables."""

from __future__ import annotations

from benchmarks.systems import aclnn_serve, first_draft, flight, in_process, ping_pong
from benchmarks.systems.base import System

SYSTEMS: tuple[System, ...] = (
    ping_pong.SYSTEM,
    first_draft.SYSTEM,
    flight.SYSTEM,
    aclnn_serve.TCP,
    aclnn_serve.UNIX,
    aclnn_serve.SHARED_MEMORY,
    in_process.SYSTEM,
)


def system(key: str) -> System:
    """A system by its key."""
    return next(found for found in SYSTEMS if found.key == key)
