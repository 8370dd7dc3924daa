"""The double of CANN, and the ascend backend on it. After each test nothing of CANN's may be left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aclnn_server.backends.ascend import AscendBackend
from aclnn_server.backends.ascend.device import AscendDevice
from aclnn_server.backends.ascend.streams import AscendStream
from tests.ascend import building
from tests.ascend.building import Control


@pytest.fixture(scope="session")
def home() -> Path:
    """An installation of the double."""
    if reason := building.why_not():
        pytest.skip(reason)
    return building.home()


@pytest.fixture
def double(home: Path) -> Iterator[Control]:
    """The double in this process; a test must leave nothing in it."""
    control = building.control()
    yield control
    control.let_go()
    assert control.left() == {}


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    """Where the backend looks for CANN."""
    return {"ASCEND_HOME_PATH": str(home)}


@pytest.fixture
def backend(double: Control, environment: dict[str, str]) -> Iterator[AscendBackend]:
    """The backend with both of the double's devices."""
    opened = AscendBackend(device="all", environment=environment)
    yield opened
    double.let_go()
    opened.close()


@pytest.fixture
def device(backend: AscendBackend) -> AscendDevice:
    """The first device."""
    return backend.devices[0]


@pytest.fixture
def stream(device: AscendDevice) -> AscendStream:
    """A stream of the first device, which the device ends."""
    return device.create_stream()
