"""What a backend must offer: devices with memory, and operators in two phases.

The sessions above call a :class:`Device` from many threads, but run the work of one stream in order and
on one thread at a time. ``Memory`` is the backend's own: an array of bytes for NumPy, an address for CANN.

A device may compute later than it is told to: what it is given with a stream is then only queued there,
and the device itself keeps memory that was released until the work that uses it is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aclnn.dtypes import DType
from aclnn.errors import UnsupportedError
from aclnn.pythonic import Pythonic
from aclnn.signatures import Signature
from aclnn.tensors import Scalar, TensorSpec

Value = (
    TensorSpec
    | tuple[TensorSpec, ...]
    | Scalar
    | tuple[Scalar, ...]
    | tuple[int, ...]
    | tuple[float, ...]
    | tuple[bool, ...]
    | str
    | int
    | float
    | bool
    | DType
    | None
)
"""One argument of phase one, by kind of parameter; ``None`` is a null pointer."""

Memory = Any
"""A region of device memory, as the backend's device made it."""

DeviceStream = Any
"""What the backend's device keeps for one stream; ``None`` where it keeps nothing."""

Check = Callable[[], None]
"""Raises an AclnnError where a computation that runs is not wanted any more."""

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of outputs that only their elements tell, by name of the parameter."""

Storage = Memory | tuple[Memory, ...] | None
"""Memory of one argument: of a tensor, of each tensor of a list, or ``None`` for every other kind."""


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """An operator as a backend knows it."""

    signature: Signature
    summary: str = ""
    """One sentence."""
    description: str = ""
    """Formula, semantics, source."""
    dtypes: Mapping[str, tuple[DType, ...]] | None = None
    """Element types allowed, by tensor parameter; ``None`` where not known."""
    refused_because: str = ""
    """Why it cannot be served; empty where it can."""
    others: tuple[str, ...] = ()
    """Names of other backends that can run it."""
    python: Pythonic | None = None
    """The one-line Python form, where there is one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A validated call: what phase one makes and phase two runs."""

    operator: str
    arguments: tuple[Value, ...]
    workspace_bytes: int
    prepared: Any = None
    """What the backend wants to keep for the run."""


class Moment(ABC):
    """A point in a device's stream, reached when the work queued before it is done."""

    @property
    @abstractmethod
    def passed(self) -> bool:
        """Whether it has been reached."""

    @abstractmethod
    def wait(self, timeout: float | None) -> bool:
        """Waits until it is reached; returns whether it was within `timeout` seconds."""

    @abstractmethod
    def hold(self, stream: DeviceStream) -> None:
        """Lets work that is queued in `stream` from now on start after it."""

    @abstractmethod
    def nanoseconds_since(self, earlier: Any) -> int:  # noqa: ANN401 - a Moment of the same device
        """Time between two moments that were reached; negative where `earlier` was reached later."""


class SharedMemory(ABC):
    """Memory of a device that another process of the machine can map as well, by an open file."""

    memory: Memory
    """The whole of it, as the device's other memory is; it goes with the last reference to it."""

    @property
    @abstractmethod
    def file(self) -> int:
        """Number of the open file; not to be closed. Only before :meth:`close_file`."""

    @abstractmethod
    def close_file(self) -> None:
        """Closes the file; the memory stays, here and where the file was handed to."""

    @abstractmethod
    def clear(self) -> None:
        """Gives every page back to the system: whoever still maps the memory reads zeros from now on."""


class Device(ABC):
    """One device, open."""

    index: int
    name: str
    shares_plans: bool = False
    """Whether a plan may be run for every equal call, by any thread, and :meth:`discard` does nothing."""
    asynchronous: bool = False
    """Whether what is queued in a stream may go on after the call that queued it has returned."""
    keeps_blocks: bool = False
    """Whether fresh memory is so slow that what a context frees is kept for it a while."""
    shares_memory: bool = False
    """Whether :meth:`share` can be tried at all."""

    @abstractmethod
    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes; zeros where not known."""

    @abstractmethod
    def allocate(self, size: int) -> Memory:
        """Allocates `size` bytes (at least 1), zeroed, so that no client sees another's data.

        Raises:
            OutOfMemoryError: 207001, the device has no room.
        """

    @abstractmethod
    def release(self, memory: Memory) -> None:
        """Gives back what :meth:`allocate` or :meth:`wrap` made. No work uses it any more."""

    @abstractmethod
    def wrap(self, data: memoryview) -> Memory:
        """Makes device memory that holds `data`, without a copy where the device can read it in place."""

    def share(self, size: int) -> SharedMemory:
        """Allocates `size` zeroed bytes (at least 1) that another process can map as well.

        What lies in it may change at any time, by that process; no change may lead out of it.

        Raises:
            UnsupportedError: 207000, memory of this device cannot be shared, or the system does not let it.
            OutOfMemoryError: 207001, the device has no room.
        """
        raise UnsupportedError("memory of this device cannot be shared with another process")

    @abstractmethod
    def slice(self, memory: Memory, offset: int, size: int) -> Memory:
        """The region of `size` bytes at `offset`; bounds were checked."""

    @abstractmethod
    def write(self, memory: Memory, data: memoryview, stream: DeviceStream = None) -> None:
        """Copies host bytes to the start of `memory`; `data` may change once it returns.

        Like :meth:`copy` and :meth:`fill` it acts in the order of `stream`, or, without one, at once and
        after all work that uses the memory.
        """

    @abstractmethod
    def read(self, memory: Memory) -> memoryview:
        """The region's bytes, after all work that uses it; valid until it is written or released.

        Without a copy where possible.
        """

    def reach(self, memory: Memory) -> memoryview | None:
        """The region's own bytes, to be written in place; ``None`` where the host cannot reach them."""
        return None

    @abstractmethod
    def copy(self, destination: Memory, source: Memory, stream: DeviceStream = None) -> None:
        """Copies between regions of equal size, which may overlap."""

    @abstractmethod
    def fill(self, memory: Memory, value: int, stream: DeviceStream = None) -> None:
        """Sets every byte to `value`, 0 to 255."""

    @abstractmethod
    def plan(
        self,
        operator: str,
        arguments: Sequence[Value],
        storages: Sequence[Storage] = (),
        *,
        repeatable: bool = False,
    ) -> Plan:
        """Phase one: validates in the vendor's order and with the vendor's codes, and sizes the workspace.

        `arguments` are as many as the signature has and of the right kinds; shapes have dimensions of at
        least 0 and sizes that do not overflow. That views stay inside their storage is checked by the
        caller afterwards, which is where the vendor's order has it.

        `storages`, parallel to `arguments` or empty, is the memory that is known already; :meth:`run` may
        be given other memory. `repeatable` announces that the plan is run more than once.

        Raises:
            AclnnError: 161001, 161002, 561103 or another of the vendor's codes.
        """

    def discard(self, plan: Plan) -> None:
        """Ends a plan, run or not; once."""

    @abstractmethod
    def run(
        self,
        plan: Plan,
        storages: Sequence[Storage],
        workspace: Memory | None,
        stream: DeviceStream,
    ) -> Shapes | None:
        """Phase two: computes. `storages` is parallel to ``plan.arguments``; a tensor's memory begins with
        its storage and holds all of it. `stream` is what :meth:`create_stream` made.

        Gives the shapes of the outputs that are ``shaped_by_data``, whose elements are the first
        of the output, in C order. ``None`` where the operator has none, or where nothing is known before the
        stream is synchronised.

        Raises:
            AclnnError: the computation failed; where it is only queued, :meth:`synchronize` raises that.
        """

    def create_stream(self, check: Check | None = None) -> DeviceStream:
        """Makes what :meth:`run` and :meth:`synchronize` need for one stream.

        `check` may be called by :meth:`run` between two parts of a computation, from any thread: it raises
        where the computation is not wanted any more, and then :meth:`run` ends with that.
        """
        return None

    def destroy_stream(self, stream: DeviceStream) -> None:
        """Ends a stream; nothing runs in it."""

    def synchronize(self, stream: DeviceStream, timeout: float | None = None) -> None:
        """Waits until what was queued in `stream` is done.

        Raises:
            WaitTimeoutError: 507046, `timeout` seconds passed.
            AclnnError: something in it failed since the last time.
        """

    def is_idle(self, stream: DeviceStream) -> bool:
        """Whether what was queued in `stream` is done."""
        return True

    def record(self, stream: DeviceStream) -> Moment | None:
        """Marks the point after all work queued in `stream`; ``None``: it has been reached.

        Raises:
            AclnnError: something in the stream failed.
        """
        self.synchronize(stream)
        return None

    def close(self) -> None:
        """Ends the device; nothing runs on it."""


class Backend(ABC):
    """Devices of one kind, and the operators that they run."""

    name: str
    """Name that ``--backend`` selects it by."""

    @property
    @abstractmethod
    def operators(self) -> Mapping[str, OperatorInfo]:
        """The catalogue, by C name with the aclnn prefix, in order of names."""

    @property
    @abstractmethod
    def devices(self) -> Sequence[Device]:
        """The open devices, by index."""

    def close(self) -> None:
        """Ends every device."""
        for device in self.devices:
            device.close()
