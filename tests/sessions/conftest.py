"""Sessions without a server: a registry over a test backend, and a clock that the test moves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from aclnn.errors import AclnnError, InternalError
from aclnn_server.sessions.environment import Environment
from aclnn_server.sessions.limits import Limits
from aclnn_server.sessions.registry import Registry
from aclnn_server.sessions.streams import Workers
from tests.service.gated import GatedBackend


class Clock:
    """Seconds, as the test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    """The clock of the leases."""
    return Clock()


def unexpected(error: BaseException) -> AclnnError:
    """What becomes of a failure that nobody foresaw."""
    logging.getLogger(__name__).error("unexpected", exc_info=error)
    return InternalError("unexpected failure")


@pytest.fixture
def backend() -> Iterator[GatedBackend]:
    """A backend; when the test is over it must be clean."""
    backend = GatedBackend()
    yield backend
    backend.check_clean()


@pytest.fixture
def workers() -> Iterator[Workers]:
    """Two threads."""
    workers = Workers(2)
    yield workers
    workers.stop()


@pytest.fixture
def make_registry(
    backend: GatedBackend, workers: Workers, clock: Clock
) -> Iterator[Callable[[Limits], Registry]]:
    """Makes registries; they are closed when the test is over, with every gate open."""
    made: list[Registry] = []

    def make(limits: Limits) -> Registry:
        made.append(Registry(backend.devices, Environment(limits, workers, clock, unexpected)))
        return made[-1]

    yield make
    backend.gates.open_all()
    for registry in made:
        registry.close()


@pytest.fixture
def registry(make_registry: Callable[[Limits], Registry]) -> Registry:
    """A registry with the default limits."""
    return make_registry(Limits())
