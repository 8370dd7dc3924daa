"""Uses the Python client, which brings grpcio, and the C library in one process, in turns."""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref, c_float, c_int64, c_size_t, c_uint64, c_void_p

import numpy as np

from aclnn_client import connect

# Symbols of all of them are for all: the worst case for two copies of anything.
acl, meta, ops = (
    ctypes.CDLL(f"lib{name}.so", mode=ctypes.RTLD_GLOBAL)
    for name in ("ascendcl", "nnopbase", "opapi")
)
acl.aclrtMalloc.argtypes = [ctypes.POINTER(c_void_p), c_size_t, ctypes.c_int]
acl.aclrtMemcpy.argtypes = [c_void_p, c_size_t, c_void_p, c_size_t, ctypes.c_int]
meta.aclCreateTensor.restype = meta.aclCreateScalar.restype = c_void_p
SHAPE = (c_int64 * 1)(2)
TO_DEVICE, TO_HOST = 1, 2


def check(code: int) -> None:
    assert code == 0, code


def tensor(*values: float) -> tuple[c_void_p, c_void_p]:
    memory = c_void_p()
    check(acl.aclrtMalloc(byref(memory), 8, 0))
    check(acl.aclrtMemcpy(memory, 8, (c_float * 2)(*values), 8, TO_DEVICE))
    layout = (SHAPE, c_uint64(1), 0, None, c_int64(0), 2, SHAPE, c_uint64(1))
    return memory, c_void_p(meta.aclCreateTensor(*layout, memory))


def add() -> list[float]:
    (_, left), (_, right), (memory, out) = tensor(1, 2), tensor(10, 20), tensor(0, 0)
    alpha = c_void_p(meta.aclCreateScalar(byref(c_float(1)), 0))
    size, executor, sums = c_uint64(), c_void_p(), (c_float * 2)()
    check(ops.aclnnAddGetWorkspaceSize(left, right, alpha, out, byref(size), byref(executor)))
    check(ops.aclnnAdd(None, size, executor, None))
    check(acl.aclrtSynchronizeStream(None))
    check(acl.aclrtMemcpy(sums, 8, memory, 8, TO_HOST))
    return list(sums)


def main() -> None:
    check(acl.aclInit(None))
    check(acl.aclrtSetDevice(0))
    with connect(sys.argv[1]) as context:
        x = np.array([1, 2], np.float32)
        for _ in range(2):
            print("grpcio:", context.ops.add(x, x).tolist())
            print("the C library:", add())
    check(acl.aclrtResetDevice(0))
    check(acl.aclFinalize())


if __name__ == "__main__":
    main()
