"""Owning objects: each thing that CANN hands out is released once, and in the right order.

All of it belongs to the device's thread. A release that fails is tried once more and then logged: nothing
can be done about it, and what is to be released after it must be.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterable, Sequence
from ctypes import byref, c_int32, c_size_t, c_void_p

from aclnn.dtypes import DType
from aclnn.errors import AclnnError
from aclnn_server.backends.ascend import acl as c
from aclnn_server.backends.ascend.acl import Acl, Function

_LOG = logging.getLogger(__name__)


class Handle:
    """Something of CANN's that has to be given back."""

    __slots__ = ("_release", "value")

    def __init__(self, value: int, release: Function) -> None:
        self.value: int | None = value
        """The handle or address; ``None`` when it was given back."""
        self._release = release

    def close(self) -> None:
        """Gives it back; once, however often it is called."""
        value, self.value = self.value, None
        if value is not None:
            end(self._release, value)

    def __repr__(self) -> str:
        state = "released" if self.value is None else f"{self.value:#x}"
        return f"<{type(self).__name__} {state}>"


def end(release: Function, *arguments: int) -> None:
    """Calls a function that releases something; twice where it fails."""
    for last in (False, True):
        try:
            release(*arguments)
        except AclnnError as error:
            if last:
                _LOG.error("a release failed twice: %s", error)
        else:
            return


def made(create: Callable[..., object], *arguments: object) -> int:
    """Calls a function whose first parameter is where it puts the handle; gives the handle."""
    handle = c_void_p()
    create(byref(handle), *arguments)
    assert handle.value is not None
    return handle.value


class Stream(Handle):
    """aclrtStream."""

    def __init__(self, acl: Acl) -> None:
        super().__init__(made(acl.aclrtCreateStream), acl.aclrtDestroyStream)
        self._acl = acl

    def is_complete(self) -> bool:
        """Whether all that was queued is done."""
        status = c_int32()
        self._acl.aclrtStreamQuery(self.value, byref(status))
        return status.value == c.ACL_STREAM_STATUS_COMPLETE

    def abandon(self) -> None:
        """Ends the stream without waiting for its work, where CANN can do that."""
        if self._acl.has("aclrtDestroyStreamForce"):
            self._release = self._acl.aclrtDestroyStreamForce
        self.close()

    __slots__ = ("_acl",)


class Event(Handle):
    """aclrtEvent."""

    def __init__(self, acl: Acl) -> None:
        super().__init__(made(acl.aclrtCreateEvent), acl.aclrtDestroyEvent)
        self._acl = acl

    def is_complete(self) -> bool:
        """Whether the point at which it was recorded has been passed."""
        status = c_int32()
        self._acl.aclrtQueryEventStatus(self.value, byref(status))
        return status.value == c.ACL_EVENT_RECORDED_STATUS_COMPLETE

    def nanoseconds_since(self, earlier: Event) -> int:
        """Time since another event, both passed."""
        milliseconds = ctypes.c_float()
        self._acl.aclrtEventElapsedTime(byref(milliseconds), earlier.value, self.value)
        return round(milliseconds.value * 1e6)

    __slots__ = ("_acl",)


class DeviceMemory(Handle):
    """Memory of the device, aligned to 64 bytes; its content is arbitrary."""

    def __init__(self, acl: Acl, size: int) -> None:
        super().__init__(made(acl.aclrtMalloc, size, c.ACL_MEM_MALLOC_HUGE_FIRST), acl.aclrtFree)
        self.size = size

    __slots__ = ("size",)


class PinnedMemory(Handle):
    """Memory of the host that the device reads and writes by itself."""

    def __init__(self, acl: Acl, size: int) -> None:
        super().__init__(made(acl.aclrtMallocHost, size), acl.aclrtFreeHost)
        self.size = size

    __slots__ = ("size",)


class DeviceUse(Handle):
    """The thread's use of a device, and with it the device's context."""

    def __init__(self, acl: Acl, index: int) -> None:
        acl.aclrtSetDevice(index)
        super().__init__(index, acl.aclrtResetDevice)

    __slots__ = ()


class Executor(Handle):
    """aclOpExecutor: what phase one made."""

    def __init__(self, acl: Acl, value: int) -> None:
        super().__init__(value, acl.aclDestroyAclOpExecutor)

    def forget(self) -> None:
        """Notes that phase two has taken it."""
        self.value = None

    __slots__ = ()


# --- what arguments are made of -------------------------------------------------------------------


def scalar(acl: Acl, data: bytes, dtype: DType) -> Handle:
    """aclScalar of a value's bytes, which are copied."""
    value = ctypes.create_string_buffer(data, max(len(data), 16))
    return Handle(acl.aclCreateScalar(value, dtype.acl), acl.aclDestroyScalar)


def int_array(acl: Acl, values: Sequence[int]) -> Handle:
    """aclIntArray; the values are copied."""
    array = (ctypes.c_int64 * len(values))(*values)
    return Handle(acl.aclCreateIntArray(array, len(values)), acl.aclDestroyIntArray)


def float_array(acl: Acl, values: Sequence[float]) -> Handle:
    """aclFloatArray; the values are copied."""
    array = (ctypes.c_float * len(values))(*values)
    return Handle(acl.aclCreateFloatArray(array, len(values)), acl.aclDestroyFloatArray)


def bool_array(acl: Acl, values: Sequence[bool]) -> Handle:
    """aclBoolArray; the values are copied."""
    array = (ctypes.c_bool * len(values))(*values)
    return Handle(acl.aclCreateBoolArray(array, len(values)), acl.aclDestroyBoolArray)


def tensor_list(acl: Acl, elements: Iterable[Callable[[], Handle]]) -> Handle:
    """aclTensorList of the tensors that `elements` make: the list owns them."""
    return _list(acl.aclCreateTensorList, acl.aclDestroyTensorList, elements)


def scalar_list(acl: Acl, elements: Iterable[Callable[[], Handle]]) -> Handle:
    """aclScalarList of the scalars that `elements` make: the list owns them."""
    return _list(acl.aclCreateScalarList, acl.aclDestroyScalarList, elements)


def _list(create: Function, destroy: Function, elements: Iterable[Callable[[], Handle]]) -> Handle:
    owned: list[Handle] = []
    try:
        for make in elements:
            owned.append(make())
        values = (c_void_p * len(owned))(*(element.value for element in owned))
        return Handle(create(values, len(owned)), destroy)
    except BaseException:
        for element in owned:
            element.close()
        raise


def memory_info(acl: Acl) -> tuple[int, int]:
    """Free and total bytes of the calling thread's device; zeros where CANN does not tell."""
    free, total = c_size_t(), c_size_t()
    for kind in (c.ACL_HBM_MEM, c.ACL_DDR_MEM):
        acl.aclrtGetMemInfo(kind, byref(free), byref(total))
        if total.value:
            break
    return free.value, total.value
