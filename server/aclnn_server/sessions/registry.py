"""All contexts of a server: made, found by their secret ids, and ended when their clients fall silent."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Sequence

from aclnn.errors import (
    HandleNotFoundError,
    PermissionDeniedError,
    ServerUnavailable,
    SessionLostError,
    UnauthenticatedError,
)
from aclnn_server.backends.base import Device
from aclnn_server.sessions.batches import KeptAnswers
from aclnn_server.sessions.context import Context, Session
from aclnn_server.sessions.environment import Environment
from aclnn_server.sessions.handles import check_room, unknown, unknown_context
from aclnn_server.sessions.limits import Limits, Usage
from aclnn_server.sessions.meters import Meters
from aclnn_server.sessions.rates import Arrivals
from aclnn_server.sessions.requests import REQUEST_ID
from aclnn_server.sessions.tenants import ANYBODY, Tenant

_LOG = logging.getLogger(__name__)


def _log(text: str, context: Context, **more: object) -> None:
    told = {
        "request_id": REQUEST_ID.get(),
        "context": context.label,
        "owner": context.owner,
        "device": context.device.index,
    }
    _LOG.info(text, extra=told | more)


class Registry:
    """The contexts of a server. A context is found by its tenant only; to others it does not exist."""

    def __init__(
        self,
        devices: Sequence[Device],
        environment: Environment,
        arrivals: Arrivals | None = None,
    ) -> None:
        self.epoch = secrets.token_hex(4)
        """Changes with every start; part of every id, so that ids of before a restart are recognised."""
        self._devices = devices
        self._environment = environment
        self._arrivals = arrivals or Arrivals()
        self._contexts: dict[str, Context] = {}
        self._sessions: dict[str, Session] = {}
        self._owned: set[str] = set()
        self._closed = False
        self._lock = threading.Lock()

    @property
    def kept_answers(self) -> KeptAnswers:
        """Room for the answers that are kept for repeats."""
        return self._environment.kept_answers

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self._environment.limits

    @property
    def meters(self) -> Meters | None:
        """Counts of what is done; ``None`` where nothing is counted."""
        return self._environment.meters

    # --- making -----------------------------------------------------------------------------------

    def create_context(
        self,
        device_index: int | None,
        lease: float,
        tenant: Tenant = ANYBODY,
        client: str = "",
    ) -> Context:
        """Opens a context with its default stream.

        Args:
            device_index: device to open it on; ``None``: the one with most free memory.
            lease: seconds that its client may be silent.
            tenant: whose it is.
            client: who opens it, for the rate of new contexts.

        Raises:
            HandleNotFoundError: no such device.
            PermissionDeniedError: a device that the tenant may not use.
            LimitExceededError: as many contexts as allowed exist, or they come too often.
            ServerUnavailable: the server is stopping.
        """
        device = self._place(device_index, tenant)
        self._arrivals.admit(client, tenant.arrivals)
        context = Context(self._new_id(), device, lease, self._environment, tenant)
        with self._lock:
            if self._closed:
                raise ServerUnavailable("the server is stopping")
            self._check_room(tenant)
            self._contexts[context.id] = context
            if (meters := self._environment.meters) is not None:
                context.meter = meters.open(device.index, context.owner)
        _log("context opened", context)
        try:
            self.create_stream(context)
        except BaseException:
            self.destroy_context(context)
            raise
        return context

    def _check_room(self, tenant: Tenant) -> None:
        if tenant.ended_because:  # meanwhile: nobody would end the context
            raise UnauthenticatedError(tenant.ended_because)
        check_room(len(self._contexts), self._environment.limits.contexts, "contexts", "server")
        if tenant.quota.contexts is not None:
            own = len(self.contexts_of(tenant))
            check_room(own, tenant.quota.contexts, "contexts", f"token {tenant.name!r}")

    def _place(self, index: int | None, tenant: Tenant) -> Device:
        allowed = self.devices_of(tenant)
        indices = [device.index for device in allowed]
        if tenant.quota.devices is not None and (not indices or index not in (None, *indices)):
            raise PermissionDeniedError(
                f"device_index is {'not set' if index is None else index}; the token {tenant.name!r} may "
                f"use of this server's devices {', '.join(map(str, indices)) or 'none'}",
                parameter="device_index",
            )
        if index is None:
            return max(allowed, key=lambda device: device.memory_info()[0])
        if index >= len(self._devices):
            raise HandleNotFoundError(
                f"device_index is {index}; the server has devices 0 to {len(self._devices) - 1}",
                parameter="device_index",
                code=107001,
            )
        return self._devices[index]

    def create_stream(self, context: Context) -> Session:
        """Creates a stream in a context; errors as :meth:`Context.add_session`."""
        session = context.add_session(self._new_id())
        with self._lock:
            if context.id not in self._contexts:
                raise unknown_context()  # destroyed meanwhile, the stream with it
            self._sessions[session.id] = session
        return session

    def create_lone_stream(
        self, lease: float, tenant: Tenant = ANYBODY, client: str = ""
    ) -> Session:
        """Opens a context for one stream: it ends with that stream. Errors as :meth:`create_context`."""
        context = self.create_context(None, lease, tenant, client)
        with self._lock:
            self._owned.add(context.default_session.id)
        return context.default_session

    def _new_id(self) -> str:
        return f"{self.epoch}-{secrets.token_urlsafe(16)}"

    # --- finding ----------------------------------------------------------------------------------

    def context(self, context_id: str, tenant: Tenant = ANYBODY) -> Context:
        """Finds a tenant's context and renews its lease.

        Raises:
            HandleNotFoundError: no such context.
            SessionLostError: the id is of before the server restarted.
        """
        found = self._contexts.get(context_id)
        if found is None or found.closed or found.tenant is not tenant:
            raise self._missing("context", context_id)
        found.renew()
        return found

    def session(self, stream_id: str, tenant: Tenant = ANYBODY) -> Session:
        """Finds a tenant's stream and renews its context's lease; errors as :meth:`context`."""
        found = self._sessions.get(stream_id)
        if found is None or found.context.closed or found.context.tenant is not tenant:
            raise self._missing("stream", stream_id)
        found.context.renew()
        return found

    def _missing(self, what: str, given: str) -> HandleNotFoundError | SessionLostError:
        epoch, separator, _ = given.partition("-")
        if separator and len(epoch) == len(self.epoch) and epoch != self.epoch:
            return SessionLostError(
                f"the {what} is of before the server's restart; open a new context"
            )
        return unknown_context() if what == "context" else unknown(what, f"{what}_id")

    # --- ending -----------------------------------------------------------------------------------

    def destroy_context(self, context: Context, reason: str = "closed") -> None:
        """Destroys a context with all that it holds; `reason` is for those who look at figures."""
        with self._lock:
            known = self._contexts.pop(context.id, None) is not None
            for stream_id in list(context.sessions):
                self._sessions.pop(stream_id, None)
                self._owned.discard(stream_id)
        try:
            context.destroy()
        finally:
            if known:
                if self._environment.meters is not None and context.meter is not None:
                    self._environment.meters.end(context.meter, reason)
                seconds = self._environment.clock() - context.opened
                _log("context ended", context, reason=reason, seconds=round(seconds, 3))

    def destroy_stream(self, session: Session) -> None:
        """Destroys a stream, and its context where it was opened for the stream alone.

        Raises:
            NotReadyError: it is the default stream of a context.
        """
        if session.id in self._owned:
            self.destroy_context(session.context)
            return
        try:
            session.context.remove_session(session.id)
        finally:
            if session.id not in session.context.sessions:
                with self._lock:
                    self._sessions.pop(session.id, None)

    def reap(self) -> int:
        """Destroys contexts whose leases have ended, or that are closed; returns how many.

        Never waits for a kernel: a context with running work is closed, and destroyed by a later call.
        """
        ended = 0
        for context in list(self._contexts.values()):
            if context.expired and context.close():
                reason = "token" if context.tenant.ended_because else "lease"
                self.destroy_context(context, reason)
                ended += 1
        return ended

    def evict(self, tenant: Tenant) -> int:
        """Closes the contexts of a tenant that may make no calls any more; returns how many.

        Never waits for a kernel: those with running work are destroyed by :meth:`reap`.
        """
        contexts = self.contexts_of(tenant)
        for context in contexts:
            if context.close():
                self.destroy_context(context, "token")
        return len(contexts)

    def close(self) -> None:
        """Destroys every context, and opens no more."""
        with self._lock:
            self._closed = True
        for context in list(self._contexts.values()):
            self.destroy_context(context, "stop")

    # --- looking ----------------------------------------------------------------------------------

    @property
    def contexts(self) -> list[Context]:
        """All contexts."""
        return list(self._contexts.values())

    @property
    def usage(self) -> Usage:
        """What all contexts hold together."""
        return _sum_of(list(self._contexts.values()))

    def usage_of(self, tenant: Tenant) -> Usage:
        """What all contexts of a tenant hold together."""
        return _sum_of(self.contexts_of(tenant))

    def contexts_of(self, tenant: Tenant) -> list[Context]:
        """The contexts of a tenant."""
        return [context for context in list(self._contexts.values()) if context.tenant is tenant]

    def devices_of(self, tenant: Tenant) -> list[Device]:
        """The devices that a tenant may use."""
        return [device for device in self._devices if tenant.may_use(device.index)]

    def contexts_on(self, device: Device) -> int:
        """Number of contexts on a device."""
        return sum(context.device is device for context in list(self._contexts.values()))


def _sum_of(contexts: list[Context]) -> Usage:
    total = Usage()
    for context in contexts:
        total.add(context.usage)
    return total
