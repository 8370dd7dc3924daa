"""The entrance to a server: its address, its certificate, and who may come in, as the settings have it."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable

import grpc

from aclnn_server.access.certificates import Certificates
from aclnn_server.access.door import Door
from aclnn_server.access.listening import check_address, listen
from aclnn_server.access.tokens import Tokens
from aclnn_server.access.watching import Watch
from aclnn_server.config import ServerConfig
from aclnn_server.sessions.tenants import ANYONE, Caller, Tenant


class Entrance:
    """Everything that stands between a network and the calls."""

    def __init__(
        self,
        config: ServerConfig,
        evict: Callable[[Tenant], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reads the files of the settings; nothing listens yet.

        Args:
            config: settings.
            evict: ends the contexts of a tenant that may make no calls any more.
            clock: seconds, for rates.

        Raises:
            ConfigError: the address is unprotected, or a file cannot be used.
        """
        check_address(config)
        self._config = config
        self._certificates = Certificates(config) if config.tls_certificate else None
        tokens = Tokens(config.tokens, evict, clock=clock) if config.tokens else None
        self._door = Door(tokens) if tokens else None
        self.watch = Watch([source for source in (self._certificates, tokens) if source])

    @property
    def interceptors(self) -> list[grpc.ServerInterceptor]:
        """What looks at each call; nothing where no tokens are asked for."""
        return [] if self._door is None else [self._door]

    @property
    def identify(self) -> Callable[[grpc.ServicerContext], Caller]:
        """Tells who made a call: by its token, else by the client's certificate, else anyone."""
        if self._door is not None:
            return self._door.identify
        if self._certificates is not None and self._config.tls_client_ca:
            return self._certificates.identify
        return lambda _: ANYONE

    @property
    def admit_administrator(self) -> Callable[[str], None] | None:
        """Lets somebody in who asks otherwise than by gRPC, by the header "Authorization".

        It raises UnauthenticatedError or PermissionDeniedError; ``None`` where no tokens are asked for.
        """
        return None if self._door is None else self._door.admit_administrator

    @property
    def tls(self) -> Callable[[], ssl.SSLContext] | None:
        """Gives what other ports are encrypted with, as the files have it now; ``None``: without TLS."""
        return None if self._certificates is None else self._certificates.context

    def open(self, server: grpc.Server) -> int:
        """Makes a server listen; gives its port, 0 of a socket file.

        Raises:
            ListenError: the address is in use or not this machine's.
        """
        credentials = None if self._certificates is None else self._certificates.credentials()
        port = listen(server, self._config, credentials)
        self.watch.start()
        return port

    def close(self) -> None:
        """Ends its threads; the calls have ended."""
        self.watch.stop()
        if self._door is not None:
            self._door.close()
