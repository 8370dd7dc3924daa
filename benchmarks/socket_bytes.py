"""Bytes that this process's TCP connections have carried, as the kernel counts them."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Self

TCP_INFO_BYTES = 256
LISTENING = "0A"
"""State of a socket that listens, in Linux's ``/proc/net/tcp``."""
BYTES_RECEIVED, BYTES_SENT = 128, 200
"""Offsets in Linux's ``struct tcp_info``; the second is there since 4.19."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of payload of TCP, in both directions; gRPC's framing is part of it."""

    sent: int = 0
    received: int = 0

    def __sub__(self, earlier: Traffic) -> Traffic:
        return Traffic(self.sent - earlier.sent, self.received - earlier.received)

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.sent + other.sent, self.received + other.received)

    @classmethod
    def with_server(cls, pid: int) -> Self:
        """What connections to a process have carried, to whichever of its ports, as far as they are open."""
        return cls.with_port(*_listening_ports(pid))

    @classmethod
    def with_port(cls, *ports: int) -> Self:
        """What connections to some ports have carried, as far as they are open."""
        total = Traffic()
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError, ValueError):
                total += _of(int(name), ports)
        return cls(total.sent, total.received)


def _listening_ports(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/fd").iterdir()
    sockets = {os.readlink(file) for file in files}
    ports = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                ports.append(int(fields[1].rpartition(":")[2], 16))
    return ports


def _of(descriptor: int, ports: Collection[int]) -> Traffic:
    """Of one descriptor; nothing where it is no connection to one of the ports."""
    copy = os.dup(descriptor)
    try:
        connection = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with connection:
        is_tcp = connection.family in (socket.AF_INET, socket.AF_INET6)
        if not is_tcp or connection.getpeername()[1] not in ports:
            return Traffic()
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    (received,) = struct.unpack_from("=Q", info, BYTES_RECEIVED)
    (sent,) = struct.unpack_from("=Q", info, BYTES_SENT)
    return Traffic(sent, received)
