"""Hands segments of shared memory to the processes of their clients, over a Unix socket.

The answer to AttachSharedMemory names the socket and holds a secret. Who sends the secret gets the open
file, once; nothing else is ever said. The connection stays open for as long as the client maps the
segment, so that its end, however it comes, is noticed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import secrets
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from aclnn.errors import LimitExceededError
from aclnn.handover import ANSWER, NAME, SECRET_BYTES, fits

WAITING = 64
"""Connections that have not said their secret yet; one more ends the oldest of them."""
FILES_PER_SEGMENT = 3
"""Open files of a segment at most: its own, the mapping's, and the connection."""

_LOG = logging.getLogger(__name__)
PAUSE_SECONDS = 0.05
"""Pause after a connection that could not be accepted."""
ABANDONED_SECONDS = 60.0
"""Age from which a socket that nobody listens on counts as left behind."""


class Offered(Protocol):
    """What can be handed over."""

    @property
    def file(self) -> int:
        """Number of the open file."""

    def handed_over(self) -> None:
        """Told once the other process has it."""

    def let_go(self) -> None:
        """Told once the other process has ended its connection; not while the server stops."""


class Handover:
    """The socket, and the thread that serves it."""

    def __init__(self) -> None:
        """Offers nothing yet."""
        self.path: Path | None = None
        """The socket's file; ``None`` where nothing is offered."""
        self._limit = max(
            1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // FILES_PER_SEGMENT // 3
        )
        self._lock = threading.Lock()
        # Guarded by the lock.
        self._offers: dict[bytes, Offered] = {}
        self._count = 0
        # The thread's own.
        self._waiting: dict[socket.socket, None] = {}
        self._handed: dict[socket.socket, Offered] = {}
        self._dropped: deque[Offered] = deque()

    def open(self, directories: list[Path], mode: int = 0o600) -> None:
        """Makes the socket in the first of the directories where that is possible, and serves it.

        Args:
            directories: where; a client must see the same one.
            mode: permissions of the socket's file.

        Raises:
            OSError: it is possible in none of them.
        """
        self._socket, self.path = _listen(directories, mode)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="aclnn-handover", daemon=True)
        self._thread.start()

    # --- for the sessions ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def room(self) -> Iterator[None]:
        """Counts one more segment of the server; it stays counted unless the block fails.

        Raises:
            LimitExceededError: 207012, the server has as many as its open files allow.
        """
        with self._lock:
            if self._count >= self._limit:
                raise LimitExceededError(
                    f"the server has {self._count} segments of shared memory; at most {self._limit} "
                    "are allowed",
                    retry_after_ms=1000,
                )
            self._count += 1
        try:
            yield
        except BaseException:
            with self._lock:
                self._count -= 1
            raise

    def offer(self, offered: Offered) -> bytes:
        """Keeps something ready for who knows the secret that this gives."""
        secret = secrets.token_bytes(SECRET_BYTES)
        with self._lock:
            self._offers[secret] = offered
        return secret

    def withdraw(self, secret: bytes) -> None:
        """Hands it to nobody any more; without effect where that has been done."""
        with self._lock:
            self._offers.pop(secret, None)

    def drop(self, offered: Offered) -> None:
        """Hangs up on whoever has it, and counts one segment less."""
        with self._lock:
            self._count -= 1
        self._dropped.append(offered)
        with contextlib.suppress(OSError):  # the server stops
            self._wake.send(b"\0")

    def close(self) -> None:
        """Ends the thread and the connections; what was handed over stays with those who have it."""
        if self.path is None:
            return
        self._wake.close()
        self._thread.join()
        self.path.unlink(missing_ok=True)

    # --- the thread ---------------------------------------------------------------------------------

    def _serve(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._selector.close)
            stack.enter_context(self._socket)
            stack.enter_context(self._woken)
            while True:
                for key, _ in self._selector.select():
                    ready = key.fileobj
                    assert isinstance(ready, socket.socket)
                    if ready is not self._woken:
                        try:
                            self._serve_one(ready)
                        except Exception:  # one client's trouble is not the others'
                            _LOG.exception("a segment of shared memory could not be handed over")
                    elif not self._woken.recv(4096):
                        for connection in (*self._waiting, *self._handed):
                            connection.close()
                        return
                    self._hang_up()

    def _serve_one(self, ready: socket.socket) -> None:
        if ready is self._socket:
            self._accept()
        elif ready in self._handed:
            # Nothing is to be said any more: whatever comes is the end.
            offered = self._handed.pop(ready)
            self._end(ready)
            offered.let_go()
        elif ready in self._waiting:  # else it has been ended since it was found ready
            self._hand_over(ready)

    def _hang_up(self) -> None:
        while self._dropped:
            dropped = self._dropped.popleft()
            for connection in [each for each, whose in self._handed.items() if whose is dropped]:
                del self._handed[connection]
                self._end(connection)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:  # gone again; or no open file is left for it, which may take a while
            time.sleep(PAUSE_SECONDS)
            return
        connection.setblocking(False)
        while len(self._waiting) >= WAITING:
            self._end(next(iter(self._waiting)))
        self._waiting[connection] = None
        self._selector.register(connection, selectors.EVENT_READ)

    def _hand_over(self, connection: socket.socket) -> None:
        try:
            # A secret is one packet.
            secret = connection.recv(SECRET_BYTES + 1)
        except OSError:
            secret = b""
        # As long as the lock is held, nobody withdraws the offer and closes the file.
        with self._lock:
            offered = self._offers.pop(secret, None)
            if offered is not None:
                # Where the client is gone, the connection's end is told next.
                with contextlib.suppress(OSError):
                    socket.send_fds(connection, [ANSWER], [offered.file])
        if offered is None:
            self._end(connection)
            return
        del self._waiting[connection]
        self._handed[connection] = offered
        offered.handed_over()

    def _end(self, connection: socket.socket) -> None:
        self._waiting.pop(connection, None)
        self._selector.unregister(connection)
        connection.close()


# --- the socket -------------------------------------------------------------------------------------


def _listen(directories: list[Path], mode: int) -> tuple[socket.socket, Path]:
    reason: OSError | None = None
    for directory in directories:
        path = directory / NAME.format(secrets.token_hex(16))
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            _remove_abandoned(directory)
            listening.bind(str(path))
            # Nobody can connect before it listens.
            path.chmod(mode)
            listening.listen(WAITING)
            listening.setblocking(False)
        except OSError as error:
            reason = reason or error
            listening.close()
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        else:
            return listening, path
    raise reason or FileNotFoundError("no directory for the socket")


def _remove_abandoned(directory: Path) -> None:
    """Removes sockets that a server of this user left behind when it was killed."""
    for path in directory.iterdir():
        if fits(path.name):
            with contextlib.suppress(OSError):
                state = path.stat()
                if (
                    state.st_uid == os.geteuid()
                    and time.time() - state.st_mtime > ABANDONED_SECONDS
                ):
                    _remove_if_nobody_listens(path)


def _remove_if_nobody_listens(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
