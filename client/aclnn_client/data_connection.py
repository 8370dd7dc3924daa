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
from collections.abc import Callable, Sequence

from aclnn.data_connection import DONE, Direction, Transfer
from aclnn.errors import AclnnError, LimitExceededError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client.commands import Commands
from aclnn_client.connection import Connection
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


class DataConnection:
    """The data connection of one context. Thread-safe."""

    def __init__(
        self, connection: Connection, context_id: str, commands: Commands, timeout: float | None
    ) -> None:
        """Makes none yet.

        Args:
            connection: to the server.
            context_id: of the context.
            commands: what the context sends its commands through.
            timeout: seconds that any wait for the server may take.
        """
        self._connection = connection
        self._commands = commands
        self._request = pb.AttachDataConnectionRequest(context_id=context_id)
        self._silence = min(timeout or SILENT_SECONDS, SILENT_SECONDS)
        self._lock = threading.Lock()
        self._process = os.getpid()
        # Guarded by the lock, but read without it too.
        self._socket: socket.socket | None = None
        self._over = connection.address.startswith("unix:")
        """Whether none is tried any more."""
        self._not_before = 0.0
        self._broken = 0

    @property
    def in_use(self) -> bool:
        """Whether there is one."""
        return self._socket is not None

    def takes(self, size: int) -> bool:
        """Whether a transfer of so many bytes is to be tried."""
        return (
            size >= DATA_BYTES
            and not self._over
            and time.monotonic() >= self._not_before
            and os.getpid() == self._process
        )

    def create(self, filled: Sequence[tuple[int, memoryview]], *, progress: bool) -> bool:
        """Makes buffers and writes them, whole; commands that make them may be under way.

        Args:
            filled: ids and bytes, one-dimensional.
            progress: whether to show a progress bar.

        Returns:
            Whether it was done; else all of it is to be done otherwise.
        """
        bar = Progress("upload", sum(len(data) for _, data in filled), shown=progress)

        def send(connection: socket.socket) -> bool:
            for buffer_id, data in filled:
                _send(connection, Transfer(Direction.CREATE, buffer_id, 0, len(data)), data, bar)
            answers = [_answer(connection) for _ in filled]
            return all(answer == DONE for answer in answers)

        return self._transfer(send)

    def write(self, buffer_id: int, offset: int, data: memoryview, *, progress: bool) -> bool:
        """Writes into a buffer, at `offset` bytes from its start; as :meth:`create`."""
        bar = Progress("upload", len(data), shown=progress)

        def send(connection: socket.socket) -> bool:
            _send(connection, Transfer(Direction.WRITE, buffer_id, offset, len(data)), data, bar)
            return _answer(connection) == DONE

        return self._transfer(send)

    def read(self, buffer_id: int, offset: int, into: memoryview, *, progress: bool) -> bool:
        """Reads from a buffer into `into`; as :meth:`write`."""
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

        return self._transfer(receive)

    def break_off(self) -> None:
        """Ends a transfer that a thread is at."""
        if (connection := self._socket) is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends it for good; the server does so with the context."""
        self._over = True
        self.break_off()
        with self._lock:
            if (connection := self._socket) is not None:
                self._socket = None
                connection.close()

    # --- one transfer -------------------------------------------------------------------------------

    def _transfer(self, move: Callable[[socket.socket], bool]) -> bool:
        with self._lock:
            connection = self._made()
            if connection is None:
                return False
            try:
                done = move(connection)
            except OSError:
                self._drop(connection)
                return False
            except BaseException:
                self._drop(connection)
                raise
            self._broken = 0
            return done

    def _made(self) -> socket.socket | None:
        if self._socket is None and not self._over:
            try:
                self._socket = self._dial()
            except LimitExceededError:
                self._not_before = time.monotonic() + AGAIN_SECONDS
            except (AclnnError, OSError):
                self._over = True
        return self._socket

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

    def _drop(self, connection: socket.socket) -> None:
        self._socket = None
        connection.close()
        self._broken += 1
        self._over = self._over or self._broken >= TRIES
        with contextlib.suppress(AclnnError):  # the context is closed, or the server is gone
            request = pb.DetachDataConnectionRequest()
            self._commands.submit(self._commands.posted("detach_data_connection", request))

    def __del__(self) -> None:
        if (connection := getattr(self, "_socket", None)) is not None:
            connection.close()


def _send(connection: socket.socket, transfer: Transfer, data: memoryview, bar: Progress) -> None:
    connection.sendall(transfer.encode())
    for start in range(0, len(data), _STEP_BYTES):
        step = data[start : start + _STEP_BYTES]
        _send_step(connection, step)
        bar.advance(len(step))


def _send_step(connection: socket.socket, data: memoryview) -> None:
    """Sends all of it, unless the server ends the connection: who only sends may not be told for long."""
    if isinstance(connection, ssl.SSLSocket):  # of which the socket does not tell what has come
        connection.sendall(data)
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
