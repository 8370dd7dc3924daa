"""Numbered batches: applied once, however often and over however many calls they come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from aclnn.errors import AclnnError, InvalidParameterError, SessionLostError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.sessions import batches
from tests.service.calling import Stubs, Submitting, submit
from tests.service.gated import PATIENCE, GatedBackend
from tests.service.requests import digit, passing, run

pytestmark = pytest.mark.usefixtures("submit_served")


@pytest.fixture
def client(stubs: Stubs, backend: GatedBackend) -> Iterator[Submitting]:
    """A client whose repeatable executor 1 appends the digit 4 to the number in buffer 1."""
    client = Submitting(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    client(digit(4, 1, executor=1, repeatable=True))
    yield client
    backend.gates.open_all()
    client.close()


APPEND = pb.Command(execute=run(1))
READ = pb.Command(read_buffer=pb.ReadBufferRequest(buffer_id=1, bytes=8))


def batch(
    client: Submitting, sequence: int, *commands: pb.Command, acknowledged: int = 0
) -> pb.SubmitRequest:
    """A numbered batch."""
    return pb.SubmitRequest(
        context_id=client.context_id,
        sequence=sequence,
        commands=commands or (APPEND, READ),
        acknowledged=acknowledged,
    )


def number_in(response: pb.SubmitResponse) -> int:
    """What the batch read."""
    return int(np.frombuffer(response.results[-1].read_buffer.data, np.int64)[0])


def stored(client: Submitting) -> int:
    """The number in buffer 1 now."""
    data = client(pb.ReadBufferRequest(buffer_id=1, bytes=8)).data
    return int(np.frombuffer(data, np.int64)[0])


def refused(client: Submitting, *requests: pb.SubmitRequest) -> AclnnError:
    """The error that ends a call of these batches."""
    with pytest.raises(AclnnError) as caught:
        submit(client.stubs, *requests)
    return caught.value


def test_the_number_comes_back(client: Submitting) -> None:
    requests = [batch(client, number) for number in (1, 2, 0, 3)]
    assert [response.sequence for response in submit(client.stubs, *requests)] == [1, 2, 0, 3]
    assert stored(client) == 4444


def test_a_repeat_is_not_applied_and_answers_what_the_first_did(client: Submitting) -> None:
    first = submit(client.stubs, *(batch(client, number) for number in (1, 2, 3)))
    assert [number_in(response) for response in first] == [4, 44, 444]
    client(pb.MemsetRequest(buffer_id=1, bytes=8))
    again = submit(client.stubs, *(batch(client, number) for number in (2, 3, 1, 3, 4)))
    assert again[:4] == [first[1], first[2], first[0], first[2]]
    assert number_in(again[4]) == 4
    assert stored(client) == 4


def test_failures_are_repeated_too(client: Submitting) -> None:
    free = pb.Command(free=pb.FreeRequest(buffer_id=2))
    first = submit(client.stubs, batch(client, 1, free))
    client(pb.MallocRequest(buffer_id=2, bytes=8))
    assert submit(client.stubs, batch(client, 1, free)) == first
    assert first[0].results[0].error.reason == "HANDLE_NOT_FOUND"
    assert client(pb.RenewContextRequest()).usage.buffers == 2


@pytest.mark.parametrize("number", [2, 3, 2**64 - 1])
def test_a_gap_is_refused_and_nothing_of_it_is_applied(client: Submitting, number: int) -> None:
    error = refused(client, batch(client, number))
    assert isinstance(error, InvalidParameterError)
    assert (error.code, error.parameter) == (161002, "sequence")
    assert f"sequence is {number}; the next batch is 1" in error.message
    assert stored(client) == 0
    assert len(submit(client.stubs, batch(client, 1))) == 1


def test_acknowledged_answers_are_forgotten_and_never_applied_again(client: Submitting) -> None:
    submit(client.stubs, *(batch(client, number) for number in (1, 2, 3)))
    submit(client.stubs, batch(client, 4, READ, acknowledged=2))
    for number in (1, 2):
        error = refused(client, batch(client, number))
        assert isinstance(error, SessionLostError)
        assert f"batch {number}" in error.message
    assert number_in(submit(client.stubs, batch(client, 3))[0]) == 444
    submit(client.stubs, batch(client, 5, READ, acknowledged=2**64 - 1))
    assert isinstance(refused(client, batch(client, 3)), SessionLostError)
    assert stored(client) == 444


def test_answers_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "KEPT_BYTES", 100)
    kept = batches.Batches(batches.KeptAnswers())
    for sequence in range(1, 20):
        assert kept.once(sequence, 0, lambda: b"x" * 40) == b"x" * 40
    assert kept.once(19, 0, bytes) == b"x" * 40
    assert kept.once(18, 0, bytes) == b"x" * 40
    with pytest.raises(SessionLostError):
        kept.once(17, 0, bytes)
    assert kept.once(20, 0, lambda: b"y" * 1000) == b"y" * 1000
    assert kept.once(20, 0, bytes) == b"y" * 1000


def test_batches_without_a_number_are_always_applied(client: Submitting) -> None:
    submit(client.stubs, *[batch(client, 0)] * 2)
    assert stored(client) == 44


def test_at_once_over_many_calls(client: Submitting) -> None:
    """Each call sends all of the batches; together they apply each once, in order."""
    barrier = threading.Barrier(6)

    def send(_: int) -> list[int]:
        barrier.wait(PATIENCE)
        responses = submit(client.stubs, *(batch(client, number) for number in range(1, 16)))
        return [number_in(response) for response in responses]

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(send, range(6)))
    assert answers == [[int("4" * number) for number in range(1, 16)]] * 6
    assert stored(client) == int("4" * 15)


def test_a_repeat_while_the_first_is_still_running(
    client: Submitting, stubs: Stubs, backend: GatedBackend
) -> None:
    """The client lost its connection in the middle of a batch, and goes on over another."""
    client(passing(1, executor=2))
    requests = [batch(client, 1, pb.Command(execute=run(2))), batch(client, 2)]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(submit, stubs, *requests)
        backend.gates[1].wait_entered()
        second = pool.submit(submit, stubs, *requests)
        with pytest.raises(TimeoutError):
            second.result(0.05)
        backend.gates[1].open()
        assert first.result(PATIENCE) == second.result(PATIENCE)
    assert backend.device.runs.count("aclnnPass") == 1
    assert stored(client) == 4
