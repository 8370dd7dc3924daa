"""Where a server listens: what needs protection, and a socket file that only its user can reach."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket

import grpc

from aclnn_server.config import ConfigError, ServerConfig

_LOG = logging.getLogger(__name__)


class ListenError(OSError):
    """The address cannot be listened on."""


def check_address(config: ServerConfig) -> None:
    """Checks the address, and that what other machines can reach is protected.

    Raises:
        ConfigError: it is none, or unprotected without having been allowed to be.
    """
    if config.listen.startswith("unix:") and config.listen != "unix:":
        return
    host, separator, port = config.listen.rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(
            f"listen is {config.listen!r}; it must be HOST:PORT with a port of 0 to 65535, or unix:PATH"
        )
    check_protected("listen", config.listen, config)


def check_protected(setting: str, listen: str, config: ServerConfig) -> None:
    """Checks that an address which other machines can reach is protected.

    Args:
        setting: what sets the address.
        listen: ``HOST:PORT``.
        config: settings.

    Raises:
        ConfigError: it is not, and was not allowed not to be.
    """
    if is_loopback(listen.rpartition(":")[0]) or not (missing := _missing_protection(config)):
        return
    if not config.allow_insecure:
        raise ConfigError(
            f"{setting} is {listen!r}, which other machines can reach, {' and '.join(missing)}; "
            "listen on 127.0.0.1, or allow it with --allow-insecure"
        )
    _LOG.warning("%s is %s, %s", setting, listen, " and ".join(missing.values()))


def _missing_protection(config: ServerConfig) -> dict[str, str]:
    """What is missing, and what follows from it."""
    missing = {}
    if not config.tls_certificate:
        missing["without TLS (--tls-certificate, --tls-key)"] = (
            "without TLS: whoever is on the way can read and change what is sent"
        )
    if not (config.tokens or config.tls_client_ca):
        missing["without asking who calls (--tokens or --tls-client-ca)"] = (
            "without asking who calls: anyone can connect"
        )
    return missing


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def listen(
    server: grpc.Server, config: ServerConfig, credentials: grpc.ServerCredentials | None
) -> int:
    """Makes a server listen; gives its port, 0 of a socket file.

    Raises:
        ListenError: the address is in use or not this machine's.
    """
    unix = config.listen.startswith("unix:")
    # The file has its permissions from its first moment on.
    before = os.umask(0o777 & ~int(config.socket_mode, 8)) if unix else None
    try:
        if unix:
            _check_socket_is_free(config.listen)
        if credentials is None:
            return server.add_insecure_port(config.listen)
        return server.add_secure_port(config.listen, credentials)
    except RuntimeError:
        raise ListenError(
            f"cannot listen on {config.listen}: it is in use, or not an address of this machine"
        ) from None
    finally:
        if before is not None:
            os.umask(before)


def _check_socket_is_free(address: str) -> None:
    # gRPC takes a socket's path over from a server that listens on it, and ends the clients' way to it.
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(address.removeprefix("unix:").removeprefix("//"))
        except OSError:
            return  # nobody listens; a file that was left behind is replaced
    raise RuntimeError("a server listens on the socket")
