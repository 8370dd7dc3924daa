"""How often: rates that hold on average and allow bursts, and the rate at which contexts may be opened."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from aclnn.errors import LimitExceededError

BURST_SECONDS = 10.0
"""Contexts that come at once: as many as may come in this time."""
REMEMBERED_CLIENTS = 4096
"""Clients whose arrivals are counted apart; the one that came longest ago is forgotten first."""


class Rate:
    """Lets things happen `per_second` times a second on average, and `burst` times at once. Thread-safe."""

    def __init__(
        self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.per_second = per_second
        self._interval = 1 / per_second
        self._tolerance = (max(1.0, burst) - 1) * self._interval
        self._clock = clock
        self._lock = threading.Lock()
        self._due = -math.inf
        """When the next one would come, had all kept the interval."""

    def take(self) -> float:
        """Counts one; 0 where it may happen now, else it is not counted: seconds until it may."""
        with self._lock:
            now = self._clock()
            due = max(self._due, now)
            early = due - now - self._tolerance
            # The clock's last digits must not refuse what comes exactly in time.
            if early > 1e-9 * max(1.0, abs(now)):
                return early
            self._due = due + self._interval
            return 0.0

    def give_back(self) -> None:
        """Takes the last count back: it did not happen."""
        with self._lock:
            self._due -= self._interval


class Arrivals:
    """The rate of new contexts: of each client, and of the whole server."""

    def __init__(
        self,
        server_rate: float = 0,
        client_rate: float = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Sets the rates.

        Args:
            server_rate: contexts a second of the whole server; 0: any.
            client_rate: contexts a second of one client; 0: any.
            clock: seconds.
        """
        self._client_rate = client_rate
        self._clock = clock
        self._server = (
            Rate(server_rate, server_rate * BURST_SECONDS, clock) if server_rate else None
        )
        self._clients: OrderedDict[str, Rate] = OrderedDict()
        self._lock = threading.Lock()

    def admit(self, client: str, own: Rate | None = None) -> None:
        """Counts a new context.

        Args:
            client: whose it is: all with the same text are one client.
            own: rate of this client; the rate of every client where it has none.

        Raises:
            LimitExceededError: 207012, they come too often; tells when to try again.
        """
        rate = own or self._rate_of(client)
        if rate is not None and (pause := rate.take()):
            raise _too_often(rate, "this client", pause)
        if self._server is not None and (pause := self._server.take()):
            if rate is not None:
                rate.give_back()
            raise _too_often(self._server, "the server", pause)

    def _rate_of(self, client: str) -> Rate | None:
        if not self._client_rate:
            return None
        with self._lock:
            rate = self._clients.get(client)
            if rate is None:
                burst = self._client_rate * BURST_SECONDS
                rate = self._clients[client] = Rate(self._client_rate, burst, self._clock)
            self._clients.move_to_end(client)
            if len(self._clients) > REMEMBERED_CLIENTS:
                self._clients.popitem(last=False)
            return rate


def _too_often(rate: Rate, whose: str, pause: float) -> LimitExceededError:
    milliseconds = math.ceil(pause * 1000)
    return LimitExceededError(
        f"new contexts come faster than the {rate.per_second:g} a second that {whose} may have; "
        f"the next one may come in {milliseconds} ms",
        retry_after_ms=milliseconds,
    )
