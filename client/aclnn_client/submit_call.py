"""The open call that carries Submit: send a message, be told what happened. Two ways to do it.

:class:`DirectCall` lets the caller's own threads drive the call. gRPC's public API needs two threads of its
own for a call that goes both ways (one that takes the requests, one that hands out the responses); each step
through a thread costs about as much as the network on one machine. The class that it is built on,
``segregated_call``, is what gRPC's own blocking calls use, but not public; where it is missing, or a wait
has to end by itself, :class:`PublicCall` does the same by gRPC's public API.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any, Protocol

import grpc

from aclnn.errors import AclnnError, ServerUnavailable
from aclnn.status import from_rpc_error
from aclnn_client.requests import EndedByServer

METHOD = "/aclnn.v1.DeviceService/Submit"
DOING = "running commands"

Metadata = tuple[tuple[str, str], ...]
Happening = bytes | AclnnError | None
"""What happened: a response came (its bytes), the call ended (why), a message has been sent (``None``)."""


class SubmitCall(Protocol):
    """One open call. Only one message may be on its way, and only one thread may be in `next`."""

    def send(self, message: bytes, *, exchange: bool = False) -> bool:
        """Starts sending; `next` tells when another message may be sent. Never waits.

        Args:
            message: the bytes.
            exchange: whether nothing more will be sent before a response has come; it saves a step to wait
                for both at once.

        Returns:
            Whether it is so: then `next` tells of the response only.
        """

    def next(self, timeout: float) -> Happening:
        """Waits for what happens next. After the end it tells the end again.

        Raises:
            TimeoutError: nothing happened in `timeout` seconds, or :meth:`wake` was called.
        """

    def wake(self) -> None:
        """Ends a wait in `next` early, where it does not end by itself. For signal handlers."""

    def cancel(self) -> None:
        """Ends the call from this side; `next` tells the end once nothing is under way any more."""


def open_call(channel: grpc.Channel, metadata: Metadata, *, timed: bool) -> SubmitCall:
    """Opens Submit; never waits, a failure to connect is told by `next`.

    Args:
        channel: the channel to the server.
        metadata: sent with the call.
        timed: whether waits must be able to end by themselves.
    """
    if not timed:
        with contextlib.suppress(ImportError, AttributeError, TypeError):
            return DirectCall(channel, metadata)
    return PublicCall(channel, metadata)


class DirectCall:
    """A call driven by the threads that use it, without any thread of gRPC's."""

    def __init__(self, channel: Any, metadata: Metadata) -> None:  # noqa: ANN401 - not public
        from grpc._cython import cygrpc  # type: ignore[attr-defined]

        self._cygrpc: Any = cygrpc
        opening = cygrpc.SendInitialMetadataOperation(metadata, 0)
        ending = cygrpc.ReceiveStatusOnClientOperation(0)
        opened = cygrpc.ReceiveInitialMetadataOperation(0)
        operations = (((opening, ending), "ended"), ((opened,), "opened"))
        self._lock = threading.RLock()
        self._under_way = {"ended", "opened"}  # guarded by the lock
        self._ended: AclnnError | None = None
        self._call = channel._channel.segregated_call(
            0, METHOD.encode(), None, None, metadata, None, operations, None
        )

    def send(self, message: bytes, *, exchange: bool = False) -> bool:
        """See :meth:`SubmitCall.send`."""
        sending = self._cygrpc.SendMessageOperation(message, 0)
        if exchange and not self._receiving:
            self._start("exchanged", sending, self._cygrpc.ReceiveMessageOperation(0))
            return True
        self._start("sent", sending)
        return False

    @property
    def _receiving(self) -> bool:
        return "received" in self._under_way or "exchanged" in self._under_way

    def next(self, timeout: float) -> Happening:
        """See :meth:`SubmitCall.next`; it waits without limit."""
        # Asked for only now: by then the request is on its way, and this costs nobody time.
        if not self._receiving and self._ended is None:
            self._start("received", self._cygrpc.ReceiveMessageOperation(0))
        # With nothing under way gRPC has destroyed the call, and must not be asked again.
        while self._under_way:
            event = self._next_event()
            if event.tag == "woken":
                raise TimeoutError
            if event.tag == "sent":
                return None
            if event.tag in ("received", "exchanged"):
                message = event.batch_operations[-1].message()
                if message is not None:
                    return bytes(message)
            if event.tag == "ended":
                self._ended = self._why_ended(event.batch_operations[1])
        return self._ended

    def wake(self) -> None:
        """See :meth:`SubmitCall.wake`: an operation of nothing is done at once."""
        self._start("woken")

    def cancel(self) -> None:
        """See :meth:`SubmitCall.cancel`."""
        self._call.cancel(self._cygrpc.StatusCode.cancelled, "closed by the client")

    def _start(self, tag: str, *operations: object) -> None:
        try:
            with self._lock:
                if self._under_way and self._call.operate(operations, tag):
                    self._under_way.add(tag)
        except BaseException:
            self._give_up()
            raise

    def _next_event(self) -> Any:  # noqa: ANN401 - not public
        try:
            event = self._call.next_event()
            with self._lock:
                self._under_way.discard(event.tag)
        except BaseException:
            self._give_up()
            raise
        return event

    def _give_up(self) -> None:
        """Ends the call at an exception, as of a signal's handler, which can come at any point.

        gRPC destroys the call itself where it comes in a wait; elsewhere nobody knows what was begun.
        """
        self._ended = ServerUnavailable("the call was broken off by an exception")
        with contextlib.suppress(Exception):
            self.cancel()
        self._under_way.clear()

    def _why_ended(self, status: Any) -> AclnnError:  # noqa: ANN401 - not public
        code = next((c for c in grpc.StatusCode if c.value[0] == status.code()), None)
        if code is grpc.StatusCode.OK:
            return _ended_normally()
        details = status.details()
        trailing = grpc.aio.Metadata.from_tuple(tuple(status.trailing_metadata() or ()))
        text = details.decode(errors="replace") if isinstance(details, bytes) else details
        error = grpc.aio.AioRpcError(
            code or grpc.StatusCode.UNKNOWN, grpc.aio.Metadata(), trailing, text
        )
        return from_rpc_error(error, doing=DOING)


class PublicCall:
    """A call by gRPC's public API, with a thread that reads."""

    def __init__(self, channel: grpc.Channel, metadata: Metadata) -> None:
        self._happenings: queue.SimpleQueue[Happening] = queue.SimpleQueue()
        self._messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ended: AclnnError | None = None
        # Without serialisers, messages are bytes.
        method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(METHOD)
        self._call = method(self._outgoing(), metadata=metadata)
        threading.Thread(target=self._read, name="aclnn-submit", daemon=True).start()

    def send(self, message: bytes, *, exchange: bool = False) -> bool:
        """See :meth:`SubmitCall.send`."""
        self._messages.put(message)
        return False

    def next(self, timeout: float) -> Happening:
        """See :meth:`SubmitCall.next`."""
        if self._ended is not None:
            return self._ended
        try:
            happening = self._happenings.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None
        if isinstance(happening, AclnnError):
            self._ended = happening
        return happening

    def wake(self) -> None:
        """See :meth:`SubmitCall.wake`; waits here end by themselves."""

    def cancel(self) -> None:
        """See :meth:`SubmitCall.cancel`."""
        self._call.cancel()

    def _outgoing(self) -> Iterator[bytes]:
        while (message := self._messages.get()) is not None:
            yield message
            # gRPC asks for the next message once this one is on its way.
            self._happenings.put(None)

    def _read(self) -> None:
        try:
            for response in self._call:
                self._happenings.put(response)
        except grpc.RpcError as error:
            self._happenings.put(from_rpc_error(error, doing=DOING))
        else:
            self._happenings.put(_ended_normally())
        self._messages.put(None)


def _ended_normally() -> AclnnError:
    return EndedByServer("the server ended the call")
