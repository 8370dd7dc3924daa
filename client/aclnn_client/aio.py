"""The client for asyncio programs: the same names as in :mod:`aclnn_client`, awaited where they wait.

::

    from aclnn_client import aio

    async with aio.connect("localhost:50051") as context:
        x, target, grad = [await context.tensor(a) for a in (x_np, target_np, grad_np)]
        grad_input = context.empty((4, 2), "float32")
        size, executor = await aio.ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
            grad, x, target, 0, 1.0, grad_input
        )
        await aio.ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor)
        print(await grad_input.numpy())
        print(await context.ops.smooth_l1_loss_backward(grad_np, x_np, target_np))

What never waits is a plain call: ``malloc``, ``create_tensor``, ``empty``, ``create_event``, ``free``,
``fill``, ``copy_from``, ``record``, ``wait``. A context belongs to the event loop that it was opened in; one
thread of its own reads what the server answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import types
from collections.abc import Awaitable, Callable, Generator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from aclnn.errors import AclnnError, ServerUnavailable
from aclnn.overview import Usage
from aclnn_client.arrays import Array, ArrayLike, DTypeLike
from aclnn_client.buffer import AnyBuffer, BytesLike
from aclnn_client.context import AnyContext
from aclnn_client.data_connection import Move
from aclnn_client.executors import Bindings, Executor
from aclnn_client.info import OperatorInfo, ServerInfo, ask_info, ask_operator, ask_operators
from aclnn_client.info import server_info as _server_info
from aclnn_client.opening import Opened, open_context
from aclnn_client.pending import Pending, Steps
from aclnn_client.stream import AnyEvent, AnyStream
from aclnn_client.tensor import AnyTensor
from aclnn_client.tls import Tls
from aclnn_client.two_phase import execute as _execute
from aclnn_client.two_phase import get_workspace_size as _get_workspace_size

__all__ = [
    "Buffer",
    "Context",
    "Event",
    "Executor",
    "Stream",
    "Tensor",
    "connect",
    "execute",
    "get_workspace_size",
    "ops",
    "server_info",
]

T = TypeVar("T")


# --- waiting ----------------------------------------------------------------------------------------


@types.coroutine
def _finish(steps: Steps[T], timeout: float | None) -> Generator[Any, Any, T]:
    """Runs a coroutine of this package on the event loop."""
    try:
        waited = steps.send(None)
        while True:
            try:
                if isinstance(waited, Pending):
                    yield from _arrival(waited, timeout).__await__()
                    answer = None
                else:  # asyncio's own, for it to handle
                    answer = yield waited
            except BaseException as error:
                waited = steps.throw(error)
            else:
                waited = steps.send(answer)
    except StopIteration as stop:
        value: T = stop.value
        return value
    except AclnnError as error:  # as in `pending.run`
        raise error.with_traceback(None) from None
    finally:
        waited = None


def _arrival(pending: Pending, timeout: float | None) -> asyncio.Future[None]:
    """A future that is done when the result is there, or fails when that takes too long."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    timer: asyncio.TimerHandle | None = None
    if timeout is not None:
        limit = timeout + pending.patience
        error = ServerUnavailable(f"no answer within {limit:g} seconds")
        timer = loop.call_later(limit, _fail, future, error)

    def arrived() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(_succeed, future, timer)

    pending.call_back(arrived)
    return future


def _succeed(future: asyncio.Future[None], timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
    if not future.done():
        future.set_result(None)


def _fail(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


async def _in_thread(call: Callable[..., T], *arguments: object) -> T:
    """Runs one of the few calls that block, in a thread."""
    return await asyncio.to_thread(call, *arguments)


# --- objects of a context ---------------------------------------------------------------------------


class Buffer(AnyBuffer):
    """Bytes of device memory; freed by :meth:`free`, or when nothing refers to it any more."""

    async def write(self, data: BytesLike, offset: int = 0, *, progress: bool = False) -> None:
        """Writes bytes; see :meth:`aclnn_client.Buffer.write`."""
        await self.context.drive(self._write(data, offset, progress=progress))

    async def read(
        self, offset: int = 0, size: int | None = None, *, progress: bool = False
    ) -> bytes:
        """Reads bytes; see :meth:`aclnn_client.Buffer.read`."""
        return cast(bytes, await self.context.drive(self._read(offset, size, progress=progress)))


class Tensor(AnyTensor[Buffer]):
    """A tensor in device memory."""

    async def numpy(self, out: Array | None = None, *, progress: bool = False) -> Array:
        """Downloads the view; see :meth:`aclnn_client.Tensor.numpy`."""
        return cast(Array, await self.context.drive(self.download(out, progress=progress)))

    async def write(self, array: ArrayLike, *, progress: bool = False) -> None:
        """Uploads into the view; see :meth:`aclnn_client.Tensor.write`."""
        await self.context.drive(self._write(array, progress=progress))


class Stream(AnyStream):
    """An ordered queue of work; work of several streams runs in parallel."""

    async def synchronize(self, timeout: float | None = None) -> None:
        """Waits for the work; see :meth:`aclnn_client.Stream.synchronize`."""
        await self.context.drive(self._synchronize(timeout))

    async def query(self) -> bool:
        """Whether the work queued so far is done, without waiting for it."""
        return cast(bool, await self.context.drive(self._query()))

    async def destroy(self) -> None:
        """Destroys it at once; see :meth:`aclnn_client.Stream.destroy`."""
        await self.context.drive(self._destroy())

    async def close(self) -> None:
        """Waits for the work and destroys it."""
        await self.context.drive(self._close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        else:
            self._abandon()


class Event(AnyEvent):
    """A mark in a stream, to wait for or to time; ended when nothing refers to it any more."""

    async def synchronize(self, timeout: float | None = None) -> None:
        """Waits for the latest mark; see :meth:`aclnn_client.Event.synchronize`."""
        await self.context.drive(self._synchronize(timeout))

    async def query(self) -> bool:
        """Whether the latest mark has been passed; true where there is none."""
        return cast(bool, await self.context.drive(self._query()))

    async def elapsed_time(self, end: Event) -> float:
        """Milliseconds between two marks; see :meth:`aclnn_client.Event.elapsed_time`."""
        return cast(float, await self.context.drive(self._elapsed_time(end)))


class Context(AnyContext[Buffer, Tensor, Stream, Event]):
    """One client's tenancy on one device; made by :func:`connect`."""

    _blocking = False
    _buffer, _tensor, _stream, _event = Buffer, Tensor, Stream, Event

    def __init__(self, opened: Opened) -> None:
        """Wraps what :func:`~aclnn_client.opening.open_context` opened."""
        super().__init__(opened)
        self.commands.submitter.start_reader()

    def drive(self, steps: Steps[T]) -> Awaitable[T]:
        """Makes an awaitable of a coroutine of this package."""
        return _finish(steps, self._connection.timeout)

    async def tensor(
        self, array: ArrayLike, dtype: DTypeLike = None, *, progress: bool = False
    ) -> Tensor:
        """Uploads an array; see :meth:`aclnn_client.Context.tensor`."""
        return await self.drive(self.upload(array, dtype, progress=progress))

    async def create_stream(self) -> Stream:
        """Creates a stream."""
        return await self.drive(self._new_stream())

    async def synchronize(self, timeout: float | None = None) -> None:
        """Waits until the work of every stream is done."""
        await self.drive(self._synchronize(timeout))

    async def operators(self, prefix: str = "") -> list[OperatorInfo]:
        """Lists the operators that the server runs and whose names begin with `prefix`."""
        return await _in_thread(ask_operators, self._connection, prefix)

    async def operator(self, name: str) -> OperatorInfo:
        """Describes one operator, by its C name."""
        return await _in_thread(ask_operator, self._connection, name)

    async def info(self) -> ServerInfo:
        """Tells what the server is."""
        return await _in_thread(ask_info, self._connection)

    async def usage(self) -> Usage:
        """Tells what the context holds."""
        return await self.drive(self._usage())

    async def close(self) -> None:
        """Destroys the context; see :meth:`aclnn_client.Context.close`."""
        await _in_thread(self.close_now)

    async def make(self, move: Move) -> bool:
        """Makes a transfer in a thread; cancelled, it moves nothing any more when this returns."""
        making = asyncio.ensure_future(_in_thread(move.make))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            begun = move.break_off()
            while begun and not making.done():
                with contextlib.suppress(asyncio.CancelledError):  # once is enough
                    await asyncio.wait([making])
            raise

    async def _ask_operator(self, name: str) -> OperatorInfo:
        return await self.operator(name)

    async def _ask_operators(self) -> list[OperatorInfo]:
        return await self.operators()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                await self.drive(self.tell_failures())
        finally:
            await self.close()


# --- opening ----------------------------------------------------------------------------------------


class Connecting:
    """A context that is being opened: ``await`` it, or use it in ``async with``."""

    def __init__(self, open_it: Callable[[], Opened]) -> None:
        self._open = open_it
        self._context: Context | None = None

    def __await__(self) -> Generator[Any, Any, Context]:
        return self._connect().__await__()

    async def _connect(self) -> Context:
        opening = asyncio.get_running_loop().run_in_executor(None, self._open)
        try:
            return Context(await asyncio.shield(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_close_late)
            raise

    async def __aenter__(self) -> Context:
        self._context = await self._connect()
        return self._context

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._context is not None
        await self._context.__aexit__(kind, error, traceback)


def _close_late(opening: asyncio.Future[Opened]) -> None:
    """Closes a context that nobody waits for any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.get_loop().run_in_executor(None, Context(opening.result()).close_now)


def connect(
    address: str,
    *,
    device: int | None = None,
    token: str | None = None,
    tls: bool | Tls | None = None,
    shared_memory: bool | None = None,
    timeout: float | None = None,
) -> Connecting:
    """Connects to a server and opens a context; see :func:`aclnn_client.connect`."""
    return Connecting(
        functools.partial(
            open_context,
            address,
            device=device,
            token=token,
            tls=tls,
            shared_memory=shared_memory,
            timeout=timeout,
        )
    )


async def server_info(
    address: str,
    *,
    token: str | None = None,
    tls: bool | Tls | None = None,
    timeout: float | None = None,
) -> ServerInfo:
    """Asks a server what it is; see :func:`aclnn_client.server_info`."""
    ask = functools.partial(_server_info, address, token=token, tls=tls, timeout=timeout)
    return await _in_thread(ask)


# --- the two phases ---------------------------------------------------------------------------------


async def get_workspace_size(
    operator: str,
    arguments: Sequence[object],
    *,
    repeatable: bool = False,
    context: Context | None = None,
) -> tuple[int, Executor]:
    """Phase one; see :func:`aclnn_client.get_workspace_size`."""
    planning: Any = _get_workspace_size(operator, arguments, repeatable=repeatable, context=context)
    return cast(tuple[int, Executor], await planning)


async def execute(
    operator: str,
    workspace: Buffer | None,
    workspace_size: int,
    executor: Executor,
    stream: Stream | None = None,
    *,
    bindings: Bindings | None = None,
) -> None:
    """Phase two; see :func:`aclnn_client.execute`."""
    await _execute(operator, workspace, workspace_size, executor, stream, bindings=bindings)


class _Ops:
    """The functions of :mod:`aclnn_client.ops`, to be awaited."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        from aclnn_client import ops as blocking

        function = getattr(blocking, name)
        return _phase_two(name) if name in blocking.SIGNATURES else function

    def __dir__(self) -> list[str]:
        from aclnn_client import ops as blocking

        return [name for name in dir(blocking) if name.startswith("aclnn")]


def _phase_two(operator: str) -> Callable[..., Awaitable[None]]:
    async def run(
        workspace: Buffer | None,
        workspaceSize: int,  # noqa: N803 - the prototype's name
        executor: Executor,
        stream: Stream | None = None,
    ) -> None:
        await execute(operator, workspace, workspaceSize, executor, stream)

    run.__name__ = run.__qualname__ = operator
    return run


ops = _Ops()
"""The typed pairs of :mod:`aclnn_client.ops`, to be awaited."""
