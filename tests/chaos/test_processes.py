"""Processes that are killed: clients in the middle of an upload, the server in the middle of everything."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from aclnn_client import ServerUnavailable, SessionLostError, aio, requests
from aclnn_server.cli.server_process import ServerProcess
from tests.chaos import jobs, length
from tests.chaos.clients import UPLOAD_BYTES, Nursery, data_address, kill
from tests.chaos.proxy import Fault, Proxy
from tests.held import Held, check_flat, settled
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.timeout(length.TEST_SECONDS)

MIB = 2**20
CLIENTS = 26
TOLERATED_BYTES = 8 * MIB
"""Growth of resident memory that fragments may make: a leak of a tenth of each upload is more."""

# --- clients ----------------------------------------------------------------------------------------


WAYS = {"in messages": "off", "over data connections": "auto"}
"""How an upload goes, by what the server's --data-port says."""


@pytest.mark.parametrize("process", WAYS.values(), ids=WAYS, indirect=True)
def test_clients_killed_in_the_middle_of_an_upload(
    process: ServerProcess, request: pytest.FixtureRequest
) -> None:
    """Each at another byte: whatever they held is back when their leases are over."""
    pid, direct = process._process.pid, "data" in request.node.callspec.id
    way = data_address(process.address) if direct else process.address
    choose = random.Random(7)
    places = [choose.randrange(200, UPLOAD_BYTES) for _ in range(CLIENTS)]
    files = Held.by(pid).files + 3
    with Nursery() as nursery, Proxy(way) as proxy:
        addresses = (process.address, proxy.address) if direct else (proxy.address,)

        def kill_some(places: list[int]) -> Held:
            for place in places:
                proxy.plan(Fault("stall", "up", place))
                client = nursery.start(*addresses)
                assert proxy.stalled.acquire(timeout=PATIENCE)
                kill(client)
                proxy.release()
            return settled(process.address, pid, files)

        before = kill_some(places[: CLIENTS // 2])
        after = kill_some(places[CLIENTS // 2 :])
    check_flat(before, after, TOLERATED_BYTES)
    with jobs.connect(process.address) as context:
        jobs.do(context, 1)


# --- the server -------------------------------------------------------------------------------------


class Restarted:
    """A server that is killed and started again at the same address."""

    def __init__(self) -> None:
        self._server = self._start("127.0.0.1:0")

    def _start(self, listen: str) -> ServerProcess:
        server = ServerProcess("--listen", listen, "--workers", "2", "--data-port", "off")
        server.__enter__()
        self.address = server.address
        return server

    def kill(self) -> None:
        """Kills it."""
        self._server._process.kill()
        self._server._stop()

    def start(self) -> None:
        """Starts it again."""
        self._server = self._start(self.address)

    def stop(self) -> None:
        self._server._stop()


@pytest.fixture
def restarted() -> Iterator[Restarted]:
    """A server that the test kills."""
    server = Restarted()
    yield server
    server.stop()


def started_again_behind(proxy: Proxy, restarted: Restarted) -> None:
    """Kills the server and starts it again, before anybody behind the proxy can find it gone."""
    proxy.broken = True
    restarted.kill()
    restarted.start()
    proxy.server = restarted.address
    proxy.broken = False


@pytest.mark.asyncio
async def test_a_server_that_was_killed_and_started_again_says_so(restarted: Restarted) -> None:
    """Every call that waited or comes later: the session is lost, as an error of its own, at once."""
    with Proxy(restarted.address) as proxy:
        context, aio_context = (
            jobs.connect(proxy.address),
            await aio.connect(proxy.address, shared_memory=False),
        )
        aio_number = await aio_context.tensor(np.zeros(1, np.int64))
        assert (await aio_number.numpy()).item() == 0
        number, other = (context.tensor(np.zeros(1, np.int64)) for _ in range(2))
        jobs.append(number, 1)
        assert number.numpy().item() == 1
        started_again_behind(proxy, restarted)
        for call in (
            other.numpy,
            context.synchronize,
            context.usage,
            context.create_stream,
            lambda: context.tensor(np.ones(3 * MIB, np.uint8)),
            lambda: context.ops.add(np.ones(3), np.ones(3)),
        ):
            with pytest.raises(SessionLostError, match="before the server's restart") as caught:
                call()
            assert (caught.value.code, caught.value.name) == (507010, "ACL_ERROR_RT_LOST_HEARTBEAT")
        for awaited in (aio_number.numpy(), aio_context.synchronize()):
            with pytest.raises(SessionLostError):
                await awaited
        assert context.closed
        context.close()
        await aio_context.close()
        with jobs.connect(proxy.address) as again:
            jobs.do(again, 2)
        async with aio.connect(proxy.address, shared_memory=False) as aio_again:
            await jobs.append_digits_aio(aio_again, random.Random(3))


WAITS: dict[str, Callable[[Any], Any]] = {
    "a read": lambda context: context.tensor(np.ones(40 * MIB, np.uint8)).numpy(),
    "an upload": lambda context: [context.tensor(np.ones(8 * MIB, np.uint8)) for _ in range(100)],
    "calls in one line": lambda context: [
        context.ops.add(np.ones(1000, np.float32), np.ones(1000, np.float32)) for _ in range(10**6)
    ],
    "a chain": lambda context: jobs.do(context, 1, [jobs.append_digits] * 10_000),
}
SHORT = ("an upload", "a chain")
"""What the short form does of it."""


@pytest.mark.parametrize("what", WAITS if length.LONG else SHORT)
def test_a_server_killed_in_the_middle_of(
    restarted: Restarted, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing hangs and nothing else comes up: the client is told that the server is gone."""
    monkeypatch.setattr(requests, "RESUME_SECONDS", 0.5)
    with Proxy(restarted.address) as proxy, ThreadPoolExecutor(1) as pool:
        context = jobs.connect(proxy.address)
        proxy.plan(Fault("stall", "up", 30_000))
        working = pool.submit(WAITS[what], context)
        assert proxy.stalled.acquire(timeout=PATIENCE)
        restarted.kill()
        proxy.release()
        error = working.exception(PATIENCE)
        assert isinstance(error, ServerUnavailable), error
        with pytest.raises(ServerUnavailable):
            context.usage()
        context.close()


def test_a_server_killed_again_and_again(restarted: Restarted) -> None:
    """Clients that open a new context when theirs is lost are right at every time between."""
    rounds = length.count(1, 20)
    done = [0] * 3

    def work(client: int) -> None:
        while done[client] >= 0:
            try:
                with jobs.connect(restarted.address) as context:
                    while done[client] >= 0:
                        jobs.do(context, done[client], jobs.JOBS[:3])
                        done[client] += 1
            except (ServerUnavailable, SessionLostError):
                continue

    with ThreadPoolExecutor(3) as pool:
        working = [pool.submit(work, client) for client in range(3)]
        try:
            for _ in range(rounds):
                before = list(done)
                until(lambda seen=before: all(a > b for a, b in zip(done, seen, strict=True)))  # type: ignore[misc]
                restarted.kill()
                restarted.start()
        finally:
            done[:] = [-(10**9)] * 3
        for future in working:
            future.result(PATIENCE)


def test_an_exit_with_a_server_that_is_gone_is_quiet(restarted: Restarted) -> None:
    """A program whose server was killed ends as its own code says, with nothing on standard error."""
    program = f"""
import numpy as np, sys
from aclnn_client import connect, AclnnError
context = connect({restarted.address!r})
tensor = context.tensor(np.ones(10))
tensor.numpy()
print("ready", flush=True)
sys.stdin.readline()
try:
    tensor.numpy()
except AclnnError as error:
    print(type(error).__name__, flush=True)
sys.exit(7)
"""
    client = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    restarted.kill()
    out, err = client.communicate("\n", timeout=PATIENCE)
    assert (client.returncode, out, err) == (7, "ServerUnavailable\n", "")
