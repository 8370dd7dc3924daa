"""Servers for faults: one in this process, and one in a process of its own.

They take no data connections, so that all bytes of a client pass through the proxy before its calls.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aclnn_server.cli.server_process import ServerProcess
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the host's CPU in this process; when the test is over, nothing is left in it."""
    with Server(
        ServerConfig(listen="127.0.0.1:0", workers=2, threads=2, data_port="off")
    ) as server:
        yield server


@pytest.fixture
def process(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServerProcess]:
    """A server in a process of its own, whose leases are short; its parameter is what --data-port says.

    Its allocator gives back at once what is freed, so that what stays is in use.
    """
    for name, value in (("ARENA_MAX", 1), ("MMAP_THRESHOLD_", 2**16), ("TRIM_THRESHOLD_", 2**16)):
        monkeypatch.setenv(f"MALLOC_{name}", str(value))
    data_port = getattr(request, "param", "off")
    flags = ("--lease-seconds", "1", "--workers", "2", "--data-port", data_port)
    with ServerProcess(*flags) as process:
        yield process
