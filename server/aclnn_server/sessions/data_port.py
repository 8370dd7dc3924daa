"""The port of data connections: lets in who knows a secret, and gives threads to those who transfer.

A connection without a transfer has no thread: one thread watches all of them.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from aclnn.data_connection import DONE, SECRET_BYTES
from aclnn.errors import LimitExceededError
from aclnn_server.sessions.data_connection import DataAccess, DataConnection

CONNECTIONS = 256
"""Data connections of the server."""
STRANGERS = 64
"""Connections that have not said their secret yet; to one more the server hangs up."""
STRANGE_SECONDS = 5.0
"""Time to say it in."""
PAUSE_SECONDS = 0.05
"""Pause after a connection that could not be accepted."""

Secure = Callable[[socket.socket], ssl.SSLSocket]
"""Makes a connection one of TLS, without its handshake yet."""
_LOG = logging.getLogger(__name__)


class DataPort:
    """The port, and the threads that serve it."""

    def __init__(self) -> None:
        """Listens nowhere yet."""
        self.number = 0
        """The port; 0 where there is none."""
        self._lock = threading.Lock()
        # Guarded by the lock.
        self._offers: dict[bytes, DataAccess] = {}
        self._strangers: set[socket.socket] = set()
        self._connections = 0
        self._threads: set[threading.Thread] = set()
        self._quiet: deque[DataConnection] = deque()
        """Connections to be watched again."""

    def open(
        self, host: str, port: int, secure: Secure | None, in_hand: AbstractContextManager[Any]
    ) -> None:
        """Listens, and serves.

        Args:
            host: address of this machine.
            port: number; 0 picks one.
            secure: where connections are to be encrypted.
            in_hand: entered while transfers are served.

        Raises:
            OSError: it cannot be listened on.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._secure = secure
        self._in_hand = in_hand
        with contextlib.ExitStack() as opened:
            self._socket = socket.create_server((host, port), family=family, backlog=STRANGERS)
            opened.enter_context(self._socket)
            self._socket.setblocking(False)
            self._selector = opened.enter_context(selectors.DefaultSelector())
            self._selector.register(self._socket, selectors.EVENT_READ)
            self._wake, self._woken = map(opened.enter_context, socket.socketpair())
            self._wake.setblocking(False)
            self._selector.register(self._woken, selectors.EVENT_READ)
            self._watcher = threading.Thread(target=self._watch, name="aclnn-data", daemon=True)
            self._watcher.start()
            self.number = self._socket.getsockname()[1]
            opened.pop_all()

    # --- for the sessions ---------------------------------------------------------------------------

    def offer(self, access: DataAccess) -> bytes:
        """Lets in who knows the secret that this gives, once.

        Raises:
            LimitExceededError: 207012, there are as many connections as may be.
        """
        secret = secrets.token_bytes(SECRET_BYTES)
        with self._lock:
            if self._connections >= CONNECTIONS:
                raise LimitExceededError(
                    f"the server has {CONNECTIONS} data connections; no more are allowed",
                    retry_after_ms=1000,
                )
            self._offers[secret] = access
        return secret

    def withdraw(self, secret: bytes) -> None:
        """Lets nobody in for it any more; without effect where that has been done."""
        with self._lock:
            self._offers.pop(secret, None)

    def close(self) -> None:
        """Ends the threads; the contexts, and with them the transfers, have ended."""
        if not self.number:
            return
        self._wake.close()
        self._watcher.join()
        with self._lock:
            threads, strangers = list(self._threads), list(self._strangers)
        for stranger in strangers:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(stranger, socket.SHUT_RDWR)
        for thread in threads:
            thread.join(STRANGE_SECONDS)
        while self._quiet:
            self._dismiss(self._quiet.popleft())

    # --- the thread that watches --------------------------------------------------------------------

    def _watch(self) -> None:
        with contextlib.ExitStack() as stack:
            for each in (self._socket, self._woken, self._selector):
                stack.enter_context(each)
            while True:
                for key, _ in self._selector.select():
                    ready: Any = key.fileobj
                    if ready is self._socket:
                        self._accept()
                    elif ready is not self._woken:
                        self._selector.unregister(ready)
                        self._start(self._serve, ready)
                    elif not self._woken.recv(4096):
                        self._close_watched()
                        return
                while self._quiet:
                    self._watch_for(self._quiet.popleft())

    def _watch_for(self, connection: DataConnection) -> None:
        try:
            self._selector.register(connection, selectors.EVENT_READ)
        except (OSError, ValueError, KeyError):  # the system watches no more of them
            self._dismiss(connection)

    def _close_watched(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, DataConnection):
                self._dismiss(key.fileobj)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:  # gone again; or no open file is left for it, which may take a while
            time.sleep(PAUSE_SECONDS)
            return
        with self._lock:
            welcome = len(self._strangers) < STRANGERS and self._connections < CONNECTIONS
            if welcome:
                self._strangers.add(connection)
        if welcome:
            self._start(self._let_in, connection)
        else:
            connection.close()

    def _dismiss(self, connection: socket.socket | DataConnection) -> None:
        """Closes a connection that nobody serves any more."""
        connection.close()
        with self._lock:
            if isinstance(connection, DataConnection):
                self._connections -= 1
            else:
                self._strangers.discard(connection)

    def _start(
        self, work: Callable[[Any], None], connection: socket.socket | DataConnection
    ) -> None:
        def run() -> None:
            try:
                work(connection)
            except Exception:  # one client's trouble is not the others'
                _LOG.exception("a data connection failed")
            finally:
                with self._lock:
                    self._threads.discard(thread)

        thread = threading.Thread(target=run, name="aclnn-transfer", daemon=True)
        with self._lock:
            self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # the system has no thread left
            with self._lock:
                self._threads.discard(thread)
            self._dismiss(connection)

    # --- a thread of a connection -------------------------------------------------------------------

    def _let_in(self, stranger: socket.socket) -> None:
        """Finds out whose connection it is, and serves it; closes it where it is nobody's."""
        found: DataConnection | None = None
        until = time.monotonic() + STRANGE_SECONDS
        try:
            with contextlib.suppress(OSError):  # ssl's errors are OSErrors too
                stranger.settimeout(STRANGE_SECONDS)
                stranger.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._secure is not None:
                    stranger = self._encrypted(self._secure(stranger), stranger)
                found = self._admitted(_receive(stranger, SECRET_BYTES, until), stranger)
                if found is not None:
                    stranger.sendall(DONE)
        finally:
            with self._lock:
                self._strangers.discard(stranger)
            if found is None:
                stranger.close()
        if found is not None:
            self._serve(found)

    def _encrypted(self, secured: ssl.SSLSocket, before: socket.socket) -> ssl.SSLSocket:
        """Shakes hands, as one stranger with the socket that it was before."""
        with self._lock:
            self._strangers.discard(before)
            self._strangers.add(secured)
        try:
            secured.do_handshake()
        except BaseException:
            self._dismiss(secured)
            raise
        return secured

    def _admitted(self, secret: bytes, connection: socket.socket) -> DataConnection | None:
        with self._lock:
            access = self._offers.pop(secret, None)
            if access is None or self._connections >= CONNECTIONS:
                return None
            self._connections += 1
        found = access.take(secret, connection, self._in_hand)
        if found is None:
            with self._lock:
                self._connections -= 1
        return found

    def _serve(self, connection: DataConnection) -> None:
        lasting = False
        try:
            lasting = connection.serve()
        finally:
            if not lasting:
                self._dismiss(connection)
        if lasting:
            self._quiet.append(connection)
            with contextlib.suppress(OSError):  # the server stops
                self._wake.send(b"\0")


def _receive(connection: socket.socket, size: int, until: float) -> bytes:
    data = b""
    while len(data) < size:
        connection.settimeout(max(1e-3, until - time.monotonic()))
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError
        data += part
        if time.monotonic() > until:  # byte by byte, it would take for ever
            raise TimeoutError
    return data
