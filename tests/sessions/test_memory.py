"""Accounts and buffers by themselves: what is counted, and who keeps memory for how long."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from aclnn.errors import HandleNotFoundError, InvalidParameterError, OutOfMemoryError
from aclnn_server.sessions.limits import Limits
from aclnn_server.sessions.memory import Account, Buffer, hold_all
from aclnn_server.sessions.registry import Registry
from aclnn_server.sessions.streams import Stream, Work, Workers
from tests.service.gated import PATIENCE, Gate, GatedBackend
from tests.sessions.conftest import unexpected
from tests.sessions.driving import passing, run, scratch, values


@pytest.fixture
def account(backend: GatedBackend) -> Account:
    """An account of 1000 bytes."""
    return Account(backend.device, 1000)


# --- accounts -------------------------------------------------------------------------------------


def test_the_quota_holds_exactly(account: Account, backend: GatedBackend) -> None:
    first = account.allocate(600, "first")
    second = account.wrap(memoryview(bytes(400)), "second")
    assert account.used == 1000
    says = r"third asks for 1 bytes; .* 0 free of its 1000"
    with pytest.raises(OutOfMemoryError, match=says):
        account.allocate(1, "third")
    with pytest.raises(OutOfMemoryError, match=says):
        account.wrap(memoryview(b"1"), "third")
    assert backend.device.allocations == 2
    account.release(first, 600)
    account.release(second, 400)
    assert account.used == 0


def test_what_the_device_refuses_is_not_counted() -> None:
    account = Account(GatedBackend(total_bytes=100).device, 1000)
    with pytest.raises(OutOfMemoryError, match="no room for 101 bytes"):
        account.allocate(101, "it")
    assert account.used == 0


# --- buffers --------------------------------------------------------------------------------------


def test_a_buffer_is_freed_once(account: Account, backend: GatedBackend) -> None:
    buffer = Buffer(1, 100, account)
    assert (account.used, account.buffers) == (100, 1)
    buffer.free()
    buffer.free()
    assert (account.used, account.buffers) == (0, 0)
    with pytest.raises(HandleNotFoundError, match="buffer 1 was freed"):
        buffer.hold()


def test_it_stays_until_the_last_use_ends(account: Account, backend: GatedBackend) -> None:
    buffer = Buffer(1, 100, account)
    buffer.hold()
    buffer.hold()
    buffer.free()
    buffer.end_use()
    assert (account.used, account.buffers) == (100, 1)
    buffer.end_use()
    assert (account.used, account.buffers) == (0, 0)


def test_all_are_held_or_none(account: Account) -> None:
    first, second = Buffer(1, 100, account), Buffer(2, 100, account)
    second.free()
    with pytest.raises(HandleNotFoundError, match="buffer 2"):
        hold_all([first, first, second])
    first.free()
    assert account.used == 0


def test_everyone_who_waits_for_queued_work_waits(account: Account, workers: Workers) -> None:
    """The second who asks waits as the first does."""
    stream, gate = Stream(workers, Limits(queued_commands=10), unexpected), Gate()
    buffer = Buffer(1, 8, account)
    stream.enqueue(Work(gate.pass_through, (buffer,)), inline=False)
    gate.wait_entered()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(buffer.wait_unused) for _ in range(3)]
        for future in waiting:
            with pytest.raises(TimeoutError):
                future.result(0.02)
        gate.open()
        for future in waiting:
            future.result(PATIENCE)
    buffer.free()


def test_streams_that_are_done_with_it_are_forgotten(account: Account, workers: Workers) -> None:
    buffer = Buffer(1, 8, account)
    for _ in range(100):
        Stream(workers, Limits(queued_commands=10), unexpected).enqueue(
            Work(lambda: None, (buffer,)), inline=True
        )
    assert len(buffer.last_uses) < 20
    buffer.free()


@pytest.mark.parametrize(
    ("offset", "size", "fits"),
    [
        (0, 100, True),
        (100, 0, True),
        (99, 1, True),
        (0, 101, False),
        (101, 0, False),
        (2**64, 1, False),
    ],
)
def test_ranges(account: Account, offset: int, size: int, fits: bool) -> None:
    buffer = Buffer(1, 100, account)
    if fits:
        buffer.check_range(offset, size, "p")
    else:
        with pytest.raises(
            InvalidParameterError, match=f"p takes bytes {offset} to {offset + size}"
        ):
            buffer.check_range(offset, size, "p", "aclnnX")
    buffer.free()


# --- error paths of a run -------------------------------------------------------------------------


def test_no_error_path_of_a_run_keeps_anything(
    make_registry: Callable[[Limits], Registry], backend: GatedBackend
) -> None:
    """With less and less room: the run fails at its workspace, at its output, or not at all."""
    registry = make_registry(Limits(context_bytes=100))
    context = registry.create_context(None, 60.0)
    seen = set()
    for taken in range(1, 100):
        session = registry.create_stream(context)
        context.add_buffer(1, taken)
        try:
            execution = run(session, scratch(session, 20, 0))
            assert values(execution) == [7.0, 8.0]
            seen.add("right")
        except OutOfMemoryError as error:
            seen.add(error.message.split(" asks")[0])
        registry.destroy_stream(session)
        context.buffers.take(1).free()
        assert (context.usage.bytes, context.usage.executors) == (0, 0)
    assert seen == {"right", "self", "out", "the workspace"}


def test_a_buffer_freed_after_planning_and_before_the_run(
    registry: Registry, backend: GatedBackend
) -> None:
    context = registry.create_context(None, 60.0)
    session = context.default_session
    context.add_buffer(1, 2**21)
    executor = passing(session, 0, buffer_id=1)
    context.buffers.take(1).free()
    assert backend.device.live_bytes == 8
    context.add_buffer(1, 2**21)
    with pytest.raises(HandleNotFoundError, match="freed after phase one"):
        run(session, executor, wait=True)
    assert backend.device.live_bytes == 2**21
    assert np.all(backend.device.bytes_of(context.buffers.find(1).memory) == 0)
