"""TLS: the server's certificate and key, and the authorities that sign its clients' certificates."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Sequence
from pathlib import Path

import grpc

from aclnn.certificates import load_authorities, load_pair, why_not_accepted, words_of
from aclnn_server.access.watching import read
from aclnn_server.config import ConfigError, ServerConfig
from aclnn_server.sessions.tenants import Caller, Tenant


class Certificates:
    """The files of TLS; a handshake uses what they had when they were read last."""

    def __init__(self, config: ServerConfig) -> None:
        """Names the files; they are read by :meth:`load`."""
        self._certificate = Path(config.tls_certificate)
        self._key = Path(config.tls_key)
        self._client_ca = Path(config.tls_client_ca) if config.tls_client_ca else None
        self._fresh: grpc.ServerCertificateConfiguration | None = None
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._callers: dict[str, Caller] = {}
        self._lock = threading.Lock()

    @property
    def paths(self) -> Sequence[Path]:
        """The files."""
        return [path for path in (self._certificate, self._key, self._client_ca) if path]

    def load(self) -> None:
        """Reads the files, and tries them before they are put in force.

        Raises:
            ConfigError: they cannot be read, do not fit each other, or no client would accept them.
        """
        certificate = read(self._certificate, "tls_certificate")
        key = read(self._key, "tls_key")
        authorities = read(self._client_ca, "tls_client_ca") if self._client_ca else None
        context = self._try(certificate, key, authorities)
        fresh = grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)
        with self._lock:
            self._fresh, self._context = fresh, context

    def context(self) -> ssl.SSLContext:
        """What another port than gRPC's is encrypted with, as the files were read last."""
        return self._context

    def pass_time(self) -> None:
        """Nothing: a certificate that expires is its clients' to refuse."""

    def credentials(self) -> grpc.ServerCredentials:
        """What gRPC listens with; each handshake asks whether the files have been read again."""
        return grpc.dynamic_ssl_server_credentials(
            self._take_fresh(),  # type: ignore[arg-type]  # there is one, and later None is no change
            self._take_fresh,  # type: ignore[arg-type]
            require_client_authentication=bool(self._client_ca),
        )

    def _take_fresh(self) -> grpc.ServerCertificateConfiguration | None:
        with self._lock:
            fresh, self._fresh = self._fresh, None
            return fresh

    def identify(self, rpc: grpc.ServicerContext) -> Caller:
        """Who calls, by the name in its certificate: the first alternative name, else the common one."""
        names = [name.decode(errors="replace") for name in rpc.peer_identities() or ()]
        name = names[0] if names else "unnamed"
        with self._lock:
            return self._callers.setdefault(name, Caller(Tenant(name)))

    def _try(self, certificate: bytes, key: bytes, authorities: bytes | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            why_not = why_not_accepted(certificate, key, of_server=True)
            load_pair(context, certificate, key)
        except ssl.SSLError as error:
            raise ConfigError(
                f"tls_certificate {str(self._certificate)!r} and tls_key {str(self._key)!r} are no pair in "
                f"PEM form: {words_of(error)}"
            ) from None
        if why_not:
            raise ConfigError(
                f"tls_certificate is {str(self._certificate)!r}, which no client would accept: {why_not}"
            )
        if authorities is None:
            return context
        try:
            load_authorities(context, authorities)
        except ssl.SSLError:
            raise ConfigError(
                f"tls_client_ca is {str(self._client_ca)!r}, which has no certificate in PEM form"
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED
        return context
