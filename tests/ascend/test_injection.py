"""Each call of CANN's fails in turn: nothing is left behind, and the next client is served."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest

from aclnn.errors import AclnnError
from aclnn_client import connect, ops
from aclnn_server.backends.ascend import AscendBackend
from aclnn_server.backends.ascend.memory import MemoryPool
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.ascend import building
from tests.ascend.building import Control
from tests.ascend.scenario import X, everything

NAMES = (
    *("aclInit", "aclFinalize", "aclrtGetSocName", "aclrtGetDeviceCount", "aclrtGetMemInfo"),
    *("aclrtSetDevice", "aclrtResetDevice", "aclrtCtxSetSysParamOpt"),
    *("aclrtMalloc", "aclrtFree", "aclrtMallocHost", "aclrtFreeHost"),
    *("aclrtMemcpy", "aclrtMemcpyAsync", "aclrtMemset", "aclrtMemsetAsync"),
    *("aclrtCreateStream", "aclrtDestroyStream", "aclrtStreamQuery", "aclrtSynchronizeStream"),
    *("aclrtCreateEvent", "aclrtDestroyEvent", "aclrtRecordEvent", "aclrtStreamWaitEvent"),
    *("aclrtQueryEventStatus", "aclrtEventElapsedTime"),
    *("aclCreateTensor", "aclCreateScalar", "aclCreateIntArray", "aclCreateFloatArray"),
    *("aclCreateBoolArray", "aclCreateTensorList", "aclCreateScalarList"),
    *("aclDestroyTensor", "aclDestroyScalar", "aclDestroyIntArray", "aclDestroyFloatArray"),
    *("aclDestroyBoolArray", "aclDestroyTensorList", "aclDestroyScalarList"),
    *("aclDestroyAclOpExecutor", "aclSetAclOpExecutorRepeatable"),
    *("aclSetInputTensorAddr", "aclSetOutputTensorAddr"),
    *("aclSetDynamicInputTensorAddr", "aclSetDynamicOutputTensorAddr"),
    *("aclnnSmoothL1LossBackwardGetWorkspaceSize", "aclnnSmoothL1LossBackward"),
    *("aclnnCatGetWorkspaceSize", "aclnnCat", "aclnnScratchGetWorkspaceSize", "aclnnScratch"),
    *("aclnnEchoGetWorkspaceSize", "aclnnEcho", "task"),
)
"""Everything that the scenario calls; a test below finds out what is missing."""


def open_backend() -> AscendBackend:
    return AscendBackend(
        environment={"ASCEND_HOME_PATH": str(building.home())},
        make_pool=lambda acl: MemoryPool(acl, kept_bytes=2**20),
    )


def test_the_scenario_calls_them_all(double: Control) -> None:
    before = {name: double.calls(name) for name in NAMES}
    backend = open_backend()
    everything(backend.devices[0], double)
    backend.close()
    assert [name for name in NAMES if double.calls(name) == before[name]] == []


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left(double: Control, name: str, n: int) -> None:
    double.fail(name, n, 507899)
    with contextlib.suppress(AclnnError):
        backend = open_backend()
        try:
            everything(backend.devices[0], double)
        finally:
            backend.close()
    double.fail(name, 0, 0)
    assert double.left() == {}


# --- through the server ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that goes on through all that fails."""
    building.options()
    with Server(ServerConfig(listen="127.0.0.1:0"), backend=open_backend()) as server:
        yield server


def client_program(address: str) -> None:
    """What a client does: buffers, both phases, one line, events, streams."""
    with connect(address) as context:
        stream, event = context.create_stream(), context.create_event()
        x, grad = context.tensor(X), context.tensor(np.ones_like(X))
        out = context.empty(X.shape, "float32")
        name = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize
        for repeatable in (False, True):
            size, executor = name(grad, x, x, 1, 1.0, out, repeatable=repeatable)
            ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor, stream)
        event.record(stream)
        event.synchronize()
        stream.synchronize()
        context.ops.smooth_l1_loss(X, X, reduction="none")
        name(grad, x, x, 1, 1.0, out)  # and never run
        out.numpy()


SERVED = (
    *("aclrtMalloc", "aclrtMallocHost", "aclrtMemset", "aclrtMemcpy", "aclrtMemcpyAsync"),
    *("aclrtCreateStream", "aclrtDestroyStream", "aclrtStreamQuery", "aclrtSynchronizeStream"),
    *("aclrtCreateEvent", "aclrtRecordEvent", "aclrtQueryEventStatus", "aclrtDestroyEvent"),
    *("aclCreateTensor", "aclDestroyTensor", "aclDestroyAclOpExecutor"),
    *("aclSetAclOpExecutorRepeatable", "aclSetInputTensorAddr", "aclSetOutputTensorAddr"),
    *("aclnnSmoothL1LossBackwardGetWorkspaceSize", "aclnnSmoothL1LossBackward"),
    *("aclnnSmoothL1LossGetWorkspaceSize", "aclnnSmoothL1Loss", "task"),
)
HELD = ("executor", "stream", "event", "list", "array", "scalar")
"""What belongs to a context, and to nothing else."""


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", SERVED)
def test_the_next_client_is_served(server: Server, name: str, n: int) -> None:
    double = building.control()
    double.fail(name, n, 507899)
    with contextlib.suppress(AclnnError):
        client_program(server.address)
    double.fail(name, 0, 0)
    client_program(server.address)
    for device in server.backend.devices:
        device.memory_info()  # its thread has ended what the contexts held
    assert server.registry.usage.contexts == 0
    assert {kind: double.live(kind) for kind in HELD} == dict.fromkeys(HELD, 0)
