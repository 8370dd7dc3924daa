"""Programs that each break one rule of CANN: ``python -m tests.ascend.misuse HOME NAME…``.

Each runs in a process of its own, which the double must end with a message. What a program does before is
right, so that it is the broken rule that ends it. Prints for each, as JSON, how it ended and what it said.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import tempfile
import threading
from ctypes import addressof, byref, c_float, c_int64, c_uint64, c_void_p
from typing import Any

from aclnn.signatures import parse
from aclnn_server.backends.ascend.acl import Acl
from aclnn_server.backends.ascend.loader import open_cann

DIMS = (c_int64 * 1)(8)
STEPS = (c_int64 * 1)(1)
PROTOTYPE = (
    "aclnnStatus aclnnReluGetWorkspaceSize(const aclTensor* self, const aclTensor* out, "
    "uint64_t* workspaceSize, aclOpExecutor** executor)"
)


class Program:
    """CANN, started, with device 0 as this thread's."""

    def __init__(self, home: str) -> None:
        self.cann = open_cann({"ASCEND_HOME_PATH": home})
        self.acl = Acl(self.cann.find)
        self.relu, self.run_relu = self.acl.operator(self.cann.find_operator, parse(PROTOTYPE))
        self.acl.aclInit(None)
        self.acl.aclrtSetDevice(0)

    def made(self, create: Any, *arguments: Any) -> int:  # noqa: ANN401
        handle = c_void_p()
        create(byref(handle), *arguments)
        return handle.value or 0

    def memory(self, size: int = 64) -> int:
        return self.made(self.acl.aclrtMalloc, size, 0)

    def stream(self) -> int:
        return self.made(self.acl.aclrtCreateStream)

    def scalar(self) -> int:
        return int(self.acl.aclCreateScalar(byref(c_float(1)), 0))

    def tensor(self, address: int) -> int:
        shape, steps = addressof(DIMS), addressof(STEPS)
        return int(self.acl.aclCreateTensor(shape, 1, 0, steps, 0, 2, shape, 1, address))

    def tensors(self, *handles: int) -> int:
        array = (c_void_p * len(handles))(*handles)
        return int(self.acl.aclCreateTensorList(array, len(handles)))

    def executor(self, source: int, target: int) -> int:
        executor = c_void_p()
        self.relu(source, target, byref(c_uint64()), byref(executor))
        return executor.value or 0


def wrong_handle_type(program: Program) -> None:
    program.acl.aclDestroyTensor(program.scalar())


def no_handle_at_all(program: Program) -> None:
    program.acl.aclDestroyTensor(addressof(DIMS))


def double_destroy(program: Program) -> None:
    tensor = program.tensor(program.memory())
    program.acl.aclDestroyTensor(tensor)
    program.acl.aclDestroyTensor(tensor)


def element_destroyed_after_its_list(program: Program) -> None:
    tensor = program.tensor(program.memory())
    program.acl.aclDestroyTensorList(program.tensors(tensor))
    program.acl.aclDestroyTensor(tensor)


def element_destroyed_before_its_list(program: Program) -> None:
    tensor = program.tensor(program.memory())
    program.tensors(tensor)
    program.acl.aclDestroyTensor(tensor)


def executor_used_twice(program: Program) -> None:
    tensor, stream = program.tensor(program.memory()), program.stream()
    executor = program.executor(tensor, tensor)
    program.run_relu(None, 0, executor, stream)
    program.run_relu(None, 0, executor, stream)


def executor_of_another_operator(program: Program) -> None:
    text = PROTOTYPE.replace("aclnnRelu", "aclnnMul").replace(
        "self, ", "self, const aclTensor* other, "
    )
    _, multiply = program.acl.operator(program.cann.find_operator, parse(text))
    tensor = program.tensor(program.memory())
    multiply(None, 0, program.executor(tensor, tensor), program.stream())


def executor_leaked(program: Program) -> None:
    memory = program.memory()
    tensor = program.tensor(memory)
    program.executor(tensor, tensor)
    program.acl.aclrtResetDevice(0)


def tensor_destroyed_between_the_phases(program: Program) -> None:
    tensor = program.tensor(program.memory())
    program.executor(tensor, tensor)
    program.acl.aclDestroyTensor(tensor)


def workspace_too_small(program: Program) -> None:
    text = PROTOTYPE.replace("aclnnRelu", "aclnnScratch").replace(
        "self, ", "self, int64_t workspace, "
    )
    plan, run = program.acl.operator(program.cann.find_operator, parse(text))
    tensor, size, executor = program.tensor(program.memory()), c_uint64(), c_void_p()
    plan(tensor, 1000, tensor, byref(size), byref(executor))
    run(program.memory(size.value), size.value - 1, executor, program.stream())


def use_of_freed_memory(program: Program) -> None:
    memory = program.memory()
    tensor = program.tensor(memory)
    executor = program.executor(tensor, tensor)
    program.acl.aclrtFree(memory)
    program.run_relu(None, 0, executor, program.stream())


def free_while_work_is_queued(program: Program) -> None:
    memory = program.memory()
    tensor = program.tensor(memory)
    program.run_relu(None, 0, program.executor(tensor, tensor), program.stream())
    program.acl.aclrtFree(memory)


def double_free(program: Program) -> None:
    memory = program.memory()
    program.acl.aclrtFree(memory)
    program.acl.aclrtFree(memory)


def write_past_the_end(program: Program) -> None:
    memory, stream = program.memory(8), program.stream()
    tensor = program.tensor(memory)  # of 32 bytes
    program.run_relu(None, 0, program.executor(tensor, tensor), stream)


def call_from_a_thread_without_context(program: Program) -> None:
    thread = threading.Thread(target=program.memory)
    thread.start()
    thread.join()


def stream_of_another_device(program: Program) -> None:
    memory, stream = program.memory(), program.stream()
    program.acl.aclrtSetDevice(1)
    program.acl.aclrtMemsetAsync(program.memory(), 8, 0, 8, stream)
    program.acl.aclrtFree(memory)


def copy_back_without_waiting(program: Program) -> None:
    memory, stream = program.memory(), program.stream()
    program.acl.aclrtMemsetAsync(memory, 64, 7, 64, stream)
    program.acl.aclrtMemcpy((c_int64 * 8)(), 64, memory, 64, 2)


def asynchronous_copy_of_pageable_memory(program: Program) -> None:
    program.acl.aclrtMemcpyAsync(program.memory(), 64, (c_int64 * 8)(), 64, 1, program.stream())


def host_memory_changed_too_early(program: Program) -> None:
    pinned = program.made(program.acl.aclrtMallocHost, 64)
    program.cann.runtime.fakeHold(1)
    stream = program.stream()
    program.acl.aclrtMemcpyAsync(program.memory(), 64, pinned, 64, 1, stream)
    (c_int64 * 8).from_address(pinned)[0] = 42
    program.cann.runtime.fakeHold(0)
    program.acl.aclrtSynchronizeStream(stream)


def event_destroyed_while_needed(program: Program) -> None:
    program.cann.runtime.fakeHold(1)
    event = program.made(program.acl.aclrtCreateEvent)
    program.acl.aclrtRecordEvent(event, program.stream())
    program.acl.aclrtDestroyEvent(event)


def address_that_is_not_aligned(program: Program) -> None:
    program.tensor(program.memory() + 4)


def finalize_before_reset(program: Program) -> None:
    program.acl.aclFinalize()


def reset_before_streams_are_destroyed(program: Program) -> None:
    program.stream()
    program.acl.aclrtResetDevice(0)


def call_after_finalize(program: Program) -> None:
    program.acl.aclrtResetDevice(0)
    program.acl.aclFinalize()
    program.acl.aclrtSetDevice(0)


def finalize_twice(program: Program) -> None:
    program.acl.aclrtResetDevice(0)
    program.acl.aclFinalize()
    program.acl.aclFinalize()


def nothing_wrong(program: Program) -> None:
    """The one that must end well."""
    acl, memory, stream = program.acl, program.memory(), program.stream()
    tensor = program.tensor(memory)
    program.run_relu(None, 0, program.executor(tensor, tensor), stream)
    acl.aclrtSynchronizeStream(stream)
    acl.aclDestroyTensor(tensor)
    acl.aclrtDestroyStream(stream)
    acl.aclrtFree(memory)
    acl.aclrtResetDevice(0)
    acl.aclFinalize()


def ended(home: str, name: str) -> tuple[int, str]:
    """Runs a program; gives the exit status of its process and what it wrote to standard error."""
    with tempfile.TemporaryFile() as errors:
        child = os.fork()  # before CANN is loaded
        if not child:
            os.dup2(errors.fileno(), 2)
            faulthandler.disable()
            globals()[name](Program(home))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        errors.seek(0)
        return status, errors.read().decode()


if __name__ == "__main__":
    print(json.dumps({name: ended(sys.argv[1], name) for name in sys.argv[2:]}))  # noqa: T201
