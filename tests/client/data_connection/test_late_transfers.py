"""Transfers that are broken off: nothing of them is moved later, and what comes next comes after them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from aclnn.errors import HandleNotFoundError, ServerUnavailable
from aclnn_client import Context, aio, connect, ops, requests
from aclnn_client.data_connection import DATA_BYTES, TRIES
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.chaos.network import Network
from tests.chaos.proxy import Fault, Proxy, Way
from tests.waiting import PATIENCE, until

COUNT = DATA_BYTES // 4
VALUES = np.arange(COUNT, dtype=np.float32)
DIRECT = "data connection"


# --- asyncio ----------------------------------------------------------------------------------------

STEPS = (0, 1, 31, 32, 33, 5000, VALUES.nbytes // 2, 32 + VALUES.nbytes - 1)


@pytest.mark.parametrize("after", STEPS)
def test_what_follows_a_cancelled_write_comes_after_it(
    host: Server, proxy: Proxy, after: int
) -> None:
    async def main() -> None:
        async with aio.connect(host.address) as context:
            x = await context.tensor(VALUES)
            proxy.plan(Fault("stall", "up", after))
            writing = asyncio.ensure_future(x.write(VALUES * 2))
            await asyncio.to_thread(proxy.stalled.acquire, timeout=PATIENCE)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing
            x.buffer.fill(0)  # no transfer, and nothing that waits for one
            proxy.release()
            assert not (await x.numpy()).any()

    asyncio.run(main())


def test_a_write_that_is_cancelled_before_its_turn_never_begins(host: Server, proxy: Proxy) -> None:
    async def main() -> None:
        async with aio.connect(host.address) as context:
            x, y = await context.tensor(VALUES), await context.tensor(VALUES)
            proxy.plan(Fault("stall", "up", VALUES.nbytes // 2))
            first = asyncio.ensure_future(x.write(VALUES * 2))
            await asyncio.to_thread(proxy.stalled.acquire, timeout=PATIENCE)
            passed = proxy.bytes["up"]
            turns = [asyncio.ensure_future(y.write(VALUES * 3)) for _ in range(3)]
            await y.buffer.read(0, 1)  # by now each waits in its thread
            for turn in turns:
                turn.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await turn
            y.buffer.fill(0)
            proxy.release()
            await first  # whose transfer none of them has ended
            np.testing.assert_array_equal(await x.numpy(), VALUES * 2)
            assert not (await y.numpy()).any()
            assert proxy.bytes["up"] - passed < VALUES.nbytes
            assert context.transport == DIRECT

    asyncio.run(main())


def test_a_cancelled_read_writes_no_more_into_its_array(host: Server, proxy: Proxy) -> None:
    async def main() -> None:
        async with aio.connect(host.address) as context:
            x, out = await context.tensor(VALUES), np.zeros_like(VALUES)
            proxy.plan(Fault("stall", "down", VALUES.nbytes // 2))
            reading = asyncio.ensure_future(x.numpy(out))
            await asyncio.to_thread(proxy.stalled.acquire, timeout=PATIENCE)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            out[:] = 5
            proxy.release()
            np.testing.assert_array_equal(await x.numpy(), VALUES)
            assert set(out.tolist()) == {5}

    asyncio.run(main())


def test_cancelled_transfers_are_no_reason_to_give_it_up(host: Server, proxy: Proxy) -> None:
    async def main() -> None:
        async with aio.connect(host.address) as context:
            x = await context.tensor(VALUES)
            for _ in range(TRIES + 1):
                proxy.plan(Fault("stall", "up", 1000))
                writing = asyncio.ensure_future(x.write(VALUES * 2))
                await asyncio.to_thread(proxy.stalled.acquire, timeout=PATIENCE)
                writing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await writing
                proxy.release()
                # Else what is left of it would meet the next fault.
                await asyncio.to_thread(until, lambda: len(proxy._threads) == 1)
            await x.write(VALUES)
            assert context.transport == DIRECT

    asyncio.run(main())


def test_cancelled_uploads_leave_no_memory_behind(host: Server) -> None:
    choose = random.Random(3)

    async def upload_and_cancel(context: aio.Context) -> None:
        uploading = asyncio.ensure_future(context.tensor(VALUES))
        await asyncio.sleep(choose.uniform(0, 0.004))  # at any byte
        uploading.cancel()
        await asyncio.wait([uploading])

    async def main() -> None:
        async with aio.connect(host.address) as context:
            for _ in range(30):
                await upload_and_cancel(context)
            gc.collect()
            usage = await context.usage()
            assert (usage.buffers, usage.bytes) == (0, 0)

    asyncio.run(main())


def test_what_is_over_ends_nobody_else_s_transfer(context: Context) -> None:
    x = context.tensor(VALUES)
    move = context.data.writing(x.buffer.buffer_id, 0, VALUES.view(np.uint8).data, progress=False)
    assert move.make()
    before = context.data._place.socket
    assert not move.break_off()  # as a task that is cancelled when its thread is through
    x.write(VALUES * 2)
    np.testing.assert_array_equal(x.numpy(), VALUES * 2)
    assert context.data._place.socket is before


# --- Ctrl-C -----------------------------------------------------------------------------------------


def test_an_interrupt_at_any_moment(context: Context) -> None:
    """What a write had got to when it came, what follows counts."""
    choose = random.Random(5)
    x, out = context.tensor(VALUES), context.empty((COUNT,), np.float32)
    for number in range(40):
        try:
            timer = interrupt_in(choose.uniform(0, 0.004))
            x.write(VALUES * number)
            x.numpy()
            timer.join()
            time.sleep(0.001)  # it has been sent
        except KeyboardInterrupt:
            pass
        if number % 2:
            x.buffer.fill(0)
            assert not x.numpy().any()
        x.write(VALUES + number)
        size, executor = ops.aclnnAbsGetWorkspaceSize(x, out)
        ops.aclnnAbs(context.malloc(size), size, executor)
        np.testing.assert_array_equal(out.numpy(), VALUES + number)
    assert context.transport == DIRECT


def interrupt_in(seconds: float) -> threading.Timer:
    """Lets Ctrl-C come once."""
    main = threading.main_thread().ident or 0
    timer = threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    return timer


# --- other processes, and the end -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_leaves_its_parent_s_connection_alone(context: Context) -> None:
    x = context.tensor(VALUES)
    assert context.transport == DIRECT
    context.data._lock.acquire()  # as another thread's transfer may have it
    child = os.fork()
    if not child:
        signal.alarm(int(PATIENCE))
        taken = context.data.takes(DATA_BYTES)
        context.data.close()
        os._exit(1 if taken else 0)
    context.data._lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    before = context.data._place.socket
    x.write(VALUES * 2)
    np.testing.assert_array_equal(x.numpy(), VALUES * 2)
    assert context.data._place.socket is before


def test_a_context_that_is_forgotten_leaves_no_open_socket(host: Server) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(3):
            context = connect(host.address)
            context.tensor(VALUES).numpy()
            assert context.transport == DIRECT
            context.plans.itself = context  # type: ignore[attr-defined]  # a cycle, as tracebacks make them
            del context
            gc.collect()
    until(lambda: not host.registry.usage.contexts)
    assert [str(each.message) for each in seen] == []


GONE = (ServerUnavailable, HandleNotFoundError)


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_server_that_stops_in_the_middle(monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    monkeypatch.setattr(requests, "RESUME_SECONDS", 0.2)
    config = ServerConfig(listen="127.0.0.1:0", shared_memory=False)
    with Server(config) as server, Network(server.address) as network:
        with contextlib.closing(connect(network.address)) as context, ThreadPoolExecutor(1) as pool:
            x = context.tensor(VALUES)
            network.plan(Fault("stall", way, VALUES.nbytes // 2))
            moving = pool.submit(lambda: x.write(VALUES) if way == "up" else x.numpy())
            assert network._data.stalled.acquire(timeout=PATIENCE)
            server.stop(0)
            network.release()
            network._data.release()
            # What was on its way may still arrive; a write in messages is told of later.
            assert isinstance(moving.exception(PATIENCE), (*GONE, type(None)))
            with pytest.raises(GONE):
                x.numpy()
        assert not server._data_port._connections
