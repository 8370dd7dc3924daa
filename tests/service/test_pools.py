"""The threads that serve calls: bounded, and in turn among connections."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from aclnn.errors import LimitExceededError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server import server as server_module
from aclnn_server.service import pools
from aclnn_server.service.pools import RETRY_MS, FairPool, check_admitted, note_arrival
from tests.service.calling import DEADLINE, Stubs, Unary, checked, code_of
from tests.service.gated import PATIENCE, GatedBackend
from tests.service.living import HEALTH, Open, health_of
from tests.service.queueing import blocking, queue
from tests.service.requests import outputs, plus, run
from tests.waiting import until

# --- the pool -------------------------------------------------------------------------------------


class Arrival:
    """What gRPC hands a pool with each call: it tells the connection."""

    def __init__(self, connection: str) -> None:
        self.call = self
        self._connection = connection

    def peer(self) -> str:
        return self._connection


class Calls:
    """Calls that stand still until they are let go, and tell in which order they were begun."""

    def __init__(self, pool: FairPool) -> None:
        self.begun: list[str] = []
        self.refused: list[str] = []
        self.gate = threading.Event()
        self._pool = pool

    def come(self, name: str, *, stands: bool = False) -> None:
        """A call of connection ``name[0]``."""

        def serve(_: Arrival) -> None:
            try:
                check_admitted()
            except LimitExceededError:
                self.refused.append(name)
                return
            self.begun.append(name)
            if stands:
                assert self.gate.wait(PATIENCE)

        self._pool.submit(serve, Arrival(name[0]))


@pytest.fixture
def pool() -> Iterator[FairPool]:
    """Four threads; six calls may wait."""
    pool = FairPool(4, "test", 6)
    yield pool
    pool.shutdown()


@pytest.fixture
def calls(pool: FairPool) -> Iterator[Calls]:
    """Calls to that pool."""
    calls = Calls(pool)
    yield calls
    calls.gate.set()


def test_calls_whose_message_does_not_come_make_room(
    pool: FairPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, begun = threading.Event(), threading.Semaphore(0)

    class Silent(Arrival):
        def cancel(self) -> None:
            ended.set()

    def serve(_: Arrival, has_arrived: bool) -> None:
        if has_arrived:
            note_arrival()
        begun.release()
        assert ended.wait(PATIENCE)

    for place in range(4):
        pool.submit(serve, Silent(str(place)), place > 0)
        assert begun.acquire(timeout=PATIENCE)
    monkeypatch.setattr(pools, "ARRIVAL_SECONDS", 0.0)
    assert pool.break_off_silent() == 0  # nobody waits
    waiting = pool.submit(lambda _: None, Arrival("other"))
    monkeypatch.setattr(pools, "ARRIVAL_SECONDS", 3600.0)
    assert pool.break_off_silent() == 0  # it may still come
    monkeypatch.setattr(pools, "ARRIVAL_SECONDS", 0.0)
    assert pool.break_off_silent() == 1
    waiting.result(PATIENCE)


def test_no_connection_takes_all_threads(calls: Calls) -> None:
    for number in range(6):
        calls.come(f"a{number}", stands=True)
    calls.come("b0")
    until(lambda: "b0" in calls.begun)
    assert sorted(calls.begun) == ["a0", "a1", "a2", "b0"]
    calls.gate.set()
    until(lambda: len(calls.begun) == 7)
    assert calls.refused == []


def test_connections_are_served_in_turn() -> None:
    pool = FairPool(1, "test", 10)
    calls = Calls(pool)
    calls.come("a0", stands=True)
    for name in ("a1", "a2", "a3", "b0", "b1", "c0"):
        calls.come(name)
    calls.gate.set()
    until(lambda: len(calls.begun) == 7)
    assert calls.begun == ["a0", "a1", "b0", "c0", "a2", "b1", "a3"]
    pool.shutdown()


def test_too_many_are_refused_at_once_and_the_greediest_pays(calls: Calls) -> None:
    for number in range(3 + 6):
        calls.come(f"a{number}", stands=True)
    until(lambda: len(calls.begun) == 3)
    calls.come("a9")  # one too many: its own connection has most of them waiting
    until(lambda: calls.refused == ["a9"])
    for number in range(2):
        calls.come(f"b{number}", stands=True)  # the first takes a thread, the second a place
    until(lambda: calls.refused == ["a9", "a8"])
    assert "b0" in calls.begun
    calls.gate.set()
    until(lambda: len(calls.begun) == 10)
    assert sorted(calls.begun) == [*(f"a{number}" for number in range(8)), "b0", "b1"]


def test_a_refused_call_leaves_its_thread_as_it_was(calls: Calls, pool: FairPool) -> None:
    for number in range(30):
        calls.come(f"a{number}", stands=True)
    until(lambda: len(calls.refused) == 30 - 3 - 6)
    calls.gate.set()
    until(lambda: len(calls.begun) == 9)
    calls.come("a30")
    until(lambda: calls.begun[-1] == "a30")


def test_a_call_that_breaks_gives_its_place_back(pool: FairPool, calls: Calls) -> None:
    def breaks(_: Arrival) -> None:
        raise KeyError

    for number in range(3):
        calls.come(f"a{number}", stands=True)
    futures = [pool.submit(breaks, Arrival("a")) for _ in range(6)]
    calls.gate.set()
    for future in futures:
        assert isinstance(future.exception(PATIENCE), KeyError)
    until(lambda: pool._free == 4)
    assert (dict(pool._running), pool.waiting) == ({}, 0)


# --- through a server -----------------------------------------------------------------------------


def test_an_overloaded_server_refuses_at_once_and_serves_the_others(
    start: Open, backend: GatedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One connection has calls on all threads that it may have, and as many waiting as may."""
    monkeypatch.setattr(server_module, "WAITING_CALLS", 20)
    server, stubs = start()
    client = Unary(stubs)
    client(pb.MallocRequest(buffer_id=2, bytes=2**21))
    queue(client, blocking(1))
    backend.gates[1].wait_entered()
    wait = pb.SynchronizeStreamRequest(stream_id=client.stream_id)
    threads = server_module.UNARY_THREADS * 3 // 4
    calls = [stubs.device.SynchronizeStream.future(wait, timeout=DEADLINE) for _ in range(threads)]
    until(lambda: server._service.in_hand.count == threads)
    calls += [stubs.device.SynchronizeStream.future(wait, timeout=DEADLINE) for _ in range(20)]
    until(lambda: server._threads.waiting == 20)

    with pytest.raises(grpc.RpcError) as caught:
        stubs.device.GetServerInfo(pb.GetServerInfoRequest(), timeout=DEADLINE)
    error = checked(caught.value)
    assert isinstance(error, LimitExceededError)
    assert (error.code, error.retry_after_ms) == (207012, RETRY_MS)
    assert error.message == "the server has 20 calls waiting, as many as it takes"
    assert code_of(caught.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert _retry_delay(caught.value) == RETRY_MS

    assert health_of(stubs) == HEALTH.SERVING  # over the very same connection
    own = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(server.address, own) as channel:
        other = Unary(Stubs(channel))
        assert outputs(other(run(other(plus()).executor_id))) == [[2.0, 3.0]]
        other.close()
    backend.gates[1].open()
    for call in calls:
        assert call.result(PATIENCE) == pb.SynchronizeStreamResponse()


def _retry_delay(error: grpc.RpcError) -> int:
    """Milliseconds in the google.rpc.RetryInfo."""
    call: Any = error
    metadata = dict(call.trailing_metadata())
    status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    retry = error_details_pb2.RetryInfo()
    assert any(detail.Unpack(retry) for detail in status.details)
    return retry.retry_delay.ToMilliseconds()
