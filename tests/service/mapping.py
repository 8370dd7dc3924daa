"""The client's side of shared memory, by hand: a segment fetched over its socket, and mapped."""

from __future__ import annotations

import mmap
import os
import socket
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from aclnn.v1 import device_service_pb2 as pb

DEADLINE = 30.0
"""Seconds after which a wait counts as hung."""


def connected(path: str) -> socket.socket:
    """A connection to the socket where segments are fetched."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(DEADLINE)
    connection.connect(path)
    return connection


def asked(connection: socket.socket, secret: bytes) -> int | None:
    """The open file that the socket gives for a secret; ``None`` where it hangs up."""
    try:
        connection.send(secret)
        said, files, _, _ = socket.recv_fds(connection, 16, 4)
    except ConnectionError:
        return None
    if not said:
        assert files == []
        return None
    (file,) = files
    assert said == b"\1"
    return file


class Mapping:
    """A segment that this process maps."""

    def __init__(self, segment: pb.AttachSharedMemoryResponse) -> None:
        self.connection = connected(segment.path)
        file = asked(self.connection, segment.secret)
        assert file is not None, "the server hung up"
        self.file = file
        self.bytes: npt.NDArray[Any] = np.frombuffer(mmap.mmap(file, segment.bytes), np.uint8)

    def let_go(self) -> None:
        """Ends the connection; what is mapped stays mapped."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        os.close(self.file)
