"""A real backend for tests: kernels that wait at gates, fail on demand or tell what they were given.

Its devices count. Memory that is used after its release, released twice or never, and device streams
that are used after their end are written down as faults, and what is released is poisoned.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn.errors import ExecutionFailedError, OutOfMemoryError
from aclnn.signatures import parse
from aclnn.tensors import TensorSpec
from aclnn_server.backends.base import (
    Backend,
    Check,
    Device,
    OperatorInfo,
    Plan,
    Storage,
    Value,
)
from aclnn_server.backends.shared import SharedHostMemory

Array = npt.NDArray[Any]

SECRET = "/srv/secret/kernel.bin at 0x7f00dead"
"""Text of an unexpected failure: must stay on the server."""
POISON = 0xDD
PATIENCE = 30.0
"""Seconds after which a wait counts as hung."""


class Gate:
    """A place where kernels wait until the test opens it."""

    def __init__(self) -> None:
        self._entered = threading.Semaphore(0)
        self._opened = threading.Event()

    def open(self) -> None:
        """Lets everyone through, now and later."""
        self._opened.set()

    def wait_entered(self) -> None:
        """Waits until one more kernel stands at the gate."""
        assert self._entered.acquire(timeout=PATIENCE), "no kernel came to the gate"

    @property
    def untouched(self) -> bool:
        """Whether no kernel came that was not waited for; takes one arrival off where one did."""
        return not self._entered.acquire(blocking=False)

    def pass_through(self) -> None:
        """The kernel's side."""
        self._entered.release()
        if not self._opened.wait(PATIENCE):
            raise ExecutionFailedError("the gate was never opened")


class Gates:
    """Gates by number; 0 is no gate."""

    def __init__(self) -> None:
        self._gates: dict[int, Gate] = {}
        self._open = False
        self._lock = threading.Lock()

    def __getitem__(self, number: int) -> Gate:
        with self._lock:
            gate = self._gates.setdefault(number, Gate())
        if self._open:
            gate.open()
        return gate

    def pass_through(self, number: int) -> None:
        """Waits at a gate."""
        if number:
            self[number].pass_through()

    def open_all(self) -> None:
        """Opens every gate, those that are named later too."""
        with self._lock:
            self._open = True
            gates = list(self._gates.values())
        for gate in gates:
            gate.open()


@dataclass(eq=False)
class Block:
    """What one allocate or wrap made."""

    bytes: Array
    writable: bool
    live: bool = True


@dataclass(frozen=True, eq=False)
class Region:
    """A range of a block."""

    block: Block
    offset: int
    size: int


class SharedRegion(SharedHostMemory):
    """Memory that another process can map, as a region."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.memory = Region(Block(self.memory, writable=True), 0, size)


@dataclass(eq=False)
class DeviceStreamState:
    """What the device keeps for a stream."""

    check: Check | None = None
    live: bool = True
    in_use: threading.Lock = field(default_factory=threading.Lock)


@dataclass(eq=False)
class Alive:
    """Whether a plan was not discarded yet."""

    live: bool = True


@dataclass
class Faults:
    """What must never happen, as it happened."""

    seen: list[str] = field(default_factory=list)

    def check(self, *, holds: bool, text: str) -> None:
        """Notes a fault where the condition does not hold."""
        if not holds:
            self.seen.append(text)


class CountingDevice(Device):
    """A device that counts what it gives and takes back."""

    # It is not, but so it is asked to synchronize, and can notice when it may not be.
    asynchronous = True
    shares_memory = True

    def __init__(self, index: int, gates: Gates, total_bytes: int) -> None:
        self.index = index
        self.name = f"counting {index}"
        self.faults = Faults()
        self.live_bytes = 0
        self.live_streams = 0
        self.allocations = 0
        """Allocations and wraps, ever."""
        self.writes = 0
        """Pieces of data that were written, ever."""
        self.live_plans = 0
        self.streams_made = 0
        self.runs: list[str] = []
        """Operators whose runs began, in order."""
        self.parts = 0
        """Parts that were begun, of the calls of aclnnBlocks."""
        self.given: list[tuple[Value, ...]] = []
        """Arguments of the calls of aclnnEcho, in order."""
        self.planned = 0
        self._gates = gates
        self._total = total_bytes
        self._lock = threading.Lock()

    # --- memory -----------------------------------------------------------------------------------

    def memory_info(self) -> tuple[int, int]:
        return self._total - self.live_bytes, self._total

    def allocate(self, size: int) -> Region:
        with self._lock:
            if self.live_bytes + size > self._total:
                raise OutOfMemoryError(
                    f"device {self.index} has no room for {size} bytes of its {self._total}"
                )
        return self._keep(np.zeros(size, np.uint8), writable=True)

    def wrap(self, data: memoryview) -> Region:
        return self._keep(np.frombuffer(data, np.uint8), writable=False)

    def _keep(self, array: Array, *, writable: bool) -> Region:
        self.faults.check(holds=array.size > 0, text="an allocation of 0 bytes")
        with self._lock:
            self.live_bytes += array.size
            self.allocations += 1
        return Region(Block(array, writable), 0, array.size)

    def share(self, size: int) -> SharedRegion:
        return SharedRegion(size)

    def release(self, memory: Region) -> None:
        block = memory.block
        with self._lock:
            self.faults.check(holds=block.live, text=f"{memory.size} bytes released twice")
            self.faults.check(holds=memory.size == block.bytes.size, text="a part was released")
            block.live = False
            self.live_bytes -= block.bytes.size
        if block.writable:
            block.bytes[:] = POISON

    def slice(self, memory: Region, offset: int, size: int) -> Region:
        inside = min(offset, size) >= 0 and offset + size <= memory.size
        self.faults.check(holds=inside, text=f"slice {offset}+{size} of {memory.size} bytes")
        return Region(memory.block, memory.offset + offset, size)

    def bytes_of(self, memory: Region) -> Array:
        """The region's bytes; notes a fault where they were released."""
        self.faults.check(holds=memory.block.live, text=f"{memory.size} bytes used after release")
        return memory.block.bytes[memory.offset : memory.offset + memory.size]

    def write(self, memory: Region, data: memoryview, stream: object = None) -> None:
        self.bytes_of(memory)[: len(data)] = np.frombuffer(data, np.uint8)
        self.writes += 1

    def read(self, memory: Region) -> memoryview:
        return self.bytes_of(memory).data

    def copy(self, destination: Region, source: Region, stream: object = None) -> None:
        self.bytes_of(destination)[:] = self.bytes_of(source).copy()

    def fill(self, memory: Region, value: int, stream: object = None) -> None:
        self.bytes_of(memory)[:] = value

    # --- streams ----------------------------------------------------------------------------------

    def create_stream(self, check: Check | None = None) -> DeviceStreamState:
        with self._lock:
            self.live_streams += 1
            self.streams_made += 1
        return DeviceStreamState(check)

    def destroy_stream(self, stream: DeviceStreamState) -> None:
        with self._lock:
            self.faults.check(holds=stream.live, text="a stream was ended twice")
            stream.live = False
            self.live_streams -= 1

    def synchronize(self, stream: DeviceStreamState, timeout: float | None = None) -> None:
        self.faults.check(holds=stream.live, text="synchronize of a stream that has ended")

    # --- operators --------------------------------------------------------------------------------

    def plan(
        self,
        operator: str,
        arguments: Sequence[Value],
        storages: Sequence[Storage] = (),
        *,
        repeatable: bool = False,
    ) -> Plan:
        if operator == "aclnnRefuse":
            raise RuntimeError(SECRET)
        with self._lock:
            self.planned += 1
            self.live_plans += 1
        size = arguments[1] if operator == "aclnnScratch" else 0
        assert isinstance(size, int)
        return Plan(operator, tuple(arguments), size, Alive())

    def discard(self, plan: Plan) -> None:
        with self._lock:
            self.faults.check(holds=plan.prepared.live, text="a plan was discarded twice")
            plan.prepared.live = False
            self.live_plans -= 1

    def run(
        self,
        plan: Plan,
        storages: Sequence[Storage],
        workspace: Region | None,
        stream: DeviceStreamState,
    ) -> None:
        self.faults.check(holds=stream.live, text="run in a stream that has ended")
        self.faults.check(holds=plan.prepared.live, text="run of a plan that was discarded")
        alone = stream.in_use.acquire(blocking=False)
        self.faults.check(holds=alone, text="two runs at once in one stream")
        with self._lock:
            self.runs.append(plan.operator)
        try:
            if plan.operator == "aclnnBlocks":
                self._blocks(plan, stream)
                return
            compute = getattr(self, f"_{plan.operator.removeprefix('aclnn').lower()}")
            compute(plan, storages, workspace)
        finally:
            if alone:
                stream.in_use.release()

    def view(self, plan: Plan, storages: Sequence[Storage], index: int) -> Array:
        """The array of one tensor argument."""
        spec = plan.arguments[index]
        assert isinstance(spec, TensorSpec)
        if not spec.elements:
            return np.empty(spec.shape, spec.numpy_dtype())
        memory = storages[index]
        assert isinstance(memory, Region), f"argument {index} has no memory"
        return spec.view(self.bytes_of(memory))

    def _pass(self, plan: Plan, storages: Sequence[Storage], _: Region | None) -> None:
        self._gates.pass_through(_integer(plan, 1))
        self.view(plan, storages, 2)[...] = self.view(plan, storages, 0)

    def _plus(self, plan: Plan, storages: Sequence[Storage], _: Region | None) -> None:
        source = self.view(plan, storages, 0)
        self.view(plan, storages, 2)[...] = source + source.dtype.type(_integer(plan, 1))

    def _digit(self, plan: Plan, storages: Sequence[Storage], _: Region | None) -> None:
        number = self.view(plan, storages, 1)
        number[...] = number * 10 + _integer(plan, 0)

    def _fail(self, plan: Plan, _: Sequence[Storage], __: Region | None) -> None:
        number = _integer(plan, 0)
        if number < 0:
            raise RuntimeError(f"{SECRET} {number}")
        raise ExecutionFailedError(f"failed with {number}", operator=plan.operator)

    def _scratch(self, plan: Plan, storages: Sequence[Storage], workspace: Region | None) -> None:
        size = _integer(plan, 1)
        scratch = self.bytes_of(workspace) if workspace is not None else np.empty(0, np.uint8)
        self.faults.check(
            holds=scratch.size >= size, text=f"workspace of {scratch.size} for {size}"
        )
        mark = size % 199
        scratch[:size] = mark
        self._gates.pass_through(_integer(plan, 2))
        untouched = bool((scratch[:size] == mark).all())
        self.faults.check(holds=untouched, text="a workspace was shared by work that ran at once")
        self.view(plan, storages, 3)[...] = self.view(plan, storages, 0)

    def _blocks(self, plan: Plan, stream: DeviceStreamState) -> None:
        for part in range(_integer(plan, 0)):
            assert stream.check is not None
            stream.check()
            self.parts += 1
            self._gates.pass_through(_integer(plan, 1) + part)

    def _echo(self, plan: Plan, storages: Sequence[Storage], _: Region | None) -> None:
        self.given.append(plan.arguments)
        regions = storages[1]
        assert isinstance(regions, tuple)
        with_bytes = [self.bytes_of(region).tobytes() for region in regions if region is not None]
        data = self.view(plan, storages, 0).tobytes() + b"".join(with_bytes)
        out = self.view(plan, storages, 16)
        out[: len(data)] = np.frombuffer(data, np.uint8)


def _integer(plan: Plan, index: int) -> int:
    value = plan.arguments[index]
    assert isinstance(value, int)
    return value


_PROTOTYPES = {
    "Pass": "const aclTensor* self, int64_t gate, aclTensor* out",
    "Plus": "const aclTensor* self, int64_t other, aclTensor* out",
    "Digit": "int64_t digit, aclTensor* selfRef",
    "Fail": "int64_t number, aclTensor* out",
    "Refuse": "const aclTensor* self, aclTensor* out",
    "Blocks": "int64_t parts, int64_t gate, aclTensor* out",
    "Scratch": "const aclTensor* self, int64_t size, int64_t gate, aclTensor* out",
    "Echo": (
        "const aclTensor* self, const aclTensorList* tensors, const aclScalar* scalar, "
        "const aclScalarList* scalars, const aclIntArray* ints, const aclFloatArray* floats, "
        "const aclBoolArray* bools, const char* text, int64_t wide, int32_t word, int8_t small, "
        "uint64_t natural, bool flag, double real, float single, aclDataType dtype, aclTensor* out"
    ),
}
_OUTPUTS = {"Digit": ("selfRef",)}


def _operator(name: str) -> OperatorInfo:
    text = (
        f"aclnnStatus aclnn{name}GetWorkspaceSize({_PROTOTYPES[name]}, "
        "uint64_t* workspaceSize, aclOpExecutor** executor)"
    )
    return OperatorInfo(parse(text, outputs=_OUTPUTS.get(name, ("out",))), f"Test operator {name}.")


class GatedBackend(Backend):
    """The backend of the devices above."""

    name = "gated"

    def __init__(
        self,
        devices: int = 1,
        *,
        total_bytes: int = 2**30,
    ) -> None:
        self.gates = Gates()
        self.closed = False
        self._devices = tuple(
            CountingDevice(index, self.gates, total_bytes) for index in range(devices)
        )
        self._operators = {f"aclnn{name}": _operator(name) for name in sorted(_PROTOTYPES)}

    @property
    def operators(self) -> Mapping[str, OperatorInfo]:
        return self._operators

    @property
    def devices(self) -> Sequence[CountingDevice]:
        return self._devices

    @property
    def device(self) -> CountingDevice:
        """The first device."""
        return self._devices[0]

    def close(self) -> None:
        self.closed = True

    def check_clean(self) -> None:
        """Checks, once everything has ended, that all came back and nothing bad happened."""
        for device in self._devices:
            assert device.faults.seen == []
            assert (device.live_bytes, device.live_streams, device.live_plans) == (0, 0, 0)
