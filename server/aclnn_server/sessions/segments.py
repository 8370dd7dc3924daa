"""Segments: memory of one context that its client maps too, and the places in it where buffers lie.

The client chooses the places. That no two buffers share one is checked here, and a place is free again when
no work uses its buffer any more; the client is told of that once.
"""

from __future__ import annotations

import contextlib
import mmap
import threading
from bisect import bisect_left, bisect_right
from collections import deque
from functools import partial

from aclnn.errors import InvalidParameterError, NotReadyError, UnsupportedError
from aclnn_server.backends.base import Memory, SharedMemory
from aclnn_server.sessions.handles import Handles, unknown
from aclnn_server.sessions.handover import Handover
from aclnn_server.sessions.memory import Account, Buffer

SEGMENTS = 64
"""Segments of one context."""
ALIGNMENT = 64
"""Bytes that a place begins at a multiple of: a cache line."""


class Place:
    """Where one buffer lies in a segment."""

    __slots__ = ("_segment", "memory", "offset", "segment_id")

    def __init__(self, segment: Segment, offset: int, memory: Memory) -> None:
        self.segment_id = segment.id
        self.offset = offset
        self.memory = memory
        self._segment = segment

    def give_back(self, buffer_id: int) -> None:
        """Frees the place: no work uses the buffer any more."""
        self._segment.give_back(self.offset, buffer_id)


class Segment:
    """One segment.

    While its client maps it, what is in it outlives the segment, and is still on the account: arrays that
    the client has taken of it stay as they are.
    """

    def __init__(
        self, handle: int, shared: SharedMemory, size: int, account: Account, handover: Handover
    ) -> None:
        self.id = handle
        self.size = size
        self.returned: deque[int] = deque()
        """Buffers whose places were freed and of which the client was not told yet."""
        self._shared = shared
        self._account = account
        self._handover = handover
        self._lock = threading.Lock()
        # Guarded by the lock: the places in use, by where they begin.
        self._starts: list[int] = []
        self._places: list[tuple[int, int]] = []  # one past the end, and the buffer's id
        self._mapped = self._ended = self._cleared = False
        self.secret = handover.offer(self)

    @property
    def path(self) -> str:
        """The socket where the client gets the segment."""
        return str(self._handover.path)

    # --- places -------------------------------------------------------------------------------------

    def place(self, buffer_id: int, offset: int, size: int) -> Place:
        """Takes a place for a buffer.

        Raises:
            InvalidParameterError: 161002, it is outside, not aligned, or not free.
        """
        end = offset + size
        problem = ""
        if offset % ALIGNMENT:
            problem = f"is {offset}; it must be a multiple of {ALIGNMENT}"
        elif end > self.size:
            problem = f"takes bytes {offset} to {end} of a segment of {self.size}"
        with self._lock:
            if self._ended:
                raise unknown(f"segment {self.id}", "segment_id")
            problem = problem or self._taken(offset, end)
            if problem:
                raise InvalidParameterError(f"segment_offset {problem}", parameter="segment_offset")
            index = bisect_left(self._starts, offset)
            self._starts.insert(index, offset)
            self._places.insert(index, (end, buffer_id))
        return Place(self, offset, self._account.device.slice(self._shared.memory, offset, size))

    def _taken(self, offset: int, end: int) -> str:
        """Which buffer stands against a place, in words; empty where none does."""
        index = bisect_right(self._starts, offset)
        for at in (index - 1, index):
            if 0 <= at < len(self._starts):
                start, (stop, buffer_id) = self._starts[at], self._places[at]
                if start < end and offset < stop:
                    return (
                        f"is {offset}, for bytes to {end}; buffer {buffer_id}, which has not been "
                        f"freed or is in use by queued work, has bytes {start} to {stop}"
                    )
        return ""

    def give_back(self, offset: int, buffer_id: int) -> None:
        """Frees a place."""
        with self._lock:
            index = bisect_left(self._starts, offset)
            del self._starts[index], self._places[index]
        self.returned.append(buffer_id)

    # --- the client's process -------------------------------------------------------------------------

    @property
    def file(self) -> int:
        """Number of the open file."""
        return self._shared.file

    def handed_over(self) -> None:
        """The client has it."""
        with self._lock:
            self._mapped = not self._cleared
        self._shared.close_file()

    def let_go(self) -> None:
        """The client's process has ended its connection: it maps the segment no more."""
        with self._lock:
            self._mapped = False
            ended = self._ended
        if ended:
            self._clear()

    # --- the end --------------------------------------------------------------------------------------

    def end(self) -> None:
        """Ends it, with its context. What the client maps stays as it is, until it lets go."""
        self._handover.withdraw(self.secret)
        with self._lock:
            self._ended = True
            mapped = self._mapped
        if not mapped:
            self._clear()

    def detach(self) -> None:
        """Ends it, as its client asks: what was in it is gone.

        Raises:
            NotReadyError: 107006, buffers lie in it.
        """
        with self._lock:
            if self._places:
                raise NotReadyError(
                    f"segment {self.id} has {len(self._places)} buffers in it; free them first",
                    parameter="segment_id",
                )
            self._ended = True
        self._handover.withdraw(self.secret)
        self._clear()

    def _clear(self) -> None:
        with self._lock:
            if self._cleared:
                return
            self._cleared = True
        self._shared.close_file()
        self._shared.clear()
        self._account.credit(self.size)
        self._handover.drop(self)


class Segments:
    """The segments of one context."""

    def __init__(self, account: Account, handover: Handover | None) -> None:
        self._account = account
        self._handover = handover
        self._segments: Handles[Segment] = Handles("segment", SEGMENTS)

    def attach(self, size: int) -> Segment:
        """Makes a segment of at least `size` bytes.

        Raises:
            UnsupportedError: 207000, it is not offered here.
            InvalidParameterError: 161002, no bytes.
            OutOfMemoryError, LimitExceededError: quota, device memory, or number of segments.
        """
        if self._handover is None or self._handover.path is None:
            raise UnsupportedError("this server offers no shared memory")
        if size < 1:
            raise InvalidParameterError("bytes is 0; a segment has at least 1", parameter="bytes")
        whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        return self._segments.add(0, partial(self._make, whole, self._handover))

    def _make(self, size: int, handover: Handover, handle: int) -> Segment:
        with handover.room():
            shared = self._account.share(size, "the segment")
            return Segment(handle, shared, size, self._account, handover)

    def detach(self, segment_id: int) -> None:
        """Ends a segment.

        Raises:
            HandleNotFoundError: no such segment in this context.
            NotReadyError: 107006, buffers lie in it.
        """
        self._segments.find(segment_id).detach()
        self._segments.take(segment_id)

    def make_buffer(
        self, buffer_id: int, size: int, segment_id: int, offset: int, *, zeroed: bool = True
    ) -> Buffer:
        """Lays a buffer into a segment; with a segment_id of 0, it has memory of its own.

        Raises:
            HandleNotFoundError: no such segment in this context.
            InvalidParameterError: 161002, the place cannot be.
            OutOfMemoryError: 207001, no room for memory of its own.
        """
        if not segment_id:
            return Buffer(buffer_id, size, self._account, zeroed=zeroed)
        place = self._segments.find(segment_id).place(buffer_id, offset, size)
        return Buffer(buffer_id, size, self._account, place)

    def take_returned(self) -> list[int]:
        """Buffers whose places are free again and of which the client was not told yet."""
        if not len(self._segments):
            return []
        told: list[int] = []
        for segment in self._segments:
            with contextlib.suppress(IndexError):
                while True:
                    told.append(segment.returned.popleft())
        return told

    def end(self) -> None:
        """Ends all of them, with their context: nothing uses their buffers any more."""
        for segment in self._segments.take_all():
            segment.end()
