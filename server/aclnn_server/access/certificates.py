"""TLS: the server's certificate and key, and the authorities that sign its clients' certificates."""

from __future__ import annotations

import logging
import os
import ssl
import threading
from collections.abc import Sequence
from pathlib import Path

import grpc

from aclnn_server.access.watching import read
from aclnn_server.config import ConfigError, ServerConfig
from aclnn_server.sessions.tenants import Caller, Tenant

_LOG = logging.getLogger(__name__)


class Certificates:
    """The files of TLS; a handshake uses what they had when they were read last."""

    def __init__(self, config: ServerConfig) -> None:
        """Names the files; they are read by :meth:`load`."""
        self._certificate = Path(config.tls_certificate)
        self._key = Path(config.tls_key)
        self._client_ca = Path(config.tls_client_ca) if config.tls_client_ca else None
        self._fresh: grpc.ServerCertificateConfiguration | None = None
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
        self._try(certificate, key, authorities)
        fresh = grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)
        with self._lock:
            self._fresh = fresh

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

    def _try(self, certificate: bytes, key: bytes, authorities: bytes | None) -> None:
        try:
            chain = certificate.decode("ascii")
            client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            client.check_hostname = False  # it is not known by which name clients call it
            client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
            client.load_verify_locations(cadata=chain)
        except (ValueError, ssl.SSLError):
            raise ConfigError(
                f"tls_certificate is {str(self._certificate)!r}, which has no certificate in PEM form"
            ) from None
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            _load_pair(server, certificate, key)
        except ssl.SSLError as error:
            raise ConfigError(
                f"tls_key is {str(self._key)!r}, which is not the key of "
                f"{str(self._certificate)!r}: {_words(error)}"
            ) from None
        if authorities is not None:
            self._try_authorities(authorities)
        try:
            _shake_hands(server, client)
        except ssl.SSLError as error:
            raise ConfigError(
                f"tls_certificate is {str(self._certificate)!r}, which no client would accept: "
                f"{_words(error)}"
            ) from None

    def _try_authorities(self, authorities: bytes) -> None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(
                cadata=authorities.decode("ascii")
            )
        except (ValueError, ssl.SSLError):
            raise ConfigError(
                f"tls_client_ca is {str(self._client_ca)!r}, which has no certificate in PEM form"
            ) from None


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Gives a context the bytes that were read; Python's ssl takes files only, and a key belongs in none."""
    memory = os.memfd_create("pair", os.MFD_CLOEXEC)
    try:
        os.write(memory, b"\n".join((certificate, key)))
        # No password: gRPC cannot ask for one either.
        context.load_cert_chain(f"/proc/self/fd/{memory}", password=lambda: b"")
    finally:
        os.close(memory)


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """A handshake in memory, which shows what is wrong with a certificate: expired, not for servers …"""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):
        waiting = False
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                waiting = True
        if not waiting:
            return
    raise ssl.SSLError(0, "the handshake does not end")


def _words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).lower().replace("_", " ")
