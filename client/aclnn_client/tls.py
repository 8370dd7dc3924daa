"""TLS: what a client trusts, how it proves who it is, and mistakes in either told before anything is sent."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from aclnn.certificates import load_authorities, load_pair, why_not_accepted, words_of
from aclnn.data_connection import TlsSocket
from aclnn.errors import InvalidParameterError

if TYPE_CHECKING:
    import grpc


@dataclass(frozen=True, slots=True)
class Tls:
    """What to trust and how to prove who one is. Files in PEM form; each may be left out."""

    root_certificates: str | PathLike[str] | None = None
    """Certificates that the server's is to be signed by; without, those that gRPC brings."""
    certificate: str | PathLike[str] | None = None
    """The client's own certificate, where the server asks for one (mutual TLS)."""
    key: str | PathLike[str] | None = None
    """Private key of `certificate`."""
    server_name: str | None = None
    """Name that the server's certificate is to have, where the address has another one."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise InvalidParameterError(
                "tls has only one of certificate and key; a client proves itself with both",
                parameter="tls",
            )


class TlsFiles:
    """The files of a :class:`Tls`, read and checked."""

    def __init__(self, tls: Tls) -> None:
        """Reads the files.

        Raises:
            InvalidParameterError: one cannot be read, has no PEM form, or the key is another one's.
        """
        self.server_name = tls.server_name
        self._tls = tls
        self._roots = _read(tls.root_certificates, "tls.root_certificates")
        self._certificate = _read(tls.certificate, "tls.certificate")
        self._key = _read(tls.key, "tls.key")
        self.context()

    def credentials(self) -> grpc.ChannelCredentials:
        """What gRPC connects with."""
        import grpc

        return grpc.ssl_channel_credentials(self._roots, self._key, self._certificate)

    @property
    def shows_certificate(self) -> bool:
        """Whether the client has a certificate of its own."""
        return self._certificate is not None

    def why_not_accepted(self) -> str:
        """Why no server would accept the client's certificate; empty where there is no such reason."""
        if self._certificate is None or self._key is None:
            return ""
        return why_not_accepted(self._certificate, self._key, of_server=False)

    def context(self) -> ssl.SSLContext:
        """What Python's ssl connects with; it does not check the server's certificate."""
        context = anonymous_context()
        if self._roots is not None:
            try:
                load_authorities(context, self._roots)
            except ssl.SSLError:
                raise InvalidParameterError(
                    f"tls.root_certificates is {str(self._tls.root_certificates)!r}, which has no "
                    "certificate in PEM form",
                    parameter="tls.root_certificates",
                ) from None
        if self._certificate is not None and self._key is not None:
            try:
                load_pair(context, self._certificate, self._key)
            except ssl.SSLError as error:
                raise InvalidParameterError(
                    f"tls.certificate {str(self._tls.certificate)!r} and tls.key {str(self._tls.key)!r} "
                    f"are no pair in PEM form: {words_of(error)}",
                    parameter="tls.key",
                ) from None
        return context

    def verifying(self) -> ssl.SSLContext:
        """What Python's ssl connects with where it is to check the server's certificate."""
        context = self.context()
        if self._roots is None:
            context.load_default_certs()
        context.verify_mode = ssl.CERT_REQUIRED
        context.check_hostname = True
        context.sslsocket_class = TlsSocket
        return context


def anonymous_context() -> ssl.SSLContext:
    """A client's side of TLS that shows nothing and checks nothing, to learn what a server answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def _read(path: str | PathLike[str] | None, parameter: str) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidParameterError(
            f"{parameter} is {str(path)!r}, which cannot be read: {error.strerror}",
            parameter=parameter,
        ) from None
