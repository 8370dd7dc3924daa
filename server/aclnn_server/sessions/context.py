"""A context: one client's tenancy on one device, with its streams, buffers, executors and events."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from aclnn.errors import (
    AclnnError,
    ExecutorUsedError,
    InvalidParameterError,
    NotReadyError,
    StreamDestroyedError,
    WaitTimeoutError,
)
from aclnn.labels import label_of
from aclnn_server.backends.base import Device
from aclnn_server.sessions.answers import Answers
from aclnn_server.sessions.batches import Batches
from aclnn_server.sessions.data_connection import DataAccess
from aclnn_server.sessions.environment import Environment
from aclnn_server.sessions.executors import Executor
from aclnn_server.sessions.handles import Handles, check_room, unknown, unknown_context
from aclnn_server.sessions.limits import Usage
from aclnn_server.sessions.marks import Mark
from aclnn_server.sessions.memory import Account, Buffer
from aclnn_server.sessions.meters import ContextMeter
from aclnn_server.sessions.segments import Segments
from aclnn_server.sessions.streams import Stream
from aclnn_server.sessions.tenants import ANYBODY, Tenant
from aclnn_server.sessions.timing import Timing
from aclnn_server.sessions.waiting import Gone, Patience

REMEMBERED_EXECUTORS = 4096
"""Ids of run executors that are remembered, to tell a second use from an id that never was."""


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
        self.device_stream = context.device.create_stream(stream.check_wanted)
        self.tally = None if context.meter is None else context.meter.open()
        """Counts the runs of the stream."""
        self.last_timing: Timing | None = None
        """Of the last run that has ended and was to be reported."""
        self._workspace: Buffer | None = None
        self._ended = False
        self._device_uses = 0
        self._changed = threading.Condition(threading.Lock())

    def lend_workspace(self, size: int) -> Buffer:
        """Scratch memory for the next execution; work in order shares it, and it grows on demand.

        It is held for the caller, who ends the use.

        Raises:
            OutOfMemoryError: 207001.
            StreamDestroyedError: the stream was destroyed.
        """
        with self._changed:
            if self._ended:
                raise StreamDestroyedError("the stream was destroyed")
            if self._workspace is None or self._workspace.size < size:
                self._free_workspace()
                self._workspace = Buffer(0, size, self.context.account)
            self._workspace.hold()
            return self._workspace

    def _free_workspace(self) -> None:
        if self._workspace is not None:
            self._workspace.free()
            self._workspace = None

    def wait(self, timeout: float | None = None, gone: Gone | None = None) -> None:
        """Waits for all work queued so far, on the device too; its failures are kept for later.

        Raises:
            WaitTimeoutError: 507046, `timeout` seconds passed.
            CancelledError: `gone` tells that the caller is.
        """
        patience = Patience(timeout, gone)
        self.stream.wait(timeout=timeout, gone=gone)
        self.settle(patience)

    def settle(self, patience: Patience | None = None) -> None:
        """Waits for the device's part of the work; what failed in it is kept for :func:`synchronize`."""
        if not self.context.device.asynchronous:
            return
        with self._device_stream() as usable:
            if usable:
                patience = patience or Patience()
                if not patience.wait_for(self._settled):
                    raise WaitTimeoutError("the device has not done the stream's work in time")

    def _settled(self, timeout: float | None) -> bool:
        try:
            self.context.device.synchronize(self.device_stream, timeout)
        except WaitTimeoutError:
            return False
        except AclnnError as failure:
            self.stream.note_failure(failure)
        return True

    @property
    def idle(self) -> bool:
        """Whether all work is done, on the device too."""
        if self.stream.depth:
            return False
        with self._device_stream() as usable:
            return not usable or self.context.device.is_idle(self.device_stream)

    @contextmanager
    def _device_stream(self) -> Iterator[bool]:
        """Keeps the device's stream from ending while it is used; gives whether it has not ended yet."""
        with self._changed:
            usable = not self._ended
            self._device_uses += usable
        try:
            yield usable
        finally:
            with self._changed:
                self._device_uses -= usable
                self._changed.notify_all()

    def destroy(self) -> None:
        """Drops queued work, waits for running work and gives everything back."""
        self.stream.destroy()
        with self._changed:
            self._ended = True
            self._changed.wait_for(lambda: not self._device_uses)
            self._free_workspace()
        if self.tally is not None and self.context.meter is not None:
            self.context.meter.close(self.tally)
        self.context.device.destroy_stream(self.device_stream)


def synchronize(
    sessions: Sequence[Session], timeout: float | None, gone: Gone | None = None
) -> None:
    """Waits for all work queued in the streams so far, then raises a failure that was not reported yet.

    Raises:
        WaitTimeoutError: 507046, `timeout` seconds passed.
        StreamDestroyedError: a stream was destroyed meanwhile.
        CancelledError: `gone` tells that the caller is; no failure was reported to it.
        AclnnError: the first failure of the first stream that has one; the others' stay for the next time.
    """
    patience = Patience(timeout)
    for session in sessions:
        session.wait(patience.left, gone)
    for session in sessions:
        session.stream.raise_failure()


class Context:
    """One client's tenancy on one device. Its methods may be called from any thread."""

    def __init__(
        self,
        context_id: str,
        device: Device,
        lease: float,
        environment: Environment,
        tenant: Tenant = ANYBODY,
    ) -> None:
        limits = environment.limits
        self.id = context_id
        self.tenant = tenant
        self.device = device
        self.lease = lease
        self.limits = limits
        self.account = Account(device, limits.context_bytes, tenant.memory, environment.blocks)
        self.buffers: Handles[Buffer] = Handles("buffer", limits.buffers)
        self.executors: Handles[Executor] = Handles("executor", limits.executors)
        self.segments = Segments(self.account, environment.handover)
        """Memory that its client maps too."""
        self.data = DataAccess(self, environment.data_port)
        """Its data connection."""
        self.events: Handles[Event] = Handles("event", limits.events)
        self.batches = Batches(environment.kept_answers)
        self.answers = Answers(environment.kept_answers)
        """Of its unary calls with a request id."""
        self.sessions: dict[str, Session] = {}
        self.closed = False
        self.client_name = ""
        """What the client called itself."""
        self.meter: ContextMeter | None = None
        """Counts what is done in it, where that is counted."""
        self._default: Session | None = None
        self._destroyed = False
        self.environment = environment
        self._open_calls = 0
        self._calls_lock = threading.Lock()
        self._interrupts: list[Callable[[], object]] = []
        self._lock = threading.RLock()
        self._run_before: OrderedDict[int, str] = OrderedDict()
        self.opened = self._seen = environment.clock()
        """When it was opened, by the clock of leases."""

    @property
    def owner(self) -> str:
        """Name of whoever it belongs to; empty where nobody in particular."""
        return self.tenant.name

    # --- lease ------------------------------------------------------------------------------------

    def renew(self) -> None:
        """Begins the lease anew."""
        self._seen = self.environment.clock()

    @property
    def label(self) -> str:
        """Tells it from others where its id must not be told."""
        return label_of(self.id)

    @property
    def silent(self) -> float:
        """Seconds since its client was last heard of."""
        return self.environment.clock() - self._seen

    @property
    def expired(self) -> bool:
        """Whether the client has been silent for its lease; a closed context stays expired."""
        return self.closed or (self.silent > self.lease and not self._open_calls)

    def begin_call(self) -> None:
        """Notes a call in hand: while there is one, the lease does not end."""
        with self._calls_lock:
            self._check_open()
            self._open_calls += 1

    def end_call(self) -> None:
        """Notes the end of a call. Never waits: gRPC's own thread may call it."""
        with self._calls_lock:
            self._open_calls -= 1
        self.renew()

    @contextmanager
    def interrupted_by_its_end(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Lets the end of the context call `interrupt`, to wake whoever waits for the client in the block."""
        with self._calls_lock:
            self._check_open()
            self._interrupts.append(interrupt)
        try:
            yield
        finally:
            with self._calls_lock:
                self._interrupts.remove(interrupt)

    def _shut(self) -> None:
        """Takes no more calls, and wakes those that wait for the client."""
        with self._calls_lock:
            self.closed = True
            interrupts = list(self._interrupts)
        for interrupt in interrupts:
            interrupt()

    # --- streams ----------------------------------------------------------------------------------

    def add_session(self, stream_id: str) -> Session:
        """Creates a stream with its session; the first one is the default.

        Raises:
            LimitExceededError: as many streams as allowed exist.
        """
        with self._lock:
            self._check_open()
            check_room(len(self.sessions), self.limits.streams, "streams")
            environment = self.environment
            stream = Stream(
                environment.workers,
                self.limits,
                environment.unexpected,
                owner=self.id,
            )
            session = self.sessions[stream_id] = Session(stream_id, self, stream)
            self._default = self._default or session
            return session

    @property
    def default_session(self) -> Session:
        """The session of the default stream."""
        assert self._default is not None
        return self._default

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

    def list_sessions(self) -> list[Session]:
        """The sessions of all streams."""
        with self._lock:
            return list(self.sessions.values())

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
        with ExitStack() as last_first:
            for executor in self.executors.take_all(lambda e: e.stream_id == session.id):
                last_first.callback(executor.end, self.account)
            last_first.callback(session.destroy)

    # --- buffers ----------------------------------------------------------------------------------

    def add_buffer(
        self,
        buffer_id: int,
        size: int,
        segment_id: int = 0,
        offset: int = 0,
        *,
        zeroed: bool = True,
    ) -> Buffer:
        """Allocates a buffer, or lays it into a segment; a repeat of the same finds the first one.

        Not zeroed, it may hold what another buffer of the context held.

        Raises:
            InvalidParameterError: 161002, no bytes, or more than a buffer may have; a place that cannot be.
            HandleExistsError: the id names a buffer of another size, or in another place.
            HandleNotFoundError: no such segment.
            OutOfMemoryError, LimitExceededError: quota, device memory or number of buffers.
        """
        if not 1 <= size <= self.limits.tensor_bytes:
            raise InvalidParameterError(
                f"bytes is {size}; a buffer has 1 to {self.limits.tensor_bytes}", parameter="bytes"
            )
        with self._lock:
            self._check_open()
            place = size, segment_id, offset
            buffer = self.buffers.add(
                buffer_id, lambda handle: self.segments.make_buffer(handle, *place, zeroed=zeroed)
            )
        buffer.check_is(*place)
        return buffer

    # --- executors --------------------------------------------------------------------------------

    def keep_executor(self, executor: Executor) -> Executor:
        """Makes a planned call known; ends it where its stream has ended meanwhile.

        Returns:
            The executor, or the one that a call with the same id made meanwhile.

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
                kept = self.executors.add(executor.id, make)
        except BaseException:
            executor.end(self.account)
            raise
        if kept is not executor:
            executor.end(self.account)
        return kept

    def take_executor(self, executor_id: int) -> Executor:
        """Finds an executor for phase two and begins a run; a one-shot one is the first caller's alone.

        Raises:
            ExecutorUsedError: it is one-shot and was run before.
            HandleNotFoundError: no such executor in this context.
        """
        with self._lock:
            found = self.executors.get(executor_id)
            if found is None and executor_id in self._run_before:
                raise ExecutorUsedError(
                    f"executor {executor_id} was spent by an earlier phase two, run or refused; it is not "
                    "repeatable, so plan the call again",
                    operator=self._run_before[executor_id],
                    parameter="executor_id",
                )
            if found is None or found.repeatable:
                return self.executors.find(executor_id).begin_run()
            self.note_spent(executor_id, found.signature.name)
            taken = self.executors.take(executor_id).begin_run()
            taken.end(self.account)
            return taken

    def has_room_for_executor(self, executor_id: int) -> bool:
        """Whether an executor of that id, chosen by the client, could be made now."""
        executors = self.executors
        return not (
            self.closed
            or executor_id == 0
            or len(executors) >= executors.limit
            or executors.get(executor_id) is not None
        )

    def note_spent(self, executor_id: int, operator: str) -> None:
        """Notes that a one-shot executor was run, to tell a second use from an id that never was."""
        with self._lock:
            self._run_before[executor_id] = operator
            if len(self._run_before) > REMEMBERED_EXECUTORS:
                self._run_before.popitem(last=False)

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
            buffers=self.account.buffers,
            bytes=self.account.used,
            events=len(self.events),
            queued_commands=sum(depths),
        )

    def close(self) -> bool:
        """Takes no more calls and drops queued work; returns whether nothing runs any more."""
        with self._lock:
            self._shut()
            sessions = list(self.sessions.values())
        running = [session for session in sessions if not session.stream.stop()]
        return not running

    def destroy(self) -> None:
        """Destroys the context with all that it holds; once, whoever calls it."""
        with self._lock:
            if self._destroyed:
                return
            self._destroyed = True
            self._shut()
            sessions = list(self.sessions.values())
            self.sessions.clear()
        self.events.take_all()
        self.batches.close()
        self.answers.close()
        with ExitStack() as last_first:  # what fails to end keeps nothing else from ending
            last_first.callback(self.account.close)
            last_first.callback(self.segments.end)
            last_first.callback(self.data.end)
            for buffer in self.buffers.take_all():
                last_first.callback(buffer.free)
            for executor in self.executors.take_all():
                last_first.callback(executor.end, self.account)
            for session in sessions:
                last_first.callback(session.destroy)

    def _check_open(self) -> None:
        if self.closed:
            raise unknown_context()
