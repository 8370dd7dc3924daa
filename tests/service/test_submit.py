"""The Submit call itself: batches, what it refuses, and what becomes of the context when it breaks off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from aclnn.errors import (
    AclnnError,
    ExecutionFailedError,
    HandleNotFoundError,
    InvalidParameterError,
    SessionLostError,
)
from aclnn.v1 import device_service_pb2 as pb
from tests.service.calling import (
    DEADLINE,
    Stubs,
    Submitting,
    Unary,
    checked,
    code_of,
    submit,
)
from tests.service.gated import GatedBackend
from tests.service.requests import INT64, digit, number, outputs, plan, plus, run, tensor

pytestmark = pytest.mark.usefixtures("submit_served")


@pytest.fixture
def client(stubs: Stubs, backend: GatedBackend) -> Iterator[Submitting]:
    """A client with an open Submit call."""
    client = Submitting(stubs)
    yield client
    backend.gates.open_all()
    client.close()
    assert set(stubs.usage().values()) == {0}


def batch(client: Submitting, *commands: pb.Command, context_id: str = "") -> pb.SubmitRequest:
    """A request of these commands."""
    return pb.SubmitRequest(context_id=context_id or client.context_id, commands=commands)


def stored(client: Submitting) -> int:
    """The number in buffer 1."""
    data = client(pb.ReadBufferRequest(buffer_id=1, bytes=8)).data
    return int(np.frombuffer(data, np.int64)[0])


# --- batches --------------------------------------------------------------------------------------


def test_a_batch_is_answered_by_one_response_with_a_result_per_command(client: Submitting) -> None:
    for count in (0, 1, 2, 100):
        results = client.batch([pb.MallocRequest(bytes=8)] * count)
        assert len({result.buffer_id for result in results}) == count


def test_commands_are_applied_in_order(client: Submitting) -> None:
    results = client.batch(
        [
            pb.MallocRequest(buffer_id=1, bytes=8),
            pb.WriteBufferRequest(buffer_id=1, data=np.int64(1).tobytes()),
            digit(2, 1, executor=1),
            run(1),
            pb.ReadBufferRequest(buffer_id=1, bytes=8),
            pb.MemsetRequest(buffer_id=1, bytes=8),
            pb.ReadBufferRequest(buffer_id=1, bytes=8),
            digit(3, 1, executor=2),
            run(2),
            pb.ReadBufferRequest(buffer_id=1, bytes=8),
            pb.FreeRequest(buffer_id=1),
        ]
    )
    read = [np.frombuffer(results[index].data, np.int64)[0] for index in (4, 6, 9)]
    assert read == [12, 0, 3]


def test_requests_pipeline(client: Submitting) -> None:
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    for value in range(200):
        client.send(digit(value % 10, 1, executor=value + 1), run(value + 1))
    for _ in range(200):
        assert not any(isinstance(result, AclnnError) for result in client.receive())
    with np.errstate(over="ignore"):
        expected = np.int64(0)
        for value in range(200):
            expected = expected * np.int64(10) + np.int64(value % 10)
    assert stored(client) == expected


def test_a_failure_does_not_stop_the_commands_after_it(client: Submitting) -> None:
    results = client.batch(
        [
            plus(executor=1),
            pb.FreeRequest(buffer_id=77),
            run(1),
            run(1),
            plan("aclnnFail", number(3), tensor([1], INT64), executor=2),
            run(2),
            pb.MallocRequest(bytes=0),
            pb.RenewContextRequest(),
        ]
    )
    assert outputs(results[2]) == [[2.0, 3.0]]
    kinds = {1: HandleNotFoundError, 5: ExecutionFailedError, 6: InvalidParameterError}
    for index, kind in kinds.items():
        assert type(results[index]) is kind
    assert results[7].usage.contexts == 1


# --- what is refused ------------------------------------------------------------------------------


def test_a_command_that_is_empty(client: Submitting) -> None:
    request = batch(client, pb.Command(), pb.Command(renew_context=pb.RenewContextRequest()))
    (response,) = submit(client.stubs, request)
    error = response.results[0].error
    assert (error.reason, error.status_code, error.acl_code) == ("INVALID_PARAMETER", 3, 161002)
    assert (error.parameter, error.message) == ("command", "the command is empty")
    assert response.results[1].HasField("renew_context")


@pytest.mark.parametrize("commands", [[], [pb.Command()]])
def test_a_call_without_a_context(stubs: Stubs, commands: list[pb.Command]) -> None:
    with pytest.raises(InvalidParameterError, match="names no context") as caught:
        submit(stubs, pb.SubmitRequest(commands=commands))
    assert (caught.value.code, caught.value.parameter) == (161002, "context_id")


def test_a_call_without_a_request(stubs: Stubs) -> None:
    assert submit(stubs) == []


def test_a_context_that_does_not_exist(stubs: Stubs, client: Submitting) -> None:
    for context_id in ("nonsense", client.stream_id):
        with pytest.raises(HandleNotFoundError, match="context does not exist") as caught:
            submit(stubs, pb.SubmitRequest(context_id=context_id))
        assert caught.value.parameter == "context_id"
    with pytest.raises(SessionLostError, match="restart"):
        submit(stubs, pb.SubmitRequest(context_id="0123abcd-AAAAAAAAAAAAAAAAAAAAAA"))


def test_another_context_in_a_command(client: Submitting, stubs: Stubs) -> None:
    other = Unary(stubs)
    for request in (
        pb.MallocRequest(context_id=other.context_id, bytes=8),
        pb.CreateStreamRequest(context_id=other.context_id),
        pb.SynchronizeStreamRequest(context_id=other.context_id),
        pb.RenewContextRequest(context_id=other.context_id),
    ):
        with pytest.raises(HandleNotFoundError, match="context does not exist") as caught:
            client(request)
        assert caught.value.parameter == "context_id"
    planned = plus()
    planned.context_id = other.context_id
    with pytest.raises(HandleNotFoundError):
        client(planned)
    assert other(pb.RenewContextRequest()).usage.streams == 1
    other.close()


def test_another_context_in_a_later_request(client: Submitting, stubs: Stubs) -> None:
    """Only the first request of a call says which context it is."""
    other = Unary(stubs)
    malloc = pb.Command(malloc=pb.MallocRequest(bytes=8))
    request = batch(client, malloc, context_id=other.context_id)
    submit(stubs, batch(client), request)
    assert other(pb.RenewContextRequest()).usage.buffers == 0
    other.close()


@pytest.mark.parametrize(
    "garbage", [b"\xff", b"\x1a\xff\xff\xff\xff\x0f", b"\x0a\x05ab", b"\x0a\x01\xff"]
)
@pytest.mark.parametrize(
    "method",
    [
        "DeviceService/Submit",
        "DeviceService/WriteBuffer",
        "DeviceService/ReadBuffer",
        "DeviceService/Malloc",
        "OperatorService/Execute",
    ],
)
def test_bytes_that_are_no_message(
    client: Submitting, method: str, garbage: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    call: Any = client.stubs.channel.stream_stream(f"/aclnn.v1.{method}")
    with pytest.raises(grpc.RpcError) as caught:
        list(call(iter([garbage]), timeout=DEADLINE))
    error = checked(caught.value)
    assert isinstance(error, InvalidParameterError)
    assert "cannot be decoded" in error.message
    assert outputs(client.batch([plus(executor=1), run(1)])[1]) == [[2.0, 3.0]]
    assert "Traceback" not in capfd.readouterr().err


def test_methods_that_do_not_exist(stubs: Stubs) -> None:
    call: Any = stubs.channel.unary_unary("/aclnn.v1.DeviceService/Nonsense")
    with pytest.raises(grpc.RpcError) as caught:
        call(b"", timeout=DEADLINE)
    assert code_of(caught.value) is grpc.StatusCode.UNIMPLEMENTED


# --- ending ---------------------------------------------------------------------------------------


def test_a_call_that_breaks_off_leaves_the_context(stubs: Stubs, client: Submitting) -> None:
    """A new call goes on where the broken one ended."""
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    client(digit(4, 1, executor=1))
    client.hang_up()
    commands = [pb.Command(execute=run(1)), pb.Command(execute=run(1))]
    (response,) = submit(stubs, batch(client, *commands))
    assert response.results[0].HasField("execute")
    assert response.results[1].error.reason == "EXECUTOR_USED"
    assert stubs.usage()["buffers"] == 1


def test_a_destroyed_context_answers_nothing_but_its_absence(
    stubs: Stubs, client: Submitting
) -> None:
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    stubs.unary(pb.RenewContextRequest(context_id=client.context_id))
    stubs.device.DestroyContext(
        pb.DestroyContextRequest(context_id=client.context_id), timeout=DEADLINE
    )
    for request in (
        pb.RenewContextRequest(),
        pb.CreateEventRequest(event_id=1),
        pb.MallocRequest(buffer_id=1, bytes=8),
        pb.CreateStreamRequest(),
        plus(),
        run(1),
        pb.SynchronizeStreamRequest(),
    ):
        with pytest.raises(HandleNotFoundError, match="context does not exist"):
            client(request)
    assert set(stubs.usage().values()) == {0}


def test_a_call_of_a_client_that_reads_nothing_ends_with_it(
    stubs: Stubs, client: Submitting
) -> None:
    """Answers of 8 MiB pile up unread; when the client goes, so does the call."""
    client(pb.MallocRequest(buffer_id=1, bytes=2**23))
    for _ in range(20):
        client.send(pb.ReadBufferRequest(buffer_id=1, bytes=2**23))
    client.hang_up()
    again = Submitting(stubs)
    assert outputs(again.batch([plus(executor=1), run(1)])[1]) == [[2.0, 3.0]]
    again.close()
