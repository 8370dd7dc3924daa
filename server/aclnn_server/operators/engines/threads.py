"""Worker threads for the blocks of a large computation, and their scratch memory."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.machine import Machine

Array = npt.NDArray[Any]

ALIGNMENT = 64
"""Bytes to which scratch arrays are aligned: a cache line."""
# Arrays of one size at multiples of 4096 bytes would fall into the same sets of the cache.
_STAGGER = 3 * ALIGNMENT


class Scratch:
    """Memory of one worker, from which arrays are taken and given back in reverse order."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._memory = aligned(np.empty(capacity + ALIGNMENT, np.uint8), capacity)
        self._used = 0

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Takes a contiguous array, not initialised."""
        array: Array = np.ndarray(shape, dtype, self._memory.data, self._used)
        self._used += scratch_bytes(array.nbytes)
        return array

    def like(self, array: Array) -> Array:
        """Takes a contiguous array of the shape and type of another."""
        return self.take(array.shape, array.dtype)

    def mark(self) -> int:
        """What :meth:`rewind` takes to give back all that is taken from now on."""
        return self._used

    def rewind(self, mark: int = 0) -> None:
        """Gives back what was taken since a mark."""
        self._used = mark


def scratch_bytes(size: int) -> int:
    """Capacity that an array of `size` bytes takes of a :class:`Scratch`."""
    return -(-size // ALIGNMENT) * ALIGNMENT + _STAGGER


def aligned(memory: Array, size: int) -> Array:
    """The first `size` bytes of a uint8 array that begin at a multiple of :data:`ALIGNMENT`."""
    start = -address(memory) % ALIGNMENT
    return memory[start : start + size]


def address(array: Array) -> int:
    """Address of an array's first element."""
    found: int = array.__array_interface__["data"][0]
    return found


class Threads:
    """Computes numbered blocks in up to `count` threads, of which the caller's is one.

    Which thread computes a block, and when, is left open; a computation whose blocks do not depend on
    each other gives the same bits at every number of threads. Many threads may call at a time.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = count or Machine().processors()
        # It starts its threads when they are first needed.
        self._pool = ThreadPoolExecutor(max(1, self.count - 1), thread_name_prefix="kernel")
        self._idle: list[Scratch] = []
        self._check: Callable[[], None] | None = None
        self._own: Scratch | None = None
        """Scratch memory of the caller, who makes many computations one after the other."""

    def asking(self, check: Callable[[], None]) -> Threads:
        """The same threads, for computations that call `check` before each block and end with what it
        raises; the blocks that are left are not computed then."""
        asking = copy.copy(self)
        asking._check = check
        return asking

    @contextmanager
    def kept(self) -> Iterator[Threads]:
        """The same threads, for one caller's computations one after the other: what is the same for each of
        them is begun and ended once."""
        kept = copy.copy(self)
        kept._own = self._borrow(0)
        try:
            with np.errstate(all="ignore"):
                yield kept
        finally:
            assert kept._own is not None
            self._give_back(kept._own)

    def run(self, compute: Callable[[Scratch, int], None], blocks: int, scratch: int) -> None:
        """Calls ``compute(scratch, block)`` for every block, and returns when all are done.

        Args:
            compute: computes one block; NumPy's floating-point warnings are off in it.
            blocks: how many there are.
            scratch: bytes that `compute` takes at most.
        """
        if blocks == 1:
            if self._own is None:
                self._work(compute, (0,), scratch)
            else:
                self._compute_one(compute, self._own, scratch)
            return
        numbers = iter(range(blocks))
        others = self._start(compute, numbers, blocks, scratch)
        try:
            self._work(compute, numbers, scratch)
        finally:
            for other in others:
                if not other.cancel():
                    other.result()

    def _start(
        self,
        compute: Callable[[Scratch, int], None],
        numbers: Iterator[int],
        blocks: int,
        scratch: int,
    ) -> list[Future[None]]:
        others = min(self.count, blocks) - 1
        jobs = itertools.repeat((compute, numbers, scratch), others)
        return [self._pool.submit(self._work, *job) for job in jobs]

    def _compute_one(
        self, compute: Callable[[Scratch, int], None], own: Scratch, size: int
    ) -> None:
        if self._check is not None:
            self._check()
        if own.capacity < size:
            self._own = own = Scratch(size)
        own.rewind()
        compute(own, 0)

    def _work(
        self, compute: Callable[[Scratch, int], None], numbers: Iterable[int], size: int
    ) -> None:
        scratch = self._borrow(size)
        try:
            with np.errstate(all="ignore"):
                for number in numbers:
                    if self._check is not None:
                        self._check()
                    scratch.rewind()
                    compute(scratch, number)
        finally:
            self._give_back(scratch)

    def _give_back(self, scratch: Scratch) -> None:
        if len(self._idle) < 2 * self.count:
            self._idle.append(scratch)

    def _borrow(self, size: int) -> Scratch:
        try:
            scratch = self._idle.pop()
        except IndexError:
            return Scratch(size)
        return scratch if scratch.capacity >= size else Scratch(size)

    def close(self) -> None:
        """Ends the threads; nothing runs in them."""
        self._pool.shutdown()
        self._idle.clear()
