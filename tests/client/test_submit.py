"""The engine: order, batches, leaders and followers, limits, and every way in which a call can end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import grpc
import numpy as np
import pytest

from aclnn.errors import (
    AclnnError,
    HandleNotFoundError,
    InternalError,
    LimitExceededError,
    ServerUnavailable,
    SessionLostError,
)
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client import submit
from aclnn_client.pending import Pending, run
from aclnn_client.submit import Submitter
from aclnn_client.submit_call import DirectCall, PublicCall, open_call
from tests.client.submit_server import (
    PATIENCE,
    SubmitServer,
    answer_all,
    ask,
    malloc,
    number,
)


@pytest.fixture
def server() -> Iterator[SubmitServer]:
    """A server that answers everything."""
    with SubmitServer() as server:
        yield server


@pytest.fixture
def submitter(server: SubmitServer, way: str) -> Iterator[Submitter]:
    """An engine that is closed at the end."""
    submitter = server.submitter(way)
    yield submitter
    server.gate.set()
    submitter.close()


# --- requests ---------------------------------------------------------------------------------------


def test_commands_submitted_together_are_one_request(
    server: SubmitServer, submitter: Submitter
) -> None:
    commands = [malloc(n) for n in range(1, 6)]
    submitter.submit(commands)
    assert [number(pending) for pending in reversed(commands)] == [5, 4, 3, 2, 1]
    assert submitter.requests_sent == 1
    assert submitter.responses_waited == 1
    assert [len(request.commands) for request in server.requests] == [5]


def test_requests_are_numbered_and_the_first_names_the_context(
    server: SubmitServer, submitter: Submitter
) -> None:
    for n in range(1, 4):
        assert run(ask(submitter, malloc(n))) == n
    sent = [(request.sequence, request.context_id) for request in server.requests]
    assert sent == [(1, "context-1"), (2, ""), (3, "")]
    assert server.metadata[0]["who"] == "me"
    assert submitter.responses_waited == 3


def test_large_commands_travel_alone(server: SubmitServer, submitter: Submitter) -> None:
    half = memoryview(bytes(600 << 10))
    writes = [Pending("write_buffer", pb.WriteBufferRequest(buffer_id=1), half) for _ in range(3)]
    submitter.submit([*writes, malloc(1), malloc(2)])
    run(ask(submitter, malloc(3)))
    sizes = [[command.WhichOneof("command") for command in r.commands] for r in server.requests]
    assert sizes[:3] == [["write_buffer"], ["write_buffer"], ["write_buffer", "malloc", "malloc"]]


def test_commands_with_large_answers_travel_alone(
    server: SubmitServer, submitter: Submitter
) -> None:
    into = np.zeros((4, 700 << 10), np.uint8)
    reads = [
        Pending(
            "read_buffer", pb.ReadBufferRequest(buffer_id=n, bytes=700 << 10), into=into[n].data
        )
        for n in range(4)
    ]
    submitter.submit(reads)
    for pending in reads:
        pending.wait()
        pending.result()
    assert [len(request.commands) for request in server.requests] == [1, 1, 1, 1]
    assert (into == np.arange(4)[:, None]).all()


def test_small_reads_land_where_they_should(submitter: Submitter) -> None:
    into = bytearray(10)
    read = Pending(
        "read_buffer", pb.ReadBufferRequest(buffer_id=7, bytes=4), into=memoryview(into)[3:7]
    )
    submitter.submit([read])
    read.wait()
    assert into == b"\0\0\0\7\7\7\7\0\0\0"


def test_a_read_of_another_length_is_an_error(submitter: Submitter) -> None:
    read = Pending("read_buffer", pb.ReadBufferRequest(bytes=5), into=memoryview(bytearray(6)))
    submitter.submit([read])
    read.wait()
    with pytest.raises(InternalError, match="asked for 6 bytes, and got 5"):
        read.result()


# --- failures of commands ---------------------------------------------------------------------------


def test_a_failure_is_the_commands_own(submitter: Submitter) -> None:
    commands = [malloc(1), malloc(13), malloc(2)]
    submitter.submit(commands)
    assert number(commands[2]) == 2
    assert number(commands[0]) == 1
    with pytest.raises(AclnnError, match="unlucky"):
        number(commands[1])


def test_a_failure_that_nobody_waits_for_is_told(submitter: Submitter) -> None:
    told: list[AclnnError | None] = []
    request = pb.MallocRequest(buffer_id=13)
    quiet = Pending("malloc", request, on_error=lambda pending: told.append(pending.error))
    submitter.submit([quiet])
    assert run(ask(submitter, malloc(1))) == 1
    assert [str(error) for error in told] == [str(AclnnError("unlucky"))]
    assert quiet.result() is None


def test_an_empty_result_is_an_error(way: str) -> None:
    with SubmitServer(lambda r: pb.SubmitResponse(sequence=1, results=[pb.Result()])) as server:
        submitter = server.submitter(way)
        with pytest.raises(InternalError, match="answer is empty"):
            run(ask(submitter, malloc(1)))
        submitter.close()


# --- threads ----------------------------------------------------------------------------------------


def test_many_threads_get_each_their_own_answers(
    server: SubmitServer, submitter: Submitter
) -> None:
    def work(thread: int) -> list[int]:
        numbers = range(1000 * thread + 14, 1000 * thread + 114)
        return [run(ask(submitter, malloc(n))) - n for n in numbers]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [[0] * 100] * 8
    assert [request.sequence for request in server.requests] == list(
        range(1, len(server.requests) + 1)
    )


def test_the_leader_hands_out_the_answers_of_others(
    server: SubmitServer, submitter: Submitter
) -> None:
    server.gate.clear()
    first, second, third = malloc(1), malloc(2), malloc(3)
    submitter.submit([first, second])
    submitter.submit([third])
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda p=pending: results.append(number(p)))
        for pending in (third, first, second)
    ]
    for thread in threads:
        thread.start()
    assert server.arrived.acquire(timeout=PATIENCE)
    server.gate.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(results) == [1, 2, 3]


def test_two_threads_wait_for_the_same_result(server: SubmitServer, submitter: Submitter) -> None:
    server.gate.clear()
    pending = malloc(5)
    submitter.submit([pending])
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(number, pending) for _ in range(3)]
        assert server.arrived.acquire(timeout=PATIENCE)
        server.gate.set()
        assert [future.result(PATIENCE) for future in waiting] == [5, 5, 5]


def test_callbacks_are_called_once_the_result_is_there(
    server: SubmitServer, submitter: Submitter
) -> None:
    server.gate.clear()
    submitter.start_reader()
    pending, done = malloc(4), threading.Event()
    submitter.submit([pending])
    pending.call_back(done.set)
    assert server.arrived.acquire(timeout=PATIENCE)
    assert not done.is_set()
    server.gate.set()
    assert done.wait(PATIENCE)
    again = threading.Event()
    pending.call_back(again.set)
    assert again.is_set()


# --- limits -----------------------------------------------------------------------------------------


def test_too_many_commands_under_way_are_congestion(
    server: SubmitServer, submitter: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "MAX_OUTSTANDING", 10)
    server.gate.clear()
    commands = [malloc(n) for n in range(20, 31)]
    submitter.submit(commands[:10])
    assert submitter.congestion() is None
    submitter.submit(commands[10:])
    middle = submitter.congestion()
    assert middle is commands[5]
    server.gate.set()
    middle.wait()
    assert submitter.congestion() is None


def test_too_many_bytes_under_way_are_congestion(
    submitter: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "MAX_OUTSTANDING_BYTES", 1000)
    large = Pending("write_buffer", pb.WriteBufferRequest(), bytes(1001))
    submitter.submit([large])
    assert submitter.congestion() is large
    large.wait()
    assert submitter.congestion() is None


# --- the end ----------------------------------------------------------------------------------------


def test_a_server_that_goes_fails_everything_under_way(
    server: SubmitServer, submitter: Submitter
) -> None:
    server.gate.clear()
    commands = [malloc(n) for n in range(5)]
    for pending in commands:
        submitter.submit([pending])
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(number, pending) for pending in commands]
        assert server.arrived.acquire(timeout=PATIENCE)
        server.stop()
        errors = [future.exception(PATIENCE) for future in waiting]
    assert {type(error) for error in errors} == {ServerUnavailable}
    assert len({id(error) for error in errors}) == 5
    with pytest.raises(ServerUnavailable):
        submitter.submit([malloc(1)])
    assert submitter.closed


def test_nobody_there_fails_the_first_command(way: str) -> None:
    with SubmitServer() as server:
        submitter = server.submitter(way)
        server.stop()
        with pytest.raises(ServerUnavailable):
            run(ask(submitter, malloc(1)))
        submitter.close()


def test_the_servers_reason_is_kept(way: str) -> None:
    error = SessionLostError("the server restarted", parameter="context_id")
    with SubmitServer(lambda request: error) as server:
        submitter = server.submitter(way)
        with pytest.raises(SessionLostError, match="the server restarted") as caught:
            run(ask(submitter, malloc(1)))
        assert caught.value.parameter == "context_id"
        submitter.close()


def test_a_server_that_has_too_much_to_do_is_asked_again(way: str) -> None:
    """When it has said that it may be, and as soon."""
    refusals = [LimitExceededError("too many open calls", retry_after_ms=20)] * 3

    def respond(request: pb.SubmitRequest) -> pb.SubmitResponse | AclnnError:
        return refusals.pop() if refusals else answer_all(request)

    with SubmitServer(respond) as server:
        submitter = server.submitter(way)
        begin = time.monotonic()
        assert run(ask(submitter, malloc(1))) == 1
        assert time.monotonic() - begin >= 3 * 0.02
        assert len(server.requests) == 4
        submitter.close()


def test_a_refusal_that_time_does_not_change_is_told(way: str) -> None:
    with SubmitServer(lambda request: LimitExceededError("too many")) as server:
        submitter = server.submitter(way)
        with pytest.raises(LimitExceededError, match="too many"):
            run(ask(submitter, malloc(1)))
        assert len(server.requests) == 1
        submitter.close()


def test_closing_fails_what_is_under_way(server: SubmitServer, submitter: Submitter) -> None:
    server.gate.clear()
    pending = malloc(1)
    submitter.submit([pending])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(number, pending)
        assert server.arrived.acquire(timeout=PATIENCE)
        submitter.close()
        error = waiting.exception(PATIENCE)
    assert isinstance(error, HandleNotFoundError)
    assert "the context is closed" in str(error)
    with pytest.raises(HandleNotFoundError, match="the context is closed"):
        submitter.submit([malloc(1)])


@pytest.mark.parametrize(
    ("refusal", "anew"),
    [
        (ServerUnavailable("broken"), True),
        (LimitExceededError("full", retry_after_ms=1), False),
    ],
    ids=["broken", "full"],
)
def test_what_a_broken_connection_left_goes_over_another_one(
    way: str, refusal: AclnnError, anew: bool
) -> None:
    refusals = [refusal]
    with SubmitServer(lambda r: refusals.pop() if refusals else answer_all(r)) as server:
        submitter = server.submitter(way)
        assert run(ask(submitter, malloc(1))) == 1
        assert server.anew == [False, anew]
        submitter.close()


def test_closing_what_was_never_opened_and_twice(submitter: Submitter) -> None:
    submitter.close()
    submitter.close()
    with pytest.raises(HandleNotFoundError):
        submitter.submit([malloc(1)])


@pytest.mark.parametrize(
    "respond",
    [
        lambda r: pb.SubmitResponse(results=[*answer_all(r).results] * 2),
        lambda r: pb.SubmitResponse(
            results=[pb.Result(read_buffer=pb.ReadBufferResponse(data=bytes(20_000)))] * 9
        ),
    ],
    ids=["small", "large"],
)
def test_more_answers_than_questions_end_the_call(way: str, respond: object) -> None:
    with SubmitServer(respond) as server:  # type: ignore[arg-type]
        submitter = server.submitter(way)
        submitter.submit([malloc(1), malloc(2)])
        submitter.wait(submitter._end)
        with pytest.raises(InternalError, match="do not fit"):
            submitter.submit([malloc(3)])
        submitter.close()


def test_a_wait_ends_with_its_time_limit(server: SubmitServer) -> None:
    submitter = server.submitter("public", timeout=0.05)
    server.gate.clear()
    first, second = malloc(1), malloc(2)
    submitter.submit([first, second])
    with ThreadPoolExecutor(2) as pool:
        errors = [pool.submit(pending.wait).exception(PATIENCE) for pending in (first, second)]
    for error in errors:
        assert isinstance(error, ServerUnavailable)
        assert "no answer within 0.05 seconds" in str(error)
    server.gate.set()
    patient = Pending("malloc", pb.MallocRequest(buffer_id=3), patience=PATIENCE)
    assert run(ask(submitter, patient)) == 3
    assert first.done
    assert second.done
    submitter.close()


def test_a_server_that_ends_the_call_ends_the_context(way: str) -> None:
    with SubmitServer(lambda request: None) as server:
        submitter = server.submitter(way)
        with pytest.raises(ServerUnavailable, match="the server ended the call"):
            run(ask(submitter, malloc(1)))
        submitter.close()


def test_a_follower_stops_at_its_own_limit(server: SubmitServer) -> None:
    submitter = server.submitter("public", timeout=0.05)
    server.gate.clear()
    patient = Pending("malloc", pb.MallocRequest(buffer_id=1), patience=PATIENCE)
    hasty = malloc(2)
    submitter.submit([patient, hasty])
    with ThreadPoolExecutor(1) as pool:
        leading = pool.submit(number, patient)
        while not submitter.responses_waited:
            os.sched_yield()
        with pytest.raises(ServerUnavailable, match="no answer within"):
            hasty.wait()
        server.gate.set()
        assert leading.result(PATIENCE) == 1
    assert hasty.done
    submitter.close()


# --- the two ways -----------------------------------------------------------------------------------


def test_without_grpcs_inner_call_the_public_one_is_used(server: SubmitServer) -> None:
    with grpc.insecure_channel(server.address) as channel:
        without = SimpleNamespace(stream_stream=channel.stream_stream)
        assert isinstance(open_call(channel, (), timed=False), DirectCall)
        assert isinstance(open_call(channel, (), timed=True), PublicCall)
        call = open_call(without, (), timed=False)  # type: ignore[arg-type]
        assert isinstance(call, PublicCall)
        submitter = Submitter(lambda *, anew: call, "context-1")
        assert run(ask(submitter, malloc(8))) == 8
        submitter.close()
