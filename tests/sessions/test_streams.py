"""Streams by themselves: who runs what, in which order, and that nobody is forgotten."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from aclnn.errors import (
    ExecutionFailedError,
    InternalError,
    LimitExceededError,
    StreamDestroyedError,
    WaitTimeoutError,
)
from aclnn_server.sessions.limits import Limits
from aclnn_server.sessions.marks import Mark
from aclnn_server.sessions.streams import Stream, Work, Workers
from tests.service.gated import PATIENCE, Gate
from tests.sessions.conftest import unexpected
from tests.waiting import until

Make = Callable[..., Stream]


@pytest.fixture
def make(workers: Workers) -> Make:
    """Makes streams on two workers."""

    def stream(limit: int = 10_000) -> Stream:
        return Stream(workers, Limits(queued_commands=limit), unexpected)

    return stream


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Lets threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def name() -> str:
    """The thread that asks."""
    return threading.current_thread().name


# --- who runs it ----------------------------------------------------------------------------------


def test_small_work_is_run_by_who_queues_it_where_it_is_its_turn(make: Make) -> None:
    stream, ran = make(), []
    stream.enqueue(Work(lambda: ran.append(name())), inline=True)
    assert ran == [name()]
    assert stream.depth == 0


def test_large_work_is_run_by_a_worker(make: Make) -> None:
    stream, ran = make(), []
    stream.enqueue(Work(lambda: ran.append(name())), inline=False)
    with stream._changed:  # waiting for it here would be helping
        stream._changed.wait_for(lambda: stream.depth == 0, PATIENCE)
    assert ran[0].startswith("aclnn-worker")


def test_small_work_behind_large_work_does_not_keep_who_queues_it(make: Make) -> None:
    stream, gate, ran = make(), Gate(), []
    stream.enqueue(Work(gate.pass_through), inline=False)
    for index in range(100):
        stream.enqueue(Work(lambda i=index: ran.append(i)), inline=True)  # type: ignore[misc]
    assert ran == []
    gate.open()
    stream.wait()
    assert ran == list(range(100))


def test_who_waits_helps_up_to_what_it_waits_for(make: Make, workers: Workers) -> None:
    stream, ran = Stream(Workers(0), Limits(), unexpected), []  # nobody else runs anything
    works = [Work(lambda: ran.append(name())) for _ in range(3)]
    for work in works:
        stream.enqueue(work, inline=False)
    stream.wait(works[1].number)
    assert ran == [name()] * 2
    assert stream.depth == 1
    stream.wait()
    assert stream.depth == 0


def test_a_stream_that_is_never_empty_lets_others_have_the_worker() -> None:
    """With one worker: work that always queues more is set aside for another stream."""
    workers = Workers(1)
    busy, other = (Stream(workers, Limits(queued_commands=10_000), unexpected) for _ in range(2))
    done = threading.Event()
    ran = []

    def again() -> None:
        ran.append(1)
        if not done.is_set():
            busy.enqueue(Work(again), inline=False)

    busy.enqueue(Work(again), inline=False)
    other.enqueue(Work(done.set), inline=False)
    assert done.wait(PATIENCE)
    busy.wait()
    assert ran
    workers.stop()


# --- order and completeness -----------------------------------------------------------------------


@pytest.mark.usefixtures("many_switches")
def test_from_many_threads_each_work_runs_once_alone_and_in_its_threads_order(make: Make) -> None:
    stream, ran, inside = make(), [], threading.Lock()

    def task(thread: int, index: int) -> None:
        assert inside.acquire(blocking=False), "two at once"
        ran.append((thread, index))
        inside.release()

    def queue(thread: int) -> None:
        random_ = random.Random(thread)
        for index in range(400):
            work = Work(lambda i=index: task(thread, i))  # type: ignore[misc]
            stream.enqueue(work, inline=random_.random() < 0.5)
            if random_.random() < 0.1:
                stream.wait(work.number)
                assert (thread, index) in ran

    _on_threads(8, queue)
    stream.wait()
    stream.synchronize()  # no task found another inside
    assert len(ran) == 8 * 400
    for thread in range(8):
        assert [i for t, i in ran if t == thread] == list(range(400))


@pytest.mark.usefixtures("many_switches")
def test_no_wake_up_is_lost_between_streams_that_wait_for_each_other(make: Make) -> None:
    """Each link waits for a mark of the one before it, queued in random order of arrival."""
    streams = [make() for _ in range(8)]
    ran: list[int] = []

    def links(thread: int) -> None:
        for round_ in range(100):
            marks[round_][thread] = mark = Mark()
            before = marks[round_].get(thread - 1)
            if before is not None:
                streams[thread].enqueue(Work(_nothing, mark=before), inline=True)
            streams[thread].enqueue(Work(lambda: ran.append(1)), inline=round_ % 2 == 0)
            streams[thread].enqueue(Work(_nothing, on_end=mark.set_passed), inline=True)

    marks: list[dict[int, Mark]] = [{} for _ in range(100)]
    _on_threads(8, links)
    for stream in streams:
        stream.wait(timeout=PATIENCE)
    assert len(ran) == 800
    assert all(mark.passed for round_ in marks for mark in round_.values())


def _on_threads(count: int, act: Callable[[int], None]) -> None:
    """Runs `act` on as many threads at once; fails where one fails or hangs."""
    failures: list[BaseException] = []

    def guarded(index: int) -> None:
        try:
            act(index)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert failures == []


def _nothing() -> None:
    """Work that does nothing."""


# --- failures -------------------------------------------------------------------------------------


def _fail(error: BaseException) -> Callable[[], None]:
    def task() -> None:
        raise error

    return task


def test_a_failure_is_the_callers_who_waits_or_the_streams(make: Make) -> None:
    stream = make()
    waited = Work(_fail(ExecutionFailedError("one")), waited=True)
    stream.enqueue(waited, inline=True)
    stream.synchronize()
    with pytest.raises(ExecutionFailedError, match="one"):
        waited.raise_failure()
    for text in ("two", "three"):
        stream.enqueue(Work(_fail(ExecutionFailedError(text))), inline=True)
    with pytest.raises(ExecutionFailedError, match="two"):
        stream.synchronize()
    stream.synchronize()


@pytest.mark.parametrize(
    "error", [RuntimeError("r"), MemoryError(), SystemExit(), KeyboardInterrupt()]
)
def test_whatever_a_task_raises_the_stream_goes_on(make: Make, error: BaseException) -> None:
    stream, ran = make(), []
    stream.enqueue(Work(_fail(error)), inline=False)
    stream.enqueue(Work(lambda: ran.append(1)), inline=False)
    with pytest.raises(InternalError):
        stream.synchronize()
    assert ran == [1]


def test_what_fails_while_it_ends_stops_nothing_and_is_told(make: Make) -> None:
    stream = make()
    work = Work(_nothing, waited=True, on_end=_fail(OSError("the device is ill")))
    stream.enqueue(work, inline=True)
    with pytest.raises(InternalError):
        work.raise_failure()
    stream.enqueue(Work(_nothing), inline=True)
    stream.destroy()


def test_a_wait_has_a_time_limit(make: Make) -> None:
    stream, gate = make(), Gate()
    for _ in range(3):
        stream.enqueue(Work(gate.pass_through), inline=False)
    with pytest.raises(WaitTimeoutError, match=r"3 commands left after 0\.01 seconds") as caught:
        stream.wait(timeout=0.01)
    assert caught.value.code == 507046
    gate.open()
    stream.wait()


def test_the_queue_is_bounded(make: Make) -> None:
    stream, gate = make(2), Gate()
    stream.enqueue(Work(gate.pass_through), inline=False)
    gate.wait_entered()
    for _ in range(2):
        stream.enqueue(Work(_nothing), inline=True)
    with pytest.raises(LimitExceededError, match="2 commands queued; at most 2") as caught:
        stream.enqueue(Work(_nothing), inline=True)
    assert caught.value.retry_after_ms > 0
    assert stream.depth == 3
    gate.open()
    stream.wait()


# --- whose turn it is -----------------------------------------------------------------------------


def test_owners_of_streams_take_turns() -> None:
    """One with many streams does not keep one with a single stream waiting."""
    workers, gate = Workers(1), Gate()
    ran: list[str] = []
    first = Stream(workers, Limits(queued_commands=10), unexpected, owner="many")
    first.enqueue(Work(gate.pass_through), inline=False)
    gate.wait_entered()
    for name in ("many", "many", "many", "many", "one", "other"):
        stream = Stream(workers, Limits(queued_commands=10), unexpected, owner=name)
        stream.enqueue(Work(partial(ran.append, name)), inline=False)
    gate.open()
    until(lambda: len(ran) == 6)
    assert ran == ["many", "one", "other", "many", "many", "many"]
    workers.stop()


# --- ending ---------------------------------------------------------------------------------------


def test_destroying_drops_what_is_queued_and_waits_for_what_runs(make: Make) -> None:
    stream, gate, ended = make(), Gate(), []
    running = Work(gate.pass_through, waited=True, on_end=lambda: ended.append("running"))
    queued = Work(_nothing, waited=True, on_end=lambda: ended.append("queued"))
    stream.enqueue(running, inline=False)
    gate.wait_entered()
    stream.enqueue(queued, inline=False)
    assert not stream.stop()
    assert ended == ["queued"]
    assert not stream.has_done(running.number)  # what was dropped behind it does not count for it

    thread = threading.Thread(target=stream.destroy)
    thread.start()
    gate.open()
    thread.join(PATIENCE)
    assert ended == ["queued", "running"]
    assert stream.has_done(queued.number)
    running.raise_failure()
    with pytest.raises(StreamDestroyedError, match="before the work was run"):
        queued.raise_failure()
    assert stream.stop()
    with pytest.raises(StreamDestroyedError):
        stream.synchronize()
    with pytest.raises(StreamDestroyedError):
        stream.enqueue(Work(_nothing), inline=True)


@pytest.mark.usefixtures("many_switches")
@pytest.mark.parametrize("round_", range(60))
def test_destroyed_under_way_everything_ends_once(make: Make, round_: int) -> None:
    stream = make()
    ended: list[int] = []
    never_queued: list[int] = []

    def queue(thread: int) -> None:
        if thread == 0:
            stream.enqueue(Work(_nothing), inline=round_ % 2 == 0)
            stream.destroy()
            return
        for index in range(20):
            work = Work(_nothing, waited=True, on_end=lambda: ended.append(1))
            try:
                stream.enqueue(work, inline=thread % 2 == 0)
            except StreamDestroyedError:
                never_queued.append(index)
                continue
            stream.wait(work.number)
            assert stream.has_done(work.number)

    _on_threads(5, queue)
    assert len(ended) + len(never_queued) == 80
    assert stream.depth == 0


def test_a_mark_of_a_dropped_recording_is_passed(make: Make) -> None:
    stream, other, gate, mark, ran = make(), make(), Gate(), Mark(), []
    stream.enqueue(Work(gate.pass_through), inline=False)
    gate.wait_entered()
    stream.enqueue(Work(_nothing, on_end=mark.set_passed), inline=True)
    other.enqueue(Work(_nothing, mark=mark), inline=True)
    other.enqueue(Work(lambda: ran.append(1)), inline=True)
    assert not mark.wait(0.01)
    stream.stop()
    other.wait()
    assert ran == [1]
    assert mark.passed
    gate.open()
    stream.destroy()


def test_workers_end_after_the_work_in_hand() -> None:
    workers, gate = Workers(1), Gate()
    stream = Stream(workers, Limits(queued_commands=10), unexpected)
    stream.enqueue(Work(gate.pass_through), inline=False)
    gate.wait_entered()
    thread = threading.Thread(target=workers.stop)
    thread.start()
    assert thread.is_alive()
    gate.open()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert stream.depth == 0
