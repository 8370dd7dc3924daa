"""A client that begins calls and sends nothing of them: HTTP/2 by hand, as no library would do it."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Self

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _SETTINGS = 1, 4
_END_HEADERS = 4


class SilentCaller:
    """One connection, on which calls are begun."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b""))
        self._stream = 1

    def begin(self, method: str, count: int) -> None:
        """Begins so many calls of a method, and sends no message of any."""
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": method,
            ":authority": "test",
            "content-type": "application/grpc",
            "te": "trailers",
        }
        encoded = b"".join(b"\0" + _text(name) + _text(value) for name, value in headers.items())
        for _ in range(count):
            self._socket.sendall(_frame(_HEADERS, _END_HEADERS, self._stream, encoded))
            self._stream += 2

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _text(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()
