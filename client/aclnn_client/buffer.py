"""Buffers: bytes of device memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aclnn.errors import InvalidParameterError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client.arrays import allocate
from aclnn_client.pending import CONTEXT, Pending, run
from aclnn_client.transfer import download, upload

if TYPE_CHECKING:
    from aclnn_client.context import AnyContext
    from aclnn_client.shared import Handle
    from aclnn_client.stream import AnyStream

BytesLike = bytes | bytearray | memoryview | npt.NDArray[Any]
"""What bytes can be taken from."""


class AnyBuffer:
    """What the blocking and the asyncio :class:`Buffer` share."""

    def __init__(
        self,
        context: AnyContext[Any, Any, Any, Any],
        size: int,
        *,
        zeroed: bool = True,
        shared: Handle | None = None,
    ) -> None:
        """Allocates; made by ``context.malloc``.

        Args:
            context: to allocate in.
            size: bytes.
            zeroed: whether it begins as zeros; else it may hold what this context has had there.
            shared: a buffer of the context in shared memory that this is another name for.
        """
        self._freed = True
        self.context = context
        """Context that it belongs to."""
        self.size = size
        """Bytes."""
        self.buffer_id = shared.buffer_id if shared is not None else context.commands.next_id()
        """Its id, unique in its context."""
        self.stream: AnyStream | None = None
        """Stream whose work used it last."""
        self.shared = shared
        """Its place in shared memory; ``None`` where it has memory of the server's, and when freed."""
        if shared is None:
            request = pb.MallocRequest(
                buffer_id=self.buffer_id, bytes=size, uninitialized=not zeroed
            )
            self._place(request, zeroed=zeroed)
            context.commands.post("malloc", request, hold=True)
        self._freed = False

    def _place(self, request: pb.MallocRequest, *, zeroed: bool) -> None:
        """Finds a place in shared memory, where there is one to be had."""
        found = self.context.shared.allocate(self.buffer_id, self.size)
        if found is not None:
            self.shared, fresh = found
            request.segment_id = self.shared.mapping.segment_id
            request.segment_offset = self.shared.start
            if zeroed and not fresh:
                self.shared.bytes.fill(0)

    def free(self) -> None:
        """Frees it; without effect where that is done. Work that is queued keeps the memory."""
        if not self._freed:
            self._freed = True
            if self.shared is not None:
                if self.shared.freed:
                    return
                self.shared.freed = True
                self.shared = None  # views of it keep the memory
            self.context.commands.end("free", self.buffer_id)

    def fill(self, value: int) -> None:
        """Sets every byte to `value`, 0 to 255, after queued work that uses the buffer.

        Raises:
            InvalidParameterError: 161002, the value is no byte.
        """
        if not 0 <= value <= 255:
            raise InvalidParameterError(
                f"value is {value!r}; a byte is 0 to 255", parameter="value"
            )
        request = pb.MemsetRequest(buffer_id=self.buffer_id, bytes=self.size, value=value)
        self.context.commands.post("memset", request)

    def copy_from(
        self,
        source: AnyBuffer,
        *,
        offset: int = 0,
        source_offset: int = 0,
        size: int | None = None,
        stream: AnyStream | None = None,
    ) -> None:
        """Copies on the device from another buffer of the context, or from itself.

        Args:
            source: the buffer to read.
            offset: bytes from the start of this buffer.
            source_offset: bytes from the start of `source`.
            size: bytes; default to the end of `source`.
            stream: to queue it in; default at once, after queued work that uses either buffer.
        """
        if source.context is not self.context:
            raise InvalidParameterError("source belongs to another context", parameter="source")
        request = pb.MemcpyRequest(
            stream_id=stream.stream_id if stream is not None else "",
            destination_buffer_id=self.buffer_id,
            destination_offset=offset,
            source_buffer_id=source.buffer_id,
            source_offset=source_offset,
            bytes=source.size - source_offset if size is None else size,
        )
        if stream is None:
            self.context.commands.post("memcpy", request)
        else:
            self.context.commands.post("memcpy", request, place=stream.stream_id)
            stream.note_work(self, source)

    async def _write(self, data: BytesLike, offset: int, *, progress: bool) -> None:
        view = np.asarray(data).data if isinstance(data, np.ndarray) else memoryview(data)
        if not view.c_contiguous:
            view = memoryview(view.tobytes())
        view = view.cast("B") if view.nbytes else memoryview(b"")
        self._check_range(offset, len(view))
        await self.put(view, offset, progress=progress)

    async def put(self, data: memoryview, offset: int, *, progress: bool = False) -> None:
        """Writes bytes, one-dimensional, after queued work that uses the buffer."""
        context = self.context
        if self.shared is not None:
            await self.unused()
            self.fill_in(data, offset)
            return
        if context.data.takes(len(data)):
            await self.unused()
            write = context.data.writing(self.buffer_id, offset, data, progress=progress)
            if await context.make(write):
                return
        await upload(context.commands, self.buffer_id, offset, data, progress=progress)

    async def unused(self) -> None:
        """Waits until the server has the buffer, and no work that was queued before uses it."""
        await self.context.commands.ask(self._fence())

    def fill_in(self, data: memoryview, offset: int = 0) -> None:
        """Writes bytes into shared memory, at once."""
        assert self.shared is not None
        self.shared.bytes[offset : offset + len(data)] = data

    def _fence(self) -> Pending:
        """A command that is answered when no queued work uses the buffer any more: a read of no bytes."""
        request = pb.ReadBufferRequest(buffer_id=self.buffer_id)
        return Pending("read_buffer", request, into=memoryview(bytearray()))

    async def settle(self) -> None:
        """Waits for queued work that uses the buffer; tells that work's failure."""
        commands, before, places = self.context.commands, *self._before()
        fence = self._fence()
        commands.submit(*([] if before is None else [before]), fence)
        if before is not None:
            await commands.answer(before, *places, keep_at=places[0])
        await commands.answer(fence, *places)

    def _before(self) -> tuple[Pending | None, tuple[str, ...]]:
        """What to wait for before the bytes are read, and the places of failures to tell."""
        if self.stream is None:
            return None, (CONTEXT,)
        places = (self.stream.stream_id, CONTEXT)
        return (self.stream.synchronizing() if self.stream.dirty else None), places

    async def _read(self, offset: int, size: int | None, *, progress: bool) -> bytes:
        size = self.size - offset if size is None else size
        self._check_range(offset, size)
        into = allocate(size, np.uint8)
        await self.read_into(into.data, offset, progress=progress)
        return into.tobytes()

    async def read_into(self, into: memoryview, offset: int, *, progress: bool = False) -> None:
        """Reads bytes after queued work that uses the buffer; tells that work's failure."""
        if (shared := self.shared) is not None:
            await self.settle()
            into[:] = shared.bytes[offset : offset + len(into)].data
            return
        if (data := self.context.data).takes(len(into)):
            await self.settle()
            read = data.reading(self.buffer_id, offset, into, progress=progress)
            if await self.context.make(read):
                return
        before, places = self._before()
        await download(
            self.context.commands,
            self.buffer_id,
            offset,
            into,
            before=before,
            places=places,
            progress=progress,
        )

    def _check_range(self, offset: int, size: int) -> None:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise InvalidParameterError(
                f"offset is {offset} and size {size}; the buffer has {self.size} bytes",
                parameter="offset",
            )

    def __repr__(self) -> str:
        state = "freed" if self._freed else f"{self.size} bytes"
        return f"<{type(self).__name__} {self.buffer_id}: {state}>"

    def __del__(self) -> None:
        if not self._freed and self.shared is None:  # else it is freed with the last view of it
            self.context.commands.abandon("free", self.buffer_id)


class Buffer(AnyBuffer):
    """Bytes of device memory; freed by :meth:`free`, or when nothing refers to it any more."""

    def write(self, data: BytesLike, offset: int = 0, *, progress: bool = False) -> None:
        """Writes bytes, after queued work that uses the buffer; returns when `data` may be changed.

        Args:
            data: any object with the buffer protocol; its bytes are taken in C order.
            offset: bytes from the start of the buffer.
            progress: whether to show a progress bar on standard error.

        Raises:
            InvalidParameterError: 161002, the range is outside the buffer.
        """
        run(self._write(data, offset, progress=progress))

    def read(self, offset: int = 0, size: int | None = None, *, progress: bool = False) -> bytes:
        """Reads bytes, after queued work that uses the buffer.

        Args:
            offset: bytes from the start of the buffer.
            size: bytes to read; default to its end.
            progress: whether to show a progress bar on standard error.

        Raises:
            InvalidParameterError: 161002, the range is outside the buffer.
            AclnnError: work that used the buffer, or a command before, failed.
        """
        return run(self._read(offset, size, progress=progress))
