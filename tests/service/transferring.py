"""The client's side of a data connection, by hand."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from aclnn.v1 import device_service_pb2 as pb

DEADLINE = 30.0
"""Seconds after which a wait counts as hung."""
WRITE, READ, CREATE = 1, 2, 3


def asking(direction: int, buffer_id: int, offset: int, size: int) -> bytes:
    """What asks for a transfer, as the schema describes it."""
    numbers = (buffer_id, offset, size)
    return bytes([direction, 0, 0, 0, 0, 0, 0, 0]) + b"".join(
        n.to_bytes(8, "little") for n in numbers
    )


def dialled(port: int) -> socket.socket:
    """A connection to the port that has said nothing yet."""
    return socket.create_connection(("127.0.0.1", port), DEADLINE)


class Transferring:
    """A data connection that was let in."""

    def __init__(self, offer: pb.AttachDataConnectionResponse) -> None:
        self.socket = dialled(offer.port)
        self.socket.sendall(offer.secret)
        assert self.received(1) == b"\1"

    def received(self, size: int) -> bytes:
        """The next bytes; fewer where the server has ended the connection."""
        data = b""
        try:
            while len(data) < size and (part := self.socket.recv(size - len(data))):
                data += part
        except ConnectionResetError:  # it was ended with bytes on the way
            pass
        return data

    def write(self, buffer_id: int, data: bytes, offset: int = 0) -> bool:
        """Writes; gives whether it was done."""
        try:
            self.socket.sendall(asking(WRITE, buffer_id, offset, len(data)) + data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return self.received(1) == b"\1"

    def read(self, buffer_id: int, size: int, offset: int = 0) -> bytes:
        """Reads; what was ended before gives fewer bytes."""
        self.socket.sendall(asking(READ, buffer_id, offset, size))
        return self.received(size)

    @property
    def over(self) -> bool:
        """Whether the server has ended it; waits for what it says."""
        return self.received(1) == b""

    def close(self) -> None:
        """Hangs up."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
