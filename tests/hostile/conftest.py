"""A server in a process of its own, which must outlive all that is sent to it."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from aclnn_server.cli.server_process import ServerProcess
from tests.service.calling import Stubs

TOLD = "failed unexpectedly"
"""What the log says of a failure that nobody foresaw."""


@pytest.fixture(scope="module")
def process() -> Iterator[ServerProcess]:
    """The server; in its log is no failure that nobody foresaw."""
    flags = ("--workers", "2", "--threads", "1", "--lease-seconds", "2")
    rates = ("--client-context-rate", "0", "--context-rate", "0")
    with pytest.MonkeyPatch.context() as patch:
        # The allocator gives back at once what is freed, so that what stays is in use.
        for name, value in (
            ("ARENA_MAX", 1),
            ("MMAP_THRESHOLD_", 2**16),
            ("TRIM_THRESHOLD_", 2**16),
        ):
            patch.setenv(f"MALLOC_{name}", str(value))
        with ServerProcess(*flags, *rates) as process:
            yield process
    assert process.exit_code == 0
    assert TOLD not in process.log, process.log[-5000:]


@pytest.fixture
def stubs(process: ServerProcess) -> Iterator[Stubs]:
    """Calls of that server, over a connection of the test's own."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(process.address, options) as channel:
        yield Stubs(channel)
