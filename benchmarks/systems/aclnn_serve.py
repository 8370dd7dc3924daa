"""This project, by its Python client: over TCP, over a Unix socket, over shared memory."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from aclnn_client import Tensor, UnsupportedError, connect, ops
from benchmarks.computation import BETA, REDUCTION, REDUCTION_NUMBER, Array, Inputs
from benchmarks.systems.base import Call, Client, NotOffered, System
from benchmarks.systems.process import ServerProcess


class AclnnClient(Client):
    """A context."""

    def __init__(self, address: str, *, shared_memory: bool = False) -> None:
        try:
            self.context = connect(address, shared_memory=shared_memory)
        except UnsupportedError as error:
            raise NotOffered(error.message) from None

    def call(self, inputs: Inputs) -> Array:
        result: Array = self.context.ops.smooth_l1_loss_backward(
            *inputs.arrays, reduction=REDUCTION, beta=BETA
        )
        return result

    def two_phases(self, inputs: Inputs) -> Call:
        tensors, output = self._place(inputs)

        def call() -> None:
            self._run(tensors, output)
            self.context.default_stream.synchronize()

        return call

    def pipeline(self, inputs: Inputs, count: int) -> None:
        self._run_all(*self._place(inputs), count)

    def _place(self, inputs: Inputs) -> tuple[list[Tensor], Tensor]:
        tensors = [self.context.tensor(array) for array in inputs.arrays]
        return tensors, self.context.empty(inputs.grad.shape, "float32")

    def _run(self, tensors: list[Tensor], output: Tensor) -> None:
        grad, x, target = tensors
        size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
            grad, x, target, REDUCTION_NUMBER, BETA, output
        )
        ops.aclnnSmoothL1LossBackward(self.context.malloc(size), size, executor)

    def _run_all(self, tensors: list[Tensor], output: Tensor, count: int) -> None:
        for _ in range(count):
            self._run(tensors, output)
        self.context.default_stream.synchronize()

    def chain(self, inputs: Inputs, count: int) -> Array:
        result, x, target = (self.context.tensor(array) for array in inputs.arrays)
        for _ in range(count):
            result = self.context.ops.smooth_l1_loss_backward(
                result, x, target, reduction=REDUCTION, beta=BETA
            )
        return result.numpy()

    def close(self) -> None:
        self.context.close()


class SharedMemoryClient(AclnnClient):
    """A context whose tensors are in memory that client and server both see."""

    def __init__(self, address: str) -> None:
        super().__init__(address, shared_memory=True)

    def in_place(self, inputs: Inputs) -> Callable[[], Array]:
        tensors, output = self._place(inputs)
        result: Array = output.view()

        def call() -> Array:
            self._run(tensors, output)
            self.context.default_stream.synchronize()
            return result

        return call

    def in_place_in_flight(self, inputs: Inputs, count: int) -> Call:
        tensors, output = self._place(inputs)
        return functools.partial(self._run_all, tensors, output, count)


def serve_tcp(*settings: str) -> ServerProcess:
    """A server on a free port of this machine."""
    return ServerProcess(*SERVE, "127.0.0.1:0", *settings)


@contextlib.contextmanager
def serve_unix() -> Iterator[ServerProcess]:
    """A server on a Unix socket."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(*SERVE, f"unix:{Path(folder, 'aclnn')}") as server,
    ):
        yield server


SERVE = ("aclnn_server", "serve", "--log-level", "error", "--listen")
TCP = System("tcp", "aclnn-serve, TCP", serve_tcp, AclnnClient)
UNIX = System("unix", "aclnn-serve, Unix socket", serve_unix, AclnnClient)
SHARED_MEMORY = System("shm", "aclnn-serve, shared memory", serve_unix, SharedMemoryClient)
