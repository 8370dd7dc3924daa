"""Where clients make data connections, as the settings have it."""

from __future__ import annotations

import logging
import socket
import ssl
from contextlib import AbstractContextManager
from typing import Any

from aclnn.data_connection import TlsSocket
from aclnn_server.access.entrance import Entrance
from aclnn_server.access.listening import ListenError, is_loopback
from aclnn_server.config import ConfigError, ServerConfig
from aclnn_server.sessions.data_port import DataPort, Secure

DATA_CONNECTION = "data-connection"
"""Name of the feature."""
AUTO = "auto"
OFF = "off"

_LOG = logging.getLogger(__name__)


def port_of(config: ServerConfig) -> int | None:
    """The port that the settings name; 0: any that is free, ``None``: there is to be none.

    Raises:
        ConfigError: they name none that can be.
    """
    listen, wanted = config.listen, config.data_port
    unix = listen.startswith("unix:")
    if wanted == OFF:
        return None
    if wanted == AUTO:
        # What other machines could reach is opened by those only who know of it.
        return None if unix or not is_loopback(listen.rpartition(":")[0]) else 0
    if not (wanted.isascii() and wanted.isdigit() and 1 <= int(wanted) <= 65535):
        raise ConfigError(
            f"data_port is {wanted!r}; it must be a port of 1 to 65535, {AUTO} or {OFF}"
        )
    if unix:
        raise ConfigError(
            f"data_port is {wanted}, and --listen {listen} is no host; it must be {AUTO} or {OFF}"
        )
    return int(wanted)


def open_data_port(
    port: DataPort, config: ServerConfig, entrance: Entrance, in_hand: AbstractContextManager[Any]
) -> None:
    """Lets a server take data connections, where that is wanted; encrypted as its calls are.

    Raises:
        ListenError: the port is in use.
    """
    number = port_of(config)
    if number is None:
        return
    host = config.listen.rpartition(":")[0].strip("[]")
    try:
        port.open(host, number, _secure(entrance), in_hand)
    except OSError as error:
        raise ListenError(
            f"cannot take data connections on {host}, port {number}: {error.strerror or error}"
        ) from None
    _LOG.info("data connections on port %d", port.number)


def _secure(entrance: Entrance) -> Secure | None:
    tls = entrance.tls
    if tls is None:
        return None

    def secure(connection: socket.socket) -> ssl.SSLSocket:
        context = tls()
        context.sslsocket_class = TlsSocket
        return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    return secure
