"""A server to name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aclnn_server.config import ServerConfig
from aclnn_server.server import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server(ServerConfig(listen="127.0.0.1:0")) as running:
        yield running
