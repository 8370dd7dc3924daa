"""Connections that fail at any byte, in any way: results are right, calls are made once, nothing is left."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn_client import ServerUnavailable
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.chaos import jobs, length
from tests.chaos.network import Network
from tests.chaos.proxy import KINDS, WAYS, Fault, Kind, Proxy, Way
from tests.sessions.driving import NOTHING, totals
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.timeout(length.TEST_SECONDS)

PASSING = [kind for kind in KINDS if kind != "stall"]
FAULTS = st.builds(
    Fault,
    kind=st.sampled_from(PASSING),
    way=st.sampled_from(WAYS),
    after=st.one_of(st.integers(0, 400), st.integers(0, 20_000), st.integers(0, 4_000_000)),
    seconds=st.just(0.005),
)


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A proxy before the server; in the end the server holds nothing."""
    with Proxy(server.address) as proxy:
        yield proxy
    check_nothing_is_left(server)


def check_nothing_is_left(server: Server) -> None:
    """Checks that no context, call or thread's work is left of clients that have gone."""
    until(lambda: totals(server.registry) == NOTHING)
    until(lambda: server._service.open_submit_calls == 0)
    until(lambda: server._service.in_hand.count == 0)
    assert not server.registry._sessions


CLIENTS: dict[str, dict[str, Any]] = {
    "direct": {},
    "public": {"timeout": PATIENCE},
    "shared memory": {"shared_memory": True},
}
"""Every way that a client's bytes go."""


def check_random_faults(proxy: Proxy, server: Server, options: dict[str, Any]) -> None:
    """Each example: faults at random bytes of one client's work, of every kind."""

    @length.settings(4, 700)
    @given(st.lists(FAULTS, min_size=1, max_size=6), st.integers(0, 2**32))
    def check(faults: list[Fault], seed: int) -> None:
        with jobs.connect(proxy.address, **options) as context:
            proxy.plan(*faults)
            jobs.do(context, seed)
            proxy.plan()
            assert context.usage().contexts == 1
        assert totals(server.registry) == NOTHING

    check()


@pytest.mark.parametrize("client", CLIENTS)
def test_random_faults_change_nothing_but_time(proxy: Proxy, server: Server, client: str) -> None:
    check_random_faults(proxy, server, CLIENTS[client])


def test_random_faults_with_data_connections() -> None:
    config = ServerConfig(listen="127.0.0.1:0", workers=2, threads=2)
    with Server(config) as server, Network(server.address) as network:
        check_random_faults(network, server, {})
        assert network.data_connections
        check_nothing_is_left(server)


@pytest.mark.parametrize("kind", PASSING)
def test_every_byte_of_a_small_call(proxy: Proxy, kind: Kind) -> None:
    """The first bytes of the next messages, one by one in the long form."""
    step = 1 if length.LONG else 139
    with jobs.connect(proxy.address) as context:
        number, digits = context.tensor([0]), 0
        for way in WAYS:
            for after in range(0, 700, step):
                if digits % jobs.DIGITS == 0:
                    number, digits = context.tensor([0]), 0
                proxy.plan(Fault(kind, way, after, 0.001))
                jobs.append(number, 1)
                digits += 1
                assert number.numpy().item() == int("1" * digits)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_passes_for_a_while(proxy: Proxy, way: Way) -> None:
    """Neither side notices, and what was on its way arrives."""
    with jobs.connect(proxy.address) as context, ThreadPoolExecutor(1) as pool:
        number = context.tensor([0])

        def append_and_read() -> int:
            jobs.append(number, 1)
            return int(number.numpy().item())

        for digits in range(1, length.count(4, 18)):
            proxy.plan(Fault("stall", way, 2 * digits))
            reading = pool.submit(append_and_read)
            assert proxy.stalled.acquire(timeout=PATIENCE)
            assert not reading.done()
            proxy.release()
            assert reading.result(PATIENCE) == int("1" * digits)


def test_many_clients_behind_one_bad_network(proxy: Proxy) -> None:
    """Their connections break at every job, and no client sees what is another's."""
    clients = range(6)
    done = [0.0] * len(clients)
    """Jobs of each client; infinity when it is through."""

    def work(client: int) -> None:
        try:
            with jobs.connect(proxy.address) as context:
                for round_ in range(length.count(1, 30)):
                    for job in jobs.JOBS:
                        jobs.do(context, 1000 * client + round_, (job,))
                        done[client] += 1
        finally:
            done[client] = math.inf

    def got_on(before: list[float]) -> bool:
        return all(now == math.inf or now > then for now, then in zip(done, before, strict=True))

    def disturb() -> None:
        choose = random.Random(5)
        while min(done) < math.inf:
            before = [*done]
            time.sleep(choose.uniform(0, 0.05))  # at any byte
            proxy.cut()
            # On a busy machine a client might else never get on, and gives up after a while.
            until(partial(got_on, before))

    with ThreadPoolExecutor(len(clients) + 1) as pool:
        working = [pool.submit(work, client) for client in clients]
        pool.submit(disturb).result()
        for future in working:
            future.result()
    assert proxy.connections > 12


def test_a_server_that_hangs_is_given_up_when_the_time_is_over(proxy: Proxy) -> None:
    """Nothing comes back any more: who has set a time limit is told by then, and may try again."""
    with jobs.connect(proxy.address, timeout=PATIENCE) as context:
        number = context.tensor([0])
        jobs.append(number, 4)
        jobs.append(number, 2)
        assert number.numpy().item() == 42
        proxy.plan(Fault("stall", "down", 0))
        submitter = context.commands.submitter
        submitter._timeout = 0.2
        with pytest.raises(ServerUnavailable, match=r"no answer within 0\.2 seconds"):
            number.numpy()
        submitter._timeout = PATIENCE
        proxy.release()
        jobs.append(number, 7)
        assert number.numpy().item() == 427
