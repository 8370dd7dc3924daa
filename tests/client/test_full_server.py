"""A server that has no room for one more open call: the client asks again, and says when it is in vain."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import grpc
import pytest

from aclnn.errors import AclnnError, LimitExceededError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client import aio, connect, requests
from aclnn_client.pending import run
from aclnn_client.submit_call import open_call
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.client.submit_server import (
    PATIENCE,
    SubmitServer,
    answer_all,
    ask,
    malloc,
    number,
)


class Full:
    """Refuses so many calls, then answers."""

    def __init__(self, refusals: int, error: AclnnError) -> None:
        self.refused = 0
        self._refusals = refusals
        self._error = error

    def __call__(self, request: pb.SubmitRequest) -> pb.SubmitResponse | AclnnError:
        if self.refused < self._refusals:
            self.refused += 1
            return self._error
        return answer_all(request)


def test_a_call_that_is_refused_is_opened_again(way: str) -> None:
    full = Full(3, LimitExceededError("2 open Submit calls", retry_after_ms=20))
    with SubmitServer(full) as server:
        submitter = server.submitter(way)
        begin = time.monotonic()
        commands = [malloc(n) for n in (1, 2, 3)]
        for command in commands:
            submitter.submit([command])
        assert [number(command) for command in commands] == [1, 2, 3]
        assert time.monotonic() - begin >= 3 * requests.PAUSE_SECONDS
        assert full.refused == 3
        numbers = [request.sequence for request in server.requests]
        assert numbers == [1, 1, 1, *range(1, len(numbers) - 2)]
        submitter.close()


@pytest.mark.parametrize("timeout", [1.5, None])
def test_it_is_given_up_after_the_time_limit(
    way: str, timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aclnn_client.submit.RESUME_SECONDS", 1.5)
    full = Full(10**9, LimitExceededError("2 open Submit calls", retry_after_ms=300))
    with SubmitServer(full) as server:
        submitter = server.submitter(way, timeout)
        with pytest.raises(LimitExceededError, match="2 open Submit calls") as caught:
            run(ask(submitter, malloc(1)))
        assert caught.value.retry_after_ms == 300
        assert full.refused >= 2
        submitter.close()


def test_the_server_s_hint_is_followed(way: str) -> None:
    full = Full(1, LimitExceededError("2 open Submit calls", retry_after_ms=300))
    with SubmitServer(full) as server:
        submitter = server.submitter(way)
        begin = time.monotonic()
        run(ask(submitter, malloc(1)))
        assert time.monotonic() - begin >= 0.3
        submitter.close()


@pytest.mark.parametrize(
    "error",
    [
        LimitExceededError("the request is too large"),
        LimitExceededError("the server is full for an hour", retry_after_ms=3_600_000),
    ],
)
def test_what_waiting_does_not_help_is_told_at_once(way: str, error: LimitExceededError) -> None:
    full = Full(10**9, error)
    with SubmitServer(full) as server:
        submitter = server.submitter(way)
        with pytest.raises(LimitExceededError, match=error.message):
            run(ask(submitter, malloc(1)))
        assert full.refused == 1
        submitter.close()


def test_a_refusal_that_is_grpc_s_own(way: str) -> None:
    """Of a server whose calls are all in use: it says so without a hint, and before our code is asked."""
    with SubmitServer() as server:
        busy = server.submitter(way)
        run(ask(busy, malloc(1)))
        server._grpc._state.maximum_concurrent_rpcs = 1  # type: ignore[attr-defined]
        waiting = server.submitter(way)
        command = malloc(2)
        waiting.submit([command])
        threading.Timer(0.2, busy.close).start()
        assert number(command) == 2
        waiting.close()
        assert busy.closed


# --- against the server itself ----------------------------------------------------------------------


@pytest.fixture
def small() -> Iterator[Server]:
    """A server with one open call."""
    with Server(ServerConfig(listen="127.0.0.1:0", max_submit_calls=1)) as server:
        yield server


def test_a_client_waits_for_another_s_call_to_end(small: Server) -> None:
    first = connect(small.address)
    assert first.tensor([1]).numpy().tolist() == [1]
    with connect(small.address, timeout=PATIENCE) as second:
        threading.Timer(0.2, first.close).start()
        assert second.tensor([2]).numpy().tolist() == [2]


def test_a_client_that_has_no_time_is_told(small: Server) -> None:
    with connect(small.address) as first:
        first.tensor([1]).numpy()
        with connect(small.address, timeout=0.4) as second:
            with pytest.raises(LimitExceededError, match="1 open Submit calls") as caught:
                second.tensor([2]).numpy()
            assert caught.value.code == 207012
        assert first.tensor([3]).numpy().tolist() == [3]


@pytest.mark.asyncio
async def test_asyncio_programs_wait_too(small: Server) -> None:
    first = connect(small.address)
    first.tensor([1]).numpy()
    async with aio.connect(small.address) as second:
        threading.Timer(0.2, first.close).start()
        tensor = await second.tensor([2])
        assert (await tensor.numpy()).tolist() == [2]


def test_every_refusal_of_one_more_call_is_recognised(small: Server) -> None:
    """The words that gRPC's own refusal is known by are those that it is translated to."""
    with grpc.insecure_channel(small.address) as channel:
        small._grpc._state.maximum_concurrent_rpcs = 0  # type: ignore[attr-defined]
        call = open_call(channel, (), timed=True)
        end = call.next(PATIENCE)
        while not isinstance(end, AclnnError):
            end = call.next(PATIENCE)
    assert isinstance(end, LimitExceededError)
    assert requests._FULL in end.message
