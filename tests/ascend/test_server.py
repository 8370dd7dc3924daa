"""The whole server on the double: contexts on devices, streams, events, errors and ends, through gRPC."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aclnn.errors import (
    ExecutionFailedError,
    ExecutorUsedError,
    HandleNotFoundError,
    InvalidParameterError,
    OutOfMemoryError,
    UnsupportedError,
    WaitTimeoutError,
)
from aclnn_client import (
    Context,
    Scalar,
    Stream,
    Tensor,
    connect,
    execute,
    get_workspace_size,
    ops,
)
from aclnn_server.backends.ascend import AscendBackend
from aclnn_server.config import ConfigError, ServerConfig
from aclnn_server.server import Server
from tests.ascend.building import Control
from tests.ascend.calling import GRADIENT, Array, gradient

X = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
GRAD, TARGET = np.full_like(X, 0.5), np.zeros_like(X)


@pytest.fixture
def server(backend: AscendBackend, double: Control) -> Iterator[Server]:
    server = Server(ServerConfig(listen="127.0.0.1:0"), backend=backend).start()
    yield server
    double.let_go()
    server.stop(0)


@pytest.fixture
def context(server: Server, double: Control) -> Iterator[Context]:
    context = connect(server.address)
    yield context
    double.let_go()
    context.close()


def two_phases(context: Context, *, repeatable: bool = False) -> Array:
    grad, x, target = (context.tensor(array) for array in (GRAD, X, TARGET))
    out = context.empty(X.shape, "float32")
    size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
        grad, x, target, 1, 1.0, out, repeatable=repeatable
    )
    for _ in range(3 if repeatable else 1):
        ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor)
    return out.numpy()


def call(operator: str, *arguments: Any) -> None:  # noqa: ANN401
    size, executor = get_workspace_size(operator, arguments)
    execute(operator, None if not size else executor.context.malloc(size), size, executor)


# --- computing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeatable", [False, True])
def test_two_phases(context: Context, repeatable: bool) -> None:
    expected = gradient((GRAD, X, TARGET), 1.0, mean=True)
    np.testing.assert_allclose(two_phases(context, repeatable=repeatable), expected, rtol=1e-6)


def test_one_line(context: Context) -> None:
    result = context.ops.smooth_l1_loss_backward(GRAD, X, TARGET, reduction="none", beta=0.5)
    np.testing.assert_allclose(result, gradient((GRAD, X, TARGET), 0.5), rtol=1e-6)


def test_an_operator_without_a_kernel_here(context: Context) -> None:
    """Its signature comes from the header of a custom package."""
    x, out = context.tensor(X), context.empty(X.shape, "float32")
    call("aclnnCustomScale", x, out, None)
    np.testing.assert_array_equal(out.numpy(), X * 2)


def test_lists_and_scalars_over_the_wire(context: Context) -> None:
    xs = [context.tensor(X), context.tensor(X[:2])]
    outs = [context.empty(array.shape, "float32") for array in (X, X[:2])]
    scalars = [Scalar(1, "FLOAT"), Scalar(-1, "FLOAT")]
    call("aclnnForeachAddScalarList", xs, scalars, outs)
    np.testing.assert_array_equal(outs[0].numpy(), X + 1)
    np.testing.assert_array_equal(outs[1].numpy(), X[:2] - 1)


def test_catalogue_tells_which_backends_can_run_what(context: Context) -> None:
    listed = {info.name: info for info in context.operators()}
    assert listed[GRADIENT].backends == ("ascend", "numpy")
    assert listed["aclnnRmsNorm"].backends[0] == "ascend"
    assert listed["aclnnCustomScale"].backends == ("ascend",)
    assert listed["aclnnFormatCast"].backends == ()
    assert "unknown type" in listed["aclnnFormatCast"].refused_because


def test_what_cannot_be_run_says_why(context: Context) -> None:
    with pytest.raises(UnsupportedError, match="has no function aclnnNowhereGetWorkspaceSize"):
        call("aclnnNowhere", context.tensor(X), context.tensor(X))


# --- devices --------------------------------------------------------------------------------------


def test_contexts_are_placed_where_they_ask(server: Server) -> None:
    for index in (1, 0):
        with connect(server.address, device=index) as context:
            assert context.device == index
            two_phases(context)
    with pytest.raises(HandleNotFoundError, match="devices 0 to 1"):
        connect(server.address, device=2)


def test_or_where_most_memory_is_free(server: Server) -> None:
    with connect(server.address, device=0) as first:
        held = first.malloc(100 * 2**20)
        first.synchronize()
        assert held is not None
        with connect(server.address) as second:
            assert second.device == 1


def test_devices_are_listed_with_their_memory(server: Server, context: Context) -> None:
    names = [device.name for device in context.info().devices]
    assert names == ["Ascend910B2 (NPU 0)", "Ascend910B2 (NPU 1)"]
    assert all(0 < d.free_bytes <= d.total_bytes == 2**30 for d in context.info().devices)


def test_a_quota_is_smaller_than_the_device(server: Server, backend: AscendBackend) -> None:
    config = ServerConfig(listen="127.0.0.1:0", max_context_bytes=1000)
    with Server(config, backend=backend) as small, connect(small.address) as context:
        held = context.malloc(1001)
        with pytest.raises(OutOfMemoryError, match="the context has 1000 free of its 1000"):
            context.synchronize()
        assert held is not None


def test_the_device_itself_has_no_room(context: Context) -> None:
    held = context.malloc(2 * 2**30)
    with pytest.raises(OutOfMemoryError, match="bytes are free") as caught:
        context.synchronize()
    assert caught.value.code == 207001
    assert held is not None


# --- streams, events, errors ----------------------------------------------------------------------


def gradient_call(context: Context, stream: Stream | None = None) -> Tensor:
    grad, x, target = (context.tensor(array) for array in (GRAD, X, TARGET))
    out = context.empty(X.shape, "float32")
    size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(grad, x, target, 0, 1.0, out)
    ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor, stream)
    return out


def test_work_is_queued_and_not_waited_for(context: Context, double: Control) -> None:
    stream = context.create_stream()
    double.hold()
    for _ in range(5):
        gradient_call(context, stream)
    assert not stream.query()
    with pytest.raises(WaitTimeoutError) as caught:
        stream.synchronize(timeout=0.05)
    assert caught.value.code == 507046
    double.let_go()
    stream.synchronize(timeout=30)
    assert stream.query()


def test_events_are_marks_on_the_device(context: Context, double: Control) -> None:
    first, second = context.create_stream(), context.create_stream()
    early, late = context.create_event(), context.create_event()
    early.record(first)
    double.hold()
    gradient_call(context, first)
    late.record(first)
    assert not late.query()
    second.wait(late)
    gradient_call(context, second)
    with pytest.raises(WaitTimeoutError):
        late.synchronize(timeout=0.05)
    double.let_go()
    late.synchronize(timeout=30)
    second.synchronize(timeout=30)
    assert early.elapsed_time(late) > 0


def test_device_errors_come_out_at_synchronize(context: Context, double: Control) -> None:
    stream = context.create_stream()
    double.fail("task", 1, 507015)
    out = gradient_call(context, stream)
    with pytest.raises(ExecutionFailedError, match="a kernel failed on the device") as caught:
        stream.synchronize()
    assert caught.value.code == 507015
    stream.synchronize()
    assert out is not None


def test_vendor_codes_and_reasons_reach_the_client(context: Context) -> None:
    x = context.tensor(X)
    with pytest.raises(InvalidParameterError, match="reduction is 9; allowed are 0") as caught:
        ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(x, x, x, 9, 1.0, x)
    assert (caught.value.code, caught.value.parameter) == (161002, "reduction")
    assert "/usr1/" not in caught.value.message
    assert "0x" not in caught.value.message


def test_executors_are_used_once(context: Context) -> None:
    x, out = context.tensor(X), context.empty(X.shape, "float32")
    size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(x, x, x, 0, 1.0, out)
    ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor)
    ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor)
    with pytest.raises(ExecutorUsedError):
        context.synchronize()


def test_large_transfers(context: Context) -> None:
    data = np.random.default_rng(1).integers(0, 256, 6_000_000, np.uint8)
    np.testing.assert_array_equal(context.tensor(data).numpy(), data)


# --- ends -----------------------------------------------------------------------------------------


def test_a_context_leaves_nothing_when_it_ends(
    server: Server, backend: AscendBackend, double: Control
) -> None:
    context = connect(server.address, device=0)
    stream, event = context.create_stream(), context.create_event()
    gradient_call(context, stream)
    event.record(stream)
    x = context.tensor(X)
    never_run = [
        ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(x, x, x, 0, beta, x, repeatable=repeatable)
        for beta, repeatable in ((0.5, False), (0.25, True))  # new to the client, which asks
    ]
    context.synchronize()
    assert (double.live("executor"), double.live("event")) == (len(never_run), 1)
    context.close()
    for device in backend.devices:
        device.memory_info()
    kinds = ("executor", "stream", "event", "scalar", "array", "list")
    assert {kind: double.live(kind) for kind in kinds} == dict.fromkeys(kinds, 0)


def test_a_server_leaves_nothing_when_it_stops(
    environment: dict[str, str], double: Control
) -> None:
    backend = AscendBackend(device="all", environment=environment)
    server = Server(ServerConfig(listen="127.0.0.1:0"), backend=backend).start()
    context = connect(server.address)
    gradient_call(context)
    context.synchronize()
    server.stop(0)
    assert double.left() == {}
    context.close()


class TestProcess:
    """The command, with the double where a user would have CANN."""

    def serve(self, home: Path, *flags: str) -> subprocess.Popen[str]:
        variables = {
            **os.environ,
            "ASCEND_HOME_PATH": str(home),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        command = [sys.executable, "-m", "aclnn_server", "serve", "--listen", "127.0.0.1:0"]
        return subprocess.Popen(
            [*command, "--backend", "ascend", *flags],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def test_serves_and_ends_as_cann_wants_it(self, home: Path) -> None:
        process = self.serve(home, "--device", "all", "--no-deterministic")
        assert process.stdout is not None
        banner = process.stdout.readline()
        assert "backend ascend, devices 0: Ascend910B2 (NPU 0), 1: Ascend910B2 (NPU 1)" in banner
        with connect(banner.split(" listening on ")[1].split()[0]) as context:
            two_phases(context)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors

    def test_without_such_a_device(self, home: Path) -> None:
        process = self.serve(home, "--device", "5")
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 2
        assert "device is '5'; there are devices 0 to 1" in errors

    def test_without_cann(self, tmp_path: Path) -> None:
        process = self.serve(tmp_path)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 4
        assert "no usable CANN was found" in errors
        assert "Traceback" not in errors


def test_other_backends_have_the_devices_that_are_counted() -> None:
    with pytest.raises(ConfigError, match="the backend null has device 0 only"):
        Server(ServerConfig(listen="127.0.0.1:0", backend="null", device="0,1"))
    with pytest.raises(
        ConfigError, match="device is '1,2'; the backend numpy has one device, 0, or"
    ):
        Server(ServerConfig(listen="127.0.0.1:0", device="1,2"))
    with (
        Server(ServerConfig(listen="127.0.0.1:0", device="0,1")) as server,
        connect(server.address, device=1) as context,
    ):
        assert context.device == 1
        two_phases(context)
