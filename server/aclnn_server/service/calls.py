"""What every call has: its context, its stream, and whether somebody still waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any, Protocol
from urllib.parse import unquote

from google.protobuf.duration_pb2 import Duration

from aclnn.errors import AclnnError, InvalidParameterError
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as operator_pb
from aclnn_server.backends.base import Device
from aclnn_server.service.seen_calls import SeenCalls
from aclnn_server.sessions.context import Context, Session
from aclnn_server.sessions.handles import unknown_context
from aclnn_server.sessions.limits import Usage
from aclnn_server.sessions.meters import ContextMeter, Tally, failure_of
from aclnn_server.sessions.registry import Registry
from aclnn_server.sessions.tenants import ANYBODY, Tenant
from aclnn_server.sessions.timing import Timing

LONGEST_SECONDS = 1e9
"""Longest wait or lease, some thirty years; beyond it threads cannot wait."""


class _Named(Protocol):
    """A request that names its context."""

    context_id: str


class _Streamed(Protocol):
    """A request that names its stream."""

    stream_id: str


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Call:
    """One command, unary or inside Submit."""

    registry: Registry
    submitted: Context | None = None
    """Context of the Submit call that carries the command; ``None`` for a unary call."""
    expired: Callable[[], bool] | None = None
    """Tells that nobody waits for the answer any more."""
    cancel: Callable[[], object] = _nothing
    """Breaks the call off."""
    tenant: Tenant = ANYBODY
    """Who calls."""
    peer: Callable[[], str] = str
    """Tells where the call comes from, in gRPC's words."""
    tell: Callable[[str, str], None] | None = None
    """Sends a key and its value behind the answer of a unary call."""
    tally: Tally | None = None
    """Counts the commands of the Submit call, where that is done."""
    seen: SeenCalls[Any] | None = None
    """What is known of the calls that the Submit call has carried."""
    _named: list[Context] = field(default_factory=list)
    """Contexts whose leases a unary call keeps from ending until it is over."""

    def end(self) -> None:
        """Ends the call: the leases of the contexts that it named begin anew."""
        for context in self._named:
            context.end_call()

    @contextmanager
    def client_is_asked(self, context: Context) -> Iterator[None]:
        """While it is the client's turn, its silence counts: the lease may end, and with it the call.

        Raises:
            HandleNotFoundError: the context has ended meanwhile.
        """
        with context.interrupted_by_its_end(self.cancel):
            self._named.remove(context)
            context.end_call()
            yield
            self._keep(context)

    def _keep(self, context: Context) -> Context:
        if context not in self._named:
            context.begin_call()
            self._named.append(context)
        return context

    @property
    def used_context(self) -> Context | None:
        """The context that the call named, or the Submit call's."""
        return self._named[0] if self._named else self.submitted

    @property
    def meter(self) -> ContextMeter | None:
        """Counts what is done in the context of the call; ``None`` where nothing is counted."""
        if self.registry.meters is None:
            return None
        context = self.used_context
        return self.registry.meters.server if context is None else context.meter

    def note_bytes(self, received: int, sent: int) -> None:
        """Counts bytes of a unary call's request and response."""
        if (meter := self.meter) is not None:
            meter.note_bytes(received, sent)

    def note_end(self, method: str) -> None:
        """Counts a unary call."""
        if (meter := self.meter) is not None:
            meter.note_call(method)

    def note_error(self, method: str, error: AclnnError) -> None:
        """Counts that the call, or a command in it, is answered with an error."""
        if (meter := self.meter) is not None:
            meter.note_error(method, failure_of(error, error.operator))

    @property
    def client(self) -> str:
        """Who calls, for the rate of new contexts: a name, or the machine's address where nobody has one."""
        return f"name {self.tenant.name}" if self.tenant.name else _machine(self.peer())

    @property
    def message_bytes(self) -> int:
        """Bytes that one message may have."""
        return self.registry.limits.message_bytes

    @property
    def device(self) -> Device:
        """Device of the Submit call's context."""
        assert self.submitted is not None
        return self.submitted.device

    def context(self, request: _Named) -> Context:
        """Context that the request names, or the Submit call's.

        Raises:
            HandleNotFoundError, SessionLostError: no such context; inside Submit also another one.
        """
        if self.submitted is None:
            return self._keep(self.registry.context(request.context_id, self.tenant))
        if self.submitted.closed or request.context_id not in ("", self.submitted.id):
            raise unknown_context()
        return self.submitted

    def session(self, request: _Streamed) -> Session:
        """Session of the stream that the request names; errors as :meth:`context`.

        An empty stream id is the default stream of the context that the request names, or Submit's.
        """
        context_id = getattr(request, "context_id", "")
        if self.submitted is not None:
            if context_id and context_id != self.submitted.id:
                raise unknown_context()
            return self.submitted.session(request.stream_id)
        if context_id:
            return self._keep(self.registry.context(context_id, self.tenant)).session(
                request.stream_id
            )
        session = self.registry.session(request.stream_id, self.tenant)
        self._keep(session.context)
        return session

    def session_or_none(self, request: _Streamed) -> Session | None:
        """Session of the stream that the request names, or ``None`` where it names none."""
        return self.session(request) if request.stream_id else None


def _machine(peer: str) -> str:
    """The machine in gRPC's ``ipv4:…:port``, ``ipv6:[…]:port`` or ``unix:…``; of IPv6 its /64 network."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return kind
    host = unquote(rest).rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return rest
    return str(ip_network((address, 64 if address.version == 6 else 32), strict=False))


def seconds(duration: Duration, parameter: str) -> float:
    """Seconds of a duration, no more than any clock of this process can wait.

    Raises:
        InvalidParameterError: 161002, it is negative.
    """
    value = duration.seconds + duration.nanos / 1e9
    if value < 0:
        raise InvalidParameterError(
            f"{parameter} is {value:g} seconds; it must be at least 0", parameter=parameter
        )
    return min(value, LONGEST_SECONDS)


def encode_usage(usage: Usage) -> pb.Usage:
    """Encodes what a server or a context holds."""
    return pb.Usage(**asdict(usage))


def encode_timing(timing: Timing) -> operator_pb.Timing:
    """Encodes where the time of a run went."""
    return operator_pb.Timing(
        queue_ns=timing.queue,
        copy_in_ns=timing.copy_in,
        run_ns=timing.run,
        copy_out_ns=timing.copy_out,
    )


def duration(value: float) -> Duration:
    """Encodes seconds."""
    whole = int(value)
    return Duration(seconds=whole, nanos=int((value - whole) * 1e9))
