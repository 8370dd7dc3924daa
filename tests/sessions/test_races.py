"""Things that end while they are used: from many threads at once, over many rounds.

Whatever happens first, each thing is released exactly once, nothing is used after its end (the test
backend notices both), and everybody gets a result or the error that says what happened.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from aclnn.errors import AclnnError, ExecutorUsedError, HandleNotFoundError, StreamDestroyedError
from aclnn_server.sessions.context import Context, Event, Session
from aclnn_server.sessions.execution import Execution
from aclnn_server.sessions.executors import Executor
from aclnn_server.sessions.limits import Limits
from aclnn_server.sessions.registry import Registry
from tests.service.gated import PATIENCE, GatedBackend
from tests.sessions.conftest import Clock
from tests.sessions.driving import NOTHING, occupy, passing, run, scratch, totals, values

ROUNDS = 150
GONE = (HandleNotFoundError, StreamDestroyedError)


@pytest.fixture(autouse=True)
def _many_switches() -> Iterator[None]:
    """Lets threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def together() -> Iterator[Callable[..., list[Any]]]:
    """Runs actions at the same moment, each on a thread; gives what each returned or failed with."""
    with ThreadPoolExecutor(16) as pool:

        def start(*actions: Callable[[], Any]) -> list[Any]:
            barrier = threading.Barrier(len(actions))

            def act(action: Callable[[], Any]) -> Any:  # noqa: ANN401
                barrier.wait(PATIENCE)
                try:
                    return action()
                except AclnnError as error:
                    return error

            futures = [pool.submit(act, action) for action in actions]
            return [future.result(PATIENCE) for future in futures]

        yield start


def plan_and_run(session: Session) -> Execution:
    """Both phases."""
    return run(session, passing(session, 0))


def find_and_destroy(registry: Registry, context: Context) -> None:
    """Destroys a context as a client does, by its id."""
    registry.destroy_context(registry.context(context.id))


def free(context: Context, buffer_id: int) -> None:
    """Frees a buffer."""
    context.buffers.take(buffer_id).free()


def destroy(context: Context, executor: Executor) -> None:
    """Destroys an executor."""
    context.executors.take(executor.id).end(context.account)


def check_only(results: Sequence[object], *allowed: type[AclnnError]) -> None:
    """Checks that every failure is of an allowed kind."""
    failures = [result for result in results if isinstance(result, Exception)]
    assert all(isinstance(failure, allowed) for failure in failures), failures


# --- contexts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("busy", [False, True])
def test_destroyed_expired_and_closed_at_once(
    make_registry: Callable[[Limits], Registry],
    clock: Clock,
    backend: GatedBackend,
    together: Callable[..., list[Any]],
    busy: bool,
) -> None:
    for gate in range(1, ROUNDS):
        registry = make_registry(Limits())
        context = registry.create_context(None, 60.0)
        context.add_buffer(2, 64)
        context.events.add(1, Event)
        second = registry.create_stream(context)
        passing(second, 0, repeatable=True)
        run(second, scratch(second, 100, 0))
        if busy:
            occupy(context, gate)
            backend.gates[gate].wait_entered()
        clock.advance(61)
        results = together(
            partial(registry.destroy_context, context),
            partial(find_and_destroy, registry, context),
            registry.reap,
            registry.close,
            partial(registry.destroy_stream, second),
            partial(plan_and_run, second),
            partial(context.add_buffer, 3, 8),
            partial(registry.create_stream, context),
            backend.gates[gate].open,
        )
        check_only(results, *GONE)
        registry.close()
        assert totals(registry) == NOTHING
        backend.check_clean()


def test_streams_made_and_destroyed_at_once(
    registry: Registry, backend: GatedBackend, together: Callable[..., list[Any]]
) -> None:
    for _ in range(ROUNDS):
        context = registry.create_context(None, 60.0)
        results = together(
            *[partial(registry.create_stream, context)] * 4,
            partial(registry.destroy_context, context),
        )
        check_only(results, *GONE)
        registry.destroy_context(context)
        assert totals(registry) == NOTHING
        assert not registry._sessions  # a stream that came too late is not remembered
        backend.check_clean()


# --- buffers --------------------------------------------------------------------------------------


def test_a_buffer_freed_while_it_is_taken_into_use(
    registry: Registry, backend: GatedBackend, together: Callable[..., list[Any]]
) -> None:
    context = registry.create_context(None, 60.0)
    session = context.default_session

    def hold() -> bytes:
        with context.buffers.find(1).held() as memory:
            return bytes(context.device.read(memory)[:8])

    ran = 0
    for _ in range(2 * ROUNDS):
        context.add_buffer(1, 64)
        executor = passing(session, 0)
        into_buffer = passing(session, 0, buffer_id=context.add_buffer(2, 2**21).id)
        results = together(
            partial(free, context, 1),
            partial(free, context, 2),
            partial(run, session, into_buffer, wait=True),
            partial(run, session, executor),
            hold,
            hold,
        )
        check_only(results, HandleNotFoundError)
        ran += not isinstance(results[2], AclnnError)
        assert values(results[3]) == [7.0, 8.0]
        assert context.usage.bytes == 0
    assert ran > 0


def test_one_buffer_for_many_who_ask_for_the_same_id(
    registry: Registry, backend: GatedBackend, together: Callable[..., list[Any]]
) -> None:
    context = registry.create_context(None, 60.0)
    for number in range(1, ROUNDS):
        before = backend.device.allocations
        results = together(*[partial(context.add_buffer, number, 16)] * 6)
        assert len(set(results)) == 1
        assert backend.device.allocations == before + 1


# --- workspaces -----------------------------------------------------------------------------------


def test_a_workspace_grows_under_many_who_borrow_it(
    registry: Registry, backend: GatedBackend, together: Callable[..., list[Any]]
) -> None:
    """The kernels fill theirs and look whether it stayed so."""
    context = registry.create_context(None, 60.0)
    for round_ in range(ROUNDS):
        session = registry.create_stream(context)
        executors = [scratch(session, 50 + 13 * round_ + 31 * index, 0) for index in range(6)]
        results = together(*[partial(run, session, executor) for executor in executors])
        assert [values(result) for result in results] == [[7.0, 8.0]] * 6
        registry.destroy_stream(session)
        assert context.usage.bytes == 0


def test_a_workspace_borrowed_while_the_stream_is_destroyed(
    registry: Registry, backend: GatedBackend, together: Callable[..., list[Any]]
) -> None:
    context = registry.create_context(None, 60.0)
    for _ in range(ROUNDS):
        session = registry.create_stream(context)
        executors = [scratch(session, 50 * (index + 1), 0) for index in range(4)]
        results = together(
            *[partial(run, session, executor) for executor in executors],
            partial(registry.destroy_stream, session),
            session.wait,
        )
        check_only(results, *GONE)
        assert context.usage.bytes == 0
        assert context.usage.executors == 0


# --- executors ------------------------------------------------------------------------------------


def test_a_one_shot_executor_is_one_callers_alone(
    registry: Registry, backend: GatedBackend, together: Callable[..., list[Any]]
) -> None:
    context = registry.create_context(None, 60.0)
    session = context.default_session
    for _ in range(ROUNDS):
        executor = passing(session, 0)
        results = together(*[partial(run, session, executor)] * 6)
        assert sum(isinstance(result, ExecutorUsedError) for result in results) == 5
        assert len(backend.device.runs) == 1
        backend.device.runs.clear()
        assert context.usage.bytes == 0


@pytest.mark.parametrize("repeatable", [False, True])
def test_an_executor_destroyed_while_it_is_run(
    registry: Registry,
    backend: GatedBackend,
    together: Callable[..., list[Any]],
    repeatable: bool,
) -> None:
    context = registry.create_context(None, 60.0)
    streams = [registry.create_stream(context) for _ in range(3)]
    for _ in range(ROUNDS):
        executor = passing(streams[0], 0, repeatable=repeatable)
        results = together(
            *[partial(run, stream, executor) for stream in streams],
            partial(destroy, context, executor),
        )
        check_only(results, HandleNotFoundError, ExecutorUsedError)
        assert context.usage.bytes == 0
        assert context.usage.executors == 0


def test_the_stream_of_an_executor_destroyed_while_it_is_planned_and_run(
    registry: Registry, backend: GatedBackend, together: Callable[..., list[Any]]
) -> None:
    context = registry.create_context(None, 60.0)
    other = context.default_session
    for _ in range(ROUNDS):
        session = registry.create_stream(context)
        executor = passing(session, 0, repeatable=True)
        results = together(
            partial(run, other, executor),
            partial(passing, session, 0),
            partial(passing, session, 0, repeatable=True),
            partial(registry.destroy_stream, session),
        )
        check_only(results, *GONE)
        assert context.usage.bytes == 0
        assert context.usage.executors == 0


def test_one_executor_for_many_who_plan_the_same(
    registry: Registry, backend: GatedBackend, together: Callable[..., list[Any]]
) -> None:
    context = registry.create_context(None, 60.0)
    session = context.default_session
    for number in range(1, ROUNDS):
        results = together(*[partial(passing, session, 0, executor_id=number)] * 5)
        assert len({id(result) for result in results}) == 1
        assert context.usage.executors == 1
        assert values(run(session, results[0])) == [7.0, 8.0]
        assert context.usage.bytes == 0
