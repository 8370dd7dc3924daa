"""The same C functions from Python, through ctypes: what any language with a C interface does.

usage: ``LD_LIBRARY_PATH=client/cpp/build/lib ACLNN_SERVER=127.0.0.1:50051 python from_python.py``
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_float, c_int32, c_int64, c_size_t, c_uint64, c_void_p

ACL_FLOAT, ACL_FORMAT_ND = 0, 2
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2

acl = ctypes.CDLL("libascendcl.so", mode=ctypes.RTLD_GLOBAL)
meta = ctypes.CDLL("libnnopbase.so", mode=ctypes.RTLD_GLOBAL)
ops = ctypes.CDLL("libopapi.so")

# ctypes must be told every type: it would pass addresses as int, and floats as double.
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
acl.aclrtMalloc.argtypes = [POINTER(c_void_p), c_size_t, c_int32]
acl.aclrtMemcpy.argtypes = [c_void_p, c_size_t, c_void_p, c_size_t, c_int32]
acl.aclrtSynchronizeStream.argtypes = [c_void_p]
acl.aclrtFree.argtypes = [c_void_p]
meta.aclCreateTensor.restype = c_void_p
meta.aclCreateTensor.argtypes = [
    *(POINTER(c_int64), c_uint64, c_int32, POINTER(c_int64), c_int64, c_int32),
    *(POINTER(c_int64), c_uint64, c_void_p),
]
meta.aclDestroyTensor.argtypes = [c_void_p]
plan = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize
plan.argtypes = [
    *(c_void_p, c_void_p, c_void_p, c_int64, c_float, c_void_p),
    *(POINTER(c_uint64), POINTER(c_void_p)),
]
run = ops.aclnnSmoothL1LossBackward
run.argtypes = [c_void_p, c_uint64, c_void_p, c_void_p]


def check(status: int) -> None:
    if status:
        text = acl.aclGetRecentErrMsg() or b""
        raise RuntimeError(f"{status}: {text.decode()}")


def tensor(values: list[float]) -> tuple[c_void_p, int]:
    """Device memory with the values in it, and a tensor of 4x2 over it."""
    memory, shape = c_void_p(), (c_int64 * 2)(4, 2)
    data = (c_float * 8)(*values)
    size = ctypes.sizeof(data)
    check(acl.aclrtMalloc(byref(memory), size, 0))
    check(acl.aclrtMemcpy(memory, size, data, size, HOST_TO_DEVICE))
    made = meta.aclCreateTensor(shape, 2, ACL_FLOAT, None, 0, ACL_FORMAT_ND, shape, 2, memory)
    return memory, made


def main() -> None:
    check(acl.aclInit(None))
    check(acl.aclrtSetDevice(0))
    inputs = [tensor([1.0] * 8), tensor([float(i) for i in range(8)]), tensor([1.0] * 8)]
    memory, grad_input = tensor([0.0] * 8)
    size, executor = c_uint64(), c_void_p()
    handles = [handle for _, handle in inputs]
    check(plan(*handles, 0, 1.0, grad_input, byref(size), byref(executor)))
    check(run(None, size, executor, None))
    check(acl.aclrtSynchronizeStream(None))
    result = (c_float * 8)()
    check(acl.aclrtMemcpy(result, 32, memory, 32, DEVICE_TO_HOST))
    print(*(f"{value:g}" for value in result))
    for place, handle in [*inputs, (memory, grad_input)]:
        check(meta.aclDestroyTensor(handle))
        check(acl.aclrtFree(place))
    check(acl.aclrtResetDevice(0))
    check(acl.aclFinalize())


if __name__ == "__main__":
    main()
