"""Why a server hangs up on a client: it speaks TLS and the client does not, or it refuses the certificate.

gRPC tells of both only that the connection broke. So one more connection is made, with Python's own TLS, to
see how far it gets. It is made where a call failed that way and nothing was ever answered before.
"""

from __future__ import annotations

import socket
import ssl

from aclnn.addresses import open_socket
from aclnn.errors import AclnnError, ServerUnavailable, UnauthenticatedError
from aclnn_client.tls import TlsFiles, anonymous_context

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""What a client of HTTP/2 begins with; a server that lets it in answers."""


def why_refused(target: str, files: TlsFiles | None, timeout: float) -> AclnnError | None:
    """Makes a connection of its own to learn why the server hangs up.

    Args:
        target: gRPC's name of the address.
        files: what the client connects with; ``None``: without TLS.
        timeout: longest wait, in seconds.

    Returns:
        The error that tells it, or ``None`` where there is nothing to tell.
    """
    try:
        with open_socket(target.removeprefix("dns:///"), timeout) as connection:
            if files is None:
                return _speaks_tls(connection)
            return _refuses_certificate(connection, files)
    except OSError:  # ssl's errors are OSErrors too
        return None


def _speaks_tls(connection: socket.socket) -> AclnnError | None:
    anonymous_context().wrap_socket(connection).close()
    return ServerUnavailable(
        "the server speaks TLS, and the client does not: connect with tls=True or tls=Tls(…)"
    )


def _refuses_certificate(connection: socket.socket, files: TlsFiles) -> AclnnError | None:
    """Says so where the server ends the connection after the client's part of the handshake.

    The server's own part has been accepted by gRPC before. It gives no reason, so some are found here.
    """
    with files.context().wrap_socket(connection) as tls:
        try:
            tls.sendall(_PREFACE)
            if tls.recv(1):
                return None
        except TimeoutError:
            return None
        except (ssl.SSLError, ConnectionError):
            pass
    if not files.shows_certificate:
        return UnauthenticatedError(
            "the server asks for a certificate of the client, and there is none: "
            "tls=Tls(certificate=…, key=…)"
        )
    why_not = files.why_not_accepted() or "none of the authorities that it knows has signed it"
    return UnauthenticatedError(f"the server does not accept the client's certificate: {why_not}")
