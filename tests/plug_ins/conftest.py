"""A server in a process of its own, in which the example's operator is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from aclnn_client import Context, connect
from aclnn_server.cli.server_process import ServerProcess
from tests.plug_ins.packages import EXAMPLE, install


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the server. This process does not have the package."""
    folder = tmp_path_factory.mktemp("site")
    install(folder, "scale_operator", EXAMPLE.read_text("utf-8"), "FAMILY")
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(folder), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        with ServerProcess() as server:
            yield server.address


@pytest.fixture
def context(address: str) -> Iterator[Context]:
    """A context on it."""
    with connect(address) as context:
        yield context
