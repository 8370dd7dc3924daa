"""Addresses of servers: ``host:port`` or ``unix:path``."""

from __future__ import annotations

import socket


def open_socket(address: str, timeout: float) -> socket.socket:
    """Connects to where an address leads.

    Args:
        address: of a server.
        timeout: seconds.

    Raises:
        ValueError: the port is no number.
        OSError: nobody answers there.
    """
    if not address.startswith("unix:"):
        host, _, port = address.rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), timeout)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout)
    try:
        connection.connect(address.removeprefix("unix:").removeprefix("//"))
    except BaseException:
        connection.close()
        raise
    return connection
