"""Work that is queued, stands at gates, and is waited for."""

from __future__ import annotations

import numpy as np

from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from tests.service.calling import Caller
from tests.service.requests import floats, number, plan, run, tensor


def blocking(gate: int, *, stream: str = "") -> op.GetWorkspaceSizeRequest:
    """Phase one of work that stands at a gate on a worker's thread; it writes buffer 2."""
    out = tensor([2], storage_shape=[2**19], buffer_id=2)
    return plan("aclnnPass", floats(7, 8), number(gate), out, stream=stream)


def queue(caller: Caller, request: op.GetWorkspaceSizeRequest) -> None:
    """Both phases, without waiting."""
    planned = caller(request)
    caller(run(planned.executor_id, stream=request.stream_id, asynchronous=True))


def stored(caller: Caller, buffer_id: int = 1) -> int:
    """The number in a buffer."""
    data = caller(pb.ReadBufferRequest(buffer_id=buffer_id, bytes=8)).data
    return int(np.frombuffer(data, np.int64)[0])


def synchronize(caller: Caller, stream: str = "") -> None:
    """Waits for one stream, or for all."""
    caller(pb.SynchronizeStreamRequest(stream_id=stream))
