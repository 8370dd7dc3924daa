"""Data connections: a context's large writes and reads, from the socket into the buffer and back.

gRPC for Python copies each message several times with the interpreter's lock held. Here the kernel copies
between the socket and the buffer's own memory, and nobody else does.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from aclnn.data_connection import DONE, REFUSED, TRANSFER_BYTES, Direction, Transfer
from aclnn.errors import (
    AclnnError,
    InvalidParameterError,
    LimitExceededError,
    OutOfMemoryError,
    UnsupportedError,
)
from aclnn_server.backends.base import Device, Memory
from aclnn_server.sessions.handles import unknown_context

if TYPE_CHECKING:
    from aclnn_server.sessions.context import Context
    from aclnn_server.sessions.data_port import DataPort

QUIET_SECONDS = 0.02
"""Time without a transfer after which a connection gives its thread up."""
SILENT_SECONDS = 30.0
"""Longest wait for the client in the middle of a transfer."""
STAGED_BYTES = 1 << 20
"""Bytes that go at once to a device whose memory the host cannot reach, and back."""
SENT_BYTES = 1 << 18
"""Bytes that a slow client has to take within the longest wait."""


class DataConnection:
    """One connection, in the hands of one thread at a time."""

    def __init__(
        self, connection: socket.socket, context: Context, in_hand: AbstractContextManager[Any]
    ) -> None:
        self._socket = connection
        self._context = context
        self._in_hand = in_hand
        self._ended = False
        self._serving = threading.Lock()

    def fileno(self) -> int:
        """Number of the open file, to wait for the next transfer with."""
        return self._socket.fileno()

    def serve(self) -> bool:
        """Serves transfers until none comes for a moment; gives whether more can come."""
        with contextlib.suppress(OSError, AclnnError, ValueError), self._serving:
            # What had arrived before it was ended can still be read, and must not be.
            while not self._ended and (transfer := self._next()) is not None:
                self._serve(transfer)
            return not self._ended
        return False

    def end(self) -> None:
        """Ends it; when this returns, no transfer touches a buffer any more."""
        self._break_off()
        with self._serving:
            pass

    def close(self) -> None:
        """Closes the socket; no thread serves it any more."""
        self._socket.close()

    def _break_off(self) -> None:
        self._ended = True
        with contextlib.suppress(OSError):  # the client has ended it before
            # TLS's own shutdown lets the thread that transfers go on without TLS.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _next(self) -> Transfer | None:
        head = bytearray(TRANSFER_BYTES)
        self._socket.settimeout(QUIET_SECONDS)
        try:
            begun = self._socket.recv_into(head)
        except TimeoutError:
            return None
        self._socket.settimeout(SILENT_SECONDS)
        if not begun:
            raise ConnectionResetError
        self._receive(memoryview(head)[begun:])
        return Transfer.decode(head)

    # --- one transfer -------------------------------------------------------------------------------

    def _serve(self, transfer: Transfer) -> None:
        context = self._context
        context.begin_call()
        try:
            with self._in_hand, context.interrupted_by_its_end(self._break_off):
                self._transfer(transfer)
        finally:
            context.end_call()

    def _transfer(self, transfer: Transfer) -> None:
        direction, buffer_id, offset, size = transfer
        device, meter = self._context.device, self._context.meter
        if direction is Direction.CREATE and not self._create(buffer_id, size):
            self._skip(size)
            self._socket.sendall(REFUSED)
            return
        buffer = self._context.buffers.find(buffer_id)
        buffer.check_range(offset, size, "bytes")
        reads = direction is Direction.READ
        if meter is not None:
            meter.note_call("read_buffer" if reads else "write_buffer")
            meter.note_bytes(*((0, size) if reads else (size, 0)))
        with buffer.held(lambda: self._ended) as memory:
            region = device.slice(memory, offset, size)
            if reads:
                self._read(device, region, size)
            else:
                self._write(device, region, size)
        if not reads:
            self._socket.sendall(DONE)

    def _create(self, buffer_id: int, size: int) -> bool:
        """Makes a buffer, if there is room; a command of the client's may have made it before."""
        if not buffer_id:  # nobody would ever know the number that it gets
            raise InvalidParameterError("buffer_id is 0", parameter="buffer_id")
        try:
            self._context.add_buffer(buffer_id, size, zeroed=False)
        except (OutOfMemoryError, LimitExceededError):
            return False
        return True

    def _skip(self, size: int) -> None:
        rest = memoryview(bytearray(min(size, STAGED_BYTES)))
        for start in range(0, size, STAGED_BYTES):
            self._receive(rest[: size - start])

    def _write(self, device: Device, memory: Memory, size: int) -> None:
        reachable = device.reach(memory)
        if reachable is not None:
            self._receive(reachable)
            return
        staged = memoryview(bytearray(min(size, STAGED_BYTES)))
        for start in range(0, size, STAGED_BYTES):
            part = staged[: size - start]
            self._receive(part)
            device.write(device.slice(memory, start, len(part)), part)

    def _read(self, device: Device, memory: Memory, size: int) -> None:
        for start in range(0, size, STAGED_BYTES):
            part = device.slice(memory, start, min(size - start, STAGED_BYTES))
            self._send(device.read(part))

    def _send(self, data: memoryview) -> None:
        for start in range(0, len(data), SENT_BYTES):
            self._socket.sendall(data[start : start + SENT_BYTES])

    def _receive(self, into: memoryview) -> None:
        while into:
            received = self._socket.recv_into(into)
            if not received:
                raise ConnectionResetError
            into = into[received:]


class DataAccess:
    """The data connection of one context: offered, made, ended."""

    def __init__(self, context: Context, port: DataPort | None) -> None:
        self._context = context
        self._port = port
        self._lock = threading.Lock()
        # Guarded by the lock.
        self._secret = b""
        self._connection: DataConnection | None = None
        self._over = False

    def offer(self) -> tuple[int, bytes]:
        """Lets the client make a connection; ends what there was before.

        Returns:
            Port, and the secret to send there.

        Raises:
            HandleNotFoundError: the context has ended.
            UnsupportedError: 207000, there are none here.
            LimitExceededError: 207012, the server has as many as it may have.
        """
        if self._port is None or not self._port.number:
            raise UnsupportedError("this server offers no data connections")
        self.detach()
        with self._lock:
            if self._over:
                raise unknown_context()
            self._port.withdraw(self._secret)  # where two ask at once
            self._secret = self._port.offer(self)
            return self._port.number, self._secret

    def take(
        self, secret: bytes, connection: socket.socket, in_hand: AbstractContextManager[Any]
    ) -> DataConnection | None:
        """Takes the connection of a client that knew the secret; ``None``: it comes too late."""
        with self._lock:
            if secret != self._secret or self._connection is not None:
                return None
            self._secret = b""
            self._connection = DataConnection(connection, self._context, in_hand)
            return self._connection

    def detach(self) -> None:
        """Ends the connection and withdraws the offer; the client may ask for another one."""
        with self._lock:
            connection, self._connection = self._connection, None
            secret, self._secret = self._secret, b""
        if self._port is not None:
            self._port.withdraw(secret)
        if connection is not None:
            connection.end()

    def end(self) -> None:
        """Ends all, with the context."""
        with self._lock:
            self._over = True
        self.detach()
