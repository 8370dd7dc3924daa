"""What has been found in other servers of this kind does not work here; one test for each finding.

Those about single checks are beside the checks: ids of 0, shapes that overflow, strides that leave their
storage (``tests/service/test_bad_tensors.py``), handles of others (``tests/service/test_bad_handles.py``),
indexes out of range and inputs that change under a kernel (``tests/operators``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest

from aclnn.errors import (
    AclnnError,
    ExecutorUsedError,
    HandleNotFoundError,
    InvalidParameterError,
)
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn_client import server_info
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from aclnn_server.service import pools
from tests.hostile.judging import check_error
from tests.hostile.slow import SilentCaller
from tests.service.calling import Caller, Stubs, Submitting, Unary, code_of
from tests.service.gated import GatedBackend
from tests.service.requests import floats, outputs, passing, plan, plus, run, tensor
from tests.waiting import until

WAYS = pytest.mark.parametrize("way", [Unary, Submitting], ids=["unary", "submit"])
Way = Callable[[Stubs], Caller]


@pytest.fixture
def backend() -> Iterator[GatedBackend]:
    """Kernels that wait at gates; its memory tells of each misuse."""
    backend = GatedBackend()
    yield backend
    backend.check_clean()


@pytest.fixture
def stubs() -> Iterator[Stubs]:
    """A server of the host's CPU, whose leases are as usual."""
    options = [("grpc.max_receive_message_length", -1)]
    with (
        Server(ServerConfig(listen="127.0.0.1:0")) as server,
        grpc.insecure_channel(server.address, options) as channel,
    ):
        yield Stubs(channel)


@pytest.fixture
def gated(backend: GatedBackend) -> Iterator[Stubs]:
    """A server of it."""
    with (
        Server(ServerConfig(listen="127.0.0.1:0"), backend=backend) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        yield Stubs(channel)
        backend.gates.open_all()


def told(act: Callable[[], object]) -> AclnnError:
    """How a call fails, after checking that it tells nothing of the server's own."""
    with pytest.raises(AclnnError) as caught:
        act()
    check_error(caught.value)
    return caught.value


# --- shared memory ----------------------------------------------------------------------------------


def test_no_client_names_shared_memory(gated: Stubs) -> None:
    """The name of a server's own region, told in an error, could be attached by anybody, and led to code."""
    fields = {field.name for field in pb.AttachSharedMemoryRequest.DESCRIPTOR.fields}
    assert fields == {"context_id", "bytes"}
    client, other = Unary(gated), Unary(gated)
    segment = client(pb.AttachSharedMemoryRequest(bytes=4096))
    answers = []
    for number in (segment.segment_id, segment.segment_id + 1):
        request = pb.MallocRequest(buffer_id=1, bytes=8, segment_id=number)
        error = told(lambda request=request: other(request))  # type: ignore[misc]
        assert isinstance(error, HandleNotFoundError)
        answers.append(error.message.replace(str(number), "N"))
        for secret in (segment.secret.hex(), str(segment.secret), segment.path):
            assert secret not in str(error)
    assert answers[0] == answers[1], "somebody else's answers as one that there is not"
    client.close()
    other.close()


def test_shared_memory_that_is_given_back_while_work_uses_it(
    gated: Stubs, backend: GatedBackend
) -> None:
    """To unregister a region during a call ended a server."""
    client = Submitting(gated)
    segment = client.stubs.device.AttachSharedMemory(
        pb.AttachSharedMemoryRequest(context_id=client.context_id, bytes=4096)
    )
    client(pb.MallocRequest(buffer_id=1, bytes=8, segment_id=segment.segment_id))
    executor = client(passing(1, buffer=1)).executor_id
    client.send(run(executor, asynchronous=True))
    backend.gates[1].wait_entered()
    detach = pb.DetachSharedMemoryRequest(
        context_id=client.context_id, segment_id=segment.segment_id
    )
    future = client.stubs.device.DetachSharedMemory.future(detach)
    backend.gates[1].open()
    client.receive()
    future.exception()
    other = Unary(gated)
    assert outputs(other(run(other(plus()).executor_id))) == [[2.0, 3.0]]
    other.close()
    client.close()


# --- handles ----------------------------------------------------------------------------------------


@WAYS
def test_memory_that_was_freed_is_not_computed_with(gated: Stubs, way: Way) -> None:
    """A graph kept the address of a buffer that had been freed, and that was another client's by then."""
    client, other = way(gated), way(gated)
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    client(passing(0, buffer=1, executor=1))
    client(passing(0, buffer=1, executor=2, repeatable=True))
    client(pb.FreeRequest(buffer_id=1))
    other(pb.MallocRequest(buffer_id=1, bytes=8))
    for executor in (1, 2):
        assert isinstance(told(lambda e=executor: client(run(e))), HandleNotFoundError)  # type: ignore[misc]
    assert bytes(other(pb.ReadBufferRequest(buffer_id=1, bytes=8)).data) == bytes(8)
    client.close()
    other.close()


@WAYS
def test_what_was_released_twice_is_not_given_to_two(gated: Stubs, way: Way) -> None:
    """A slot that was released twice was in the list of free ones twice, and two clients shared it."""
    client = way(gated)
    stream = client(pb.CreateStreamRequest()).stream_id
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    client(plus(executor=1))
    releases = (
        pb.DestroyStreamRequest(stream_id=stream),
        pb.FreeRequest(buffer_id=1),
        op.DestroyExecutorRequest(executor_id=1),
    )
    for release in releases:
        client(release)
        assert isinstance(told(lambda r=release: client(r)), HandleNotFoundError)  # type: ignore[misc]
    streams = [client(pb.CreateStreamRequest()).stream_id for _ in range(4)]
    assert len({stream, *streams}) == 5
    client(pb.MallocRequest(buffer_id=1, bytes=8))
    client(pb.MallocRequest(buffer_id=2, bytes=8))
    client(pb.MemsetRequest(buffer_id=1, bytes=8, value=7))
    assert bytes(client(pb.ReadBufferRequest(buffer_id=2, bytes=8)).data) == bytes(8)
    client.close()


@WAYS
def test_a_plan_that_was_run_is_not_run_again(gated: Stubs, way: Way) -> None:
    """A session that was run again after its end computed with what had been freed."""
    client = way(gated)
    client(plus(executor=5))
    assert outputs(client(run(5))) == [[2.0, 3.0]]
    for _ in range(3):
        assert isinstance(told(lambda: client(run(5))), ExecutorUsedError)
    client.close()


def test_ids_that_let_somebody_in_cannot_be_guessed(stubs: Stubs) -> None:
    """Sessions were numbered from 1, and pointers of the server's were its handles."""
    clients = [Unary(stubs) for _ in range(16)]
    ids = [name for client in clients for name in (client.context_id, client.stream_id)]
    secrets = [name.partition("-")[2] for name in ids]
    assert len(set(secrets)) == len(ids)
    assert all(len(secret) >= 22 for secret in secrets)  # 128 bits
    prefixes = {secret[:4] for secret in secrets}
    assert len(prefixes) > len(ids) // 2
    for client in clients:
        client.close()


# --- sizes ------------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("shape", [[2**31, 2**31, 4], [2**62, 4], [2**63 - 1] * 8, [1 << 16] * 4])
def test_products_that_do_not_fit_are_refused(gated: Stubs, way: Way, shape: list[int]) -> None:
    """A number of elements that had come round to a small one passed for a small tensor."""
    client = way(gated)
    request = plan("aclnnPlus", tensor(shape, data=bytes(8)), plus().arguments[1], tensor([2]))
    assert isinstance(told(lambda: client(request)), InvalidParameterError)
    client.close()


@WAYS
def test_a_list_of_very_many_tensors_is_answered(stubs: Stubs, way: Way) -> None:
    """Recursion and stack memory that grew with a request's parts ended servers."""
    client = way(stubs)
    request = plan("aclnnCat", executor=1)
    tensors = request.arguments.add().tensor_list.tensors
    for _ in range(20_000):
        tensors.add().CopyFrom(floats(1).tensor)
    request.arguments.add().int64_value = 0
    request.arguments.append(tensor([20_000]))
    client(request)
    (joined,) = outputs(client(run(1)))
    assert joined == [1.0] * 20_000
    client.close()


def test_a_deadline_of_no_time_ends_a_call_and_nothing_else(gated: Stubs) -> None:
    """Very short deadlines crashed a server that was about to answer."""
    client = Unary(gated)
    for timeout in (1e-9, 1e-6, 1e-4, 1e-3) * 20:
        future = gated.device.RenewContext.future(
            pb.RenewContextRequest(context_id=client.context_id), timeout=timeout
        )
        error: Any = future.exception()
        assert error is None or code_of(error) is grpc.StatusCode.DEADLINE_EXCEEDED
    assert client(pb.RenewContextRequest()).usage.contexts == 1
    client.close()


# --- threads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GetServerInfo", "ReadBuffer", "WriteBuffer"])
def test_calls_that_send_nothing_keep_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Each call that had been begun held a thread, whether its message ever came or not."""
    monkeypatch.setattr(pools, "ARRIVAL_SECONDS", 0.2)
    config = ServerConfig(listen="127.0.0.1:0", lease_seconds=1.0)
    with Server(config) as server, ExitStack() as silent:
        pool = server._threads if method == "GetServerInfo" else server._service._chunk_threads
        for _ in range(3):
            caller = silent.enter_context(SilentCaller(server.address))
            caller.begin(f"/aclnn.v1.DeviceService/{method}", 40)
        until(lambda: pool.waiting)
        assert server_info(server.address, timeout=30).version
        with grpc.insecure_channel(server.address) as channel:
            client = Unary(Stubs(channel))
            client(pb.MallocRequest(buffer_id=1, bytes=8))
            client(pb.WriteBufferRequest(buffer_id=1, data=b"x" * 8))
            assert client(pb.ReadBufferRequest(buffer_id=1, bytes=8)).data == b"x" * 8
            client.close()
