"""Submit, served where its messages arrive: by the thread that takes gRPC's events.

By gRPC's public API an open call has a thread of its own, and each message goes from the thread of the
events to that one and back: four changes of threads, which cost more than all else that a small call
needs. Here the thread of the events makes the answer itself, where that takes no time and cannot wait;
the rest is handed to a pool. An open call that is idle has no thread.

It is built on parts of grpc that are not public. Where they are not as they should be, the pool serves
the call as gRPC asks it to, by the public API.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import grpc

from aclnn import wire
from aclnn.errors import InvalidParameterError
from aclnn.status import to_status
from aclnn_server.service.applying import UNREADABLE
from aclnn_server.service.failures import foreseen
from aclnn_server.service.submit import OpenSubmit, SubmitCalls
from aclnn_server.sessions.tenants import Caller

_LOG = logging.getLogger(__name__)
_EXCHANGE = "exchange"
_USED = (
    "_Context",
    "_abort",
    "_is_rpc_state_active",
    "_possibly_finish_call",
    "_status",
    "_stream_response_in_pool",
    "cygrpc",
)
"""What is used of gRPC's own module of servers."""


def grpc_parts() -> Any:  # noqa: ANN401 - a module that is not public
    """gRPC's own module of servers; ``None`` where it has not what is used of it here."""
    try:
        from grpc import _server
    except ImportError:
        return None
    return _server if all(hasattr(_server, name) for name in _USED) else None


class ArrivalPool(ThreadPoolExecutor):
    """The pool that gRPC hands Submit calls to: it takes them over, and serves the rest of their work."""

    def __init__(
        self,
        threads: int,
        name: str,
        calls: SubmitCalls,
        identify: Callable[[grpc.ServicerContext], Caller],
    ) -> None:
        """Starts no thread yet.

        Args:
            threads: batches that are worked on at the same time outside of the events' thread.
            name: of the threads.
            calls: serves what arrives.
            identify: tells who calls.
        """
        super().__init__(threads, name)
        self.calls = calls
        self.identify = identify
        self.grpc = grpc_parts()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401
        """Takes a call over, as it arrives; anything else is run in the pool."""
        if self.grpc is None or not args or args[0] is not self.grpc._stream_response_in_pool:
            return super().submit(fn, *args, **kwargs)
        return _ArrivingCall(self, args[1], args[2], run=fn).future


class _ArrivingCall:
    """One Submit call, from gRPC's event of its arrival to its end."""

    def __init__(
        self,
        pool: ArrivalPool,
        event: Any,  # noqa: ANN401 - not public
        state: Any,  # noqa: ANN401 - not public
        run: Callable[..., Any],
    ) -> None:
        self.future: Future[None] = Future()
        """Done when the call is over."""
        self._pool = pool
        self._event = event
        self._state = state
        self._grpc = pool.grpc
        self._rpc = pool.grpc._Context(event, state, None)
        self._submit: OpenSubmit | None = None
        self._held = ExitStack()
        """What is to be given back when the call is over, and nothing of it is worked on."""
        try:
            self._held.enter_context(pool.calls.open.counted())
            self._caller: Caller = run(pool.identify, self._rpc)
            self._held.enter_context(self._caller.keeping_open(self._rpc.cancel))
        except Exception as error:
            self._fail(error)
        else:
            self._exchange(None)

    # --- messages ---------------------------------------------------------------------------------

    def _exchange(self, answer: bytes | None) -> None:
        """Sends an answer, and asks for the next message; one event tells that both are done."""
        state = self._state
        operations = []
        with state.condition:
            if not self._grpc._is_rpc_state_active(state):
                self._close()
                return
            if answer is not None:
                if state.initial_metadata_allowed:
                    operations.append(self._grpc.cygrpc.SendInitialMetadataOperation(None, 0))
                    state.initial_metadata_allowed = False
                operations.append(self._grpc.cygrpc.SendMessageOperation(answer, 0))
            operations.append(self._grpc.cygrpc.ReceiveMessageOperation(0))
            self._event.call.start_server_batch(tuple(operations), self._arrived)
            state.due.add(_EXCHANGE)

    def _arrived(self, event: Any) -> tuple[Any, Any]:  # noqa: ANN401 - not public
        """Serves what arrived; gives gRPC what is to be done when the call has ended."""
        state = self._state
        message = event.batch_operations[-1].message()
        with state.condition:
            ended = self._grpc._possibly_finish_call(state, _EXCHANGE)
            active = self._grpc._is_rpc_state_active(state)
        try:
            if not active:
                self._close()
            elif message is None:
                self._end()
            else:
                self._serve(message)
        except Exception as error:
            self._fail(error)
        return ended  # type: ignore[no-any-return]

    def _serve(self, message: bytes) -> None:
        batch = _decoded(message)
        if self._submit is None:
            self._work(lambda: self._begun(batch).answer(batch))
            return
        answer = self._submit.begin(batch)
        if isinstance(answer, bytes):
            self._exchange(answer)
        else:
            self._work(answer)

    def _begun(self, first: wire.RawBatch) -> OpenSubmit:
        self._submit = self._held.enter_context(
            self._pool.calls.begun(first, self._caller, self._is_over, self._rpc.add_callback)
        )
        return self._submit

    def _is_over(self) -> bool:
        return not self._rpc.is_active()

    def _work(self, answer: Callable[[], bytes]) -> None:
        """Makes an answer in a thread of the pool, and sends it."""

        def work() -> None:
            try:
                self._exchange(answer())
            except Exception as error:
                self._fail(error)

        self._pool.submit(work)

    # --- the end ----------------------------------------------------------------------------------

    def _end(self) -> None:
        """The client has sent its last message, and all are answered."""
        self._grpc._status(self._event, self._state, None)
        self._close()

    def _fail(self, error: Exception) -> None:
        """Ends the call with an error."""
        state = self._state
        status = to_status(foreseen(error))
        with state.condition:
            if self._grpc._is_rpc_state_active(state):
                state.trailing_metadata = status.trailing_metadata
                state.code, state.details = status.code, status.details.encode()
                state.aborted = True
                self._grpc._abort(
                    state, self._event.call, self._grpc.cygrpc.StatusCode.unknown, b""
                )
        self._close()

    def _close(self) -> None:
        held, self._held = self._held, ExitStack()
        try:
            held.close()
        except Exception:
            _LOG.exception("what a Submit call held could not be given back")
        if not self.future.done():
            self.future.set_result(None)


def _decoded(message: bytes) -> wire.RawBatch:
    try:
        return wire.split_request(message)
    except Exception:
        raise InvalidParameterError(UNREADABLE) from None
