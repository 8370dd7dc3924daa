"""A server at an address, for commands that ask it something: how they reach it, and who they are."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aclnn_server.cli.exits import CommandError
from aclnn_server.config import ENVIRONMENT_PREFIX

if TYPE_CHECKING:
    from aclnn_client import Context, Tls
    from aclnn_client.connection import Connection

_TOKEN, _TOKEN_FILE, _TLS_CA = (
    ENVIRONMENT_PREFIX + name for name in ("TOKEN", "TOKEN_FILE", "TLS_CA")
)


def add_credentials(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that tell a server who calls, and by what to know the server."""
    group = parser.add_argument_group("reaching a server that is protected")
    group.add_argument(
        "--token-file", metavar="FILE", help=f"file with the token (or {_TOKEN_FILE})"
    )
    group.add_argument(
        "--token", help=f"the token; other users see it, so rather a file or {_TOKEN}"
    )
    group.add_argument(
        "--tls",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="TLS; any flag below means it too. --no-tls sends a token without it",
    )
    group.add_argument(
        "--tls-ca",
        metavar="FILE",
        help=f"certificates that the server's is to be signed by (or {_TLS_CA})",
    )
    group.add_argument("--tls-certificate", metavar="FILE", help="own certificate (mutual TLS)")
    group.add_argument("--tls-key", metavar="FILE", help="private key of --tls-certificate")
    group.add_argument(
        "--tls-server-name",
        metavar="NAME",
        help="name in the server's certificate, where ADDRESS has another",
    )


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who calls, and whom it trusts."""

    token: str | None = field(default=None, repr=False)
    tls: bool | Tls | None = None


def credentials(options: argparse.Namespace) -> Credentials:
    """What the flags and the environment say.

    Raises:
        CommandError: a file cannot be read, or flags contradict each other.
    """
    from aclnn.errors import InvalidParameterError
    from aclnn_client import Tls

    files = {
        "root_certificates": options.tls_ca or os.environ.get(_TLS_CA) or None,
        "certificate": options.tls_certificate,
        "key": options.tls_key,
        "server_name": options.tls_server_name,
    }
    tls: bool | Tls | None = options.tls
    if options.tls is False:
        if options.tls_ca or options.tls_certificate or options.tls_key or options.tls_server_name:
            raise CommandError("--no-tls goes with no other flag of TLS")
    elif any(files.values()):
        try:
            tls = Tls(**files)
        except InvalidParameterError:
            raise CommandError(
                "--tls-certificate and --tls-key go together; only one is given"
            ) from None
    return Credentials(_token(options), tls)


def _token(options: argparse.Namespace) -> str | None:
    if options.token is not None and options.token_file is not None:
        raise CommandError("--token and --token-file exclude each other")
    if options.token is not None:
        token: str = options.token
        return token
    path = options.token_file
    if path is None and (token := os.environ.get(_TOKEN, "")):
        return token
    path = path or os.environ.get(_TOKEN_FILE)
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise CommandError(f"the token's file {path!r} cannot be read: {why}") from None


@contextlib.contextmanager
def connection(
    address: str, timeout: float, credentials: Credentials = Credentials()
) -> Iterator[Connection]:
    """A connection for unary calls.

    Raises:
        CommandError: the address is none, or the credentials cannot be.
    """
    from aclnn.errors import InvalidParameterError
    from aclnn_client.connection import Connection

    try:
        opened = Connection(address, token=credentials.token, tls=credentials.tls, timeout=timeout)
    except InvalidParameterError as error:
        raise CommandError(error.message) from None
    with contextlib.closing(opened):
        yield opened


def connect(
    address: str,
    timeout: float,
    credentials: Credentials = Credentials(),
    *,
    device: int | None = None,
) -> Context:
    """Opens a context; errors as of :func:`connection`."""
    import aclnn_client
    from aclnn.errors import InvalidParameterError

    try:
        return aclnn_client.connect(
            address, device=device, token=credentials.token, tls=credentials.tls, timeout=timeout
        )
    except InvalidParameterError as error:
        raise CommandError(error.message) from None
