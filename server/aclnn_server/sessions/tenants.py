"""Tenants: whose a context is, and what all contexts of one tenant may have together."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from aclnn.errors import LimitExceededError, OutOfMemoryError, UnauthenticatedError
from aclnn_server.sessions.limits import Limits
from aclnn_server.sessions.rates import BURST_SECONDS, Rate

LONGEST_PAUSE_SECONDS = 0.2
"""Longest pause at once of a call that is slowed down: how long it may take to notice its end."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What a tenant may have and do, besides the limits that hold for everybody. ``None``: no more limits."""

    memory_bytes: int | None = None
    """Bytes of device memory of all its contexts."""
    contexts: int | None = None
    """Contexts at the same time."""
    contexts_per_second: float | None = None
    """New contexts a second, on average."""
    calls_per_second: float | None = None
    """Calls, or requests of Submit, a second, on average."""
    devices: frozenset[int] | None = None
    """Indices of the devices that it may use."""
    admin: bool = False
    """Whether it sees what the whole server holds, and gRPC's own view of connections (channelz)."""


class Allowance:
    """Bytes that several contexts share. Thread-safe."""

    def __init__(self, whose: str) -> None:
        self.limit: int | None = None
        self.used = 0
        self._whose = whose
        self._lock = threading.Lock()

    def take(self, size: int, what: str) -> None:
        """Takes bytes.

        Raises:
            OutOfMemoryError: 207001, there are not as many free; tells asked, free and limit.
        """
        with self._lock:
            if self.limit is not None and size > self.limit - self.used:
                free = max(0, self.limit - self.used)
                raise OutOfMemoryError(
                    f"{what} asks for {size} bytes; {self._whose} has {free} free of its {self.limit} "
                    "in all contexts"
                )
            self.used += size

    def give_back(self, size: int) -> None:
        """Gives bytes back."""
        with self._lock:
            self.used -= size


class Tenant:
    """Whoever contexts belong to. It stays the same while its quota changes: its contexts stay its own."""

    def __init__(
        self,
        name: str,
        quota: Quota = Quota(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        """For logs and figures; empty: nobody in particular."""
        self.memory = Allowance(f"the token {name!r}") if name else None
        """Memory of all its contexts; not counted where it is nobody in particular."""
        self.ended_because = ""
        """Why it may open no contexts any more; empty while it may."""
        self.arrivals: Rate | None = None
        """Its own rate of new contexts."""
        self.calls: Rate | None = None
        """Its rate of calls."""
        self._clock = clock
        self.quota = Quota()
        self.change(quota)

    def change(self, quota: Quota) -> None:
        """Puts another quota in force; what the tenant has beyond it stays until it is given back."""
        if quota.calls_per_second != self.quota.calls_per_second:
            per_second = quota.calls_per_second
            self.calls = Rate(per_second, per_second, self._clock) if per_second else None
        if quota.contexts_per_second != self.quota.contexts_per_second:
            per_second = quota.contexts_per_second
            burst = (per_second or 0) * BURST_SECONDS
            self.arrivals = Rate(per_second, burst, self._clock) if per_second else None
        if self.memory is not None:
            self.memory.limit = quota.memory_bytes
        self.quota = quota

    def count_call(self) -> None:
        """Counts a call.

        Raises:
            LimitExceededError: 207012, calls come too often; tells when to try again.
        """
        calls = self.calls
        if calls is not None and (pause := calls.take()):
            milliseconds = math.ceil(pause * 1000)
            raise LimitExceededError(
                f"calls come faster than the {calls.per_second:g} a second that the token {self.name!r} "
                f"may have; the next one may come in {milliseconds} ms",
                retry_after_ms=milliseconds,
            )

    def may_use(self, device_index: int) -> bool:
        """Whether it may use a device."""
        return self.quota.devices is None or device_index in self.quota.devices

    @property
    def sees_all(self) -> bool:
        """Whether it is told what others hold: an administrator, or where nobody is told apart."""
        return self.quota.admin or not self.name

    def narrow(self, limits: Limits) -> Limits:
        """The limits with what holds for this tenant in particular."""
        quota = self.quota
        return replace(
            limits,
            context_bytes=min(limits.context_bytes, _or_any(quota.memory_bytes)),
            contexts=min(limits.contexts, _or_any(quota.contexts)),
        )

    def __repr__(self) -> str:
        return f"<Tenant {self.name!r}>"


def _or_any(limit: int | None) -> int:
    return 2**63 if limit is None else limit


ANYBODY = Tenant("")
"""Whose contexts are where nobody has to tell who calls."""


class Caller:
    """Somebody who calls for a tenant, by one of its tokens."""

    __slots__ = ("_open", "ended_because", "tenant")

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.ended_because = ""
        """Why the token is not good any more; empty while it is."""
        self._open: dict[object, Callable[[], object]] = {}

    @contextmanager
    def keeping_open(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Notes a call that stays open for the time of a block; `cancel` breaks it off."""
        call = object()
        self._open[call] = cancel
        try:
            yield
        finally:
            del self._open[call]

    def break_off(self) -> None:
        """Breaks the open calls off: their clients, told why at their next request, have made none."""
        for cancel in list(self._open.values()):
            cancel()

    def proceed(self, over: Callable[[], bool]) -> None:
        """Counts a request of an open call, after a pause where requests come too often.

        Args:
            over: tells that nobody waits for the request any more.

        Raises:
            UnauthenticatedError: the token is not good any more.
        """
        while True:
            if self.ended_because:
                raise UnauthenticatedError(self.ended_because)
            calls = self.tenant.calls
            pause = calls.take() if calls is not None else 0.0
            if not pause or over():
                return
            time.sleep(min(pause, LONGEST_PAUSE_SECONDS))


ANYONE = Caller(ANYBODY)
"""Whoever calls where nobody has to tell who it is."""
