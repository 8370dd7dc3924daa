"""Client of aclnn-serve: the two-phase aclnn operators of an Ascend NPU on another machine.

::

    from aclnn_client import connect, ops

    with connect("localhost:50051") as context:
        x, target, grad = (context.tensor(a) for a in (x_np, target_np, grad_np))
        grad_input = context.empty((4, 2), "float32")
        size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
            grad, x, target, 0, 1.0, grad_input
        )
        ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor)
        print(grad_input.numpy())
        # or in one line
        print(context.ops.smooth_l1_loss_backward(grad_np, x_np, target_np, reduction="none"))

The same for asyncio is in :mod:`aclnn_client.aio`. Every error is an :class:`AclnnError`.
"""

from __future__ import annotations

from aclnn import __version__
from aclnn.errors import (
    AclnnError,
    CancelledError,
    ExecutionFailedError,
    ExecutorUsedError,
    HandleExistsError,
    HandleNotFoundError,
    InternalError,
    InvalidParameterError,
    LimitExceededError,
    NotReadyError,
    NullPointerError,
    OperatorNotFoundError,
    OutOfMemoryError,
    PermissionDeniedError,
    ServerUnavailable,
    SessionLostError,
    StreamDestroyedError,
    UnauthenticatedError,
    UnsupportedError,
    VersionMismatchError,
    ViewOutsideStorageError,
    WaitTimeoutError,
)
from aclnn.overview import DeviceInfo, Usage
from aclnn.tensors import Scalar
from aclnn_client import ops
from aclnn_client.buffer import Buffer
from aclnn_client.context import Context, connect
from aclnn_client.info import (
    Limits,
    OperatorInfo,
    ParameterInfo,
    ServerInfo,
    server_info,
)
from aclnn_client.oneline import Operators
from aclnn_client.overview import server_overview
from aclnn_client.stream import Event, Stream, Timing
from aclnn_client.tensor import Tensor
from aclnn_client.tls import Tls
from aclnn_client.two_phase import Executor, execute, get_workspace_size

__all__ = [
    "AclnnError",
    "Buffer",
    "CancelledError",
    "Context",
    "DeviceInfo",
    "Event",
    "ExecutionFailedError",
    "Executor",
    "ExecutorUsedError",
    "HandleExistsError",
    "HandleNotFoundError",
    "InternalError",
    "InvalidParameterError",
    "LimitExceededError",
    "Limits",
    "NotReadyError",
    "NullPointerError",
    "OperatorInfo",
    "OperatorNotFoundError",
    "Operators",
    "OutOfMemoryError",
    "ParameterInfo",
    "PermissionDeniedError",
    "Scalar",
    "ServerInfo",
    "ServerUnavailable",
    "SessionLostError",
    "Stream",
    "StreamDestroyedError",
    "Tensor",
    "Timing",
    "Tls",
    "UnauthenticatedError",
    "UnsupportedError",
    "Usage",
    "VersionMismatchError",
    "ViewOutsideStorageError",
    "WaitTimeoutError",
    "__version__",
    "connect",
    "execute",
    "get_workspace_size",
    "ops",
    "server_info",
    "server_overview",
]
