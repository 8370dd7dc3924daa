"""Contexts end with their leases, and only then. Time is the test's; nothing sleeps."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from aclnn.errors import HandleNotFoundError, SessionLostError, StreamDestroyedError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from aclnn_server.sessions.context import Event
from aclnn_server.sessions.registry import Registry
from aclnn_server.sessions.streams import Work
from tests.service import requests
from tests.service.calling import DEADLINE, PROTOCOL, Stubs, Submitting, Unary
from tests.service.gated import PATIENCE, GatedBackend
from tests.service.queueing import blocking
from tests.service.queueing import queue as queue_up
from tests.service.requests import outputs, plus, run
from tests.sessions.conftest import Clock
from tests.sessions.driving import NOTHING, occupy, passing, totals
from tests.waiting import until

LEASE = 60.0


# --- in the sessions ------------------------------------------------------------------------------


def test_a_silent_context_ends_with_all_that_it_held(
    registry: Registry, clock: Clock, backend: GatedBackend
) -> None:
    context = registry.create_context(None, LEASE)
    other = registry.create_context(None, 2 * LEASE)
    context.add_buffer(1, 100)
    context.events.add(1, Event)
    session = registry.create_stream(context)
    passing(session, 0)
    clock.advance(LEASE)
    assert registry.reap() == 0  # the lease is over after its last moment
    clock.advance(0.001)
    assert registry.reap() == 1

    assert totals(registry) == NOTHING | {"contexts": 1, "streams": 1}
    assert backend.device.live_bytes == 0
    assert backend.device.live_streams == 1
    for find, handle in ((registry.context, context.id), (registry.session, session.id)):
        with pytest.raises(HandleNotFoundError):
            find(handle)
    assert registry.context(other.id) is other


@pytest.mark.parametrize("by", ["context", "session"])
def test_finding_it_renews_the_lease(registry: Registry, clock: Clock, by: str) -> None:
    context = registry.create_context(None, LEASE)
    for _ in range(5):
        clock.advance(LEASE)
        if by == "context":
            registry.context(context.id)
        else:
            registry.session(context.default_session.id)
        assert registry.reap() == 0
    clock.advance(LEASE + 1)
    assert registry.reap() == 1


def test_a_call_in_hand_keeps_it_and_its_end_renews_it(registry: Registry, clock: Clock) -> None:
    context = registry.create_context(None, LEASE)
    context.begin_call()
    context.begin_call()
    clock.advance(100 * LEASE)
    context.end_call()
    assert registry.reap() == 0
    clock.advance(100 * LEASE)
    context.end_call()
    assert registry.reap() == 0
    clock.advance(LEASE + 1)
    assert registry.reap() == 1


def test_a_lone_stream_ends_with_its_context(registry: Registry, clock: Clock) -> None:
    session = registry.create_lone_stream(LEASE)
    clock.advance(LEASE + 1)
    assert registry.reap() == 1
    with pytest.raises(HandleNotFoundError):
        registry.session(session.id)
    assert totals(registry) == NOTHING


def test_the_reaper_never_waits_for_a_kernel(
    registry: Registry, clock: Clock, backend: GatedBackend
) -> None:
    """The context takes no calls and drops its queue at once, and goes when its kernel has ended."""
    busy, idle = (registry.create_context(None, LEASE) for _ in range(2))
    occupy(busy, gate=1)
    backend.gates[1].wait_entered()
    session = busy.default_session
    work = Work(lambda: None)
    session.stream.enqueue(work, inline=False)
    clock.advance(LEASE + 1)

    assert registry.reap() == 1
    assert busy.closed
    assert idle.closed
    with pytest.raises(StreamDestroyedError):
        work.raise_failure()
    with pytest.raises(HandleNotFoundError):
        registry.context(busy.id)
    assert totals(registry)["contexts"] == 1  # what it holds is still there, and is told
    assert registry.reap() == 0
    backend.gates[1].open()
    session.stream.wait()
    session.stream.destroy()  # waits for the kernel
    assert registry.reap() == 1
    assert totals(registry) == NOTHING
    assert backend.device.live_bytes == 0


def test_ids_of_another_start_are_lost_and_nonsense_is_unknown(registry: Registry) -> None:
    context = registry.create_context(None, LEASE)
    secret = context.id.partition("-")[2]
    other = "0" * len(registry.epoch) if registry.epoch[0] != "0" else "1" * len(registry.epoch)
    for find in (registry.context, registry.session):
        with pytest.raises(SessionLostError, match="restart") as caught:
            find(f"{other}-{secret}")
        assert secret not in str(caught.value)
        for nonsense in ("", "x", f"{registry.epoch}-x", f"{registry.epoch}{secret}", f"-{secret}"):
            with pytest.raises(HandleNotFoundError):
                find(nonsense)


# --- through a server -----------------------------------------------------------------------------


@pytest.fixture
def server(backend: GatedBackend, clock: Clock) -> Iterator[Server]:
    """A server on the test's clock. Its own reaper is as slow as can be; the test calls it."""
    config = ServerConfig(listen="127.0.0.1:0", lease_seconds=LEASE)
    with Server(config, backend=backend, clock=clock) as server:
        yield server
        backend.gates.open_all()


@pytest.fixture
def stubs(server: Server) -> Iterator[Stubs]:
    """A connection to it."""
    with grpc.insecure_channel(server.address) as channel:
        yield Stubs(channel)


def left(server: Server) -> int:
    """Contexts after the leases were looked at; the server's own thread may have been first."""
    server.registry.reap()
    return server.registry.usage.contexts


def test_any_call_renews(server: Server, stubs: Stubs, clock: Clock) -> None:
    client = Unary(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    for request in (
        pb.RenewContextRequest(),
        pb.ReadBufferRequest(buffer_id=1, bytes=1),
        pb.WriteBufferRequest(buffer_id=1, data=b"1"),
        pb.QueryStreamRequest(),
        pb.SynchronizeStreamRequest(),
        plus(executor=1),
        run(1),
        pb.FreeRequest(buffer_id=1),
    ):
        clock.advance(LEASE)
        client(request)
        assert left(server) == 1
    clock.advance(LEASE + 1)
    assert left(server) == 0


def test_a_call_that_takes_longer_than_the_lease(
    server: Server, stubs: Stubs, clock: Clock, backend: GatedBackend
) -> None:
    """Whoever waits for an answer is not silent."""
    client = Unary(stubs)
    executor = client(requests.passing(1)).executor_id
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client, run(executor))
        backend.gates[1].wait_entered()
        clock.advance(10 * LEASE)
        assert left(server) == 1
        backend.gates[1].open()
        assert outputs(answer.result(PATIENCE)) == [[7.0, 8.0]]
    assert client(pb.RenewContextRequest()).usage.contexts == 1


def test_an_open_submit_call_keeps_it_and_its_end_does_not_end_it(
    server: Server, stubs: Stubs, clock: Clock
) -> None:
    client = Submitting(stubs)
    clock.advance(10 * LEASE)
    assert left(server) == 1
    assert outputs(client.batch([plus(executor=1), run(1)])[1]) == [[2.0, 3.0]]

    context = server.registry.context(client.context_id)
    client.hang_up()
    for _ in range(10_000):
        if not context._open_calls:
            break
        stubs.usage()
    clock.advance(LEASE)
    assert left(server) == 1
    clock.advance(LEASE)
    assert left(server) == 0


def test_work_does_not_outlive_its_client(
    server: Server, stubs: Stubs, clock: Clock, backend: GatedBackend
) -> None:
    """The client dies while it waits for a long queue: when its lease is over, the queue is dropped."""
    client = Submitting(stubs)
    client(pb.MallocRequest(buffer_id=2, bytes=2**21))
    for gate in (1, 2, 3):
        queue_up(client, blocking(gate))
    backend.gates[1].wait_entered()
    client.send(pb.SynchronizeStreamRequest())
    context = server.registry.context(client.context_id)
    until(lambda: server._service.in_hand.count == 1)
    clock.advance(10 * LEASE)
    assert left(server) == 1  # it is there, and waits

    client.hang_up()
    until(lambda: not context._open_calls)
    clock.advance(LEASE)
    assert left(server) == 1
    clock.advance(1)
    assert left(server) == 1  # until its kernel has ended
    assert context.closed
    backend.gates[1].open()
    until(lambda: left(server) == 0)
    until(lambda: server._service.in_hand.count == 0)
    assert backend.device.runs == ["aclnnPass"]
    backend.check_clean()


@pytest.mark.parametrize("end", ["the lease", "DestroyContext"])
@pytest.mark.parametrize("way", ["a write", "a read"])
def test_a_client_that_stalls_in_the_middle_of(
    server: Server, stubs: Stubs, clock: Clock, backend: GatedBackend, way: str, end: str
) -> None:
    """It is silent: the transfer ends with the context, and gives its thread and the memory back."""
    client = Unary(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=2**25))
    context = server.registry.context(client.context_id)
    call = stalled_write(client) if way == "a write" else stalled_read(client)
    until(lambda: context._interrupts)
    if end == "the lease":
        clock.advance(LEASE + 1)
        assert left(server) == 0
    else:
        client.close()
    until(lambda: server._service.in_hand.count == 0)
    backend.check_clean()
    if way == "a read":  # the end comes after the bytes that have come
        with pytest.raises(grpc.RpcError):
            list(call)
    assert call.code() is grpc.StatusCode.CANCELLED
    assert context._open_calls == 0


def stalled_write(client: Unary) -> Any:  # noqa: ANN401 - a call of gRPC's
    """A write of which the second half never comes."""
    half = pb.WriteBufferRequest(
        context_id=client.context_id, buffer_id=1, total_bytes=2**21, data=bytes(2**20)
    )
    never = threading.Event()

    def chunks() -> Iterator[pb.WriteBufferRequest]:
        yield half
        never.wait(PATIENCE)

    write: Any = client.stubs.device.WriteBuffer
    call = write.future(chunks(), timeout=DEADLINE)
    call.add_done_callback(lambda _: never.set())
    return call


def stalled_read(client: Unary) -> Any:  # noqa: ANN401 - a call of gRPC's
    """A read whose bytes nobody takes: more than fit on the way."""
    request = pb.ReadBufferRequest(context_id=client.context_id, buffer_id=1, bytes=2**25)
    return client.stubs.device.ReadBuffer(request, timeout=DEADLINE)


def test_each_chunk_renews_the_lease(server: Server, stubs: Stubs, clock: Clock) -> None:
    client = Unary(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    sent: queue.SimpleQueue[pb.WriteBufferRequest | None] = queue.SimpleQueue()
    chunk = pb.WriteBufferRequest(
        context_id=client.context_id, buffer_id=1, total_bytes=8, data=b"12"
    )
    write: Any = stubs.device.WriteBuffer
    call = write.future(iter(sent.get, None), timeout=DEADLINE)
    context = server.registry.context(client.context_id)
    for _ in range(4):
        clock.advance(LEASE)
        assert left(server) == 1
        sent.put(chunk)
        until(lambda: context._seen == clock.now and context._interrupts)
    sent.put(None)
    call.result(PATIENCE)
    assert client(pb.ReadBufferRequest(buffer_id=1, bytes=8)).data == b"12" * 4


def test_the_lease_may_be_shorter_than_the_servers_and_not_longer(stubs: Stubs) -> None:
    for asked, given in ((10_000, 10_000), (3_600_000, 60_000), (1, 1)):
        request = pb.CreateContextRequest(protocol_version=PROTOCOL)
        request.lease.FromMilliseconds(asked)
        assert stubs.device.CreateContext(request).lease.ToMilliseconds() == given
    created = stubs.device.CreateContext(pb.CreateContextRequest(protocol_version=PROTOCOL))
    assert created.lease.ToMilliseconds() == 60_000


def test_after_a_restart_the_session_is_lost(backend: GatedBackend, stubs: Stubs) -> None:
    client = Unary(stubs)
    other = GatedBackend()
    with (
        Server(ServerConfig(listen="127.0.0.1:0"), backend=other) as restarted,
        grpc.insecure_channel(restarted.address) as channel,
    ):
        moved = Stubs(channel)
        for request in (
            pb.RenewContextRequest(context_id=client.context_id),
            pb.MallocRequest(context_id=client.context_id, bytes=1),
            run(1, stream=client.stream_id),
        ):
            with pytest.raises(SessionLostError):
                moved.unary(request)
    other.check_clean()
