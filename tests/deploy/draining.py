"""Work that is under way for as long as a test needs it, and a server that is asked to stop meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from aclnn_client import Context, ServerUnavailable, Stream, Tensor, connect, ops

RUNS = 8
"""Runs that one round queues in a stream."""
LANES = 4
"""Streams with work: three have some while the client waits for the fourth."""
PATIENCE = 60.0
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Work:
    """A client whose server is never idle, until it is told to finish: each run adds 1 to a large tensor."""

    def __init__(self, address: str) -> None:
        self.context: Context = connect(address)
        self._lanes = [_Lane(self.context) for _ in range(LANES)]
        self._enough = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work)
        for lane in self._lanes:
            lane.queue()
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self._enough.is_set():
                for lane in self._lanes:
                    lane.stream.synchronize()
                    lane.queue()
        except BaseException as error:  # told where the work is finished
            self._failure = error

    def finish(self) -> None:
        """Ends it, and checks that every run was made, and made once."""
        self._enough.set()
        self._thread.join(PATIENCE)
        if self._failure is not None:
            raise self._failure
        for lane in self._lanes:
            first, last = lane.ends()
            assert first == last == lane.queued >= RUNS


class _Lane:
    shape = (1 << 22,)

    def __init__(self, context: Context) -> None:
        self.stream: Stream = context.create_stream()
        self.tensor: Tensor = context.tensor(np.zeros(self.shape, np.float32))
        self.queued = 0
        _, self._executor = ops.aclnnInplaceAddsGetWorkspaceSize(
            self.tensor, 1.0, 1.0, repeatable=True
        )

    def ends(self) -> tuple[float, float]:
        """The first and the last element."""
        buffer = self.tensor.buffer
        first, last = (buffer.read(at, 4) for at in (0, buffer.size - 4))
        return np.frombuffer(first, np.float32)[0], np.frombuffer(last, np.float32)[0]

    def queue(self) -> None:
        for _ in range(RUNS):
            self._executor.run(self.stream)
        self.queued += RUNS


def drain(address: str, ask_to_stop: Callable[[], object]) -> None:
    """Has a server asked to stop while it works, and checks what it answers until it has nothing to do.

    Args:
        address: of the server.
        ask_to_stop: sends SIGTERM, and returns at once.
    """
    work = Work(address)
    with grpc.insecure_channel(address) as channel:
        assert health(channel) == SERVING
        ask_to_stop()
        while health(channel) == SERVING:
            pass
        assert health(channel) == NOT_SERVING
        assert health(channel, "aclnn.v1.OperatorService") == NOT_SERVING
        assert health(channel, "liveness") == SERVING
    with pytest.raises(ServerUnavailable, match="the server is stopping"):
        connect(address)
    work.finish()


def health(channel: grpc.Channel, service: str = "") -> int:
    """What the server says of itself by grpc.health.v1."""
    request = health_pb2.HealthCheckRequest(service=service)
    stub: Any = health_pb2_grpc.HealthStub(channel)
    answer: int = stub.Check(request, timeout=PATIENCE).status
    return answer
