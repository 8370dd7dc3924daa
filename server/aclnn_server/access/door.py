"""The door: each call is asked for its token before its first message is read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import grpc

from aclnn.errors import AclnnError, PermissionDeniedError
from aclnn.status import to_status
from aclnn_server.access.tokens import Tokens
from aclnn_server.sessions.tenants import Caller

OPEN_TO_ALL = "/grpc.health.v1.Health/"
"""Beginning of the methods that need no token: whoever restarts servers has none."""
FOR_ADMINISTRATORS = ("/aclnn.v1.AdminService/", "/grpc.channelz.")
"""Beginnings of the methods that tell about other clients."""
TELL_SECONDS = 1.0
"""Refused calls are logged as often as that; those in between are counted."""

_LOG = logging.getLogger(__name__)
# gRPC runs a call's interceptors and its handler in one context of this kind.
_CALLER: ContextVar[Caller] = ContextVar("caller")

_Next = Callable[[grpc.HandlerCallDetails], "grpc.RpcMethodHandler[Any, Any] | None"]


class Door(grpc.ServerInterceptor):
    """Lets calls with a good token in, and answers the others."""

    def __init__(self, tokens: Tokens, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        # A thread of its own: refusing keeps nobody else waiting.
        self._thread = ThreadPoolExecutor(1, "aclnn-refuse")
        self._refusals = _Refusals(clock)

    def intercept_service(
        self, continuation: _Next, details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Asks for the token; gRPC's own thread calls this, so it never waits."""
        if details.method.startswith(OPEN_TO_ALL):
            return continuation(details)
        try:
            _CALLER.set(self._admit(details))
        except AclnnError as error:
            return self._refusal(error, details.method)
        return continuation(details)

    def _admit(self, details: grpc.HandlerCallDetails) -> Caller:
        given = [value for key, value in details.invocation_metadata if key == "authorization"]
        caller = self._tokens.admit(given)
        caller.tenant.count_call()
        if details.method.startswith(FOR_ADMINISTRATORS):
            _check_administrator(caller)
        return caller

    def admit_administrator(self, authorization: str) -> None:
        """Lets an administrator in who asks otherwise than by gRPC.

        Args:
            authorization: the header; empty where there is none.

        Raises:
            UnauthenticatedError: no token, none that is known, or one that has expired.
            PermissionDeniedError: the token is no administrator's.
        """
        _check_administrator(self._tokens.admit([authorization] if authorization else []))

    def _refusal(self, error: AclnnError, method: str) -> grpc.RpcMethodHandler[Any, Any]:
        status = to_status(error)

        def refuse(_: object, rpc: grpc.ServicerContext) -> Iterator[bytes]:
            self._refusals.note(rpc.peer(), method, error)
            rpc.abort_with_status(status)

        refuse.experimental_thread_pool = self._thread  # type: ignore[attr-defined]
        # Of whatever kind the call is, this one reads no message of it.
        return grpc.stream_stream_rpc_method_handler(refuse)

    @staticmethod
    def identify(_: grpc.ServicerContext) -> Caller:
        """Who made the call that this thread serves."""
        return _CALLER.get()

    def close(self) -> None:
        """Ends the thread; the calls have ended."""
        self._thread.shutdown()


def _check_administrator(caller: Caller) -> None:
    if not caller.tenant.quota.admin:
        raise PermissionDeniedError(
            f"the token {caller.tenant.name!r} may not look at other clients; it is no administrator's"
        )


class _Refusals:
    """Logs refused calls, but not as fast as somebody can make them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next = clock()
        self._untold = 0

    def note(self, peer: str, method: str, error: AclnnError) -> None:
        """Logs a refusal, or counts it; only one thread calls this."""
        now = self._clock()
        if now < self._next:
            self._untold += 1
            return
        self._next = now + TELL_SECONDS
        _LOG.warning(
            "refused a call from %s: %s",
            peer,
            error.message,
            extra={"method": method[:100], "reason": error.reason, "not_told_before": self._untold},
        )
        self._untold = 0
