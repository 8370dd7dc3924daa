"""Large writes and reads over a connection of their own, where the server takes such.

A transfer acts at once, so it is made when the commands before it have been answered, and the next ones are
sent when it is over. Where it cannot be made, or breaks, the caller does it by ordinary commands; a command
in front of them sees to it that nothing of the broken one is written any more.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Sequence

from aclnn.data_connection import DONE, Direction, Transfer
from aclnn.errors import AclnnError, LimitExceededError, ServerUnavailable
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client.commands import Commands
from aclnn_client.connection import Connection
from aclnn_client.interrupts import held_back
from aclnn_client.progress import Progress

DATA_BYTES = 1 << 20
"""Bytes from which a transfer is worth the wait for the commands before it."""
DIAL_SECONDS = 1.0
"""Longest wait for the connection: where something on the way swallows it, messages are used instead."""
SILENT_SECONDS = 30.0
"""Longest wait for the server in the middle of a transfer."""
AGAIN_SECONDS = 10.0
"""Time until a server that had no room is asked again."""
TRIES = 3
"""Transfers in a row that may break before no more are tried."""
_STEP_BYTES = 4 << 20
"""Bytes between two moves of a progress bar."""
_TLS_BYTES = 1 << 18
"""Bytes that a slow network has to take within the longest wait."""


class Move:
    """One transfer, to be made once, by :meth:`make`; another thread can break it off."""

    def __init__(self, over: DataConnection, move: Callable[[socket.socket], bool]) -> None:
        self._over = over
        self._move = move
        self._socket: socket.socket | None = None
        self.broken_off = False
        """Whether it was broken off."""

    def make(self) -> bool:
        """Makes it, and blocks until then; gives whether it was made: else it is to be done otherwise."""
        return self._over.make(self)

    def break_off(self) -> bool:
        """Lets it end soon, or never begin; gives whether it is under way. From any thread, at any time."""
        # Whichever of the two comes first sees the other: no lock, which an interrupt might find taken.
        self.broken_off = True
        if self._socket is None:
            return False
        _shut(self._socket)
        return True

    def run(self, connection: socket.socket) -> bool:
        """Moves the bytes; gives whether the server has taken them.

        Raises:
            OSError: it was broken off, or it is the connection that is broken.
        """
        self._socket = connection
        if self.broken_off:
            raise ConnectionAbortedError
        return self._move(connection)

    def end(self) -> None:
        """Notes that it is over, and what broke detached: the connection is others' now."""
        self._socket = None


class _Place:
    """Where the socket is kept. Its owner may be garbage in a cycle, in which a socket goes unclosed."""

    def __init__(self) -> None:
        self.socket: socket.socket | None = None

    def close(self) -> None:
        connection, self.socket = self.socket, None
        if connection is not None:
            connection.close()


class DataConnection:
    """The data connection of one context. Thread-safe."""

    def __init__(
        self,
        connection: Connection,
        context_id: str,
        commands: Commands,
        timeout: float | None,
        lease: float,
    ) -> None:
        """Makes none yet.

        Args:
            connection: to the server.
            context_id: of the context.
            commands: what the context sends its commands through.
            timeout: seconds that any wait for the server may take.
            lease: seconds that the context lives when nothing is heard of its client.
        """
        self._connection = connection
        self._commands = commands
        self._request = pb.AttachDataConnectionRequest(context_id=context_id)
        # While a transfer waits, nobody may be there to open a call again that keeps the lease.
        self._silence = min(timeout or SILENT_SECONDS, SILENT_SECONDS, lease / 3)
        self._lock = threading.Lock()
        self._process = os.getpid()
        # Guarded by the lock, but read without it too.
        self._place = _Place()
        weakref.finalize(self, self._place.close)
        self._over = connection.address.startswith("unix:")
        """Whether none is tried any more."""
        self._not_before = 0.0
        self._broken = 0

    @property
    def in_use(self) -> bool:
        """Whether there is one."""
        return self._place.socket is not None

    def takes(self, size: int) -> bool:
        """Whether a transfer of so many bytes is to be tried."""
        return (
            size >= DATA_BYTES
            and not self._over
            and time.monotonic() >= self._not_before
            and os.getpid() == self._process
        )

    def creating(self, filled: Sequence[tuple[int, memoryview]], *, progress: bool) -> Move:
        """Prepares to make buffers and write them, whole; commands that make them may be under way.

        Args:
            filled: ids and bytes, one-dimensional.
            progress: whether to show a progress bar.
        """
        bar = Progress("upload", sum(len(data) for _, data in filled), shown=progress)

        def send(connection: socket.socket) -> bool:
            for buffer_id, data in filled:
                _send(connection, Transfer(Direction.CREATE, buffer_id, 0, len(data)), data, bar)
            answers = [_answer(connection) for _ in filled]
            return all(answer == DONE for answer in answers)

        return Move(self, send)

    def writing(self, buffer_id: int, offset: int, data: memoryview, *, progress: bool) -> Move:
        """Prepares a write into a buffer, at `offset` bytes from its start; as :meth:`creating`."""
        bar = Progress("upload", len(data), shown=progress)

        def send(connection: socket.socket) -> bool:
            _send(connection, Transfer(Direction.WRITE, buffer_id, offset, len(data)), data, bar)
            return _answer(connection) == DONE

        return Move(self, send)

    def reading(self, buffer_id: int, offset: int, into: memoryview, *, progress: bool) -> Move:
        """Prepares a read from a buffer into `into`; as :meth:`writing`."""
        bar = Progress("download", len(into), shown=progress)

        def receive(connection: socket.socket) -> bool:
            transfer = Transfer(Direction.READ, buffer_id, offset, len(into))
            connection.sendall(transfer.encode())
            left = into
            while left:
                received = connection.recv_into(left)
                if not received:
                    raise ConnectionResetError
                left = left[received:]
                bar.advance(received)
            return True

        return Move(self, receive)

    def close(self) -> None:
        """Ends it for good; the server does so with the context."""
        self._over = True
        if os.getpid() != self._process:
            return  # it is the parent's, whose threads may have had the lock
        if (connection := self._place.socket) is not None:
            _shut(connection)
        with self._lock:
            self._place.close()

    # --- one transfer -------------------------------------------------------------------------------

    def make(self, move: Move) -> bool:
        """What :meth:`Move.make` does."""
        with self._lock:
            connection = self._made(move)
            if connection is None:
                return False
            # Between any two lines, an interrupt could leave a connection in the middle of a transfer.
            with held_back(move.break_off):
                try:
                    return self._make(move, connection)
                finally:
                    move.end()

    def _make(self, move: Move, connection: socket.socket) -> bool:
        whole = False
        try:
            done = move.run(connection)
            whole = True
            self._broken = 0
            return done
        except OSError:
            self._broken += not (move.broken_off or self._over)
            self._over = self._over or self._broken >= TRIES
            return False
        finally:
            if not whole:
                self._drop()

    def _made(self, move: Move) -> socket.socket | None:
        if self._place.socket is None and not (self._over or move.broken_off):
            try:
                self._place.socket = self._dial()
            except (LimitExceededError, ServerUnavailable, ConnectionResetError):
                self._not_before = time.monotonic() + AGAIN_SECONDS
            except (AclnnError, OSError):
                self._over = True
        return None if self._over else self._place.socket

    def _dial(self) -> socket.socket:
        answer = self._connection.call(
            self._connection.devices.AttachDataConnection,
            self._request,
            doing="asking for a data connection",
        )
        connection = self._connection.dial(answer.port, DIAL_SECONDS)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(answer.secret)
            _answer(connection)
            connection.settimeout(self._silence)
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop(self) -> None:
        """Ends it; what is sent from now on comes after everything that was sent over it."""
        self._place.close()
        with contextlib.suppress(AclnnError):  # the context is closed, or the server is gone
            request = pb.DetachDataConnectionRequest()
            self._commands.submit(self._commands.posted("detach_data_connection", request))


def _shut(connection: socket.socket) -> None:
    """Ends a connection that another thread may be at, which then closes it."""
    with contextlib.suppress(OSError):
        # TLS's own shutdown lets that thread go on without TLS.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _send(connection: socket.socket, transfer: Transfer, data: memoryview, bar: Progress) -> None:
    _send_step(connection, memoryview(transfer.encode()))
    for start in range(0, len(data), _STEP_BYTES):
        step = data[start : start + _STEP_BYTES]
        _send_step(connection, step)
        bar.advance(len(step))


def _send_step(connection: socket.socket, data: memoryview) -> None:
    """Sends all of it, unless the server ends the connection: who only sends may not be told for long."""
    if isinstance(connection, ssl.SSLSocket):  # of which the socket does not tell what has come
        for start in range(0, len(data), _TLS_BYTES):
            connection.sendall(data[start : start + _TLS_BYTES])
        return
    poll = select.poll()
    poll.register(connection, select.POLLIN | select.POLLOUT)
    timeout = connection.gettimeout()
    while data:
        happened = poll.poll(None if timeout is None else timeout * 1000)
        if not happened:
            raise TimeoutError
        if happened[0][1] != select.POLLOUT:
            if not connection.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError
            # The answer to what was sent before: it waits until all has been sent.
            poll.modify(connection, select.POLLOUT)
        data = data[connection.send(data) :]


def _answer(connection: socket.socket) -> bytes:
    answer = connection.recv(1)
    if not answer:
        raise ConnectionResetError
    return answer
