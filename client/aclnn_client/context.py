"""A context: one client's tenancy on one device, which owns its streams and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from aclnn.errors import AclnnError, ServerUnavailable, UnsupportedError
from aclnn.labels import label_of
from aclnn.overview import Usage
from aclnn.pythonic import Pythonic
from aclnn.signatures import Signature
from aclnn.tensors import TensorSpec, contiguous_strides, describe
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client import arrays, specs
from aclnn_client.arrays import Array, ArrayLike, DTypeLike, tight
from aclnn_client.buffer import AnyBuffer, Buffer
from aclnn_client.commands import Commands
from aclnn_client.data_connection import DataConnection, Move
from aclnn_client.info import (
    OperatorInfo,
    ServerInfo,
    ask_info,
    ask_operator,
    ask_operators,
    read_fields,
)
from aclnn_client.opening import Lifetime, Opened, open_context
from aclnn_client.pending import CONTEXT, EVERYWHERE, Pending, Steps, run
from aclnn_client.plans import Plans, known_signature
from aclnn_client.shared import CALL_BYTES, SharedMemory, handle_of
from aclnn_client.stream import AnyEvent, AnyStream, Event, Stream, synchronizing
from aclnn_client.submit import Submitter
from aclnn_client.tensor import AnyTensor, Tensor
from aclnn_client.tls import Tls

if TYPE_CHECKING:
    from aclnn_client.oneline import Operators

T = TypeVar("T")
BufferT = TypeVar("BufferT", bound=AnyBuffer)
TensorT = TypeVar("TensorT", bound=AnyTensor[Any])
StreamT = TypeVar("StreamT", bound=AnyStream)
EventT = TypeVar("EventT", bound=AnyEvent)


class AnyContext(Generic[BufferT, TensorT, StreamT, EventT]):
    """What the blocking and the asyncio :class:`Context` share. Thread-safe."""

    _blocking = True
    _buffer: type[BufferT]
    _tensor: type[TensorT]
    _stream: type[StreamT]
    _event: type[EventT]

    def __init__(self, opened: Opened) -> None:
        """Wraps what :func:`open_context` opened."""
        connection = opened.connection
        # On an event loop, the loop's own timers end a wait.
        timeout = connection.timeout if self._blocking else None
        submitter = Submitter(
            partial(connection.open_submit, timed=timeout is not None),
            opened.context_id,
            timeout,
            connection.named,
        )
        self._context_id = opened.context_id
        self.device = opened.device
        """Index of the device that it is on."""
        self.limits = opened.limits
        """What it may hold."""
        self.address = connection.address
        """Address of its server."""
        self.commands = Commands(
            submitter, blocking=self._blocking, message_bytes=opened.limits.message_bytes
        )
        """What its objects send their commands through."""
        self.shared = SharedMemory(
            connection,
            opened.context_id,
            opened.limits.context_bytes,
            opened.shared_memory,
            self.commands.abandoned,
        )
        """Memory that it shares with a server on this machine."""
        self.commands.returned = self.shared.returned
        self.data = DataConnection(
            connection, opened.context_id, self.commands, timeout, opened.lease
        )
        """Connection that large transfers take."""
        self.default_stream: StreamT = self._stream(self, opened.stream_id, default=True)
        """Stream of the calls that name none."""
        self.plans = Plans()
        """Calls that were planned before."""
        self._signatures: dict[str, Signature] = {}
        self._forms: dict[str, Pythonic] | None = None
        self._connection = connection
        self._lifetime = Lifetime(self, opened, submitter)
        if opened.shared_memory:
            self._must_share()

    def _must_share(self) -> None:
        try:
            self.shared.attach()
        except (AclnnError, OSError) as error:
            self.close_now()
            why = (
                error.message if isinstance(error, AclnnError) else "it is not to be had from here"
            )
            raise UnsupportedError(
                f"shared_memory is True, and there is none: {why}; None uses it where it is offered",
                parameter="shared_memory",
            ) from None

    # --- memory, tensors, events: these never wait --------------------------------------------------

    def malloc(self, size: int) -> BufferT | None:
        """Allocates device memory, zeroed; ``None`` for a size of 0.

        A failure (207001, no memory left) is told by the next call that waits.

        Raises:
            InvalidParameterError: 161002, the size is negative or no integer.
        """
        size = specs.integer(size, "size", lowest=0)
        return self._buffer(self, size) if size else None

    def create_tensor(
        self,
        shape: Sequence[int],
        dtype: DTypeLike,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        format: str = "ND",
        storage_shape: Sequence[int] | None = None,
        buffer: BufferT | None = None,
    ) -> TensorT:
        """Describes a tensor, as aclCreateTensor does, and allocates its storage where it has none.

        Args:
            shape: dimensions of the view.
            dtype: NumPy dtype or name, or ACL's name (``"FLOAT"``, ``"BF16"``).
            strides: elements between neighbours along each dimension; default C order.
            offset: elements from the start of the storage to the view's first.
            format: ACL's name of the storage's format.
            storage_shape: dimensions of the storage; default `shape`, or where that does not hold
                the view, one dimension that does.
            buffer: buffer that begins with the storage; default a new one, zeroed.

        Raises:
            InvalidParameterError: 161002, a value cannot be; the text names it and what is allowed.
        """
        spec = specs.describe(shape, dtype, strides, offset, format, storage_shape)
        if buffer is None:
            buffer = self._buffer(self, max(1, spec.storage_bytes))
        specs.check_buffer(self, spec, buffer)
        return self._tensor(spec, buffer)

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> TensorT:
        """Allocates a tensor in C order, zeroed. Arguments as of :meth:`create_tensor`."""
        return self.create_tensor(shape, dtype)

    def create_event(self) -> EventT:
        """Creates an event."""
        return self._event(self)

    # --- shared by the twins ------------------------------------------------------------------------

    def drive(self, steps: Steps[T]) -> Any:  # noqa: ANN401 - the result, or for asyncio an awaitable
        """Runs a coroutine of this package: to its end, or for asyncio as an awaitable."""
        raise NotImplementedError

    async def make(self, move: Move) -> bool:
        """Makes a transfer over the data connection: here, or for asyncio in a thread."""
        return move.make()

    @cached_property
    def ops(self) -> Operators:
        """Operators in one line: arrays in, array out; see :class:`~aclnn_client.oneline.Operators`."""
        from aclnn_client.oneline import Operators

        return Operators(self)

    def close_now(self) -> None:
        """Destroys the context on the server, with all that it holds, and ends the connection."""
        self.data.close()
        self._lifetime.end()
        self.shared.give_up()

    @property
    def label(self) -> str:
        """Tells it from others where the server tells what it does: its log, ``aclnn-serve top``."""
        return label_of(self._context_id)

    @property
    def closed(self) -> bool:
        """Whether it was closed, or its server is gone."""
        return self.commands.submitter.closed

    async def tell_failures(self) -> None:
        """Raises what commands failed with that nobody has waited for, once all are answered.

        It does not wait for queued work, and says nothing where the server is gone.
        """
        if self.closed or (self.commands.submitter.settled and not self.commands.failures):
            return
        with contextlib.suppress(ServerUnavailable):
            await self.commands.ask(Pending("renew_context", pb.RenewContextRequest()), EVERYWHERE)

    async def upload(
        self, array: ArrayLike, dtype: DTypeLike = None, *, progress: bool = False
    ) -> TensorT:
        """What the twins' ``tensor`` does."""
        [tensor] = await self._upload_all([arrays.as_array(array, dtype)], progress=progress)
        return tensor

    async def _upload_all(self, given: Sequence[Array], *, progress: bool = False) -> list[TensorT]:
        described = [describe(array) for array in given]
        tensors = [self.uninitialized(spec) for spec, _ in described]
        datas = [storage.data for _, storage in described]
        await self._fill([tensor.buffer for tensor in tensors], datas, progress=progress)
        return tensors

    async def _fill(
        self, buffers: Sequence[BufferT], datas: Sequence[memoryview], *, progress: bool
    ) -> None:
        """Writes buffers that were made for it, whole."""
        direct, rest = [], []
        for buffer, data in zip(buffers, datas, strict=True):
            if buffer.shared is not None:
                buffer.fill_in(data)
            elif self.data.takes(len(data)):
                direct.append((buffer, data))
            else:
                rest.append((buffer, data))
        if direct:
            numbered = [(buffer.buffer_id, data) for buffer, data in direct]
            if not await self.make(self.data.creating(numbered, progress=progress)):
                rest += direct
        for buffer, data in rest:
            await buffer.put(data, 0, progress=progress)

    def uninitialized(self, spec: TensorSpec) -> TensorT:
        """Allocates a tensor that is to be written as a whole: what it holds before may be anything."""
        size = max(1, spec.storage_bytes)
        return self._tensor(spec, self._buffer(self, size, zeroed=False))

    async def present(self, given: Sequence[Array]) -> list[TensorT]:
        """The tensors that arrays are views of, where these are of shared memory; else they are uploaded."""
        shared = [self._presented(array) for array in given]
        uploaded = await self._upload_all(
            [tight(array) for array, there in zip(given, shared, strict=True) if there is None]
        )
        rest = iter(uploaded)
        return [next(rest) if there is None else there for there in shared]

    def _presented(self, array: Array) -> TensorT | None:
        """The tensor that an array is a view of, where it is one of this context's shared memory."""
        handle = handle_of(array)
        if handle is None or handle.owner is not self.shared.key or handle.freed:
            return None
        start = array.__array_interface__["data"][0] - handle.mapping.address - handle.start
        if start % array.itemsize or not array.flags.c_contiguous or not array.size:
            return None
        dtype, first = arrays.data_type(array.dtype), start // array.itemsize
        strides = contiguous_strides(array.shape)
        storage = (first + array.size,) if first else array.shape
        spec = TensorSpec(dtype, array.shape, strides, first, storage)
        return self._tensor(spec, self._buffer(self, handle.size, shared=handle))

    @property
    def inline_bytes(self) -> int:
        """Bytes of arrays up to which a one-line call carries them itself."""
        limit = self.commands.inline_bytes
        return min(limit, CALL_BYTES) if self.shared.possible else limit

    @property
    def transport(self) -> str:
        """How large tensors get to the server: by ``"shared memory"``, over a ``"data connection"``, or in
        messages over a ``"unix socket"`` or ``"tcp"``."""
        if self.shared.in_use:
            return "shared memory"
        if self.data.in_use:
            return "data connection"
        return "unix socket" if self.address.startswith("unix:") else "tcp"

    async def _new_stream(self) -> StreamT:
        answer = await self.commands.ask(Pending("create_stream", pb.CreateStreamRequest()))
        return self._stream(self, answer.stream_id)

    async def _synchronize(self, timeout: float | None) -> None:
        pending = self.commands.watched(synchronizing("", timeout))
        await self.commands.ask(pending, EVERYWHERE, keep_at=CONTEXT)

    async def find_signature(self, operator: str) -> Signature:
        """The signature of an operator; the server is asked for those that it alone knows.

        Raises:
            OperatorNotFoundError: 100024, the server has no such operator.
        """
        found = known_signature(operator) or self._signatures.get(operator)
        if found is None:
            found = (await self._ask_operator(operator)).signature()
            self._signatures[operator] = found
        return found

    async def find_form(self, name: str) -> Pythonic:
        """The one-line form of an operator that the server tells of, by its name in Python.

        Raises:
            AttributeError: the server has none of that name.
        """
        if self._forms is None:
            told = (info.python for info in await self._ask_operators())
            self._forms = {form.name: form for form in told if form is not None}
        if name not in self._forms:
            raise AttributeError(
                f"there is no operator {name!r}, neither here nor on the server at {self.address}"
            )
        return self._forms[name]

    async def _ask_operator(self, name: str) -> OperatorInfo:
        return ask_operator(self._connection, name)

    async def _ask_operators(self) -> list[OperatorInfo]:
        return ask_operators(self._connection)

    async def _usage(self) -> Usage:
        answer = await self.commands.ask(Pending("renew_context", pb.RenewContextRequest()))
        return read_fields(Usage, answer.usage)

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<{type(self).__name__} on device {self.device} of {self.address}{state}>"


class Context(AnyContext[Buffer, Tensor, Stream, Event]):
    """One client's tenancy on one device; made by :func:`connect`. Thread-safe.

    Leaving the ``with`` block tells a failure that nobody has waited for, and closes it. One that is
    left open is closed when nothing refers to it
    any more, or at exit.
    """

    _buffer, _tensor, _stream, _event = Buffer, Tensor, Stream, Event

    def drive(self, steps: Steps[T]) -> T:
        """Runs a coroutine of this package to its end."""
        return run(steps)

    def tensor(
        self, array: ArrayLike, dtype: DTypeLike = None, *, progress: bool = False
    ) -> Tensor:
        """Uploads an array; strides and offset of a NumPy view are kept, with all of its base.

        Args:
            array: a NumPy array, an object with ``__dlpack__`` or ``__array__``, numbers or lists.
            dtype: element type to convert to; default that of `array`.
            progress: whether to show a progress bar on standard error.

        Returns:
            The tensor; `array` may be changed by then.

        Raises:
            InvalidParameterError: 161002, it is no array, or ACL has no such dtype.
        """
        return run(self.upload(array, dtype, progress=progress))

    def create_stream(self) -> Stream:
        """Creates a stream.

        Raises:
            LimitExceededError: 207012, the context has as many as allowed.
        """
        return run(self._new_stream())

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits until the work of every stream is done; as :meth:`Stream.synchronize`."""
        run(self._synchronize(timeout))

    def operators(self, prefix: str = "") -> list[OperatorInfo]:
        """Lists the operators that the server runs and whose names begin with `prefix`."""
        return ask_operators(self._connection, prefix)

    def operator(self, name: str) -> OperatorInfo:
        """Describes one operator, by its C name.

        Raises:
            OperatorNotFoundError: 100024, the server has no such operator.
        """
        return ask_operator(self._connection, name)

    def info(self) -> ServerInfo:
        """Tells what the server is."""
        return ask_info(self._connection)

    def usage(self) -> Usage:
        """Tells what the context holds."""
        return run(self._usage())

    def close(self) -> None:
        """Destroys the context on the server, with all that it holds, and ends the connection.

        Running work is broken off where the device can, else it ends first; queued work is dropped.
        Without effect where that is done.
        """
        self.close_now()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.drive(self.tell_failures())
        finally:
            self.close()


def connect(
    address: str,
    *,
    device: int | None = None,
    token: str | None = None,
    tls: bool | Tls | None = None,
    shared_memory: bool | None = None,
    timeout: float | None = None,
) -> Context:
    """Connects to a server and opens a context on one of its devices.

    Args:
        address: ``host:port``, ``[IPv6]:port`` or ``unix:path``.
        device: index of the device; default the one with the most free memory.
        token: bearer token, where the server asks for one.
        tls: ``None`` plain text, in which no token is sent to another machine; ``False`` plain text
            all the same; ``True`` TLS with the certificates that gRPC trusts; else a :class:`Tls`.
        shared_memory: memory that both see, of a server on this machine: ``False`` never, ``True``
            must, for tensors of every size; ``None`` for large ones, where possible.
        timeout: seconds that any wait for the server may take; ``None`` without limit, except for
            connecting, which takes 5 seconds at most.

    Raises:
        ServerUnavailable: no answer from there.
        VersionMismatchError: 500001, the server speaks another version of the protocol.
        UnauthenticatedError, PermissionDeniedError: token or certificate is missing, wrong, expired
            or not enough.
        HandleNotFoundError: 107017, no such device.
        InvalidParameterError: 161002, an argument cannot be.
        UnsupportedError: 207000, shared memory is a must and not offered.
    """
    return Context(
        open_context(
            address,
            device=device,
            token=token,
            tls=tls,
            shared_memory=shared_memory,
            timeout=timeout,
        )
    )
