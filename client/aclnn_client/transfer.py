"""Bytes between the caller's memory and a buffer, in chunks that are under way at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from aclnn.v1 import device_service_pb2 as pb
from aclnn_client.commands import Commands
from aclnn_client.pending import Pending
from aclnn_client.progress import Progress

WINDOW = 16
"""Chunks of one transfer that are under way at the same time."""
SMALL_BYTES = 1 << 14
"""Bytes of an upload up to which to copy them takes less than a request: it goes with what follows."""


async def upload(
    commands: Commands, buffer_id: int, offset: int, data: memoryview, *, progress: bool = False
) -> None:
    """Writes into a buffer; returns when `data` may be changed, which may be before it has arrived.

    Args:
        commands: of the buffer's context.
        buffer_id: the buffer.
        offset: bytes from its start.
        data: the bytes, one-dimensional.
        progress: whether to show a progress bar; it then returns when all has arrived.
    """
    if 0 < len(data) <= min(SMALL_BYTES, commands.chunk_bytes) and not progress:
        request = pb.WriteBufferRequest(buffer_id=buffer_id, offset=offset)
        commands.submit(commands.posted("write_buffer", request, bytes(data)), linger=True)
        return
    bar = Progress("upload", len(data), shown=progress)
    under_way: deque[tuple[Pending, int]] = deque()
    last: Pending | None = None
    for start, part in _chunks(data, commands.chunk_bytes):
        request = pb.WriteBufferRequest(buffer_id=buffer_id, offset=offset + start)
        last = commands.posted("write_buffer", request, part)
        commands.submit(last)
        under_way.append((last, len(part)))
        while len(under_way) > WINDOW:
            await _advance(under_way, bar)
    while progress and under_way:
        await _advance(under_way, bar)
    if last is not None and last.unsent:
        await last


async def _advance(under_way: deque[tuple[Pending, int]], bar: Progress) -> None:
    pending, size = under_way.popleft()
    await pending
    bar.advance(size)


async def download(
    commands: Commands,
    buffer_id: int,
    offset: int,
    into: memoryview,
    *,
    before: Pending | None = None,
    places: tuple[str, ...] = (),
    progress: bool = False,
) -> None:
    """Reads from a buffer, straight into `into`.

    Args:
        commands: of the buffer's context.
        buffer_id: the buffer.
        offset: bytes from its start.
        into: where to; one-dimensional, as long as what is to be read.
        before: a command to send in front, in the same request; its failure is told first.
        places: failures kept for them are told, see :meth:`Commands.answer`; that of `before`
            belongs to the first.
        progress: whether to show a progress bar.

    Raises:
        AclnnError: what failed first.
    """
    bar = Progress("download", len(into), shown=progress)
    under_way: deque[tuple[Pending, int]] = deque() if before is None else deque([(before, 0)])
    first = [] if before is None else [before]
    for start, part in _chunks(into, commands.chunk_bytes):
        request = pb.ReadBufferRequest(buffer_id=buffer_id, offset=offset + start, bytes=len(part))
        pending = Pending("read_buffer", request, into=part)
        commands.submit(*first, pending)
        first = []
        under_way.append((pending, len(part)))
        while len(under_way) > WINDOW:
            await _received(commands, under_way, places, bar)
    if first:
        commands.submit(*first)
    while under_way:
        await _received(commands, under_way, places, bar)


async def _received(
    commands: Commands,
    under_way: deque[tuple[Pending, int]],
    places: tuple[str, ...],
    bar: Progress,
) -> None:
    pending, size = under_way.popleft()
    await commands.answer(pending, *places, keep_at=None if size else places[0])
    bar.advance(size)


def _chunks(data: memoryview, size: int) -> Iterator[tuple[int, memoryview]]:
    for start in range(0, len(data), size):
        yield start, data[start : start + size]
