"""Connections that break: the context goes on, and every command is applied exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from aclnn_client import (
    AclnnError,
    Context,
    HandleNotFoundError,
    ServerUnavailable,
    SessionLostError,
    Tensor,
    aio,
    connect,
    get_workspace_size,
    requests,
)
from aclnn_client.connection import Connection
from aclnn_client.info import ask_info
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.chaos.proxy import Proxy
from tests.service.gated import GatedBackend

PATIENCE = 30.0


@pytest.fixture
def proxy(gated_server: Server) -> Iterator[Proxy]:
    """A proxy before the gated server."""
    with Proxy(gated_server.address) as proxy:
        yield proxy


@pytest.fixture(params=[None, PATIENCE], ids=["direct", "public"])
def context(
    proxy: Proxy, backend: GatedBackend, request: pytest.FixtureRequest
) -> Iterator[Context]:
    """A context behind the proxy, over each kind of call."""
    context = connect(proxy.address, timeout=request.param)
    yield context
    backend.gates.open_all()
    context.close()


def append(context: Context, number: Tensor, digit: int) -> None:
    """Queues a kernel that appends a digit to a number: each time that it runs shows."""
    get_workspace_size("aclnnDigit", (digit, number))[1].run()


def test_a_connection_that_breaks_between_calls_is_not_noticed(
    context: Context, proxy: Proxy
) -> None:
    number = context.tensor([0])
    for digit in range(1, 6):
        append(context, number, digit)
        assert number.numpy().item() == int("12345"[:digit])
        proxy.cut()
    assert context.usage().buffers == 1
    assert proxy.connections >= 5


def test_a_wait_goes_on_over_the_next_connection(
    context: Context, proxy: Proxy, backend: GatedBackend
) -> None:
    source, out = context.tensor(np.arange(4)), context.empty((4,), "int64")
    get_workspace_size("aclnnPass", (source, 1, out))[1].run()
    with ThreadPoolExecutor(3) as pool:
        reading = [pool.submit(out.numpy) for _ in range(3)]
        backend.gates[1].wait_entered()
        for _ in range(3):
            proxy.cut()
        backend.gates[1].open()
        for future in reading:
            assert future.result(PATIENCE).tolist() == [0, 1, 2, 3]
    assert backend.device.runs == ["aclnnPass"]


@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("count", [0, 9, 30, 100, 400])
def test_a_break_at_any_byte_applies_everything_once(
    context: Context, proxy: Proxy, backend: GatedBackend, way: str, count: int
) -> None:
    number = context.tensor([0])
    append(context, number, 1)
    context.synchronize()
    proxy.cut_after(**{way: count})
    for digit in (2, 3, 4):
        append(context, number, digit)
    assert number.numpy().item() == 1234
    assert backend.device.runs == ["aclnnDigit"] * 4


@pytest.mark.parametrize("timed", [False, True], ids=["direct", "public"])
def test_what_is_made_anew_is_made_over_another_connection(proxy: Proxy, timed: bool) -> None:
    """gRPC gives new calls to a connection that is broken, for as long as a write is stuck in it."""
    connection = Connection(proxy.address)
    for count in range(1, 5):
        connection.open_submit(timed=timed, anew=count > 1).cancel()
        assert ask_info(connection).backend == "gated"
        assert proxy.connections == count
    connection.close()
    with pytest.raises(HandleNotFoundError, match="the context is closed"):
        ask_info(connection)


@pytest.mark.parametrize("count", [0, 30, 100])
def test_questions_are_asked_again(context: Context, proxy: Proxy, count: int) -> None:
    for ask in (context.info, context.operators, lambda: context.operator("aclnnPass")):
        ask()
        proxy.cut_after(down=count)
        assert ask()


@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("count", [0, 9, 60, 100, 200, 300])
def test_a_context_is_opened_once_and_closed(
    proxy: Proxy, gated_server: Server, way: str, count: int
) -> None:
    """Wherever the connection breaks: no context is left behind for its lease to end."""
    proxy.cut_after(**{way: count})
    with connect(proxy.address) as context:
        assert context.info().usage.contexts == 1
        proxy.cut_after(**{way: count})
    assert gated_server.registry.usage.contexts == 0


@pytest.mark.parametrize("way", ["up", "down"])
def test_large_transfers_survive(context: Context, proxy: Proxy, way: str) -> None:
    array = np.random.default_rng(3).integers(0, 256, 20 << 20, np.uint8)
    for count in (100, 1 << 20, 7 << 20):
        proxy.cut_after(**{way: count})
        np.testing.assert_array_equal(context.tensor(array).numpy(), array)


def test_many_breaks_while_threads_work(context: Context, proxy: Proxy) -> None:
    def work(thread: int) -> int:
        number = context.tensor([0])
        for digit in range(1, 10):
            append(context, number, digit)
            if digit % 3 == thread % 3:
                number.numpy()
                proxy.cut()
        return int(number.numpy().item())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [123456789] * 4


def test_answers_are_acknowledged(proxy: Proxy, gated_server: Server) -> None:
    with connect(proxy.address) as context:
        for _ in range(20):
            context.usage()
        (held,) = gated_server.registry._contexts.values()
        assert len(held.batches._answers) <= 2


def test_a_server_that_is_gone_is_given_up_at_once(backend: GatedBackend) -> None:
    server = Server(ServerConfig(listen="127.0.0.1:0"), backend=backend).start()
    with Proxy(server.address) as proxy, connect(server.address) as context:
        tensor = context.tensor([1])
        tensor.numpy()
        server.stop(0)
        with pytest.raises(ServerUnavailable, match="nothing listens there"):
            tensor.numpy()
        assert proxy.connections == 0


def test_a_server_that_cannot_be_reached_is_given_up_after_a_while(
    context: Context, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "RESUME_SECONDS", 0.3)
    tensor = context.tensor([1])
    tensor.numpy()
    proxy.broken = True
    proxy.cut()
    with pytest.raises(ServerUnavailable, match=proxy.address):
        tensor.numpy()
    with pytest.raises(ServerUnavailable):
        context.synchronize()
    assert context.closed
    proxy.broken = False


def test_a_closed_context_does_not_wait_for_the_server(context: Context, proxy: Proxy) -> None:
    tensor = context.tensor([1])
    tensor.numpy()
    proxy.broken = True
    proxy.cut()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(tensor.numpy)
        while not context.commands.submitter._requests._attempts:
            pass
        context.close()
        assert isinstance(reading.exception(PATIENCE), AclnnError)
    proxy.broken = False


def test_a_server_that_was_started_anew_has_lost_the_context() -> None:
    config = ServerConfig(listen="127.0.0.1:0")
    first = Server(config, backend=GatedBackend()).start()
    with Proxy(first.address) as proxy, connect(proxy.address) as context:
        tensor = context.tensor([1])
        tensor.numpy()
        with Server(config, backend=GatedBackend()) as second:
            proxy.server = second.address
            proxy.cut()
            with pytest.raises(SessionLostError):
                tensor.numpy()
            with pytest.raises(SessionLostError):
                context.tensor([1])
        first.stop(0)


@pytest.mark.asyncio
async def test_asyncio_programs_go_on_too(gated_server: Server) -> None:
    with Proxy(gated_server.address) as proxy:
        async with aio.connect(proxy.address) as context:
            number = await context.tensor([0])
            for digit in range(1, 6):
                _, executor = await aio.get_workspace_size("aclnnDigit", (digit, number))
                proxy.cut()
                await executor.run()
                await asyncio.wait_for(context.synchronize(), PATIENCE)
            assert (await number.numpy()).item() == 12345
