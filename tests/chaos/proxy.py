"""A proxy that does to connections what networks do: it cuts, delays, throttles and half-closes them.

What happens is planned by direction and by number of bytes, counted over all connections from the moment
of the plan, so that a fault comes at exactly one byte of a message and the same one at every run.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Literal, Self

Way = Literal["up", "down"]
"""To the server, or from it."""
WAYS: tuple[Way, ...] = ("up", "down")
Kind = Literal["cut", "reset", "half-close", "delay", "throttle", "stall"]
KINDS: tuple[Kind, ...] = ("cut", "reset", "half-close", "delay", "throttle", "stall")

_ENDING = ("cut", "reset", "half-close")
THROTTLED_BYTES = 32 * 1024
"""Bytes that pass slowly, in small pieces, when a connection is throttled."""
PIECES = 32
JOIN_SECONDS = 30


@dataclass(frozen=True)
class Fault:
    """What happens to the connection that carries a byte."""

    kind: Kind
    """``cut`` ends the connection both ways and ``reset`` breaks it off; ``half-close`` ends this way only;
    ``delay`` pauses once; ``throttle`` lets the next bytes pass slowly; ``stall`` lets nothing pass until
    :meth:`Proxy.release`."""
    way: Way
    after: int
    """Bytes that still pass this way before it happens."""
    seconds: float = 0.02
    """Of a delay, and of the whole slow part of a throttled connection."""


class _Pair:
    """The two ends of one connection."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.ends = (client, server)
        for end in self.ends:  # else the proxy adds delays of 40 ms that nobody planned
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.half_closed = False
        self.reset = False
        self._pipes = 2
        self._lock = threading.Lock()

    def shut(self) -> None:
        """Ends the connection both ways."""
        for end in self.ends:
            _shut(end, socket.SHUT_RDWR)

    def break_off(self) -> None:
        """Ends it so that both sides get a reset instead of an end."""
        self.reset = True
        for end in self.ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            _shut(end, socket.SHUT_RD)

    def end_pipe(self, target: socket.socket) -> None:
        """Notes that the way to `target` is over."""
        if self.half_closed:
            _shut(target, socket.SHUT_WR)
        elif not self.reset:
            self.shut()
        with self._lock:
            self._pipes -= 1
            last = not self._pipes
        if last:
            for end in self.ends:
                end.close()


class Proxy:
    """Forwards every connection to a server, for as long as the test wants."""

    def __init__(self, address: str) -> None:
        self.server = address
        """Where new connections go."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        """Connections that were made, ever."""
        self.broken = False
        """Whether new connections are broken at once."""
        self.happened: list[Fault] = []
        """Faults that came, in order."""
        self.bytes = dict.fromkeys(WAYS, 0)
        """Bytes that passed, by way."""
        self.stalled = threading.Semaphore(0)
        """Released for each stall that has begun."""
        self._released = threading.Event()
        self._plans: dict[Way, deque[Fault]] = {way: deque() for way in WAYS}
        self._lock = threading.Lock()
        self._open: set[_Pair] = set()
        self._threads: set[threading.Thread] = set()

    # --- faults -------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Breaks every connection that is open."""
        with self._lock:
            pairs, self._open = self._open, set()
        for pair in pairs:
            pair.shut()

    def cut_after(self, *, up: int | None = None, down: int | None = None) -> None:
        """Breaks the connections once, after so many more bytes to or from the server."""
        plan: tuple[tuple[Way, int | None], ...] = (("up", up), ("down", down))
        self.plan(*(Fault("cut", way, count) for way, count in plan if count is not None))

    def plan(self, *faults: Fault) -> None:
        """Lets these faults come, each once, in the order of their bytes; what was planned is forgotten."""
        with self._lock:
            for way in WAYS:
                mine = sorted((f for f in faults if f.way == way), key=lambda fault: fault.after)
                self._plans[way] = deque(mine)
            self._released.clear()

    def release(self) -> None:
        """Lets pass what is stalled, now and until the next plan."""
        self._released.set()

    # --- forwarding ---------------------------------------------------------------------------------

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                try:
                    server = None if self.broken else self._connect()
                except OSError:
                    server = None
                if server is None:
                    client.close()
                    continue
                pair = _Pair(client, server)
                with self._lock:
                    self._open.add(pair)
                for way in WAYS:
                    self._start(partial(self._pipe, pair, way))

    def _connect(self) -> socket.socket:
        host, _, port = self.server.rpartition(":")
        return socket.create_connection((host, int(port)))

    def _start(self, work: Callable[[], None]) -> None:
        def run() -> None:
            work()
            with self._lock:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, daemon=True)
        with self._lock:
            self._threads.add(thread)
            thread.start()

    def _pipe(self, pair: _Pair, way: Way) -> None:
        source, target = pair.ends if way == "up" else pair.ends[::-1]
        open_, slow, pause = True, 0, 0.0
        with contextlib.suppress(OSError):
            while (data := source.recv(1 << 16)) and not pair.reset:
                while data and open_:
                    piece = THROTTLED_BYTES // PIECES if slow > 0 else len(data)
                    count, fault = self._next(way, min(piece, len(data)))
                    target.sendall(data[:count])
                    self.bytes[way] += count
                    data = data[count:]
                    if slow > 0:
                        slow -= count
                        time.sleep(pause)
                    if fault is not None and fault.kind == "throttle":
                        slow, pause = THROTTLED_BYTES, fault.seconds / PIECES
                    elif fault is not None:
                        self._happen(fault, pair, target)
                        open_ = fault.kind not in _ENDING
        pair.end_pipe(target)
        with self._lock:
            self._open.discard(pair)

    def _next(self, way: Way, size: int) -> tuple[int, Fault | None]:
        """How many of the bytes pass before the next fault, and which that is."""
        with self._lock:
            plan = self._plans[way]
            if not plan:
                return size, None
            count = min(size, plan[0].after)
            for place, fault in enumerate(plan):
                plan[place] = replace(fault, after=fault.after - count)
            if plan[0].after:
                return count, None
            fault = plan.popleft()
            self.happened.append(fault)
            return count, fault

    def _happen(self, fault: Fault, pair: _Pair, target: socket.socket) -> None:
        if fault.kind == "cut":
            self.cut()
        elif fault.kind == "reset":
            pair.break_off()
        elif fault.kind == "half-close":
            pair.half_closed = True
            _shut(target, socket.SHUT_WR)
        elif fault.kind == "delay":
            time.sleep(fault.seconds)
        else:
            self.stalled.release()
            self._released.wait()

    def close_door(self) -> None:
        """Refuses connections from now on, as an address does where nobody listens."""
        _shut(self._listener, socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    # --- life ---------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close_door()
        self.release()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(JOIN_SECONDS)


def _shut(end: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(how)
