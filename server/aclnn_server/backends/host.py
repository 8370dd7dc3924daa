"""Memory of the host's processor as a device's memory: arrays of bytes."""

from __future__ import annotations

import mmap
import platform
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn.errors import OutOfMemoryError, UnsupportedError
from aclnn_server.backends.base import Device, DeviceStream
from aclnn_server.backends.shared import SharedHostMemory
from aclnn_server.machine import Machine, fields
from aclnn_server.operators.engines.threads import ALIGNMENT, aligned

Array = npt.NDArray[Any]

_ASK_FIRST = 1 << 26
"""Bytes from which an allocation is compared with the free memory first: the system grants more than
it has, and ends processes when they use it."""


class HostDevice(Device):
    """The host's processor; ``Memory`` is a one-dimensional uint8 array.

    Everything is done when a method returns, so streams are nothing here.
    """

    shares_plans = True
    shares_memory = True
    keeps_blocks = True

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.name = processor_name()
        self._machine = Machine()

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes for this process; zeros where not known."""
        return self._machine.memory()

    def allocate(self, size: int) -> Array:
        """Allocates zeroed bytes, aligned to a cache line; large ones take no memory until written."""
        self._check_free(size)
        try:
            return aligned(np.zeros(size + ALIGNMENT, np.uint8), size)
        except MemoryError:
            raise self._out_of_memory(size) from None

    def share(self, size: int) -> SharedHostMemory:
        """Allocates zeroed bytes of whole pages; they take no memory until written."""
        self._check_free(size)
        try:
            return SharedHostMemory(-(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
        except (AttributeError, OSError):
            raise UnsupportedError("this machine gives no memory that can be shared") from None

    def _check_free(self, size: int) -> None:
        if size >= _ASK_FIRST:
            free, total = self.memory_info()
            if total and free < size:
                raise self._out_of_memory(size)

    def _out_of_memory(self, size: int) -> OutOfMemoryError:
        free, total = self.memory_info()
        return OutOfMemoryError(
            f"{size} bytes were asked for; {free} of the device's {total} bytes are free"
        )

    def release(self, memory: Array) -> None:
        """Nothing: the bytes go with the last reference to them."""

    def wrap(self, data: memoryview) -> Array:
        """Reads (and writes, where `data` may be written) host memory in place."""
        return np.frombuffer(data, np.uint8) if data.nbytes else np.empty(0, np.uint8)

    def slice(self, memory: Array, offset: int, size: int) -> Array:
        """A view of the region."""
        return memory[offset : offset + size]

    def write(self, memory: Array, data: memoryview, stream: DeviceStream = None) -> None:
        """Copies host bytes to the start of the region."""
        memory[: data.nbytes] = self.wrap(data)

    def read(self, memory: Array) -> memoryview:
        """The region's own bytes."""
        return memory.data

    def reach(self, memory: Array) -> memoryview:
        """The region's own bytes."""
        return memory.data

    def copy(self, destination: Array, source: Array, stream: DeviceStream = None) -> None:
        """Copies as memmove does."""
        np.copyto(destination, source)

    def fill(self, memory: Array, value: int, stream: DeviceStream = None) -> None:
        """Sets every byte."""
        memory.fill(value)


def processor_name(told: str = "/proc/cpuinfo") -> str:
    """Name of the host's processor, as the kernel's file `told` has it."""
    for key, value in fields(told):
        if key == "model name":
            return value
    return platform.processor() or platform.machine()
