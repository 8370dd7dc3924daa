"""What travels over a data connection, as both sides must agree on it.

AttachDataConnection names a port, of the host that serves the calls, and a secret. The client connects, with
TLS where the calls have it, sends the secret, and is answered :data:`DONE`. Then it asks for transfers, each
a :class:`Transfer`, and need not wait for one to ask for the next; they are made and answered in order. The
bytes of a write follow it, and the answer is :data:`DONE` once they are in the buffer; the answer to a read
is its bytes. A buffer that there is no room for is answered :data:`REFUSED`. Whatever else goes wrong ends
the connection without a word: the ordinary calls, which can do the same, tell what it is.
"""

from __future__ import annotations

import ssl
import struct
from enum import IntEnum
from typing import Any, NamedTuple, Self

SECRET_BYTES = 32
"""Bytes of a secret."""
DONE = b"\1"
"""Answer to a secret that is known, and to a write."""
REFUSED = b"\2"
"""Answer to a write into a new buffer that there is no room for; its bytes went nowhere."""

_LAYOUT = struct.Struct("<B7xQQQ")
TRANSFER_BYTES = _LAYOUT.size
"""Bytes of a :class:`Transfer`."""


class Direction(IntEnum):
    """Where the bytes go."""

    WRITE = 1
    """From the client into the buffer."""
    READ = 2
    """From the buffer to the client."""
    CREATE = 3
    """As WRITE, of the whole of a buffer that is made for it, unless there is one of that size already."""


class Transfer(NamedTuple):
    """Asks for one transfer; little-endian, 32 bytes."""

    direction: Direction
    """Where the bytes go."""
    buffer_id: int
    """Buffer of the connection's context."""
    offset: int
    """Bytes from its start."""
    size: int
    """Bytes to transfer."""

    def encode(self) -> bytes:
        """The bytes that are sent."""
        return _LAYOUT.pack(*self)

    @classmethod
    def decode(cls, data: bytes | bytearray) -> Self:
        """Reads :data:`TRANSFER_BYTES` bytes.

        Raises:
            ValueError: there is no such direction.
        """
        direction, *rest = _LAYOUT.unpack(data)
        return cls(Direction(direction), *rest)


class TlsSocket(ssl.SSLSocket):
    """A socket of TLS that is closed too where the other side is gone before it is made.

    What makes it asks for the peer then, and leaves it unclosed.
    """

    def getpeername(self) -> Any:  # noqa: ANN401 - as of every socket
        """Address of the other side."""
        try:
            return super().getpeername()
        except OSError:
            self.close()
            raise ConnectionResetError from None
