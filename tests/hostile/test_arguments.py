"""Random arguments for every operator: each call is made or refused, in bounded time, and that is all."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator

import pytest
from google.protobuf.message import Message

from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn_server.cli.server_process import ServerProcess
from aclnn_server.operators.catalogue import operators
from tests.held import Held, check_flat
from tests.hostile import arguments, length
from tests.hostile.judging import check_in_band
from tests.service.calling import Stubs, Submitting
from tests.service.requests import floats, outputs, plan, run, tensor

pytestmark = pytest.mark.timeout(120 + 2 * length.LONG_SECONDS)

ROUNDS = 1
"""Batches of each operator in the short form."""
BATCH = 8
SLOW_SECONDS = 50.0
AGAIN = 1
"""Rounds between the two moments whose memory is compared."""
TOLERATED_BYTES = 2 << 20
"""Growth of the resident memory: a leak of 800 bytes with each of 3,000 calls is more."""


@pytest.fixture
def client(stubs: Stubs) -> Iterator[Submitting]:
    """A context with a buffer."""
    client = Submitting(stubs)
    client(pb.MallocRequest(buffer_id=arguments.BUFFER, bytes=arguments.BUFFER_BYTES))
    yield client
    client.close()


def case(name: str, seed: int, changes: int | None = None) -> op.GetWorkspaceSizeRequest:
    """One call; with fewer `changes` it is the same one, spoilt in fewer places."""
    choose = random.Random(f"{name} {seed}")
    request = arguments.call_of(operators()[name], choose)
    wanted = choose.choice((1, 1, 2, 3))
    arguments.spoil(request, choose, wanted if changes is None else changes)
    return request


def check(client: Submitting, name: str, seed: int) -> None:
    """Makes a few calls in one batch, both phases of each, and checks all that comes back."""
    requests: list[Message] = []
    for place in range(BATCH):
        planned = case(name, seed * BATCH + place)
        planned.executor_id = place + 1
        requests += planned, run(place + 1)
    begin = time.monotonic()
    client.send(*requests)
    results = next(client._responses).results
    took = time.monotonic() - begin
    assert took < SLOW_SECONDS, f"{name}, seed {seed}: {took:.1f} seconds"
    for request, result in zip(requests, results, strict=True):
        if result.HasField("error"):
            try:
                check_in_band(result.error, str(request))
            except AssertionError as error:
                pytest.fail(f"{name}, seed {seed}: {error}\n{str(request)[:4000]}")
    client.batch([op.DestroyExecutorRequest(executor_id=n + 1) for n in range(BATCH)])


def check_good_call(client: Submitting) -> None:
    """Makes a call that is right, and checks its result."""
    request = plan("aclnnAbs", floats(-3, 2), tensor([2]), executor=1)
    assert outputs(client.batch([request, run(1)])[1]) == [[3.0, 2.0]]


def rounds(client: Submitting, seeds: Iterable[int]) -> None:
    """Batches for every operator, and a call that is right after each round."""
    for seed in seeds:
        for name in sorted(operators()):
            check(client, name, seed)
        check_good_call(client)


def test_every_call_is_made_or_refused(client: Submitting) -> None:
    rounds(client, length.seeds(ROUNDS))


def test_calls_leave_nothing_behind(client: Submitting, process: ServerProcess) -> None:
    """The same calls again, so that nothing new is worth keeping."""
    rounds(client, (0,))
    before, usage = Held.by(process._process.pid), client.usage()
    rounds(client, (0,) * AGAIN)
    check_flat(before, Held.by(process._process.pid), TOLERATED_BYTES)
    assert client.usage() == usage
