"""What counting costs the server: ``python -m benchmarks.metering``.

Both phases of a small call, as they come over Submit, applied with and without a tally; no network, and the
null backend. Processor time of the thread, the least of many rounds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn.v1 import tensor_pb2
from aclnn.wire import RawBatch
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from aclnn_server.service.applying import Applying
from aclnn_server.service.calls import Call

ROUNDS = 40
CALLS = 100
"""Of a round."""
OPERATOR = "aclnnSmoothL1LossBackward"
BYTES = 32


def batches(first: int) -> Iterator[RawBatch]:
    """Calls on buffers 1 to 4, of executors from `first` on."""
    tensors = [
        tensor_pb2.Argument(
            tensor=tensor_pb2.Tensor(
                data_type=tensor_pb2.DATA_TYPE_FLOAT, shape=[8], buffer_id=number
            )
        )
        for number in (1, 2, 3, 4)
    ]
    numbers = (tensor_pb2.Argument(int64_value=1), tensor_pb2.Argument(float_value=1.0))
    arguments = (*tensors[:3], *numbers, tensors[3])
    for number in range(first, first + CALLS):
        plan = op.GetWorkspaceSizeRequest(
            operator=OPERATOR, executor_id=number, arguments=arguments
        )
        run = op.ExecuteRequest(executor_id=number, asynchronous=True)
        commands = (pb.Command(get_workspace_size=plan), pb.Command(execute=run))
        yield RawBatch("", 0, [command.SerializeToString() for command in commands])


class Side:
    """A server that counts, or one that does not."""

    def __init__(self, *, metering: bool) -> None:
        config = ServerConfig(listen="127.0.0.1:0", backend="null", metering=metering)
        server = Server(config)
        context = server.registry.create_context(0, config.lease_seconds)
        for number in (1, 2, 3, 4):
            context.add_buffer(number, BYTES)
        tally = None if context.meter is None else context.meter.open()
        self._call = Call(server.registry, context, tally=tally)
        self._applier = server._service._submit_calls._applier
        self.best = float("inf")
        """Microseconds of a call."""

    def measure(self, first: int) -> None:
        """One round."""
        prepared = list(batches(first))
        begin = time.thread_time()
        for batch in prepared:
            applying = Applying(self._applier, self._call, batch)
            applying.go_on()
            applying.answer()
        self.best = min(self.best, (time.thread_time() - begin) / CALLS * 1e6)


def main() -> int:
    """Measures both sides in turn, and prints."""
    counted, bare = Side(metering=True), Side(metering=False)
    for first in range(1, ROUNDS * CALLS, CALLS):
        counted.measure(first)
        bare.measure(first)
    print(f"both phases of a small call, null backend: {counted.best:.2f} µs of processor time")
    print(f"without counting:                          {bare.best:.2f} µs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
