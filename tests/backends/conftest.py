"""Every backend that this host can open; ascend runs on the double of CANN that the tests build.

``ACLNN_TEST_BACKEND=c-library`` tries ascend on the C library instead, at the server that ACLNN_SERVER names;
tests/cpp does so in a process of its own, because two libraries of one name are one to the loader.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from aclnn_server.backends import open_backend
from aclnn_server.backends.base import Backend, Device
from tests.ascend import building
from tests.cpp import building as c_library

CHOSEN = os.environ.get("ACLNN_TEST_BACKEND")
BACKENDS = [CHOSEN] if CHOSEN else ["numpy", "null", "ascend"]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """An open backend."""
    opened = _open(request.param)
    yield opened
    opened.close()


def _open(name: str) -> Backend:
    if name == "ascend":
        return open_backend(name, **building.options(device="all"))
    if name == "c-library":
        return open_backend("ascend", **c_library.options(device="all"))
    return open_backend(name)


@pytest.fixture
def device(backend: Backend) -> Device:
    """Its first device."""
    return backend.devices[0]
