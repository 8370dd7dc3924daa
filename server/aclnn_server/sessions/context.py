"""A context: one client's tenancy on one device, with its streams, buffers, executors and events."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from aclnn.errors import (
    AclnnError,
    ExecutorUsedError,
    HandleExistsError,
    InvalidParameterError,
    NotReadyError,
)
from aclnn_server.backends.base import Device
from aclnn_server.sessions.executors import Executor
from aclnn_server.sessions.handles import Handles, check_room, unknown
from aclnn_server.sessions.limits import Limits, Usage
from aclnn_server.sessions.memory import Account, Buffer
from aclnn_server.sessions.streams import Mark, Stream, Workers

REMEMBERED_EXECUTORS = 4096
"""Ids of run executors that are remembered, to tell a second use from an id that never was."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What a context needs of its server."""

    limits: Limits
    workers: Workers
    clock: Callable[[], float]
    """Seconds, for leases."""
    unexpected: Callable[[BaseException], AclnnError]
    """Logs an unexpected failure and gives the error that the client sees."""


@dataclass(slots=True)
class Event:
    """A mark in a stream, to wait for or to time."""

    id: int
    mark: Mark | None = None
    """Its latest recording."""


class Session:
    """A stream's state: its queue of work, and the workspace that it lends."""

    def __init__(self, stream_id: str, context: Context, stream: Stream) -> None:
        self.id = stream_id
        self.context = context
        self.stream = stream
        self.device_stream = context.device.create_stream()
        self._workspace: Buffer | None = None

    def lend_workspace(self, size: int) -> Buffer:
        """Scratch memory for the next execution; work in order shares it, and it grows on demand."""
        if self._workspace is None or self._workspace.size < size:
            grown = Buffer(0, size, self.context.account)
            self._free_workspace()
            self._workspace = grown
        return self._workspace

    def _free_workspace(self) -> None:
        if self._workspace is not None:
            self._workspace.free()
            self._workspace = None

    def destroy(self) -> None:
        """Drops queued work, waits for running work and gives everything back."""
        self.stream.destroy()
        self._free_workspace()
        self.context.device.destroy_stream(self.device_stream)


class Context:
    """One client's tenancy on one device. Its methods may be called from any thread."""

    def __init__(
        self, context_id: str, device: Device, lease: float, environment: Environment
    ) -> None:
        limits = environment.limits
        self.id = context_id
        self.device = device
        self.lease = lease
        self.limits = limits
        self.account = Account(device, limits.context_bytes)
        self.buffers: Handles[Buffer] = Handles("buffer", limits.buffers)
        self.executors: Handles[Executor] = Handles("executor", limits.executors)
        self.events: Handles[Event] = Handles("event", limits.events)
        self.sessions: dict[str, Session] = {}
        self.closed = False
        self._environment = environment
        self._open_calls = 0
        self._lock = threading.RLock()
        self._run_before: OrderedDict[int, None] = OrderedDict()
        self._seen = environment.clock()

    # --- lease ------------------------------------------------------------------------------------

    def renew(self) -> None:
        """Begins the lease anew."""
        self._seen = self._environment.clock()

    @property
    def expired(self) -> bool:
        """Whether the client has been silent for its lease."""
        return not self._open_calls and self._environment.clock() - self._seen > self.lease

    def begin_call(self) -> None:
        """Notes an open Submit call: while there is one, the lease does not end."""
        with self._lock:
            self._check_open()
            self._open_calls += 1

    def end_call(self) -> None:
        """Notes the end of a Submit call."""
        with self._lock:
            self._open_calls -= 1
            self.renew()

    # --- streams ----------------------------------------------------------------------------------

    def add_session(self, stream_id: str) -> Session:
        """Creates a stream with its session; the first one is the default.

        Raises:
            LimitExceededError: as many streams as allowed exist.
        """
        with self._lock:
            self._check_open()
            check_room(len(self.sessions), self.limits.streams, "streams")
            environment = self._environment
            stream = Stream(
                environment.workers, self.limits.queued_commands, environment.unexpected
            )
            session = self.sessions[stream_id] = Session(stream_id, self, stream)
            return session

    @property
    def default_session(self) -> Session:
        """The session of the default stream."""
        return next(iter(self.sessions.values()))

    def session(self, stream_id: str) -> Session:
        """Finds a stream's session; an empty id is the default stream.

        Raises:
            HandleNotFoundError: no such stream in this context.
        """
        with self._lock:
            self._check_open()
            found = self.sessions.get(stream_id) if stream_id else self.default_session
        if found is None:
            raise unknown("stream", "stream_id")
        return found

    def remove_session(self, stream_id: str) -> None:
        """Destroys a stream with its session and the executors planned in it.

        Raises:
            HandleNotFoundError: no such stream in this context.
            NotReadyError: it is the default stream.
        """
        with self._lock:
            session = self.session(stream_id)
            if session is self.default_session:
                raise NotReadyError(
                    "the default stream lives as long as its context", parameter="stream_id"
                )
            del self.sessions[session.id]
        session.destroy()
        for executor in self.executors.take_all(lambda e: e.stream_id == stream_id):
            executor.release(self.account)

    # --- buffers ----------------------------------------------------------------------------------

    def add_buffer(self, buffer_id: int, size: int) -> Buffer:
        """Allocates a buffer; a repeat with the same id and size finds the first one.

        Raises:
            InvalidParameterError: 161002, no bytes, or more than a buffer may have.
            HandleExistsError: the id names a buffer of another size.
            OutOfMemoryError, LimitExceededError: quota, device memory or number of buffers.
        """
        if not 1 <= size <= self.limits.tensor_bytes:
            raise InvalidParameterError(
                f"bytes is {size}; a buffer has 1 to {self.limits.tensor_bytes}", parameter="bytes"
            )
        with self._lock:
            self._check_open()
            buffer = self.buffers.add(buffer_id, lambda handle: Buffer(handle, size, self.account))
        if buffer.size != size:
            raise HandleExistsError(
                f"buffer {buffer_id} exists with {buffer.size} bytes", parameter="buffer_id"
            )
        return buffer

    # --- executors --------------------------------------------------------------------------------

    def keep_executor(self, executor: Executor) -> None:
        """Makes a planned call known; releases it where its stream has ended meanwhile.

        Raises:
            HandleNotFoundError: the stream has ended.
            LimitExceededError: as many executors as allowed exist.
        """

        def make(handle: int) -> Executor:
            executor.id = handle
            return executor

        try:
            with self._lock:
                self.session(executor.stream_id)
                self._run_before.pop(executor.id, None)
                if self.executors.add(executor.id, make) is not executor:
                    raise HandleExistsError(
                        f"executor {executor.id} exists", parameter="executor_id"
                    )
        except BaseException:
            executor.release(self.account)
            raise

    def take_executor(self, executor_id: int) -> Executor:
        """Finds an executor for phase two; a one-shot one is the first caller's alone.

        Raises:
            ExecutorUsedError: it is one-shot and was run before.
            HandleNotFoundError: no such executor in this context.
        """
        with self._lock:
            found = self.executors.get(executor_id)
            if found is None and executor_id in self._run_before:
                raise ExecutorUsedError(
                    f"executor {executor_id} was run before; it is not repeatable, so plan the call again",
                    parameter="executor_id",
                )
            if found is None or found.repeatable:
                return self.executors.find(executor_id)
            self._run_before[executor_id] = None
            if len(self._run_before) > REMEMBERED_EXECUTORS:
                self._run_before.popitem(last=False)
            return self.executors.take(executor_id)

    # --- the whole --------------------------------------------------------------------------------

    @property
    def usage(self) -> Usage:
        """What the context holds now."""
        with self._lock:
            depths = [session.stream.depth for session in self.sessions.values()]
        return Usage(
            contexts=1,
            streams=len(depths),
            executors=len(self.executors),
            buffers=len(self.buffers),
            bytes=self.account.used,
            events=len(self.events),
            queued_commands=sum(depths),
        )

    def destroy(self) -> None:
        """Destroys the context with all that it holds; once, whoever calls it."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            sessions = list(self.sessions.values())
        for session in sessions:
            session.destroy()
        for executor in self.executors.take_all():
            executor.release(self.account)
        for buffer in self.buffers.take_all():
            buffer.free()
        self.events.take_all()
        with self._lock:
            self.sessions.clear()

    def _check_open(self) -> None:
        if self.closed:
            raise unknown("context", "context_id")
