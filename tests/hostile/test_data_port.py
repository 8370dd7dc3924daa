"""Random and damaged bytes at the port of data connections: the server ends them, and serves the next one."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterable

import pytest

from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.cli.server_process import ServerProcess
from tests.held import Held, settled
from tests.hostile import length
from tests.hostile.messages import damaged
from tests.service.calling import Stubs, Submitting, Unary
from tests.service.transferring import CREATE, READ, WRITE, Transferring, asking, dialled

pytestmark = pytest.mark.timeout(120 + 2 * length.LONG_SECONDS)

ROUNDS = 60
"""Connections in the short form."""
BUFFER_BYTES = 1 << 16
IDS = (0, 1, 1, 1, 2, 3, 2**32, 2**64 - 1)
SIZES = (0, 1, 64, BUFFER_BYTES, BUFFER_BYTES + 1, 2**20, 2**34, 2**62, 2**63, 2**64 - 1)
SENT_BYTES = 1 << 21
"""Bytes that are sent of a write, at most, whatever it has announced."""


def transfer(choose: random.Random) -> bytes:
    """A transfer with odd numbers, and bytes that are as many as it says, or not."""
    direction = choose.choice((WRITE, READ, CREATE))
    size = choose.choice(SIZES)
    head = asking(direction, choose.choice(IDS), choose.choice((0, 0, 0, *SIZES)), size)
    if direction == READ:
        return damaged(head, choose)
    sent = min(choose.choice((size, size, size, size // 2, size + 5)), SENT_BYTES)
    return damaged(head, choose) + bytes(sent)


def send(offer: pb.AttachDataConnectionResponse, choose: random.Random) -> None:
    """Makes one connection, says what may be wrong, and waits until the server has ended it."""
    with dialled(offer.port) as connection:
        said = offer.secret if choose.random() < 0.9 else damaged(offer.secret, choose)
        said += b"".join(transfer(choose) for _ in range(choose.randint(0, 5)))
        with contextlib.suppress(OSError):  # the server has ended it
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(1 << 16):
                pass


def connections(stubs: Stubs, seeds: Iterable[int]) -> None:
    """Connections of a context, and one that is right after each."""
    client = Submitting(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=BUFFER_BYTES))
    for seed in seeds:
        choose = random.Random(seed)
        try:
            send(client(pb.AttachDataConnectionRequest()), choose)
            with Transferring(client(pb.AttachDataConnectionRequest())) as right:
                assert right.write(1, b"right")
                assert right.read(1, 5) == b"right"
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    client.close()


def test_whatever_comes_the_next_connection_is_served(stubs: Stubs) -> None:
    connections(stubs, length.seeds(ROUNDS))


def test_nothing_stays(stubs: Stubs, process: ServerProcess) -> None:
    Unary(stubs).close()
    files = Held.by(process._process.pid).files + 1  # the connection that asks what is left
    connections(stubs, range(ROUNDS, ROUNDS + 20))
    settled(process.address, process._process.pid, files)
