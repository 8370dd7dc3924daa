"""The first draft: each C function a unary call.

Tensors are bytes in the messages of both, executors are in a dict. Written as one would without a
second look, except that no message is limited in size.
"""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np

from benchmarks.computation import BETA, REDUCTION_NUMBER, Array, Inputs, gradient
from benchmarks.systems.base import Call, Client, NotOffered, System
from benchmarks.systems.ping_pong import UNLIMITED
from benchmarks.systems.process import ServerProcess, say_ready

SCHEMA = "benchmarks/systems/first_draft.proto"


def _generated() -> tuple[Any, Any]:
    """Messages and services, generated in memory by grpcio-tools."""
    try:
        import grpc_tools  # noqa: F401 - what grpc generates with
    except ImportError:
        raise NotOffered("grpcio-tools is not installed") from None
    return grpc.protos_and_services(SCHEMA)  # type: ignore[attr-defined,no-any-return,unused-ignore]


class FirstDraftClient(Client):
    """Sends everything twice."""

    def __init__(self, address: str) -> None:
        self._pb, services = _generated()
        self._channel = grpc.insecure_channel(address, UNLIMITED)
        self._stub = services.SmoothL1LossBackwardStub(self._channel)

    def call(self, inputs: Inputs) -> Array:
        plan = self._stub.GetWorkspaceSize(
            self._pb.GetWorkspaceSizeRequest(arguments=self._arguments(inputs))
        )
        answer = self._stub.Execute(
            self._pb.ExecuteRequest(
                executor=plan.executor,
                workspace_size=plan.workspace_size,
                arguments=self._arguments(inputs),
            )
        )
        return np.frombuffer(answer.grad_input.data, np.float32)

    def two_phases(self, inputs: Inputs) -> Call:
        return lambda: self.call(inputs)

    def _arguments(self, inputs: Inputs) -> Any:  # noqa: ANN401 - generated
        grad, x, target = (self._tensor(array) for array in inputs.arrays)
        return self._pb.Arguments(
            grad_output=grad, self=x, target=target, reduction=REDUCTION_NUMBER, beta=BETA
        )

    def _tensor(self, array: Array) -> Any:  # noqa: ANN401 - generated
        return self._pb.Tensor(shape=array.shape, dtype=str(array.dtype), data=array.tobytes())

    def close(self) -> None:
        self._channel.close()


class Servicer:
    """Keeps executors in a dict."""

    def __init__(self, pb: Any) -> None:  # noqa: ANN401 - generated
        self._pb = pb
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._executors: dict[int, list[tuple[int, ...]]] = {}

    def GetWorkspaceSize(self, request: Any, rpc: grpc.ServicerContext) -> Any:  # noqa: ANN401, N802
        arrays = _arrays(request.arguments)
        if len({array.shape for array in arrays}) != 1 or request.arguments.beta < 0:
            return self._pb.GetWorkspaceSizeResponse(status=161002)
        with self._lock:
            executor = next(self._ids)
            self._executors[executor] = [array.shape for array in arrays]
        return self._pb.GetWorkspaceSizeResponse(executor=executor)

    def Execute(self, request: Any, rpc: grpc.ServicerContext) -> Any:  # noqa: ANN401, N802
        arrays = _arrays(request.arguments)
        with self._lock:
            planned = self._executors.pop(request.executor, None)
        if planned != [array.shape for array in arrays]:
            return self._pb.ExecuteResponse(status=161002)
        result = gradient(*arrays)
        tensor = self._pb.Tensor(shape=result.shape, dtype="float32", data=result.tobytes())
        return self._pb.ExecuteResponse(grad_input=tensor)


def _arrays(arguments: Any) -> list[Array]:  # noqa: ANN401 - generated
    tensors = (arguments.grad_output, arguments.self, arguments.target)
    return [
        np.frombuffer(tensor.data, np.float32).reshape(tuple(tensor.shape)) for tensor in tensors
    ]


def main() -> None:
    """Serves until the process is ended."""
    pb, services = _generated()
    server = grpc.server(ThreadPoolExecutor(128), options=[("grpc.so_reuseport", 0), *UNLIMITED])
    services.add_SmoothL1LossBackwardServicer_to_server(Servicer(pb), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    say_ready(f"127.0.0.1:{port}")
    server.wait_for_termination()


SYSTEM = System(
    "first-draft",
    "two-unary first draft",
    lambda: ServerProcess("benchmarks.systems.first_draft"),
    FirstDraftClient,
)

if __name__ == "__main__":
    main()
