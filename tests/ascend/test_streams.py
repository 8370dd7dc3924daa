"""Streams: work is queued and done later, waits have limits, errors come out at synchronize."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from aclnn.errors import ExecutionFailedError, InternalError, WaitTimeoutError
from aclnn_server.backends.ascend import AscendBackend, streams
from aclnn_server.backends.ascend.acl import Acl
from aclnn_server.backends.ascend.device import AscendDevice
from aclnn_server.backends.ascend.memory import MemoryPool, Region
from aclnn_server.backends.ascend.streams import AscendStream
from tests.ascend.building import Control
from tests.ascend.calling import Prepared, get, one, put, spec_of

ONES = np.ones(16, np.float32)


class Counter:
    """Adds to memory in a stream, so that the order shows."""

    def __init__(self, device: AscendDevice) -> None:
        self._device = device
        self._one = put(device, ONES)
        self.memory = put(device, np.zeros_like(ONES))

    def add(self, value: float, stream: AscendStream) -> None:
        spec = spec_of(ONES)
        storages = [self.memory, self._one, None]
        plan = self._device.plan("aclnnInplaceAdd", [spec, spec, one(value)], storages)
        self._device.run(plan, storages, None, stream)
        self._device.discard(plan)

    @property
    def value(self) -> float:
        return float(get(self._device, self.memory, ONES)[0])


@pytest.fixture
def counter(device: AscendDevice) -> Counter:
    return Counter(device)


@pytest.fixture
def background() -> Iterator[Callable[[Callable[[], object]], threading.Thread]]:
    """Runs functions on threads of their own, which must end with the test."""
    started: list[threading.Thread] = []

    def run(function: Callable[[], object]) -> threading.Thread:
        started.append(threading.Thread(target=function))
        started[-1].start()
        return started[-1]

    yield run
    for thread in started:
        thread.join(30)
        assert not thread.is_alive()


Background = Callable[[Callable[[], object]], threading.Thread]


def test_run_does_not_wait(
    device: AscendDevice, stream: AscendStream, counter: Counter, double: Control
) -> None:
    double.hold()
    for _ in range(10):
        counter.add(1, stream)
    assert not device.is_idle(stream)
    double.let_go()
    device.synchronize(stream)
    assert device.is_idle(stream)
    assert counter.value == 10


def test_a_stream_that_does_nothing_is_idle(device: AscendDevice, stream: AscendStream) -> None:
    assert device.is_idle(stream)
    device.synchronize(stream, 0)


def test_a_wait_has_a_limit(
    device: AscendDevice, stream: AscendStream, counter: Counter, double: Control
) -> None:
    double.hold()
    counter.add(1, stream)
    with pytest.raises(WaitTimeoutError) as caught:
        device.synchronize(stream, 0.02)
    assert caught.value.code == 507046
    double.let_go()
    device.synchronize(stream, 30)
    assert counter.value == 1


def test_one_wait_does_not_hold_up_other_clients(
    backend: AscendBackend, double: Control, background: Background
) -> None:
    device = backend.devices[0]
    slow, quick = device.create_stream(), device.create_stream()
    counter = Counter(device)
    double.hold()
    counter.add(1, slow)
    waiter = background(lambda: device.synchronize(slow))
    memory = put(device, ONES)
    assert get(device, memory, ONES).sum() == 16
    device.plan("aclnnRelu", [spec_of(ONES)] * 2, [memory, memory])
    device.synchronize(quick)
    assert waiter.is_alive()
    double.let_go()


def test_a_wait_is_not_for_work_that_comes_later(
    device: AscendDevice, counter: Counter, double: Control, background: Background
) -> None:
    stream = device.create_stream()
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            counter.add(1, stream)

    background(go_on)
    try:
        for _ in range(20):
            device.synchronize(stream)
    finally:
        stop.set()


def test_device_errors_come_out_at_synchronize(
    device: AscendDevice, stream: AscendStream, counter: Counter, double: Control
) -> None:
    double.fail("task", 2, 507015)
    for _ in range(3):
        counter.add(1, stream)
    with pytest.raises(ExecutionFailedError, match="a kernel failed on the device") as caught:
        device.synchronize(stream)
    assert caught.value.code == 507015
    device.synchronize(stream)
    assert counter.value == 2, "the others were done"


def test_the_first_failure_is_told_and_once(
    device: AscendDevice, stream: AscendStream, counter: Counter, double: Control
) -> None:
    double.fail("aclnnInplaceAdd", 1, 361001)
    counter.add(1, stream)
    device.is_idle(stream)
    double.fail("task", 1, 507035)
    counter.add(1, stream)
    with pytest.raises(ExecutionFailedError) as caught:
        device.synchronize(stream)
    assert caught.value.code == 361001
    device.synchronize(stream)


def test_failures_stay_with_their_stream(
    device: AscendDevice, stream: AscendStream, counter: Counter, double: Control
) -> None:
    other = device.create_stream()
    double.fail("task", 1, 507015)
    counter.add(1, stream)
    assert counter.value == 0, "reading waits for the stream"
    device.synchronize(other)
    with pytest.raises(ExecutionFailedError):
        device.synchronize(stream)


def test_a_failed_question_is_a_failure_of_the_stream(
    device: AscendDevice, stream: AscendStream, counter: Counter, double: Control
) -> None:
    double.fail("aclrtStreamQuery", 1, 507899)
    counter.add(1, stream)
    with pytest.raises(ExecutionFailedError) as caught:
        device.synchronize(stream)
    assert caught.value.code == 507899
    assert counter.value == 1


def test_what_nobody_foresaw_is_told_without_its_text(
    device: AscendDevice, stream: AscendStream, caplog: pytest.LogCaptureFixture
) -> None:
    def bad(_: int | None) -> None:
        raise KeyError("secret")

    device._streams.queue(stream, bad)
    with pytest.raises(InternalError) as caught:
        device.synchronize(stream)
    assert "secret" not in caught.value.message
    assert "secret" in caplog.text


def test_whoever_queues_too_much_waits(
    device: AscendDevice,
    stream: AscendStream,
    counter: Counter,
    double: Control,
    monkeypatch: pytest.MonkeyPatch,
    background: Background,
) -> None:
    monkeypatch.setattr(streams, "MOST_QUEUED", 4)
    double.hold()
    done: list[int] = []

    def work() -> None:
        for number in range(6):
            counter.add(1, stream)
            done.append(number)

    worker = background(work)
    while len(done) < 4:
        assert worker.is_alive()
    assert stream.given - stream.done == 4
    double.let_go()
    worker.join(30)
    device.synchronize(stream)
    assert (counter.value, len(done)) == (6, 6)


def test_a_stream_ends_after_its_work(
    device: AscendDevice, stream: AscendStream, counter: Counter, double: Control
) -> None:
    for _ in range(5):
        counter.add(1, stream)
    device.destroy_stream(stream)
    assert counter.value == 5
    assert double.live("stream") == 0


def test_a_stream_that_hangs_is_abandoned(
    device: AscendDevice,
    stream: AscendStream,
    counter: Counter,
    double: Control,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(streams, "STOP_SECONDS", 0.05)
    double.hold()
    counter.add(1, stream)
    device.destroy_stream(stream)
    assert "abandoned" in caplog.text
    assert double.live("stream") == 0
    double.let_go()
    assert counter.value == 0


def test_streams_run_side_by_side(device: AscendDevice, double: Control) -> None:
    """One stream stands still at an event of another, and a third goes on."""
    first, second, third = (device.create_stream() for _ in range(3))
    counters = [Counter(device) for _ in range(3)]
    moment = device.record(first)
    moment.hold(second)
    for counter, at in zip(counters, (first, second, third), strict=True):
        counter.add(1, at)
    for at in (third, second, first):
        device.synchronize(at)
    assert [counter.value for counter in counters] == [1, 1, 1]


class TestMoments:
    def test_passed_when_the_work_before_is_done(
        self, device: AscendDevice, stream: AscendStream, counter: Counter, double: Control
    ) -> None:
        double.hold()
        counter.add(1, stream)
        moment = device.record(stream)
        passed = [moment.passed, moment.wait(0.02)]
        double.let_go()
        passed += [moment.wait(30), moment.passed]
        assert passed == [False, False, True, True]
        assert moment.wait(0)

    def test_order_across_streams(
        self, device: AscendDevice, counter: Counter, double: Control
    ) -> None:
        first, second = device.create_stream(), device.create_stream()
        copy = put(device, np.zeros_like(ONES))
        double.hold()
        counter.add(7, first)
        moment = device.record(first)
        moment.hold(second)
        device.copy(copy, counter.memory, second)
        double.let_go()
        assert get(device, copy, ONES)[0] == 7

    def test_time_between_two(
        self, device: AscendDevice, stream: AscendStream, counter: Counter
    ) -> None:
        early = device.record(stream)
        counter.add(1, stream)
        late = device.record(stream)
        assert late.wait(30)
        assert 0 < late.nanoseconds_since(early) == -early.nanoseconds_since(late)

    def test_destroyed_when_nobody_has_it(
        self, device: AscendDevice, stream: AscendStream, double: Control
    ) -> None:
        double.hold()
        moment = device.record(stream)
        other = device.create_stream()
        moment.hold(other)
        del moment
        device.memory_info()
        assert double.live("event") == 1, "queued work needs it"
        double.let_go()
        device.synchronize(other)
        device.synchronize(stream)
        device.memory_info()
        assert double.live("event") == 0

    def test_ends_with_the_device(self, double: Control, environment: dict[str, str]) -> None:
        backend = AscendBackend(environment=environment)
        device = backend.devices[0]
        moment = device.record(device.create_stream())
        backend.close()
        assert double.left() == {}
        del moment

    @pytest.mark.parametrize("name", ["aclrtCreateEvent", "aclrtRecordEvent"])
    def test_one_that_could_not_be_recorded(
        self, device: AscendDevice, stream: AscendStream, double: Control, name: str
    ) -> None:
        double.fail(name, 1, 207007)
        moment = device.record(stream)
        assert moment.wait(30), "nobody must wait for ever"
        with pytest.raises(Exception, match=name):
            device.synchronize(stream)
        with pytest.raises(Exception, match="could not be recorded"):
            moment.nanoseconds_since(moment)


class TestCopies:
    def test_writes_in_a_stream_come_in_its_order(
        self, device: AscendDevice, stream: AscendStream, counter: Counter, double: Control
    ) -> None:
        double.hold()
        counter.add(1, stream)
        device.write(counter.memory, (ONES * 40).view(np.uint8).data, stream)
        counter.add(2, stream)
        assert double.calls("aclrtMemcpyAsync") > 0
        double.let_go()
        assert counter.value == 42

    def test_the_hosts_bytes_may_change_at_once(
        self, device: AscendDevice, stream: AscendStream, double: Control
    ) -> None:
        memory, data = put(device, ONES), ONES * 3
        double.hold()
        device.write(memory, data.view(np.uint8).data, stream)
        data[:] = -1
        double.let_go()
        assert get(device, memory, ONES)[0] == 3

    def test_without_a_stream_after_work_that_uses_the_memory(
        self,
        device: AscendDevice,
        stream: AscendStream,
        counter: Counter,
        double: Control,
        background: Background,
    ) -> None:
        double.hold()
        counter.add(1, stream)
        data = (ONES * 5).view(np.uint8).data
        writer = background(lambda: device.write(counter.memory, data))
        device.memory_info()
        assert writer.is_alive()
        double.let_go()
        writer.join(30)
        assert counter.value == 5

    def test_fill_and_copy_in_a_stream(
        self, device: AscendDevice, stream: AscendStream, double: Control
    ) -> None:
        a, b = device.allocate(8), device.allocate(8)
        double.hold()
        device.fill(a, 7, stream)
        device.copy(b, a, stream)
        device.fill(a, 9, stream)
        double.let_go()
        assert (bytes(device.read(b)), bytes(device.read(a))) == (b"\7" * 8, b"\11" * 8)

    @pytest.mark.parametrize("shift", [-3, 3])
    def test_overlapping_copies_in_a_stream(
        self, device: AscendDevice, stream: AscendStream, shift: int
    ) -> None:
        memory = device.wrap(memoryview(b"...abcdefgh..."))
        target, source = device.slice(memory, 3 + shift, 8), device.slice(memory, 3, 8)
        device.copy(target, source, stream)
        device.synchronize(stream)
        assert bytes(device.read(target)) == b"abcdefgh"

    def test_large_ones_go_in_pieces(self, device: AscendDevice) -> None:
        data = np.random.default_rng(3).integers(0, 256, 9_000_001, np.uint8)
        memory = device.wrap(data.data)
        np.testing.assert_array_equal(np.frombuffer(device.read(memory), np.uint8), data)


class TestReleasedMemory:
    """The pool gives every block back to CANN at once, so the double sees each use after that."""

    @pytest.fixture
    def device(self, double: Control, environment: dict[str, str]) -> Iterator[AscendDevice]:
        backend = AscendBackend(environment=environment, make_pool=bare_pool)
        yield backend.devices[0]
        double.let_go()
        backend.close()

    def test_stays_until_the_work_is_done(
        self, device: AscendDevice, stream: AscendStream, double: Control
    ) -> None:
        call = Prepared(device, "aclnnRelu", [ONES, ONES])
        double.hold()
        call.run(call.plan(), stream)
        used = double.used_bytes()
        for region in call.storages:
            assert isinstance(region, Region)
            device.release(region)
        device.memory_info()
        assert double.used_bytes() == used
        double.let_go()
        device.synchronize(stream)
        device.memory_info()
        assert double.used_bytes() < used

    def test_goes_at_once_where_nothing_uses_it(
        self, device: AscendDevice, double: Control
    ) -> None:
        before = double.used_bytes()
        device.release(device.allocate(1000))
        device.memory_info()
        assert double.used_bytes() == before

    def test_is_waited_for_where_there_is_no_room(
        self,
        device: AscendDevice,
        stream: AscendStream,
        double: Control,
        background: Background,
    ) -> None:
        half = 600 * 2**20
        first = device.allocate(half)
        double.hold()
        device.fill(first, 1, stream)
        device.release(first)
        taken: list[Region] = []
        taker = background(lambda: taken.append(device.allocate(half)))
        device.memory_info()
        assert taker.is_alive()
        double.let_go()
        taker.join(30)
        assert len(taken) == 1
        device.release(taken[0])

    def test_too_much_of_it_holds_up_its_stream(
        self,
        device: AscendDevice,
        stream: AscendStream,
        double: Control,
        monkeypatch: pytest.MonkeyPatch,
        background: Background,
    ) -> None:
        monkeypatch.setattr(streams, "MOST_DEFERRED_BYTES", 1000)
        memory, next_one = device.allocate(2000), device.allocate(8)
        double.hold()
        device.fill(memory, 1, stream)
        device.release(memory)
        device.memory_info()
        filler = background(lambda: device.fill(next_one, 2, stream))
        device.memory_info()
        assert filler.is_alive()
        double.let_go()
        filler.join(30)
        assert bytes(device.read(next_one)) == b"\2" * 8


def bare_pool(acl: Acl) -> MemoryPool:
    return MemoryPool(acl, slab_bytes=0, kept_bytes=0)
