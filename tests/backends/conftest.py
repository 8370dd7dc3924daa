"""Every backend that this host can open; ascend runs on the double of CANN that the tests build."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aclnn_server.backends import open_backend
from aclnn_server.backends.base import Backend, Device
from tests.ascend import building


@pytest.fixture(params=["numpy", "null", "ascend"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """An open backend."""
    options = building.options(device="all") if request.param == "ascend" else {}
    opened = open_backend(request.param, **options)
    yield opened
    opened.close()


@pytest.fixture
def device(backend: Backend) -> Device:
    """Its first device."""
    return backend.devices[0]
