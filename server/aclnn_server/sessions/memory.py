"""Device memory of one context: what it may take, its buffers, and who still uses them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from aclnn.errors import (
    HandleExistsError,
    HandleNotFoundError,
    InvalidParameterError,
    OutOfMemoryError,
)
from aclnn_server.backends.base import Device, Memory, SharedMemory
from aclnn_server.sessions.blocks import Blocks
from aclnn_server.sessions.tenants import Allowance
from aclnn_server.sessions.waiting import Gone

if TYPE_CHECKING:
    from aclnn_server.sessions.segments import Place
    from aclnn_server.sessions.streams import Stream

T = TypeVar("T")

_REMEMBERED_STREAMS = 8
"""Streams that used a buffer, of which those that are done with it are forgotten above this number."""


class Account:
    """Counts a context's bytes of device memory against its quota, and against its tenant's."""

    def __init__(
        self,
        device: Device,
        limit: int,
        shared: Allowance | None = None,
        blocks: Blocks | None = None,
    ) -> None:
        self.device = device
        self.limit = limit
        self._blocks = blocks or Blocks()
        self._closed = False
        self.used = 0
        self.buffers = 0
        """Buffers of the client whose memory has not gone back, freed or not."""
        self._shared = shared
        self._lock = threading.Lock()

    def allocate(self, size: int, what: str) -> Memory:
        """Allocates `size` zeroed bytes.

        Raises:
            OutOfMemoryError: 207001, the quota or the device has no room; tells asked, free and limit.
        """
        return self._charged(size, what, lambda: self.device.allocate(size))

    def allocate_block(self, size: int, what: str, *, zeroed: bool) -> Memory:
        """Allocates memory for a buffer; not zeroed, it may hold what a buffer of this context held.

        Raises:
            OutOfMemoryError: as :meth:`allocate`.
        """
        return self._charged(size, what, lambda: self._block(size, zeroed=zeroed))

    def _block(self, size: int, *, zeroed: bool) -> Memory:
        memory = self._blocks.take(self, size)
        if memory is None:
            return self.device.allocate(size)
        if zeroed:
            self.device.fill(memory, 0)
        return memory

    def _charged(self, size: int, what: str, allocate: Callable[[], T]) -> T:
        self._charge(size, what)
        try:
            return self._given_room(allocate)
        except BaseException:
            self.credit(size)
            raise

    def _given_room(self, allocate: Callable[[], T]) -> T:
        """Allocates; what is kept for later goes where it is in the way."""
        try:
            return allocate()
        except OutOfMemoryError:
            if not self._blocks.bytes:
                raise
        self._blocks.release_old(0)
        return allocate()

    def release_block(self, memory: Memory, size: int) -> None:
        """Gives a buffer's memory back; it may be kept for the next buffer."""
        if self._blocks.keep(self, self.device, memory, size):
            self.credit(size)
            if self._closed:  # maybe only now
                self._blocks.forget(self)
        else:
            self.release(memory, size)

    def close(self) -> None:
        """Lets go what was kept for the next buffers; the context has ended."""
        self._closed = True
        self._blocks.forget(self)

    def wrap(self, data: memoryview, what: str) -> Memory:
        """Makes device memory that holds `data`; errors as :meth:`allocate`."""
        return self._charged(len(data), what, lambda: self.device.wrap(data))

    def share(self, size: int, what: str) -> SharedMemory:
        """Allocates memory that another process can map too; :meth:`credit` takes it off the account.

        Raises:
            UnsupportedError: 207000, the device has no such memory.
            OutOfMemoryError: as :meth:`allocate`.
        """
        return self._charged(size, what, lambda: self.device.share(size))

    def release(self, memory: Memory, size: int) -> None:
        """Gives memory back; it is off the account also where the device fails to take it."""
        try:
            self.device.release(memory)
        finally:
            self.credit(size)

    def release_all(self, owned: Iterable[tuple[Memory, int]]) -> None:
        """Gives several back; what fails to go keeps nothing else from going, and is raised at the end."""
        failure: Exception | None = None
        for memory, size in owned:
            try:
                self.release(memory, size)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def try_charge(self, size: int) -> bool:
        """Puts `size` bytes on the account, if there is room; :meth:`credit` takes them off again."""
        try:
            self._charge(size, "")
        except OutOfMemoryError:
            return False
        return True

    def _charge(self, size: int, what: str) -> None:
        with self._lock:
            free = self.limit - self.used
            if size > free:
                raise OutOfMemoryError(
                    f"{what} asks for {size} bytes; the context has {free} free of its {self.limit}"
                )
            if self._shared is not None:
                self._shared.take(size, what)
            self.used += size

    def credit(self, size: int) -> None:
        """Takes `size` bytes off the account."""
        with self._lock:
            self.used -= size
        if self._shared is not None:
            self._shared.give_back(size)

    def count_buffers(self, change: int) -> None:
        """Counts a client's buffer, 1 when it is made and -1 when its memory has gone back."""
        with self._lock:
            self.buffers += change


class Buffer:
    """Bytes of device memory that a client knows by an id.

    Freed, it is gone for new calls at once; its memory goes back when no queued work uses it.
    """

    __slots__ = (
        "_account",
        "_lock",
        "_uses",
        "freed",
        "id",
        "last_uses",
        "memory",
        "place",
        "size",
    )

    def __init__(
        self,
        buffer_id: int,
        size: int,
        account: Account,
        place: Place | None = None,
        *,
        zeroed: bool = True,
    ) -> None:
        what = f"buffer {buffer_id}" if buffer_id else "the workspace"
        self.memory: Memory = (
            account.allocate_block(size, what, zeroed=zeroed) if place is None else place.memory
        )
        self.place = place
        """Where it lies in a segment of shared memory, which is on the account as a whole."""
        self.id = buffer_id
        self.size = size
        self.freed = False
        self.last_uses: dict[Stream, int] = {}
        """Number of the last work that uses the buffer, by stream."""
        self._account = account
        self._uses = 0
        self._lock = threading.Lock()
        account.count_buffers(1 if buffer_id else 0)

    def check_is(self, size: int, segment_id: int, offset: int) -> None:
        """Checks that it is what a repeated request asks for.

        Raises:
            HandleExistsError: it is not.
        """
        place = (0, 0) if self.place is None else (self.place.segment_id, self.place.offset)
        if self.size != size or (segment_id and place != (segment_id, offset)):
            where = "" if self.size != size else ", and in another place"
            raise HandleExistsError(
                f"buffer {self.id} exists with {self.size} bytes{where}", parameter="buffer_id"
            )

    def hold(self) -> None:
        """Keeps the memory until :meth:`end_use`, also while the buffer is freed.

        Raises:
            HandleNotFoundError: it is freed already.
        """
        with self._lock:
            if self.freed:
                raise HandleNotFoundError(f"buffer {self.id} was freed", parameter="buffer_id")
            self._uses += 1

    def note_work(self, stream: Stream, number: int) -> None:
        """Notes that work in `stream` holds the buffer."""
        with self._lock:
            if len(self.last_uses) > _REMEMBERED_STREAMS:
                last_uses = self.last_uses.items()
                self.last_uses = {s: last for s, last in last_uses if not s.has_done(last)}
            self.last_uses[stream] = number

    def end_use(self) -> None:
        """Ends a use that :meth:`hold` began: the work is over, run or dropped."""
        with self._lock:
            self._uses -= 1
            last = self.freed and self._uses == 0
        if last:
            self._give_back()

    @contextmanager
    def held(self, gone: Gone | None = None) -> Iterator[Memory]:
        """Keeps the memory for the caller, after queued work that uses the buffer; also while it is freed.

        Raises:
            HandleNotFoundError: it was freed meanwhile.
            CancelledError: `gone` tells that the caller is.
        """
        self.wait_unused(gone)
        self.hold()
        try:
            yield self.memory
        finally:
            self.end_use()

    def free(self) -> None:
        """Frees the buffer; once."""
        with self._lock:
            unused = self._uses == 0 and not self.freed
            self.freed = True
        if unused:
            self._give_back()

    def _give_back(self) -> None:
        self._account.count_buffers(-1 if self.id else 0)
        if self.place is None:
            self._account.release_block(self.memory, self.size)
        else:
            self.place.give_back(self.id)

    def wait_unused(self, gone: Gone | None = None) -> None:
        """Waits until work that is queued now and uses the buffer is over.

        Raises:
            CancelledError: `gone` tells that the caller is.
        """
        with self._lock:
            waits = list(self.last_uses.items())
        for stream, number in waits:
            stream.wait(number, gone=gone)

    def check_range(self, offset: int, size: int, parameter: str, operator: str = "") -> None:
        """Checks that a range lies inside the buffer.

        Raises:
            InvalidParameterError: 161002, it does not.
        """
        if offset + size > self.size:
            raise InvalidParameterError(
                f"{parameter} takes bytes {offset} to {offset + size} of buffer {self.id}, which has "
                f"{self.size}",
                operator=operator,
                parameter=parameter,
            )


def hold_all(buffers: Sequence[Buffer]) -> None:
    """Holds all of the buffers, or none where one is freed.

    Raises:
        HandleNotFoundError: one is freed.
    """
    held: list[Buffer] = []
    try:
        for buffer in buffers:
            buffer.hold()
            held.append(buffer)
    except HandleNotFoundError:
        for buffer in held:
            buffer.end_use()
        raise
