"""Tenants: contexts that others cannot find, and quotas over all contexts of one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from aclnn.errors import (
    HandleNotFoundError,
    LimitExceededError,
    OutOfMemoryError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from aclnn_server.sessions.environment import Environment
from aclnn_server.sessions.limits import Limits
from aclnn_server.sessions.rates import Arrivals
from aclnn_server.sessions.registry import Registry
from aclnn_server.sessions.streams import Work, Workers
from aclnn_server.sessions.tenants import ANYBODY, Caller, Quota, Tenant
from tests.service.gated import GatedBackend
from tests.sessions.conftest import Clock, unexpected

LEASE = 60.0


def test_what_another_tenant_has_answers_as_what_does_not_exist(registry: Registry) -> None:
    alice, bob = Tenant("alice"), Tenant("bob")
    context = registry.create_context(None, LEASE, alice)
    stream = context.default_session
    assert context.owner == "alice"
    assert registry.context(context.id, alice) is context
    assert registry.session(stream.id, alice) is stream
    for find, handle, what in (
        (registry.context, context.id, "context"),
        (registry.session, stream.id, "stream"),
    ):
        for stranger in (bob, ANYBODY, Tenant("alice")):
            with pytest.raises(HandleNotFoundError) as foreign:
                find(handle, stranger)
            with pytest.raises(HandleNotFoundError) as absent:
                find(f"{registry.epoch}-nothing", stranger)
            assert str(foreign.value) == str(absent.value)
            assert foreign.value.parameter == f"{what}_id"


def test_a_stranger_s_attempts_do_not_keep_a_context_alive(
    registry: Registry, clock: Clock
) -> None:
    alice, bob = Tenant("alice"), Tenant("bob")
    context = registry.create_context(None, LEASE, alice)
    clock.advance(LEASE + 1)
    for find, handle in (
        (registry.context, context.id),
        (registry.session, context.default_session.id),
    ):
        with pytest.raises(HandleNotFoundError):
            find(handle, bob)
    assert registry.reap() == 1


def test_contexts_of_nobody_in_particular_are_no_tenant_s(registry: Registry) -> None:
    context = registry.create_context(None, LEASE)
    assert context.owner == ""
    assert registry.context(context.id) is context
    with pytest.raises(HandleNotFoundError):
        registry.context(context.id, Tenant("alice"))


# --- quotas ---------------------------------------------------------------------------------------


def test_memory_of_all_contexts_of_a_tenant(registry: Registry) -> None:
    alice, bob = Tenant("alice", Quota(memory_bytes=100)), Tenant("bob")
    first, second = (registry.create_context(None, LEASE, alice) for _ in range(2))
    first.add_buffer(1, 60)
    with pytest.raises(OutOfMemoryError) as caught:
        second.add_buffer(1, 41)
    assert caught.value.message == (
        "buffer 1 asks for 41 bytes; the token 'alice' has 40 free of its 100 in all contexts"
    )
    assert caught.value.code == 207001
    assert (second.usage.bytes, second.usage.buffers) == (0, 0)
    second.add_buffer(1, 40)
    registry.create_context(None, LEASE, bob).add_buffer(1, 1000)

    first.buffers.take(1).free()
    second.add_buffer(2, 60)
    registry.destroy_context(second)
    first.add_buffer(1, 100)
    registry.destroy_context(first)
    assert alice.memory is not None
    assert alice.memory.used == 0


def test_what_a_context_refuses_is_not_on_the_tenant_s_account(
    make_registry: Callable[[Limits], Registry],
) -> None:
    alice = Tenant("alice", Quota(memory_bytes=100))
    context = make_registry(Limits(context_bytes=10)).create_context(None, LEASE, alice)
    with pytest.raises(OutOfMemoryError, match="the context has 10 free of its 10"):
        context.add_buffer(1, 11)
    assert alice.memory is not None
    assert alice.memory.used == 0


def test_memory_is_counted_right_while_many_take_and_give(registry: Registry) -> None:
    alice = Tenant("alice", Quota(memory_bytes=8 * 4))
    contexts = [registry.create_context(None, LEASE, alice) for _ in range(8)]

    def take_and_give(index: int) -> int:
        refused = 0
        for turn in range(200):
            try:
                contexts[index].add_buffer(turn + 1, 8)
            except OutOfMemoryError:
                refused += 1
            else:
                contexts[index].buffers.take(turn + 1).free()
        return refused

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(take_and_give, range(8)))
    assert alice.memory is not None
    assert alice.memory.used == 0
    contexts[0].add_buffer(1, 8 * 4)


def test_a_quota_that_shrinks_refuses_what_is_new_and_keeps_what_is_there(
    registry: Registry,
) -> None:
    alice = Tenant("alice")
    context = registry.create_context(None, LEASE, alice)
    context.add_buffer(1, 100)
    alice.change(Quota(memory_bytes=50))
    with pytest.raises(OutOfMemoryError, match="has 0 free of its 50"):
        context.add_buffer(2, 1)
    context.buffers.take(1).free()
    context.add_buffer(2, 50)


def test_contexts_of_a_tenant(registry: Registry) -> None:
    alice = Tenant("alice", Quota(contexts=2))
    contexts = [registry.create_context(None, LEASE, alice) for _ in range(2)]
    with pytest.raises(LimitExceededError) as caught:
        registry.create_context(None, LEASE, alice)
    assert caught.value.message == "the token 'alice' has 2 contexts; at most 2 are allowed"
    assert caught.value.retry_after_ms > 0
    registry.create_context(None, LEASE, Tenant("bob"))
    registry.destroy_context(contexts[0])
    registry.create_context(None, LEASE, alice)
    assert registry.usage_of(alice).contexts == 2
    assert registry.usage.contexts == 3


@pytest.fixture
def many() -> GatedBackend:
    """A backend of four devices."""
    return GatedBackend(devices=4)


def registry_of(backend: GatedBackend, workers: Workers, clock: Clock) -> Registry:
    environment = Environment(Limits(), workers, clock, unexpected)
    return Registry(backend.devices, environment, Arrivals(0, 2.0, clock))


def test_devices_of_a_tenant(many: GatedBackend, workers: Workers, clock: Clock) -> None:
    registry = registry_of(many, workers, clock)
    alice = Tenant("alice", Quota(devices=frozenset({1, 3, 9})))
    assert [device.index for device in registry.devices_of(alice)] == [1, 3]
    assert registry.create_context(3, LEASE, alice).device.index == 3
    assert registry.create_context(None, LEASE, alice).device.index in (1, 3)
    for index in (0, 2, 4, 9, 2**32 - 1):  # there or not: the same answer
        with pytest.raises(PermissionDeniedError) as caught:
            registry.create_context(index, LEASE, alice)
        assert caught.value.message == (
            f"device_index is {index}; the token 'alice' may use of this server's devices 1, 3"
        )
        assert (caught.value.code, caught.value.parameter) == (207006, "device_index")
    nowhere = Tenant("nowhere", Quota(devices=frozenset({9})))
    for given, told in ((None, "not set"), (9, "9")):
        with pytest.raises(PermissionDeniedError, match=f"is {told};.*devices none"):
            registry.create_context(given, LEASE, nowhere)
    with pytest.raises(HandleNotFoundError, match="devices 0 to 3"):
        registry.create_context(4, LEASE)
    registry.close()


def test_new_contexts_of_a_client_and_of_a_tenant_with_a_rate_of_its_own(
    many: GatedBackend, workers: Workers, clock: Clock
) -> None:
    registry = registry_of(many, workers, clock)
    alice = Tenant("alice", Quota(contexts_per_second=0.1), clock)
    registry.create_context(None, LEASE, alice, "alice")
    with pytest.raises(LimitExceededError, match=r"the 0\.1 a second that this client") as caught:
        registry.create_context(None, LEASE, alice, "alice")
    assert caught.value.retry_after_ms == 10_000
    for _ in range(20):
        registry.create_context(None, LEASE, ANYBODY, "10.0.0.1/32")
    with pytest.raises(LimitExceededError, match="the 2 a second"):
        registry.create_context(None, LEASE, ANYBODY, "10.0.0.1/32")
    registry.create_context(None, LEASE, ANYBODY, "10.0.0.2/32")
    before = registry.usage.contexts
    assert before == 22
    registry.close()


# --- calls ----------------------------------------------------------------------------------------


def test_calls_of_a_tenant(clock: Clock) -> None:
    alice = Tenant("alice", Quota(calls_per_second=2.0), clock)
    for _ in range(2):
        alice.count_call()
    with pytest.raises(LimitExceededError, match=r"the 2 a second .* 'alice'") as caught:
        alice.count_call()
    assert caught.value.retry_after_ms == 500
    clock.advance(0.5)
    alice.count_call()
    alice.change(Quota())
    for _ in range(100):
        alice.count_call()


def test_requests_of_an_open_call_are_slowed_down() -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 0.1  # time passes by looking at it
        return now[0]

    caller = Caller(Tenant("alice", Quota(calls_per_second=2.0), clock))
    for _ in range(2):
        caller.proceed(lambda: False)
    begin = now[0]
    caller.proceed(lambda: False)
    assert now[0] - begin >= 0.3
    caller.proceed(lambda: True)  # nobody waits: it is over at once


def test_a_caller_whose_token_is_good_no_more(clock: Clock) -> None:
    caller = Caller(Tenant("alice"))
    caller.proceed(lambda: False)
    caller.ended_because = "the token was withdrawn"
    with pytest.raises(UnauthenticatedError, match="the token was withdrawn") as caught:
        caller.proceed(lambda: False)
    assert caught.value.code == 207006


def test_a_tenant_that_has_ended(registry: Registry) -> None:
    alice, bob = Tenant("alice"), Tenant("bob")
    contexts = [registry.create_context(None, LEASE, alice) for _ in range(2)]
    kept = registry.create_context(None, LEASE, bob)
    alice.ended_because = "the token has expired"
    with pytest.raises(UnauthenticatedError, match="the token has expired"):
        registry.create_context(None, LEASE, alice)
    assert registry.evict(alice) == 2
    assert all(context.closed for context in contexts)
    assert registry.context(kept.id, bob) is kept
    alice.ended_because = ""
    registry.create_context(None, LEASE, alice)


def test_a_tenant_that_ends_while_its_work_runs_is_not_waited_for(
    registry: Registry, backend: GatedBackend
) -> None:
    alice = Tenant("alice")
    context = registry.create_context(None, LEASE, alice)
    context.add_buffer(1, 100)
    running, go_on = threading.Event(), threading.Event()

    def work() -> None:
        running.set()
        assert go_on.wait(30)

    context.default_session.stream.enqueue(Work(work), inline=False)
    assert running.wait(30)
    alice.ended_because = "the token was withdrawn"
    assert registry.evict(alice) == 1
    assert context.closed
    assert registry.reap() == 0
    go_on.set()
    while not registry.reap():
        time.sleep(0.001)
    assert (registry.usage.contexts, backend.device.live_bytes) == (0, 0)
    assert alice.memory is not None
    assert alice.memory.used == 0


def test_what_is_told_of_limits_is_what_holds_for_the_tenant() -> None:
    told = Tenant("alice", Quota(memory_bytes=7, contexts=2**40)).narrow(Limits())
    assert told == Limits(context_bytes=7)
    assert ANYBODY.narrow(Limits()) == Limits()
