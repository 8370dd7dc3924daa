"""Leaving a context's block tells what nobody has waited for, and only that."""

from __future__ import annotations

import numpy as np
import pytest

from aclnn_client import InvalidParameterError, NullPointerError, aio, connect, ops
from aclnn_server.server import Server

X = np.arange(8, dtype=np.float32).reshape(4, 2)
TOO_MUCH = 1 << 60


def test_a_failure_that_nobody_waited_for_is_told(server: Server) -> None:
    with (
        pytest.raises(InvalidParameterError, match=f"malloc, earlier: bytes is {TOO_MUCH}"),
        connect(server.address) as context,
    ):
        context.malloc(TOO_MUCH)
    assert context.closed


def test_a_refused_phase_two_is_told(server: Server) -> None:
    context = connect(server.address)
    x, out = context.tensor(X), context.empty((), "float32")
    _, executor = ops.aclnnSmoothL1LossGetWorkspaceSize(x, x, 1, 1.0, out)
    with pytest.raises(NullPointerError, match="workspace is null"), context:
        ops.aclnnSmoothL1Loss(None, 512, executor)


def test_a_failure_that_was_told_is_not_told_again(server: Server) -> None:
    with connect(server.address) as context:
        context.malloc(TOO_MUCH)
        with pytest.raises(InvalidParameterError):
            context.default_stream.synchronize()


def test_another_error_is_not_hidden(server: Server) -> None:
    context = connect(server.address)
    context.malloc(TOO_MUCH)
    with pytest.raises(ZeroDivisionError), context:
        raise ZeroDivisionError


@pytest.mark.asyncio
async def test_asyncio_tells_it_too(server: Server) -> None:
    with pytest.raises(InvalidParameterError, match="malloc, earlier"):
        async with aio.connect(server.address) as context:
            context.malloc(TOO_MUCH)


def test_a_workspace_of_another_context_is_refused(server: Server) -> None:
    """It would be the buffer of the same number in the executor's context."""
    with connect(server.address) as one, connect(server.address) as other:
        x, out = one.tensor(X), one.empty((), "float32")
        _, executor = ops.aclnnSmoothL1LossGetWorkspaceSize(x, x, 1, 1.0, out)
        workspace = other.malloc(4096)
        for call in (
            lambda: ops.aclnnSmoothL1Loss(workspace, 4096, executor),
            lambda: executor.run(workspace=workspace),
        ):
            with pytest.raises(InvalidParameterError, match="another context") as caught:
                call()
            assert caught.value.parameter == "workspace"
        np.testing.assert_array_equal(x.numpy(), X)


@pytest.mark.parametrize("size", [-1, 2**64, 1.5, None])
def test_a_workspace_size_that_is_none(server: Server, size: object) -> None:
    with connect(server.address) as context:
        x, out = context.tensor(X), context.empty((), "float32")
        _, executor = ops.aclnnSmoothL1LossGetWorkspaceSize(x, x, 1, 1.0, out)
        with pytest.raises(InvalidParameterError) as caught:
            ops.aclnnSmoothL1Loss(None, size, executor)  # type: ignore[arg-type]
        assert (caught.value.parameter, caught.value.code) == ("workspaceSize", 161002)
