"""A connection to one server: its address, its channel, its unary calls, and errors in plain words."""

from __future__ import annotations

import ipaddress
import itertools
import re
import secrets
import socket
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from google.protobuf.message import Message

from aclnn.errors import (
    AclnnError,
    CancelledError,
    HandleNotFoundError,
    InvalidParameterError,
    ServerUnavailable,
    WaitTimeoutError,
)
from aclnn_client.channel import Channel
from aclnn_client.handshake import why_refused
from aclnn_client.tls import Tls, TlsFiles

if TYPE_CHECKING:
    import grpc

    from aclnn.v1.admin_service_pb2_grpc import AdminServiceStub
    from aclnn.v1.device_service_pb2_grpc import DeviceServiceStub
    from aclnn.v1.operator_service_pb2_grpc import OperatorServiceStub
    from aclnn_client.submit_call import SubmitCall

CONNECT_SECONDS = 5.0
"""Longest wait for a server that does not answer at all, where no time limit is given."""
REPEAT_PAUSES = (0.0, 0.1, 0.4)
"""Seconds before each repeat of a call whose connection broke; the last one counts for all others too."""
PROBE_SECONDS = 2.0
"""Longest wait for what a server that hangs up has to say about it."""
CLOSE_SECONDS = 5.0
"""Longest wait for a server to take note of a goodbye."""

Metadata = tuple[tuple[str, str], ...]

_Response = TypeVar("_Response", bound=Message)


class Connection:
    """One channel to one server. Thread-safe."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        tls: bool | Tls | None = None,
        timeout: float | None = None,
    ) -> None:
        """Prepares the channel; nothing is sent yet. Arguments as of :func:`aclnn_client.connect`.

        Raises:
            InvalidParameterError: the address, the token, a TLS file or the time limit cannot be.
        """
        # gRPC takes a while to be imported, which who only wants a Tensor's type need not wait for.
        from aclnn.v1.device_service_pb2_grpc import DeviceServiceStub
        from aclnn.v1.operator_service_pb2_grpc import OperatorServiceStub

        self.address = address
        self.timeout = _check_timeout(timeout)
        self._metadata = _metadata(token)
        self._target, host = target_of(address)
        if token is not None and tls is None and not is_local(host):
            raise InvalidParameterError(
                f"token would be sent to {host} without TLS, for whoever is on the way to read: give "
                "tls=True or tls=Tls(…), or tls=False to send it all the same",
                parameter="token",
            )
        self._files = read_tls(tls)
        self._answered = False
        self.made = 1
        """How often it was made: once more after each break that an open call has noticed."""
        self._channel = Channel(lambda: open_channel(address, self._files))
        channel = cast("grpc.Channel", self._channel)
        self.devices: DeviceServiceStub = DeviceServiceStub(channel)
        """Calls of DeviceService."""
        self.operators: OperatorServiceStub = OperatorServiceStub(channel)
        """Calls of OperatorService."""

    @cached_property
    def admin(self) -> AdminServiceStub:
        """Calls of AdminService."""
        from aclnn.v1.admin_service_pb2_grpc import AdminServiceStub

        return AdminServiceStub(cast("grpc.Channel", self._channel))

    def call(
        self,
        method: Callable[..., _Response],
        request: Message,
        *,
        doing: str,
        timeout: float | None = None,
        repeatable: bool = False,
        once: bool = False,
    ) -> _Response:
        """Makes one unary call.

        Args:
            method: of one of the stubs.
            request: its request.
            doing: what for, to follow "while" in an error's text.
            timeout: seconds; default the connection's, and without one 5.
            repeatable: whether to try again where the connection broke, until the time is over.
            once: the same, for a call that must not be made twice: the server recognises the repeat.

        Raises:
            ServerUnavailable: no answer; the text names the address.
            UnauthenticatedError: the server refuses the client's certificate, or the lack of one.
            AclnnError: the server's error.
        """
        limit = timeout or self.timeout or CONNECT_SECONDS
        until = time.monotonic() + limit
        pauses = itertools.chain(REPEAT_PAUSES[:-1], itertools.repeat(REPEAT_PAUSES[-1]))
        more = _request_id() if once else ()
        while True:
            try:
                answer = self._call(method, request, limit, doing, more)
                self._answered = True
                return answer
            except ServerUnavailable as error:
                broke = "connection broke" in error.message
                if broke and not self._answered and (why := self._why_refused(limit)):
                    raise why from None
                pause = next(pauses)
                if not (repeatable or once) or not broke or time.monotonic() + pause > until:
                    raise self.named(error) from None
            time.sleep(pause)

    def _why_refused(self, limit: float) -> AclnnError | None:
        """Why the server hangs up before it has answered anything, where that can be found out."""
        why = why_refused(self._target, self._files, min(limit, PROBE_SECONDS))
        return why and type(why)(f"{self.address}: {why.message}")

    def _call(
        self,
        method: Callable[..., _Response],
        request: Message,
        limit: float,
        doing: str,
        metadata: Metadata,
    ) -> _Response:
        import grpc

        from aclnn.status import from_rpc_error

        channel = self._channel.current
        try:
            return method(request, timeout=limit, metadata=self._metadata + metadata)
        except grpc.RpcError as rpc_error:
            error = from_rpc_error(rpc_error, doing=doing)
        except ValueError:  # gRPC's way to say that the channel is closed
            error = CancelledError("the channel is closed")
        if isinstance(error, CancelledError):
            if self._channel.closed:
                raise HandleNotFoundError("the context is closed") from None
            if channel is not self._channel.current:  # closed after its connection had broken
                error = ServerUnavailable(f"no answer while {doing}: the connection broke")
        if isinstance(error, WaitTimeoutError):
            error = ServerUnavailable(f"no answer within {limit:g} seconds while {doing}")
        raise error from None

    def named(self, error: AclnnError) -> AclnnError:
        """The error, with the address where the server did not answer."""
        if isinstance(error, ServerUnavailable) and self.address not in error.message:
            return ServerUnavailable(
                f"{self.address}: {error.message}",
                retry_after_ms=error.retry_after_ms,
            )
        return error

    def open_submit(self, *, timed: bool, anew: bool = False) -> SubmitCall:
        """Opens Submit, without waiting; see :func:`aclnn_client.submit_call.open_call`.

        With `anew`, it and all later calls are made over another connection.
        """
        from aclnn_client.submit_call import open_call

        if anew:
            self._channel.renew()
            self.made += 1
        return open_call(self._channel.current, self._metadata, timed=timed)

    def dial(self, port: int, timeout: float) -> socket.socket:
        """Connects to another port of the server's host, with TLS where calls have it.

        Args:
            port: number.
            timeout: seconds that any step may take.

        Raises:
            OSError: nobody is there, or it is not whom TLS is to lead to.
        """
        host = target_of(self.address)[1]
        connection = socket.create_connection((host, port), timeout)
        if self._files is None:
            return connection
        try:
            name = self._files.server_name or host
            return self._files.verifying().wrap_socket(connection, server_hostname=name)
        except BaseException:
            connection.close()
            raise

    @property
    def channel(self) -> grpc.Channel:
        """The channel, for calls of other services."""
        return self._channel.current

    def close(self) -> None:
        """Closes the channel; calls that are under way end."""
        self._channel.close()


# --- what the caller gives --------------------------------------------------------------------------


def open_channel(address: str, files: TlsFiles | None) -> grpc.Channel:
    """Makes a channel; nothing is sent yet.

    Args:
        address: ``host:port`` or ``unix:path``.
        files: of TLS; ``None``: without.

    Raises:
        InvalidParameterError: the address is none.
    """
    import grpc

    target, host = target_of(address)
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", -1),  # the server's own limit holds
        # A connection of its own: no waiting behind another context's uploads, and no memory of an
        # attempt that failed before the server was started.
        ("grpc.use_local_subchannel_pool", 1),
        # A connection that broke is tried again at once: the context waits for no longer than its lease.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        # Finds out that the other machine is gone when nothing tells.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
    ]
    if is_local(host):
        options.append(("grpc.enable_http_proxy", 0))
    if files is None:
        return grpc.insecure_channel(target, options)
    if files.server_name:
        options.append(("grpc.ssl_target_name_override", files.server_name))
    return grpc.secure_channel(target, files.credentials(), options)


def read_tls(tls: bool | Tls | None) -> TlsFiles | None:
    """Reads the files of TLS; ``None`` where there is to be none. Errors as :class:`TlsFiles`."""
    if tls is None or tls is False:
        return None
    return TlsFiles(Tls() if tls is True else tls)


def _request_id() -> Metadata:
    from aclnn.status import REQUEST_ID_KEY

    return ((REQUEST_ID_KEY, secrets.token_hex(16)),)


def _metadata(token: str | None) -> Metadata:
    if token is None:
        return ()
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise InvalidParameterError(
            "token is empty or has other than printable ASCII characters without spaces",
            parameter="token",
        )
    return (("authorization", f"Bearer {token}"),)


def _check_timeout(timeout: float | None) -> float | None:
    if timeout is not None and not timeout > 0:
        raise InvalidParameterError(
            f"timeout is {timeout!r}; it must be None or a number of seconds above 0",
            parameter="timeout",
        )
    return timeout


def target_of(address: str) -> tuple[str, str]:
    """Reads an address.

    Returns:
        gRPC's name for it, and the host (empty for a socket file).

    Raises:
        InvalidParameterError: it is neither ``host:port`` nor ``unix:path``.
    """
    if not isinstance(address, str):
        raise _bad_address(address, f"a {type(address).__name__}")
    if address.startswith("unix:"):
        path = address.removeprefix("unix:").removeprefix("//")
        if not path or "\0" in path:
            raise _bad_address(address, "no path of a socket")
        return f"unix:{path}", ""
    if "://" in address:
        raise _bad_address(address, "a URL; leave out what is before the host")
    host, separator, port = address.rpartition(":")
    if not separator or not host:
        raise _bad_address(address, "no port" if not separator else "no host")
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise _bad_address(address, "no port of 1 to 65535")
    if ":" in host and not re.fullmatch(r"\[[0-9a-fA-F:.]+(%\w+)?\]", host):
        raise _bad_address(address, "an IPv6 address without brackets")
    if not re.fullmatch(r"[\w.-]+|\[.+\]", host):
        raise _bad_address(address, "no host name")
    return f"dns:///{host}:{port}", host.strip("[]")


def _bad_address(address: object, what: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"address is {address!r} ({what}); it must be host:port, [IPv6]:port or unix:path",
        parameter="address",
    )


def is_local(host: str) -> bool:
    """Whether the host is this machine, as far as the name tells."""
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
