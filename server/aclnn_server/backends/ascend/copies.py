"""Copies between the host and the device, through pinned memory, and on the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from aclnn_server.backends.ascend import acl as c
from aclnn_server.backends.ascend.acl import Acl
from aclnn_server.backends.ascend.memory import MemoryPool, PinnedBlock, PinnedPool, Region
from aclnn_server.backends.ascend.streams import AscendStream, Streams
from aclnn_server.backends.ascend.thread import DeviceThread

PIECE_BYTES = 2**22
"""Bytes that are read through pinned memory at a time."""


class Copies:
    """Moves bytes. Its methods may be called from any thread."""

    def __init__(
        self,
        acl: Acl,
        thread: DeviceThread,
        streams: Streams,
        pinned: PinnedPool,
        pool: MemoryPool,
    ) -> None:
        self._acl = acl
        self._thread = thread
        self._streams = streams
        self._pinned = pinned
        self._pool = pool

    # --- from and to the host ---------------------------------------------------------------------

    @contextmanager
    def staged(self, data: memoryview) -> Iterator[PinnedBlock]:
        """The bytes in pinned memory, for a copy that is over when the block ends."""
        block = self._stage(data)
        try:
            yield block
        finally:
            self._pinned.give_back(block)

    def _stage(self, data: memoryview) -> PinnedBlock:
        block = self._pinned.take(data.nbytes)
        np.copyto(block.array[: data.nbytes], np.frombuffer(data, np.uint8))
        return block

    def copy_in(self, address: int, block: PinnedBlock, size: int) -> None:
        """Copies staged bytes to the device; on its thread."""
        self._acl.aclrtMemcpy(address, size, block.address, size, c.ACL_MEMCPY_HOST_TO_DEVICE)

    def write(self, memory: Region, data: memoryview, stream: AscendStream | None) -> None:
        """See :meth:`Device.write`."""
        size = data.nbytes
        if not size:
            return
        if stream is None:
            with self.staged(data) as block:
                act = partial(self.copy_in, memory.address, block, size)
                self._streams.when_unused(act, memory)
        else:
            block = self._stage(data)
            act = partial(self._copy_in_later, memory.address, block.address, size)
            then = partial(self._pinned.give_back, block)
            self._streams.queue(stream, act, memory, then=then)

    def _copy_in_later(self, address: int, source: int, size: int, stream: int | None) -> None:
        kind = c.ACL_MEMCPY_HOST_TO_DEVICE
        self._acl.aclrtMemcpyAsync(address, size, source, size, kind, stream)

    def read(self, memory: Region) -> memoryview:
        """See :meth:`Device.read`."""
        host = np.empty(memory.size, np.uint8)
        for offset in range(0, memory.size, PIECE_BYTES):
            size = min(PIECE_BYTES, memory.size - offset)
            block = self._pinned.take(size)
            try:
                act = partial(self._copy_out, block, memory.address + offset, size)
                self._streams.when_unused(act, memory)
                np.copyto(host[offset : offset + size], block.array[:size])
            finally:
                self._pinned.give_back(block)
        return host.data

    def _copy_out(self, block: PinnedBlock, address: int, size: int) -> None:
        self._acl.aclrtMemcpy(block.address, size, address, size, c.ACL_MEMCPY_DEVICE_TO_HOST)

    # --- on the device ----------------------------------------------------------------------------

    def copy(self, target: Region, source: Region, stream: AscendStream | None) -> None:
        """See :meth:`Device.copy`."""
        if not source.size or target.address == source.address:
            return
        if not target.overlaps(source):
            self._move(target, source.address, stream, source)
            return
        block = self._thread.call(self._pool.take, source.size)
        give_back = partial(self._pool.give_back, block)
        between = Region(target.allocation, block.address, source.size)
        try:
            self._move(between, source.address, stream, source)
            self._move(target, block.address, stream, source)
        finally:
            if stream is None:
                self._thread.call(give_back)
            else:
                self._streams.queue(stream, lambda _: None, then=give_back)

    def _move(
        self,
        target: Region,
        source: int,
        stream: AscendStream | None,
        used: Region,
    ) -> None:
        place = (target.address, target.size, source, target.size)
        kind = c.ACL_MEMCPY_DEVICE_TO_DEVICE
        if stream is None:
            self._streams.when_unused(partial(self._acl.aclrtMemcpy, *place, kind), target, used)
        else:
            later = partial(self._acl.aclrtMemcpyAsync, *place, kind)
            self._streams.queue(stream, later, target, used)

    def fill(self, memory: Region, value: int, stream: AscendStream | None) -> None:
        """See :meth:`Device.fill`."""
        size = memory.size
        if not size:
            return
        if stream is None:
            act = partial(self._acl.aclrtMemset, memory.address, size, value, size)
            self._streams.when_unused(act, memory)
        else:
            later = partial(self._acl.aclrtMemsetAsync, memory.address, size, value, size)
            self._streams.queue(stream, later, memory)
