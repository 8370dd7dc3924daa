"""This machine's own server, as a command with the same environment finds it: a container's health check."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aclnn.addresses import open_socket
from aclnn_server.cli.exits import CommandError, Exit
from aclnn_server.config import ENVIRONMENT_PREFIX, ServerConfig

if TYPE_CHECKING:
    from aclnn_client import Tls

LISTEN = f"{ENVIRONMENT_PREFIX}LISTEN"
CERTIFICATE = f"{ENVIRONMENT_PREFIX}TLS_CERTIFICATE"
DEFAULT = ServerConfig().listen
_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
"""Where a server is reached that listens on all addresses."""


def own_address(environment: Mapping[str, str]) -> str:
    """Address at which the server is reached.

    Raises:
        CommandError: it picks a port that nobody else knows.
    """
    listen = environment.get(LISTEN) or DEFAULT
    host, _, port = listen.rpartition(":")
    if port == "0" and not listen.startswith("unix:"):
        raise CommandError(f"{LISTEN} is {listen!r}: the server picks a port; give its ADDRESS")
    return f"{_LOOPBACKS[host]}:{port}" if host in _LOOPBACKS else listen


def own_tls(environment: Mapping[str, str], address: str, timeout: float) -> Tls | None:
    """How its certificate is known where it has one: by being that very certificate, whatever its names.

    Raises:
        CommandError: the certificate cannot be read, or nobody answers with it.
    """
    certificate = environment.get(CERTIFICATE)
    if not certificate:
        return None
    from aclnn_client import Tls

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["h2"])
    try:
        context.load_verify_locations(certificate)
    except OSError as error:
        why = error.strerror or "it is not in PEM form"
        raise CommandError(f"{CERTIFICATE} is {certificate!r}: {why}", Exit.NO) from None
    try:
        name = _name(address, context, timeout)
    except ssl.SSLError as error:
        why = f"it does not answer with {CERTIFICATE}: {error.reason or error}"
    except OSError as error:
        why = error.strerror or str(error)
    else:
        return Tls(root_certificates=certificate, server_name=name)
    raise CommandError(f"{address}: {why}", Exit.NO)


def _name(address: str, context: ssl.SSLContext, timeout: float) -> str:
    """A name in the server's certificate, as gRPC has to be told one."""
    with open_socket(address, timeout) as plain, context.wrap_socket(plain) as secured:
        told: Any = secured.getpeercert()
    return next((str(name) for _, name in told.get("subjectAltName", ())), "")
