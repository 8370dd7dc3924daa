"""Clients of every kind at once, over a network that fails, for ``SOAK_SECONDS``: ``make soak`` is long."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from aclnn_server.cli.server_process import ServerProcess
from tests.chaos.network import Network
from tests.chaos.proxy import Proxy
from tests.held import TOLERATED_HANDLES, Held, settled
from tests.soak.crowd import CLIENTS, Crowd
from tests.soak.measures import growth
from tests.waiting import PATIENCE

SECONDS = float(os.environ.get("SOAK_SECONDS", "15"))
"""How long they work."""
LEASE_SECONDS = 15
WARM_UP_SECONDS = max(SECONDS / 4, LEASE_SECONDS + 5)
"""In which pools and caches fill, and until as many leases of killed clients end as begin."""
JUDGED_SECONDS = 60
"""Time after the warm-up from which growth can be told from what comes and goes."""
GONE_SECONDS = LEASE_SECONDS + PATIENCE
"""By then all has gone: connections with their clients, what killed clients had with its lease."""
PROGRESS_SECONDS = 10.0
MIB = 1 << 20
TOLERATED_BYTES = 64 * MIB
"""What the server may have when all have gone, above what it had before they came: caches, and compiled code.
However long they worked, and whatever they held meanwhile."""
TREND_SECONDS = 900
"""Time after the warm-up from which a trend can be told from what clients hold now and not then."""
TREND_BYTES = 128 * MIB
"""Growth of the server's memory in that time, by least squares."""
pytestmark = [pytest.mark.soak, pytest.mark.timeout(300 + 2 * SECONDS)]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    """The server. Its allocator gives back at once what is freed, so that what stays is in use."""
    for name, value in (("ARENA_MAX", 1), ("MMAP_THRESHOLD_", 2**16), ("TRIM_THRESHOLD_", 2**16)):
        monkeypatch.setenv(f"MALLOC_{name}", str(value))
    rates = ("--client-context-rate", "0", "--context-rate", "0")
    with ServerProcess("--lease-seconds", str(LEASE_SECONDS), "--workers", "2", *rates) as process:
        yield process
    assert process.exit_code == 0
    assert "failed unexpectedly" not in process.log, process.log[-5000:]


def watch(crowd: Crowd, proxy: Proxy, pid: int) -> list[tuple[float, Held]]:
    """Lets the crowd work, and tells how it goes; gives what the server held, by time."""
    samples: list[tuple[float, Held]] = []
    begin = told = time.monotonic()
    while (now := time.monotonic()) < begin + SECONDS and not crowd.failures:
        held = Held.by(pid)
        samples.append((now - begin, held))
        if now - told >= PROGRESS_SECONDS:
            told = now
            done = sum(crowd.latencies.count(kind) for kind in CLIENTS)
            print(  # noqa: T201 - progress, for whoever asks with -s
                f"{now - begin:6.0f} s: {done} done, {len(proxy.happened)} faults, "
                f"{crowd.killed} clients killed; {held.resident_bytes / MIB:.0f} MiB, "
                f"{held.threads} threads, {held.files} files",
                flush=True,
            )
        time.sleep(0.1)  # between two samples
    return samples


def check_steady(warm: list[tuple[float, Held]]) -> None:
    """Checks that the server holds no more in the end than in the beginning."""
    grown = growth([(at, held.resident_bytes) for at, held in warm])
    seconds = warm[-1][0] - warm[0][0]
    print(f"in {seconds:.0f} s memory grew by {grown / MIB:.2f} MiB")  # noqa: T201
    assert seconds < TREND_SECONDS or grown <= TREND_BYTES
    halves = warm[: len(warm) // 2], warm[len(warm) // 2 :]
    for what in ("threads", "files"):
        first, second = (max(getattr(held, what) for _, held in half) for half in halves)
        assert second <= first + TOLERATED_HANDLES, what


def test_clients_of_every_kind_at_once(process: ServerProcess) -> None:
    """Results are right, and nothing stays; in the long form nothing grows on the way."""
    pid = process._process.pid
    idle = Held.by(pid)
    with Network(process.address) as proxy:
        crowd = Crowd(process.address, proxy, seed=int(os.environ.get("SOAK_SEED", "0")))
        crowd.start()
        try:
            samples = watch(crowd, proxy, pid)
        finally:
            crowd.stop()
    for failure in crowd.failures:
        raise failure
    print(  # noqa: T201
        f"\n{crowd.latencies.table()}\n{len(proxy.happened)} faults, {crowd.killed} clients killed"
    )
    if SECONDS - WARM_UP_SECONDS >= JUDGED_SECONDS:
        check_steady([(at, held) for at, held in samples if at >= WARM_UP_SECONDS])
    assert all(crowd.latencies.count(kind) for kind in CLIENTS)
    assert crowd.killed
    assert len(proxy.happened) > SECONDS / 10
    assert proxy.data_connections
    files = idle.files + 1  # the connection that asks what is left
    left = settled(process.address, pid, files, GONE_SECONDS)
    stays = left.resident_bytes - idle.resident_bytes
    print(f"{stays / MIB:.2f} MiB stay")  # noqa: T201
    assert stays <= TOLERATED_BYTES
