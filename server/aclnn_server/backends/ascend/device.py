"""A device of CANN's: its memory, its streams, and operators on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from aclnn.errors import AclnnError, OperatorNotFoundError, OutOfMemoryError
from aclnn.signatures import Signature
from aclnn_server.backends.ascend import acl as c
from aclnn_server.backends.ascend import handles
from aclnn_server.backends.ascend.acl import Acl, Find
from aclnn_server.backends.ascend.arguments import Tensors, addresses, regions
from aclnn_server.backends.ascend.copies import Copies
from aclnn_server.backends.ascend.explanations import explained
from aclnn_server.backends.ascend.memory import (
    Allocation,
    Deferred,
    MemoryPool,
    PinnedPool,
    Region,
)
from aclnn_server.backends.ascend.streams import AscendMoment, AscendStream, Streams
from aclnn_server.backends.ascend.thread import DeviceThread
from aclnn_server.backends.ascend.two_phase import PlannedCall, TwoPhase
from aclnn_server.backends.base import Check, Device, Plan, Storage, Value
from aclnn_server.operators.products import Product

MakePool = Callable[[Acl], MemoryPool]

NOWHERE_BYTES = 2**16
"""Bytes of the block that tensors are planned at whose place is not known yet. CANN does not look at it; a
library in CANN's place that compares a tensor with its allocation has room for small ones there."""


class AscendDevice(Device):
    """One NPU. Its methods may be called from any thread; its own one makes the calls."""

    asynchronous = True

    def __init__(
        self,
        index: int,
        number: int,
        acl: Acl,
        *,
        find: Find,
        signatures: Mapping[str, Signature],
        soc: str,
        product: Product,
        deterministic: bool = True,
        make_pool: MakePool = MemoryPool,
    ) -> None:
        """Opens the device.

        Args:
            index: its place among the server's devices.
            number: its number in CANN.
            acl: CANN's functions.
            find: finds an operator's C functions.
            signatures: of the operators that it can run, by name.
            soc: the chip's name.
            product: the chip's kind, whose rules explain what CANN refuses.
            deterministic: whether operators must give the same bits at every run.
            make_pool: makes the pool of device memory.

        Raises:
            AclnnError: CANN cannot use the device.
        """
        self.index = index
        self.name = f"{soc} (NPU {number})"
        self._acl = acl
        self._signatures = signatures
        self._product = product
        self._thread = DeviceThread(f"aclnn-npu-{number}")
        self._deferred = Deferred()
        self._streams = Streams(acl, self._thread, self._deferred)
        try:
            self._thread.call(self._open, number, deterministic, make_pool, find)
        except BaseException:
            self._thread.close()
            raise
        self._pinned = PinnedPool(
            partial(self._thread.call, handles.PinnedMemory, acl),
            lambda memory: self._thread.call(memory.close),
        )
        self._copies = Copies(acl, self._thread, self._streams, self._pinned, self._pool)

    def _open(self, number: int, deterministic: bool, make_pool: MakePool, find: Find) -> None:
        acl = self._acl
        self._use = handles.DeviceUse(acl, number)
        try:
            _set_deterministic(acl, deterministic)
            self._pool = make_pool(acl)
            self._nowhere = self._pool.take(NOWHERE_BYTES)
        except BaseException:
            self._use.close()
            raise
        self._tensors = Tensors(acl, self._nowhere.address)
        self._calls = TwoPhase(acl, self._tensors, find)

    def close(self) -> None:
        """Gives everything back in CANN's order: executors, tensors, events, streams, memory, device."""
        self._thread.call(self._close_calls)
        self._streams.close()
        self._pinned.close()
        self._thread.call(self._close_device)
        self._thread.close()

    def _close_calls(self) -> None:
        self._calls.close()
        self._tensors.close()

    def _close_device(self) -> None:
        self._pool.give_back(self._nowhere)
        self._pool.close()
        self._use.close()

    # --- memory -----------------------------------------------------------------------------------

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes; what the pool keeps is free."""
        return self._thread.call(self._memory_info)

    def _memory_info(self) -> tuple[int, int]:
        free, total = handles.memory_info(self._acl)
        return free + self._pool.free_bytes, total

    def allocate(self, size: int) -> Region:
        """Allocates zeroed bytes, at a multiple of 64."""
        return self._take(size, lambda address: self._acl.aclrtMemset(address, size, 0, size))

    def wrap(self, data: memoryview) -> Region:
        """Copies the bytes to the device."""
        size = data.nbytes
        if not size:
            return self._take(0, lambda _: None)
        with self._copies.staged(data) as block:
            return self._take(size, lambda address: self._copies.copy_in(address, block, size))

    def _take(self, size: int, fill: Callable[[int], object]) -> Region:
        try:
            return self._thread.call(self._take_filled, size, fill)
        except OutOfMemoryError:
            for stream in self._thread.call(self._deferred.queues):
                self._streams.wait(stream)
        try:
            return self._thread.call(self._take_filled, size, fill)
        except OutOfMemoryError as error:
            free, total = self.memory_info()
            raise OutOfMemoryError(
                f"{size} bytes were asked for; {free} of the device's {total} bytes are free",
                code=error.code,
            ) from None

    def _take_filled(self, size: int, fill: Callable[[int], object]) -> Region:
        block = self._pool.take(size)
        try:
            fill(block.address)
        except BaseException:
            self._pool.give_back(block)
            raise
        return Region(Allocation(block, size), block.address, size)

    def release(self, memory: Region) -> None:
        """Gives the memory back once the work that uses it is done."""
        self._thread.post(self._release, memory.allocation)

    def _release(self, allocation: Allocation) -> None:
        give_back = partial(self._pool.give_back, allocation.block)
        self._deferred.add(allocation.uses.items(), give_back, allocation.size)

    def slice(self, memory: Region, offset: int, size: int) -> Region:
        """The region's address, moved."""
        return Region(memory.allocation, memory.address + offset, size)

    def write(self, memory: Region, data: memoryview, stream: AscendStream | None = None) -> None:
        """Copies through pinned memory; in a stream, without waiting."""
        self._copies.write(memory, data, stream)

    def read(self, memory: Region) -> memoryview:
        """Copies through pinned memory, after all work that uses the memory."""
        return self._copies.read(memory)

    def copy(self, destination: Region, source: Region, stream: AscendStream | None = None) -> None:
        """Copies on the device."""
        self._copies.copy(destination, source, stream)

    def fill(self, memory: Region, value: int, stream: AscendStream | None = None) -> None:
        """Fills on the device."""
        self._copies.fill(memory, value, stream)

    # --- operators --------------------------------------------------------------------------------

    def plan(
        self,
        operator: str,
        arguments: Sequence[Value],
        storages: Sequence[Storage] = (),
        *,
        repeatable: bool = False,
    ) -> Plan:
        """Phase one of CANN; its refusals are explained where the catalogue knows the operator."""
        signature = self._signatures.get(operator)
        if signature is None:
            raise OperatorNotFoundError("the installed CANN cannot run it", operator=operator)
        places = addresses(signature, storages)
        try:
            call = self._thread.call(self._calls.plan, signature, arguments, places, repeatable)
        except AclnnError as error:
            raise explained(error, signature, arguments, self._product) from error
        return Plan(operator, call.values, call.workspace_bytes, call)

    def run(
        self,
        plan: Plan,
        storages: Sequence[Storage],
        workspace: Region | None,
        stream: AscendStream,
    ) -> None:
        """Phase two of CANN: queues the work. What CANN fails with comes out at synchronize."""
        call: PlannedCall = plan.prepared
        places = addresses(call.bound.signature, storages)
        scratch = (0, 0) if workspace is None else (workspace.address, workspace.size)
        self._calls.begin(call, scratch)
        used = list(regions(storages))
        if workspace is not None:
            used.append(workspace)
        self._streams.queue(stream, partial(self._calls.run, call, places, scratch), *used)

    def discard(self, plan: Plan) -> None:
        """Destroys the executor, if it was not run, and what it held."""
        call: PlannedCall = plan.prepared
        if not call.over:  # else its run gives everything back
            self._thread.post(self._calls.discard, call)

    # --- streams ----------------------------------------------------------------------------------

    def create_stream(self, check: Check | None = None) -> AscendStream:
        """A stream of CANN's; a kernel that it has begun runs to its end."""
        return self._streams.create()

    def destroy_stream(self, stream: AscendStream) -> None:
        """Ends it, after its work."""
        self._streams.end(stream)

    def synchronize(self, stream: AscendStream, timeout: float | None = None) -> None:
        """Waits for its work; errors of the device, such as 507015, come out here."""
        self._streams.wait(stream, timeout)
        failure, stream.failure = stream.failure, None
        if failure is not None:
            raise failure

    def is_idle(self, stream: AscendStream) -> bool:
        """Whether the device has done all of it."""
        return self._streams.is_idle(stream)

    def record(self, stream: AscendStream) -> AscendMoment:
        """Records an event of CANN's."""
        return self._streams.record(stream)


def _set_deterministic(acl: Acl, deterministic: bool) -> None:
    for name in ("aclrtCtxSetSysParamOpt", "aclrtSetSysParamOpt"):
        if acl.has(name):
            set_option = getattr(acl, name)
            set_option(c.ACL_OPT_DETERMINISTIC, int(deterministic))
            return
