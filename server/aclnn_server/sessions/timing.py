"""Where the time of one run went."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Timing:
    """Nanoseconds of each part."""

    queue: int = 0
    copy_in: int = 0
    run: int = 0
    copy_out: int = 0

    def as_header(self) -> str:
        """In the form of W3C's Server-Timing, in milliseconds."""
        parts = {
            name: getattr(self, name) / 1e6 for name in ("queue", "copy_in", "run", "copy_out")
        }
        return ", ".join(f"{name};dur={milliseconds:g}" for name, milliseconds in parts.items())
