"""The proxy itself: each fault comes at its byte and does what it says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.chaos.proxy import Fault, Proxy, Way
from tests.waiting import PATIENCE, until

DATA = bytes(range(256)) * 8


class Peer:
    """A server of one connection, in the test's hands."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"


@pytest.fixture
def ends() -> Iterator[tuple[Proxy, dict[Way, tuple[socket.socket, socket.socket]]]]:
    """A proxy with one connection; by way, the end that sends and the end that receives."""
    peer = Peer()
    with Proxy(peer.address) as proxy:
        host, _, port = proxy.address.rpartition(":")
        client = socket.create_connection((host, int(port)))
        server, _ = peer.listener.accept()
        for end in (client, server):
            end.settimeout(PATIENCE)
        yield proxy, {"up": (client, server), "down": (server, client)}
        for end in (client, server, peer.listener):
            end.close()


def received(end: socket.socket, count: int) -> bytes:
    """So many bytes, or as many as come before the end."""
    data = b""
    while len(data) < count and (more := end.recv(count - len(data))):
        data += more
    return data


WAYS = pytest.mark.parametrize("way", ["up", "down"])
Ends = tuple[Proxy, dict[Way, tuple[socket.socket, socket.socket]]]


@WAYS
@pytest.mark.parametrize("after", [0, 1, 700])
def test_a_cut_lets_exactly_so_many_bytes_pass(ends: Ends, way: Way, after: int) -> None:
    proxy, by_way = ends
    sender, receiver = by_way[way]
    proxy.plan(Fault("cut", way, after))
    sender.sendall(DATA)
    assert received(receiver, len(DATA)) == DATA[:after]
    assert sender.recv(1) == b""
    assert proxy.bytes[way] == after
    assert proxy.happened == [Fault("cut", way, 0)]


@WAYS
def test_a_reset_breaks_off_on_both_sides(ends: Ends, way: Way) -> None:
    proxy, by_way = ends
    sender, receiver = by_way[way]
    proxy.plan(Fault("reset", way, 100))
    sender.sendall(DATA)
    with pytest.raises(ConnectionResetError):
        received(receiver, len(DATA))
    with pytest.raises(ConnectionResetError):
        sender.recv(1)


@WAYS
def test_a_half_closed_connection_goes_on_the_other_way(ends: Ends, way: Way) -> None:
    proxy, by_way = ends
    sender, receiver = by_way[way]
    proxy.plan(Fault("half-close", way, 100))
    sender.sendall(DATA)
    assert received(receiver, len(DATA)) == DATA[:100]
    receiver.sendall(DATA)
    receiver.shutdown(socket.SHUT_WR)
    assert received(sender, 2 * len(DATA)) == DATA


@WAYS
@pytest.mark.parametrize("kind", ["delay", "throttle"])
def test_what_is_slow_arrives_whole(ends: Ends, way: Way, kind: str) -> None:
    proxy, by_way = ends
    sender, receiver = by_way[way]
    proxy.plan(*(Fault(kind, way, count) for count in (0, 5, 5, 1000)))  # type: ignore[arg-type]
    sender.sendall(DATA)
    assert received(receiver, len(DATA)) == DATA
    until(lambda: proxy.bytes[way] == len(DATA))


@WAYS
def test_a_stall_holds_the_bytes_until_it_is_released(ends: Ends, way: Way) -> None:
    proxy, by_way = ends
    sender, receiver = by_way[way]
    proxy.plan(Fault("stall", way, 10))
    sender.sendall(DATA)
    assert proxy.stalled.acquire(timeout=PATIENCE)
    assert received(receiver, 10) == DATA[:10]
    receiver.settimeout(0.05)
    with pytest.raises(TimeoutError):
        receiver.recv(1)
    receiver.settimeout(PATIENCE)
    proxy.release()
    assert received(receiver, len(DATA) - 10) == DATA[10:]


def test_faults_come_in_the_order_of_their_bytes_over_all_connections(ends: Ends) -> None:
    proxy, by_way = ends
    sender, receiver = by_way["up"]
    proxy.plan(Fault("cut", "up", 300), Fault("delay", "up", 200), Fault("cut", "up", 500))
    sender.sendall(DATA[:250])
    assert received(receiver, 250) == DATA[:250]
    sender.sendall(DATA[250:])
    assert received(receiver, len(DATA)) == DATA[250:300]
    assert [fault.kind for fault in proxy.happened] == ["delay", "cut"]
    assert proxy._plans["up"][0].after == 200


def test_no_thread_outlives_it() -> None:
    before = threading.active_count()
    peer = Peer()
    with Proxy(peer.address) as proxy:
        host, _, port = proxy.address.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            proxy.plan(Fault("stall", "up", 0))
            client.sendall(DATA)
            assert proxy.stalled.acquire(timeout=PATIENCE)
    peer.listener.close()
    until(lambda: threading.active_count() == before)
