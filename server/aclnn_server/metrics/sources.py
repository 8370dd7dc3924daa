"""What there is to look at in a server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aclnn_server.backends.base import Backend
from aclnn_server.config import ServerConfig
from aclnn_server.sessions.meters import Meters
from aclnn_server.sessions.registry import Registry


@dataclass(frozen=True, slots=True)
class Sources:
    """A server's parts, for those who look."""

    config: ServerConfig
    backend: Backend
    registry: Registry
    meters: Meters | None
    """Counts; ``None`` where nothing is counted."""
    ready: Callable[[], bool]
    """Whether new contexts are welcome."""
    submit_calls: Callable[[], int]
    """Open Submit calls."""
    calls_in_hand: Callable[[], int]
    """Calls and commands that are being served."""
    clock: Callable[[], float] = time.monotonic
    """Seconds."""
    started: float = field(default_factory=time.time)
    """When the server was started, in seconds since 1970."""
