"""Both phases by hand: arguments of every kind, plans, executors, and where failures are told."""
# ruff: noqa: ANN401 - wrong values are given on purpose

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

from aclnn_client import (
    AclnnError,
    Buffer,
    Context,
    ExecutionFailedError,
    Executor,
    ExecutorUsedError,
    InvalidParameterError,
    NullPointerError,
    OutOfMemoryError,
    ServerUnavailable,
    Tensor,
    ViewOutsideStorageError,
    connect,
    execute,
    get_workspace_size,
    ops,
)
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.client.calls import passing
from tests.service.gated import GatedBackend

GRAD, X, TARGET = (np.arange(8, dtype=np.float32).reshape(4, 2) * step for step in (1, 2, 3))
EXPECTED = GRAD * np.clip(X - TARGET, -1, 1)


def failing(context: Context, number: int = 7, **options: Any) -> Executor:
    """A planned call of aclnnFail."""
    out = context.empty((1,), "int8")
    return get_workspace_size("aclnnFail", (number, out), **options)[1]


# --- the pair ---------------------------------------------------------------------------------------


def test_the_typed_pair_computes(context: Context) -> None:
    grad, x, target = (context.tensor(array) for array in (GRAD, X, TARGET))
    out = context.empty((4, 2), "float32")
    size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(grad, x, target, 0, 1.0, out)
    workspace = context.malloc(size)
    assert (workspace is None) == (size == 0)
    with context.create_stream() as stream:
        ops.aclnnSmoothL1LossBackward(workspace, size, executor, stream)
        stream.synchronize()
    np.testing.assert_array_equal(out.numpy(), EXPECTED)
    assert executor.operator == "aclnnSmoothL1LossBackward"
    assert executor.workspace_size == size
    assert repr(executor) == f"<Executor {executor.executor_id} of aclnnSmoothL1LossBackward>"


def test_the_prototypes_names_and_the_default_stream(context: Context) -> None:
    out = context.empty((4, 2), "float32")
    size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
        gradOutput=GRAD, self=X, target=TARGET, reduction=0, beta=1, gradInput=out
    )
    ops.aclnnSmoothL1LossBackward(workspace=None, workspaceSize=size, executor=executor)
    np.testing.assert_array_equal(out.numpy(), EXPECTED)


def test_arrays_too_large_to_travel_with_the_call_are_uploaded(context: Context) -> None:
    grad, x, target = (np.full((300, 1000), value, np.float32) for value in (2, 3, 1))
    out = context.empty(grad.shape, "float32")
    size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(grad, x, target, 0, 1.0, out)
    ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor)
    assert (out.numpy() == 2).all()


def test_strided_arguments_are_used_as_they_lie(context: Context) -> None:
    grad, x, target = (context.tensor(array.T[::-1]) for array in (GRAD, X, TARGET))
    out = context.create_tensor((2, 4), "float32", (1, 2))
    size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(grad, x, target, 0, 1.0, out)
    ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor)
    np.testing.assert_array_equal(out.numpy(), EXPECTED.T[::-1])


# --- failures of phase one --------------------------------------------------------------------------


def test_phase_one_fails_with_the_vendors_codes(context: Context) -> None:
    out = context.empty((2,), "float32")
    pair = ops.aclnnSmoothL1LossGetWorkspaceSize
    with pytest.raises(NullPointerError) as null:
        pair(None, [1.0], 0, 1.0, out)
    assert (null.value.code, null.value.parameter) == (161001, "self")
    one = np.ones(2, np.float32)
    with pytest.raises(InvalidParameterError) as invalid:
        pair(one, one, 3, 1.0, out)
    assert (invalid.value.code, invalid.value.name) == (161002, "ACLNN_ERR_PARAM_INVALID")
    outside = context.create_tensor((2,), "float32", offset=5, storage_shape=(3,))
    with pytest.raises(ViewOutsideStorageError) as beyond:
        pair(outside, one, 0, 1.0, out)
    assert beyond.value.code == 561103


# --- workspace --------------------------------------------------------------------------------------


def scratch(context: Context, size: int) -> Executor:
    source, out = context.tensor([5]), context.empty((1,), "int64")
    planned, executor = get_workspace_size("aclnnScratch", (source, size, 0, out))
    assert planned == executor.workspace_size == size
    return executor


def test_the_workspace_is_the_callers(gated: Context) -> None:
    executor = scratch(gated, 1000)
    workspace = gated.malloc(1000)
    assert isinstance(workspace, Buffer)
    execute("aclnnScratch", workspace, 1000, executor)
    gated.synchronize()
    assert workspace.read() == bytes([1000 % 199]) * 1000
    scratch(gated, 500).run(workspace=workspace)
    gated.synchronize()
    assert workspace.read(0, 500) == bytes([500 % 199]) * 500


def test_without_a_workspace_run_borrows_one(gated: Context) -> None:
    scratch(gated, 1000).run()
    gated.synchronize()


@pytest.mark.parametrize(
    ("size", "held", "error"),
    [
        (1000, 0, NullPointerError),
        (999, 999, InvalidParameterError),
        (0, 0, InvalidParameterError),
        (1000, 10, InvalidParameterError),
    ],
    ids=["null", "small", "none", "a smaller buffer"],
)
def test_a_bad_workspace_is_told_at_the_next_wait(
    gated: Context, size: int, held: int, error: type[AclnnError]
) -> None:
    executor = scratch(gated, 1000)
    execute("aclnnScratch", gated.malloc(held), size, executor)
    with pytest.raises(error) as caught:
        gated.default_stream.synchronize()
    assert caught.value.operator == "aclnnScratch"
    gated.default_stream.synchronize()


@pytest.mark.parametrize("workspace", [5, b"bytes", np.zeros(3)])
def test_a_workspace_must_be_a_buffer(gated: Context, workspace: Any) -> None:
    with pytest.raises(InvalidParameterError, match="must be a buffer or None"):
        execute("aclnnScratch", workspace, 3, scratch(gated, 3))


def test_an_executor_is_run_by_its_own_operator(gated: Context) -> None:
    _, _, executor = passing(gated)
    with pytest.raises(InvalidParameterError, match="planned for aclnnPass"):
        execute("aclnnPlus", None, 0, executor)
    with pytest.raises(InvalidParameterError, match="is 5, which is no Executor"):
        execute("aclnnPlus", None, 0, 5)  # type: ignore[arg-type]


# --- failures of phase two --------------------------------------------------------------------------


def test_a_failure_is_told_once_at_its_stream(gated: Context) -> None:
    first, second = gated.create_stream(), gated.create_stream()
    failing(gated, 1).run(first)
    failing(gated, 2).run(first)
    failing(gated, 3).run(second)
    with pytest.raises(ExecutionFailedError, match="failed with 3"):
        second.synchronize()
    with pytest.raises(ExecutionFailedError, match="failed with 1"):
        first.synchronize()
    first.synchronize()
    second.synchronize()


def test_a_failure_is_told_when_what_it_wrote_is_read(gated: Context) -> None:
    out = gated.empty((1,), "int8")
    get_workspace_size("aclnnFail", (4, out))[1].run()
    with pytest.raises(ExecutionFailedError, match="failed with 4"):
        out.numpy()
    out.numpy()


def test_a_second_run_of_a_one_shot_executor_is_told(gated: Context) -> None:
    _, out, executor = passing(gated)
    executor.run()
    executor.run()
    with pytest.raises(ExecutorUsedError) as caught:
        gated.default_stream.synchronize()
    assert caught.value.code == 200005
    assert out.numpy().tolist() == [0, 1, 2, 3]


def test_the_first_failure_is_told_and_not_what_follows_from_it(backend: GatedBackend) -> None:
    config = ServerConfig(listen="127.0.0.1:0", max_context_bytes=4096)
    with Server(config, backend=backend) as server, connect(server.address) as context:
        small, large = context.tensor([1]), context.empty((8192,), "int8")
        with pytest.raises(OutOfMemoryError) as caught:
            get_workspace_size("aclnnPass", (small, 0, large))
        assert caught.value.code == 207001
        large = context.empty((8192,), "int8")
        with pytest.raises(OutOfMemoryError):
            large.numpy()
        context.malloc(8192)
        with pytest.raises(OutOfMemoryError):
            context.synchronize()
        assert small.numpy().tolist() == [1]


def test_an_unexpected_failure_tells_only_its_number(gated: Context) -> None:
    failing(gated, -1).run()
    with pytest.raises(AclnnError) as caught:
        gated.synchronize()
    assert "secret" not in str(caught.value)
    assert caught.value.request_id


def test_a_failure_is_not_lost_with_a_wait_that_is_given_up(
    gated_server: Server, backend: GatedBackend
) -> None:
    with connect(gated_server.address, timeout=0.3) as context:
        source, out = context.tensor(np.arange(4)), context.empty((4,), "int64")
        fails = failing(context, 9)
        get_workspace_size("aclnnPass", (source, 1, out))[1].run()
        fails.run()
        with pytest.raises(ServerUnavailable):
            out.numpy()
        backend.gates.open_all()
        with pytest.raises(ExecutionFailedError, match="failed with 9"):
            context.default_stream.synchronize()
        context.default_stream.synchronize()


def test_an_interrupt_ends_a_wait_and_nothing_else(gated: Context, backend: GatedBackend) -> None:
    source, out = gated.tensor(np.arange(4)), gated.empty((4,), "int64")
    get_workspace_size("aclnnPass", (source, 1, out))[1].run()
    waits = gated.commands.submitter.responses_waited

    def interrupt() -> None:
        backend.gates[1].wait_entered()
        while gated.commands.submitter.responses_waited == waits:
            os.sched_yield()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):
        _start_and_read(thread, out)
    thread.join()
    backend.gates.open_all()
    assert out.numpy().tolist() == [0, 1, 2, 3]
    gated.synchronize()


def _start_and_read(thread: threading.Thread, tensor: Tensor) -> None:
    thread.start()
    tensor.numpy()
