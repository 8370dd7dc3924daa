"""Clocks that jump: the clock of the leases ahead, and the wall's, which no lease and no wait depends on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

from aclnn.errors import HandleNotFoundError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.chaos import jobs
from tests.chaos.proxy import Proxy
from tests.service.calling import Stubs, Submitting, Unary
from tests.sessions.conftest import Clock
from tests.sessions.driving import NOTHING, totals
from tests.waiting import until

LEASE = 60.0
HOUR = 3600.0


@pytest.fixture
def clock() -> Clock:
    """The clock of the leases."""
    return Clock()


@pytest.fixture
def server(clock: Clock) -> Iterator[Server]:
    """A server on that clock."""
    config = ServerConfig(listen="127.0.0.1:0", lease_seconds=LEASE, workers=2, threads=2)
    with Server(config, clock=clock) as server:
        yield server


@pytest.mark.parametrize("jump", [LEASE + 0.1, HOUR, 10 * 365 * 24 * HOUR, 1e12])
def test_a_jump_ahead_ends_only_the_silent(server: Server, clock: Clock, jump: float) -> None:
    """As after a machine's sleep: who has a call open is not silent, however long it was."""
    with grpc.insecure_channel(server.address) as channel, jobs.connect(server.address) as context:
        stubs = Stubs(channel)
        silent, waiting = Unary(stubs), Submitting(stubs)
        silent(pb.MallocRequest(bytes=2**20))
        number = context.tensor(np.zeros(1, np.int64))
        jobs.append(number, 4)
        assert number.numpy().item() == 4
        clock.advance(jump)
        server.registry.reap()
        until(lambda: totals(server.registry)["contexts"] == 2)  # the server's own may be at it
        with pytest.raises(HandleNotFoundError):
            silent(pb.RenewContextRequest())
        assert waiting(pb.RenewContextRequest()).usage.contexts == 1
        jobs.append(number, 2)
        assert number.numpy().item() == 42
        waiting.close()
    until(lambda: totals(server.registry) == NOTHING)


def test_a_client_that_slept_longer_than_its_lease_is_told(server: Server, clock: Clock) -> None:
    """Its connection is gone, and so is its context: an error, and never another one's data."""
    with Proxy(server.address) as proxy:
        context = jobs.connect(proxy.address)
        number = context.tensor(np.zeros(1, np.int64))
        number.numpy()
        (held,) = server.registry._contexts.values()
        proxy.cut()
        until(lambda: not held._open_calls)
        clock.advance(LEASE + 1)
        server.registry.reap()
        until(lambda: totals(server.registry) == NOTHING)
        for _ in range(2):
            with pytest.raises(HandleNotFoundError, match="context does not exist"):
                number.numpy()
        assert context.closed
        context.close()


TOLD_BY_IT = {
    # The age of a file that was left behind, for which the system has no other clock.
    "server/aclnn_server/sessions/handover.py",
    # When spans were, for a collector that has no other clock in common with the server.
    "server/aclnn_server/metrics/tracing.py",
}
WALL = re.compile(r"\btime\.(time|time_ns|localtime|ctime)\(|\bdatetime\.(now|today|utcnow)\(")


def test_nothing_asks_the_walls_clock(project: Path) -> None:
    """It jumps when it is set. What lives by it is only when a token ends, and the log's lines."""
    asked = [
        f"{path.relative_to(project)}: {line.strip()}"
        for root in ("server", "client", "proto")
        for path in sorted((project / root).rglob("*.py"))
        if str(path.relative_to(project)) not in TOLD_BY_IT
        for line in path.read_text(encoding="utf-8").splitlines()
        if WALL.search(line)
    ]
    assert asked == []
