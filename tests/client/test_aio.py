"""The asyncio twin: the same names, the same answers, and nothing that blocks the loop."""

from __future__ import annotations

import asyncio
import inspect

import numpy as np
import pytest

import aclnn_client
from aclnn_client import (
    AclnnError,
    HandleNotFoundError,
    InvalidParameterError,
    ServerUnavailable,
    UnsupportedError,
    aio,
)
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.service.gated import GatedBackend

pytestmark = pytest.mark.asyncio

GRAD, X, TARGET = (np.arange(8, dtype=np.float32).reshape(4, 2) * step for step in (1, 2, 3))
EXPECTED = GRAD * np.clip(X - TARGET, -1, 1)
PATIENCE = 30.0


async def test_the_whole_way(server: Server) -> None:
    async with aio.connect(server.address) as context:
        grad, x, target = [await context.tensor(array) for array in (GRAD, X, TARGET)]
        out = context.empty((4, 2), "float32")
        size, executor = await aio.ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
            grad, x, target, 0, 1.0, gradInput=out
        )
        stream = await context.create_stream()
        await aio.ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor, stream)
        await stream.synchronize()
        np.testing.assert_array_equal(await out.numpy(), EXPECTED)
        got = await context.ops.smooth_l1_loss_backward(GRAD, X, TARGET, "none")
        np.testing.assert_array_equal(got, EXPECTED)
        resident = await context.ops.smooth_l1_loss_backward(grad, X, TARGET, "none")
        assert isinstance(resident, aio.Tensor)
        np.testing.assert_array_equal(await resident.numpy(), EXPECTED)
        large = np.full((700, 1000), 2, np.float32)
        assert ((await context.ops.smooth_l1_loss(large, large * 2, "none")) == 1.5).all()
        assert (await context.usage()).executors == 0
    assert context.closed


async def test_every_object(server: Server) -> None:
    context = await aio.connect(server.address)
    memory = context.malloc(5)
    assert memory is not None
    await memory.write(b"hello")
    assert await memory.read(1, 3) == b"ell"
    tensor = context.create_tensor((2,), "int8", buffer=memory)
    await tensor.write([1, 2])
    assert (await tensor.numpy()).tolist() == [1, 2]
    start, end = context.create_event(), context.create_event()
    async with await context.create_stream() as stream:
        start.record(stream)
        stream.wait(start)
        end.record(stream)
        await end.synchronize()
        assert await end.query()
        assert await stream.query() in (True, False)
        assert await start.elapsed_time(end) >= 0
    await stream.destroy()
    with pytest.raises(KeyError):
        async with await context.create_stream():
            raise KeyError
    await context.synchronize()
    assert [row.name for row in await context.operators("aclnnSmoothL1LossB")] == [
        "aclnnSmoothL1LossBackward"
    ]
    assert (await context.operator("aclnnSmoothL1Loss")).description
    assert (await context.info()).backend == server.backend.name
    assert (await aio.server_info(server.address)).backend == server.backend.name
    await context.close()
    await context.close()
    with pytest.raises(HandleNotFoundError, match="the context is closed"):
        await tensor.numpy()


async def test_an_operator_that_only_the_server_knows(gated_server: Server) -> None:
    async with aio.connect(gated_server.address) as context:
        source, out = await context.tensor(np.arange(4)), context.empty((4,), "int64")
        size, executor = await aio.get_workspace_size("aclnnPlus", (source, 3, out))
        await aio.execute("aclnnPlus", None, size, executor)
        assert (await out.numpy()).tolist() == [3, 4, 5, 6]
        _, executor = await aio.get_workspace_size("aclnnPlus", (source, 3, out), repeatable=True)
        await executor.run(self=out)
        assert (await out.numpy()).tolist() == [6, 7, 8, 9]


async def test_the_loop_goes_on_while_one_task_waits(
    gated_server: Server, backend: GatedBackend
) -> None:
    async with aio.connect(gated_server.address) as context:
        source, out = await context.tensor(np.arange(4)), context.empty((4,), "int64")
        _, executor = await aio.get_workspace_size("aclnnPass", (source, 1, out))
        await executor.run()
        reading = [asyncio.create_task(out.numpy()) for _ in range(3)]
        await asyncio.to_thread(backend.gates[1].wait_entered)
        assert not any(task.done() for task in reading)
        backend.gates.open_all()
        for array in await asyncio.gather(*reading):
            assert array.tolist() == [0, 1, 2, 3]


async def test_many_tasks_share_a_context(server: Server) -> None:
    async with aio.connect(server.address) as context:

        async def work(value: int) -> float:
            for _ in range(20):
                got = await context.ops.smooth_l1_loss_backward(
                    np.float32(value), np.float32(5), np.float32(0), "none"
                )
            return float(got)

        assert await asyncio.gather(*map(work, range(16))) == list(range(16))


async def test_failures_are_raised(server: Server) -> None:
    async with aio.connect(server.address) as context:
        with pytest.raises(InvalidParameterError, match="array is a str"):
            await context.tensor("text")
        with pytest.raises(AclnnError) as caught:
            await context.ops.smooth_l1_loss([1], [1])
        assert caught.value.operator == "aclnnSmoothL1Loss"
        with pytest.raises(AttributeError):
            aio.ops.nothing  # noqa: B018
    if server.backend.name != "numpy":
        with pytest.raises(UnsupportedError):
            await aio.connect(server.address, shared_memory=True)
    with pytest.raises(ServerUnavailable):
        async with aio.connect("unix:/nothing/there"):
            pass


async def test_time_limits(gated_server: Server, backend: GatedBackend) -> None:
    context = await aio.connect(gated_server.address, timeout=0.2)
    source, out = await context.tensor(np.arange(4)), context.empty((4,), "int64")
    _, executor = await aio.get_workspace_size("aclnnPass", (source, 1, out))
    await executor.run()
    with pytest.raises(ServerUnavailable, match=r"no answer within 0\.2 seconds"):
        await out.numpy()
    backend.gates.open_all()
    await asyncio.wait_for(context.synchronize(timeout=PATIENCE), PATIENCE)
    assert (await out.numpy()).tolist() == [0, 1, 2, 3]
    await context.close()


async def test_a_cancelled_wait_leaves_the_context_usable(
    gated_server: Server, backend: GatedBackend
) -> None:
    async with aio.connect(gated_server.address) as context:
        source, out = await context.tensor(np.arange(4)), context.empty((4,), "int64")
        _, executor = await aio.get_workspace_size("aclnnPass", (source, 1, out))
        await executor.run()
        reading = asyncio.create_task(out.numpy())
        await asyncio.to_thread(backend.gates[1].wait_entered)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        backend.gates.open_all()
        assert (await out.numpy()).tolist() == [0, 1, 2, 3]


async def test_a_cancelled_connect_leaves_no_context() -> None:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        connecting = asyncio.ensure_future(aio.connect(server.address))
        await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        async with asyncio.timeout(PATIENCE):
            while (await aio.server_info(server.address)).usage.contexts:
                await asyncio.sleep(0)


async def test_a_server_that_stops_ends_every_wait() -> None:
    backend = GatedBackend()
    server = Server(ServerConfig(listen="127.0.0.1:0"), backend=backend).start()
    context = await aio.connect(server.address)
    source, out = await context.tensor(np.arange(4)), context.empty((4,), "int64")
    _, executor = await aio.get_workspace_size("aclnnPass", (source, 1, out))
    await executor.run()
    reading = [asyncio.create_task(out.numpy()) for _ in range(3)]
    await asyncio.to_thread(backend.gates[1].wait_entered)
    stopping = asyncio.to_thread(server._grpc.stop, 0)
    stop = asyncio.create_task(stopping)
    errors = await asyncio.wait_for(asyncio.gather(*reading, return_exceptions=True), PATIENCE)
    assert {type(error) for error in errors} == {ServerUnavailable}
    backend.gates.open_all()
    await stop
    await context.close()
    await asyncio.to_thread(server.stop, 0)
    backend.check_clean()


async def test_the_names_are_those_of_the_blocking_client() -> None:
    pairs = [
        (aclnn_client.Context, aio.Context),
        (aclnn_client.Tensor, aio.Tensor),
        (aclnn_client.Buffer, aio.Buffer),
        (aclnn_client.Stream, aio.Stream),
        (aclnn_client.Event, aio.Event),
    ]
    for blocking, twin in pairs:
        for name, method in inspect.getmembers(blocking, inspect.isfunction):
            if name.startswith("_"):
                continue
            other = getattr(twin, name)
            assert list(inspect.signature(method).parameters) == list(
                inspect.signature(other).parameters
            ), f"{twin.__name__}.{name}"
    assert "aclnnSmoothL1Loss" in dir(aio.ops)
    assert (
        inspect.signature(aio.connect).parameters
        == inspect.signature(aclnn_client.connect).parameters
    )
