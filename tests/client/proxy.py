"""A proxy that breaks connections: at once, or after a number of bytes."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """Forwards every connection to a server, for as long as the test wants."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        """Connections that were made, ever."""
        self.broken = False
        """Whether new connections are broken at once."""
        self._budget: list[int | None] = [None, None]
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._all: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []

    def cut(self) -> None:
        """Breaks every connection that is open."""
        with self._lock:
            sockets, self._open = self._open, []
        for end in sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut_after(self, *, up: int | None = None, down: int | None = None) -> None:
        """Breaks the connections once, after so many more bytes to or from the server."""
        with self._lock:
            self._budget = [up, down]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                if self.broken:
                    client.close()
                    continue
                self._all.append(client)
                server = socket.create_connection(self._server)
                self._all.append(server)
                with self._lock:
                    self._open += client, server
                self._start(lambda c=client, s=server: self._pipe(c, s, 0))
                self._start(lambda c=client, s=server: self._pipe(s, c, 1))

    def _start(self, work: object) -> None:
        thread = threading.Thread(target=work, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _pipe(self, source: socket.socket, target: socket.socket, way: int) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                allowed = self._allowed(way, len(data))
                target.sendall(data[:allowed])
                if allowed < len(data):
                    self.cut()
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _allowed(self, way: int, size: int) -> int:
        with self._lock:
            budget = self._budget[way]
            if budget is None:
                return size
            self._budget[way] = budget - size if budget > size else None
            return min(budget, size)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join(30)
        for end in self._all:
            end.close()
