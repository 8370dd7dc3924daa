"""The ascend backend on the C library, at the server that ACLNN_SERVER names.

Collected only in the process that ``tests/cpp/test_loop_back.py`` starts: the double of CANN, which other
tests load, has libraries of the same names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from aclnn_server.backends.ascend import AscendBackend
from aclnn_server.backends.ascend.device import AscendDevice
from tests.cpp import building

if os.environ.get("ACLNN_TEST_BACKEND") != "c-library":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def device() -> Iterator[AscendDevice]:
    """The first device."""
    backend = AscendBackend(environment={"ASCEND_HOME_PATH": str(building.home())})
    yield backend.devices[0]
    backend.close()
