"""Devices that fail where nobody expects it: what can still be given back is, and the others go on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aclnn import dtypes
from aclnn.arguments import TensorArgument
from aclnn.errors import HandleNotFoundError
from aclnn.tensors import TensorSpec
from aclnn_server.backends.base import Check
from aclnn_server.sessions.context import Context
from aclnn_server.sessions.environment import Environment
from aclnn_server.sessions.execution import Binding
from aclnn_server.sessions.limits import Limits
from aclnn_server.sessions.planning import plan
from aclnn_server.sessions.registry import Registry
from aclnn_server.sessions.streams import Workers
from tests.service.gated import CountingDevice, DeviceStreamState, Gates, Region
from tests.sessions.conftest import Clock, unexpected
from tests.sessions.driving import NOTHING, passing, run, totals, values


class IllDevice(CountingDevice):
    """A device whose calls fail when their names are in `ill`."""

    def __init__(self) -> None:
        super().__init__(0, Gates(), 2**30)
        self.ill: set[str] = set()

    def _check(self, name: str) -> None:
        if name in self.ill:
            raise OSError(f"{name} failed")

    def write(self, memory: Region, data: memoryview, stream: object = None) -> None:
        self._check("write")
        super().write(memory, data, stream)

    def create_stream(self, check: Check | None = None) -> DeviceStreamState:
        self._check("create_stream")
        return super().create_stream(check)

    def destroy_stream(self, stream: DeviceStreamState) -> None:
        super().destroy_stream(stream)
        self._check("destroy_stream")

    def release(self, memory: Region) -> None:
        super().release(memory)
        self._check("release")

    def read(self, memory: Region) -> memoryview:
        self._check("read")
        return super().read(memory)


@pytest.fixture
def device() -> IllDevice:
    """The device; nothing is wrong with it yet."""
    return IllDevice()


@pytest.fixture
def registry(device: IllDevice, workers: Workers, clock: Clock) -> Iterator[Registry]:
    """A registry of it; when the test is over the device must have everything back."""
    registry = Registry([device], Environment(Limits(), workers, clock, unexpected))
    yield registry
    device.ill.clear()
    registry.close()
    assert device.faults.seen == []
    assert (device.live_bytes, device.live_streams, device.live_plans) == (0, 0, 0)


@pytest.fixture
def context(registry: Registry) -> Context:
    """A context on it."""
    return registry.create_context(None, 60.0)


PAIR = TensorSpec.contiguous((2,), dtypes.FLOAT)


def test_what_cannot_be_written_goes_back(context: Context, device: IllDevice) -> None:
    """An in-out tensor is allocated, then written; the failure of the latter keeps nothing."""
    session = context.default_session
    signature = passing(session, 0, executor_id=9).signature
    source = TensorArgument(PAIR, bytes(8))
    device.ill.add("write")
    arguments = (source, 0, TensorArgument(PAIR, bytes(8)))
    for _ in range(2):
        with pytest.raises(OSError, match="write failed"):
            plan(session, 1, signature, arguments, repeatable=False)
        assert (context.usage.bytes, context.usage.executors) == (8, 1)

    plan(session, 1, signature, (source, 0, TensorArgument(PAIR)), repeatable=True)
    for _ in range(2):
        with pytest.raises(OSError, match="write failed"):
            run(session, context.executors.find(1), bindings=(Binding(2, 0, bytes(8), None, 0),))
        assert context.usage.bytes == 16


def test_a_context_without_a_stream_is_none(registry: Registry, device: IllDevice) -> None:
    device.ill.add("create_stream")
    for _ in range(3):
        with pytest.raises(OSError, match="create_stream failed"):
            registry.create_context(None, 60.0)
        with pytest.raises(OSError, match="create_stream failed"):
            registry.create_lone_stream(60.0)
    assert totals(registry) == NOTHING


def test_a_stream_that_cannot_be_made_counts_for_nothing(
    registry: Registry, context: Context, device: IllDevice
) -> None:
    device.ill.add("create_stream")
    with pytest.raises(OSError, match="create_stream failed"):
        registry.create_stream(context)
    device.ill.clear()
    assert context.usage.streams == 1
    registry.create_stream(context)


@pytest.mark.parametrize("ill", ["destroy_stream", "release"])
def test_whatever_fails_to_end_the_rest_ends(
    registry: Registry, context: Context, device: IllDevice, ill: str
) -> None:
    for _ in range(3):
        session = registry.create_stream(context)
        passing(session, 0)
    context.add_buffer(1, 8)
    context.add_buffer(2, 8)
    device.ill.add(ill)
    with pytest.raises(OSError, match=f"{ill} failed"):
        registry.destroy_context(context)
    assert (device.live_bytes, device.live_streams, device.live_plans) == (0, 0, 0)
    assert totals(registry) == NOTHING
    with pytest.raises(HandleNotFoundError):
        registry.context(context.id)


def test_one_context_that_fails_to_end_is_no_reason_for_the_others_to_stay(
    registry: Registry, device: IllDevice, clock: Clock
) -> None:
    for _ in range(3):
        registry.create_context(None, 60.0)
    clock.advance(61)
    device.ill.add("destroy_stream")
    for left in (2, 1, 0):  # the server's reaper calls again
        with pytest.raises(OSError, match="destroy_stream failed"):
            registry.reap()
        assert totals(registry)["contexts"] == left
    assert registry.reap() == 0


def test_a_destroyed_stream_is_gone_though_its_end_failed(
    registry: Registry, context: Context, device: IllDevice
) -> None:
    session = registry.create_stream(context)
    device.ill.add("destroy_stream")
    with pytest.raises(OSError, match="destroy_stream failed"):
        registry.destroy_stream(session)
    with pytest.raises(HandleNotFoundError):
        registry.session(session.id)
    assert context.usage.streams == 1


@pytest.mark.parametrize("ill", ["release", "read"])
def test_a_run_whose_memory_makes_trouble_fails_and_the_stream_goes_on(
    context: Context, device: IllDevice, ill: str
) -> None:
    session = context.default_session
    device.ill.add(ill)
    with pytest.raises(Exception, match="unexpected failure"):
        run(session, passing(session, 0))
    device.ill.clear()
    assert values(run(session, passing(session, 0))) == [7.0, 8.0]
    assert device.live_bytes == 0
