"""Memory of a device: a pool over aclrtMalloc, regions of it, and what still uses them.

A block of the pool is as long as asked for and 32 bytes more, in steps of 512: kernels may touch a little
past the end of a tensor, and the vendor's own allocator does the same.
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aclnn.errors import OutOfMemoryError
from aclnn_server.backends.ascend.acl import Acl
from aclnn_server.backends.ascend.handles import DeviceMemory, PinnedMemory

SLACK_BYTES = 32
STEP_BYTES = 512
SLAB_BYTES = 2**21
"""Bytes that are asked of CANN at once for small blocks; also the step of large ones: a huge page."""
LARGEST_SMALL_BLOCK = SLAB_BYTES // 2
KEPT_BYTES = 2**30
"""Bytes of large blocks that are kept for the next one of the same size."""

Bytes = npt.NDArray[np.uint8]


class Queue:
    """What a device's stream has been given and has done, counted."""

    __slots__ = ("done", "given", "queued")

    def __init__(self) -> None:
        self.given = 0
        """Number of the last work that the device's thread was given."""
        self.queued = 0
        """Number of the last work that it has queued in CANN's stream."""
        self.done = 0
        """Number of the last work that is known to be done."""


class Allocation:
    """A block of the pool while a client has it, and the work that uses it."""

    __slots__ = ("address", "block", "size", "uses")

    def __init__(self, block: Block, size: int) -> None:
        self.block = block
        self.address = block.address
        self.size = size
        self.uses: dict[Queue, int] = {}
        """Number of the last work that uses it, by stream."""

    def use(self, queue: Queue) -> None:
        """Notes that the last work given uses it."""
        self.uses[queue] = queue.given

    def pending(self) -> list[Queue]:
        """Streams with work that uses it and may not be done."""
        return [queue for queue, number in list(self.uses.items()) if queue.done < number]


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes of an allocation."""

    allocation: Allocation
    address: int
    size: int

    def overlaps(self, other: Region) -> bool:
        """Whether the two have bytes in common."""
        return (
            self.address < other.address + other.size and other.address < self.address + self.size
        )


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes that the pool hands out."""

    address: int
    capacity: int
    own: DeviceMemory | None = None
    """Memory that is this block alone; ``None`` for a part of a slab."""


class MemoryPool:
    """Hands out blocks of device memory; for the device's thread."""

    def __init__(
        self, acl: Acl, *, slab_bytes: int = SLAB_BYTES, kept_bytes: int = KEPT_BYTES
    ) -> None:
        """Makes an empty pool.

        Args:
            acl: CANN's functions.
            slab_bytes: bytes asked for at once for small blocks; 0 asks CANN for each block.
            kept_bytes: bytes of large blocks to keep when they are given back.
        """
        self._acl = acl
        self._slab_bytes = slab_bytes
        self._limit = kept_bytes
        self._all: set[DeviceMemory] = set()
        self._small: dict[int, list[Block]] = {}
        self._kept: OrderedDict[Block, None] = OrderedDict()
        self._kept_bytes = 0

    def take(self, size: int) -> Block:
        """A block of at least `size` bytes and the slack; its content is arbitrary.

        Raises:
            OutOfMemoryError: 207001, the device has no room, also without what was kept.
        """
        needed = size + SLACK_BYTES
        if self._slab_bytes and needed <= LARGEST_SMALL_BLOCK:
            return self._take_small(max(STEP_BYTES, 1 << (needed - 1).bit_length()))
        step = SLAB_BYTES if self._slab_bytes else STEP_BYTES
        return self._take_large(-(-needed // step) * step)

    def _take_small(self, capacity: int) -> Block:
        free = self._small.setdefault(capacity, [])
        if not free:
            start = self._ask(self._slab_bytes).value or 0
            ends = range(start, start + self._slab_bytes, capacity)
            free += [Block(address, capacity) for address in ends]
        return free.pop()

    def _take_large(self, capacity: int) -> Block:
        for block in self._kept:
            if block.capacity == capacity:
                self._forget(block)
                return block
        memory = self._ask(capacity)
        return Block(memory.value or 0, capacity, memory)

    def _ask(self, size: int) -> DeviceMemory:
        try:
            memory = DeviceMemory(self._acl, size)
        except OutOfMemoryError:
            if not self._kept:
                raise
            self.trim(0)
            memory = DeviceMemory(self._acl, size)
        self._all.add(memory)
        return memory

    def give_back(self, block: Block) -> None:
        """Takes a block back that nothing uses any more."""
        if block.own is None:
            self._small[block.capacity].append(block)
            return
        self._kept[block] = None
        self._kept_bytes += block.capacity
        self.trim(self._limit)

    def _forget(self, block: Block) -> None:
        del self._kept[block]
        self._kept_bytes -= block.capacity

    def trim(self, limit: int) -> None:
        """Gives kept blocks back to CANN, oldest first, until at most `limit` bytes are left."""
        while self._kept_bytes > limit:
            block = next(iter(self._kept))
            self._forget(block)
            assert block.own is not None
            self._all.discard(block.own)
            block.own.close()

    @property
    def free_bytes(self) -> int:
        """Bytes of large blocks that are kept."""
        return self._kept_bytes

    def close(self) -> None:
        """Gives everything back to CANN, blocks that are out too."""
        for memory in self._all:
            memory.close()
        self._all.clear()
        self._kept.clear()
        self._small.clear()


# --- memory that is not used any more, or soon will not be ----------------------------------------


class Deferred:
    """Things to do once work that was queued is done; for the device's thread."""

    def __init__(self) -> None:
        self._waiting: list[tuple[list[tuple[Queue, int]], Callable[[], None], int]] = []
        self.bytes = 0
        """Bytes that wait to be given back."""

    def add(
        self, uses: Iterable[tuple[Queue, int]], act: Callable[[], None], size: int = 0
    ) -> None:
        """Calls `act` when every use is over: at once, or in :meth:`settle`."""
        pending = [(queue, number) for queue, number in uses if queue.done < number]
        if pending:
            self._waiting.append((pending, act, size))
            self.bytes += size
        else:
            act()

    def settle(self) -> None:
        """Does what nothing stands in the way of any more."""
        waiting, self._waiting, self.bytes = self._waiting, [], 0
        for uses, act, size in waiting:
            self.add(uses, act, size)

    def queues(self) -> set[Queue]:
        """Streams whose work is waited for."""
        return {queue for uses, _, _ in self._waiting for queue, _ in uses}


# --- pinned memory of the host --------------------------------------------------------------------


class PinnedBlock:
    """Pinned memory for one copy."""

    __slots__ = ("array", "memory")

    def __init__(self, memory: PinnedMemory) -> None:
        self.memory = memory
        raw = (ctypes.c_uint8 * memory.size).from_address(memory.value or 0)
        self.array: Bytes = np.ctypeslib.as_array(raw)

    @property
    def address(self) -> int:
        """Its address."""
        return self.memory.value or 0


class PinnedPool:
    """Pinned memory, used again and again. Taken and given back on any thread."""

    SMALLEST, KEPT_BYTES = 2**12, 2**27

    def __init__(
        self, make: Callable[[int], PinnedMemory], free: Callable[[PinnedMemory], None]
    ) -> None:
        """Makes an empty pool over functions that make and free pinned memory, whatever the thread."""
        self._make = make
        self._free = free
        self._idle: dict[int, deque[PinnedBlock]] = {}
        self._idle_bytes = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> PinnedBlock:
        """A block of at least `size` bytes."""
        capacity = max(self.SMALLEST, 1 << (size - 1).bit_length())
        with self._lock:
            idle = self._idle.setdefault(capacity, deque())
            if idle:
                self._idle_bytes -= capacity
                return idle.pop()
        return PinnedBlock(self._make(capacity))

    def give_back(self, block: PinnedBlock) -> None:
        """Takes back a block that no copy uses any more."""
        capacity = block.memory.size
        with self._lock:
            if self._idle_bytes + capacity <= self.KEPT_BYTES:
                self._idle[capacity].append(block)
                self._idle_bytes += capacity
                return
        self._free(block.memory)

    def close(self) -> None:
        """Frees everything; no block is out any more."""
        with self._lock:
            blocks = [block for idle in self._idle.values() for block in idle]
            self._idle.clear()
            self._idle_bytes = 0
        for block in blocks:
            self._free(block.memory)
