"""PyTorch in this process, on the server that `make test-torch` starts, and in programs of its own.

Everything here needs torch and torch_npu, so it has an environment and a step of CI of its own, and is not
collected where they are missing.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest

from aclnn_server.config import ServerConfig
from aclnn_server.server import Server

collect_ignore_glob = [] if importlib.util.find_spec("torch_npu") else ["*.py"]


@pytest.fixture(scope="session", autouse=True)
def _on_a_server() -> None:
    assert os.environ.get("ACLNN_SERVER"), (
        "make test-torch runs these tests, under aclnn-serve torch"
    )


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Two devices, for programs, with metrics."""
    config = ServerConfig(listen="127.0.0.1:0", device="0,1", metrics_listen="127.0.0.1:0")
    with Server(config) as running:
        yield running
