"""Memory that the client shares with a server on its machine: buffers in it need not travel.

The server makes segments; the client maps them and says where in them its buffers lie. A region is used
again when nothing of the program refers to it, and the server has told that no work uses it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn.errors import AclnnError, LimitExceededError, OutOfMemoryError, ServerUnavailable
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client.connection import Connection, is_local, target_of
from aclnn_client.mapping import Mapping
from aclnn_client.regions import Regions

SHARED_BYTES = 1 << 14
"""Bytes from which a buffer lies in shared memory without being asked to. Measured: a tensor of 4 to 64 KiB
that is made and read back takes 0.8 ms there and 1.1 to 1.3 by messages, one of 1 MiB 1.0 and 2.8; to attach
a segment takes 1.6 ms, once. Smaller ones would save as much, but they are many, and each needs a place."""
CALL_BYTES = 1 << 19
"""Bytes of a one-line call's arrays up to which they go with the call all the same. Measured: with 512 KiB
1.1 to 1.2 ms, by shared memory 1.3; with 768 KiB 1.6 and 1.3; with 1 MiB 1.7 to 2.2 and 1.3 to 1.4."""
SEGMENT_BYTES = 64 << 20
"""Bytes of a segment, or more where a buffer needs more: fresh pages cost ten times what used ones do."""
SHARE_OF_QUOTA = 16
"""A segment is no more than this part of what the context may hold, unless a buffer needs more."""

Array = npt.NDArray[Any]


class Handle:
    """A buffer in shared memory, for as long as the program refers to it: by its buffer, or by arrays."""

    def __init__(
        self, owner: SharedMemory, mapping: Mapping, buffer_id: int, start: int, size: int
    ) -> None:
        self.mapping = mapping
        self.buffer_id = buffer_id
        self.start = start
        self.size = size
        self.freed = False
        """Whether the server was told that it is free."""
        self.owner = owner.key
        """Tells whose it is."""
        # Not the owner itself: an array must not keep a context open.
        self._abandoned, self._dropped = owner.abandoned, owner.dropped

    @property
    def bytes(self) -> Array:
        """The memory, without a share in keeping it."""
        return self.mapping.bytes[self.start : self.start + self.size]

    def lend(self) -> Array:
        """The memory as bytes; it, and every view of it, keep the buffer."""
        return np.asarray(_Loan(self))

    def __del__(self) -> None:
        # No lock: this may run at any time in any thread.
        if not self.freed:
            self._abandoned.append(("free", self.buffer_id))
        self._dropped.append(self.buffer_id)


class _Loan:
    """What NumPy keeps as the owner of arrays over shared memory."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.__array_interface__ = {
            "version": 3,
            "data": (handle.mapping.address + handle.start, False),
            "shape": (handle.size,),
            "typestr": "|u1",
        }


def handle_of(array: Array) -> Handle | None:
    """The buffer in shared memory that an array is a view of."""
    owner: object = array
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return owner.handle if isinstance(owner, _Loan) else None


class _Segment:
    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.regions = Regions(mapping.size)


class SharedMemory:
    """The shared memory of one context. Thread-safe."""

    def __init__(
        self,
        connection: Connection,
        context_id: str,
        context_bytes: int,
        wanted: bool | None,
        abandoned: deque[tuple[str, int | str]],
    ) -> None:
        """Asks for nothing yet.

        Args:
            connection: to the server.
            context_id: of the context.
            context_bytes: what the context may hold; 0: any amount.
            wanted: ``False`` never, ``True`` for buffers of every size, ``None`` for large ones.
            abandoned: takes what the server is to be told to end.
        """
        self.key = object()
        self.abandoned = abandoned
        self.dropped: deque[int] = deque()
        """Buffers that nothing of the program refers to any more."""
        self.returned: deque[int] = deque()
        """Buffers that no work of the server uses any more."""
        self.smallest = 1 if wanted else SHARED_BYTES
        """Bytes from which buffers are placed here."""
        self._connection = connection
        self._context_id = context_id
        quota = context_bytes // SHARE_OF_QUOTA if context_bytes else SEGMENT_BYTES
        self._segment_bytes = max(1, min(SEGMENT_BYTES, quota))
        local = is_local(target_of(connection.address)[1])
        self._refused = wanted is False or not (wanted or local)
        self._broke_with = 0
        """Number of the connection over which the server could not be asked; it is, over the next one."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        # Guarded by the lock.
        self._segments: list[_Segment] = []
        self._taken: dict[int, tuple[_Segment, int, int]] = {}
        self._free_on: dict[str, set[int]] = {"here": set(), "there": set()}

    @property
    def in_use(self) -> bool:
        """Whether there is any."""
        return bool(self._segments)

    @property
    def possible(self) -> bool:
        """Whether there may be some for a buffer that is large enough."""
        return not self._refused and self._connection.made != self._broke_with

    def allocate(self, buffer_id: int, size: int) -> tuple[Handle, bool] | None:
        """Takes a place for a buffer.

        Returns:
            The place, and whether it is zeros; ``None``: it is to have memory of the server's.
        """
        # A child of this process shares the pages, but not the right to give them out.
        if size < self.smallest or os.getpid() != self._process:
            return None
        with self._lock:
            if not self.possible:
                return None
            self._reclaim()
            for segment in self._segments:
                if (found := segment.regions.take(size)) is not None:
                    return self._handle(segment, buffer_id, found[0], size), found[1]
            grown = self._grow(size)
            found = None if grown is None else grown.regions.take(size)
            if grown is None or found is None:
                return None
            return self._handle(grown, buffer_id, found[0], size), True

    def _handle(self, segment: _Segment, buffer_id: int, start: int, size: int) -> Handle:
        self._taken[buffer_id] = segment, start, size
        return Handle(self, segment.mapping, buffer_id, start, size)

    def _reclaim(self) -> None:
        """Gives back the regions that nobody uses any more, on either side. The lock is held."""
        here, there = self._free_on["here"], self._free_on["there"]
        for gone, ids in ((here, self.dropped), (there, self.returned)):
            with contextlib.suppress(IndexError):
                while True:
                    gone.add(ids.popleft())
        for buffer_id in here & there:
            segment, start, size = self._taken.pop(buffer_id)
            segment.regions.give_back(start, size)
            here.discard(buffer_id)
            there.discard(buffer_id)

    def give_up(self) -> None:
        """Lets go of all, when the context has ended: what arrays still refer to stays mapped for them.

        Contexts lie in cycles of references, which are found late. Until then the memory would stay
        mapped, and on the server's account of the client.
        """
        with self._lock:
            self._refused = True
            self._segments.clear()
            self._taken.clear()

    # --- segments -----------------------------------------------------------------------------------

    def attach(self) -> None:
        """Gets the first segment.

        Raises:
            AclnnError: the server gives none.
            OSError: it cannot be had from here.
        """
        with self._lock:
            self._segments.append(self._attach(self._segment_bytes))

    def _grow(self, size: int) -> _Segment | None:
        """Gets a segment for at least `size` bytes, if there is one to be had. The lock is held."""
        connection = self._connection.made
        for wanted in sorted({max(size, self._segment_bytes), size}, reverse=True):
            try:
                segment = self._attach(wanted)
            except (OutOfMemoryError, LimitExceededError):
                self._detach_unused()
            except ServerUnavailable:
                self._broke_with = connection
                return None
            except (AclnnError, OSError):
                self._refused = True
                return None
            else:
                self._segments.append(segment)
                return segment
        return None

    def _attach(self, size: int) -> _Segment:
        request = pb.AttachSharedMemoryRequest(context_id=self._context_id, bytes=size)
        devices = self._connection.devices
        segment = self._connection.call(
            devices.AttachSharedMemory, request, doing="asking for shared memory", once=True
        )
        try:
            return _Segment(Mapping(segment, self._connection.address))
        except BaseException:
            self._detach(segment.segment_id)
            raise

    def _detach_unused(self) -> None:
        for segment in [each for each in self._segments if each.regions.unused]:
            self._segments.remove(segment)
            self._detach(segment.mapping.segment_id)

    def _detach(self, segment_id: int) -> None:
        request = pb.DetachSharedMemoryRequest(context_id=self._context_id, segment_id=segment_id)
        with contextlib.suppress(AclnnError):  # it ends with its context at the latest
            devices = self._connection.devices
            self._connection.call(devices.DetachSharedMemory, request, doing="ending shared memory")
