"""How a context is opened on a server, and how it is ended: when asked, when abandoned, at exit."""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
import weakref
from dataclasses import dataclass

from aclnn import PROTOCOL_VERSION, __version__
from aclnn.errors import AclnnError, UnsupportedError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client.connection import CLOSE_SECONDS, Connection
from aclnn_client.info import SHARED_MEMORY, Limits, ask_info, read_fields
from aclnn_client.submit import Submitter
from aclnn_client.tls import Tls


@dataclass(frozen=True)
class Opened:
    """A context that the server has opened, and the connection to it."""

    connection: Connection
    context_id: str
    stream_id: str
    device: int
    limits: Limits
    lease: float
    """Seconds that it lives when nothing is heard of its client."""
    shared_memory: bool | None = None
    """Whether the context may have shared memory, or must."""


def open_context(
    address: str,
    *,
    device: int | None,
    token: str | None,
    tls: bool | Tls | None,
    shared_memory: bool | None,
    timeout: float | None,
) -> Opened:
    """Connects and opens a context; see :func:`aclnn_client.connect`."""
    connection = Connection(address, token=token, tls=tls, timeout=timeout)
    try:
        if shared_memory:
            _check_shared_memory(connection)
        request = pb.CreateContextRequest(
            protocol_version=PROTOCOL_VERSION,
            device_index=device,
            client_name=f"aclnn-client-python/{__version__}",
        )
        answer = connection.call(
            connection.devices.CreateContext, request, doing="opening a context", once=True
        )
    except BaseException:
        connection.close()
        raise
    limits = read_fields(Limits, answer.limits)
    return Opened(
        connection,
        answer.context_id,
        answer.stream_id,
        answer.device_index,
        limits,
        answer.lease.ToTimedelta().total_seconds(),
        shared_memory,
    )


def _check_shared_memory(connection: Connection) -> None:
    if SHARED_MEMORY not in ask_info(connection).features:
        raise UnsupportedError(
            "shared_memory is True, and this server offers no shared memory; "
            "None uses it where it is offered",
            parameter="shared_memory",
        )


class Lifetime:
    """The end of one context: once, when asked, when nobody refers to it any more, or at exit."""

    def __init__(self, context: object, opened: Opened, submitter: Submitter) -> None:
        """Watches over `context`, and keeps nothing of it alive."""
        self._opened = opened
        self._submitter = submitter
        self._finalizer = weakref.finalize(context, _close_soon, opened, submitter)
        # At exit no thread can be started any more, and weakref's own order is not ours.
        self._finalizer.atexit = False
        _OPEN.add(self)
        _close_at_exit()

    def end(self) -> None:
        """Destroys the context on the server and ends the connection."""
        if self._finalizer.detach():
            _close(self._opened, self._submitter)


_OPEN: weakref.WeakSet[Lifetime] = weakref.WeakSet()


@functools.cache
def _close_at_exit() -> None:
    """Closes at exit what is open then; registered with the first context."""
    atexit.register(_close_all)


def _close_all() -> None:
    for lifetime in list(_OPEN):
        lifetime.end()


def _close_soon(opened: Opened, submitter: Submitter) -> None:
    """Closes in a thread: a finalizer may run anywhere, and must not wait."""
    threading.Thread(target=_close, args=(opened, submitter), daemon=True).start()


def _close(opened: Opened, submitter: Submitter) -> None:
    connection = opened.connection
    if not submitter.closed:
        request = pb.DestroyContextRequest(context_id=opened.context_id)
        # The server may be gone, or have ended the context itself; the lease sees to the rest.
        with contextlib.suppress(AclnnError):
            connection.call(
                connection.devices.DestroyContext,
                request,
                doing="closing a context",
                timeout=CLOSE_SECONDS,
                once=True,
            )
    submitter.close()
    connection.close()
