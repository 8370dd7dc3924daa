"""Segments of shared memory, fetched from the server over its Unix socket and mapped."""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import stat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn.handover import fits
from aclnn.v1 import device_service_pb2 as pb

FETCH_SECONDS = 5.0
"""Longest wait for the server to hand a segment over."""
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Mapping:
    """One segment, mapped for as long as anything refers to it."""

    def __init__(self, segment: pb.AttachSharedMemoryResponse, address: str) -> None:
        """Fetches and maps a segment.

        Args:
            segment: as the server has made it.
            address: of the server, as the client has it.

        Raises:
            OSError: it cannot be had from here.
        """
        self.segment_id = segment.segment_id
        self.size = segment.bytes
        self._connection = _connected(segment.path, address)
        """Tells the server, by its end, that this process does not map the segment any more."""
        try:
            self._map = self._fetch(segment.secret)
        except BaseException:
            self._connection.close()
            raise
        self.bytes: npt.NDArray[Any] = np.frombuffer(self._map, np.uint8)
        self.address: int = self.bytes.__array_interface__["data"][0]

    def _fetch(self, secret: bytes) -> mmap.mmap:
        self._connection.sendall(secret)
        _, files, _, _ = socket.recv_fds(self._connection, 1, 1)
        if not files:
            raise ConnectionRefusedError("the server hands over nothing")
        try:
            _check_file(files[0], self.size)
            return mmap.mmap(files[0], self.size)
        finally:
            os.close(files[0])

    def __del__(self) -> None:
        if (connection := getattr(self, "_connection", None)) is not None:
            connection.close()


def _connected(path: str, address: str) -> socket.socket:
    """A connection to the socket that the server names; no other kind of name is believed."""
    name = Path(path).name
    if not fits(name):
        raise ConnectionRefusedError("the server names no such socket")
    places = [Path(path)]
    if address.startswith("unix:"):  # the directory may have another name here, as in a container
        places.append(Path(address.removeprefix("unix:").removeprefix("//")).parent / name)
    for place in places:
        if place.exists():
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                connection.settimeout(FETCH_SECONDS)
                connection.connect(str(place))
            except BaseException:
                connection.close()
                raise
            return connection
    raise FileNotFoundError("the server's socket is not on this machine")


def _check_file(file: int, size: int) -> None:
    """Checks that nobody can cut the memory, which would end this process by a bus error."""
    state = os.fstat(file)
    seals = fcntl.fcntl(file, fcntl.F_GET_SEALS) if stat.S_ISREG(state.st_mode) else 0
    if seals & _SEALS != _SEALS or state.st_size != size:
        raise ConnectionRefusedError("what the server hands over is no sealed memory")
