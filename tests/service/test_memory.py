"""Buffers: what they refuse, in which order they are written and read, and when their bytes go back."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message

from aclnn.errors import (
    AclnnError,
    HandleNotFoundError,
    InvalidParameterError,
    OutOfMemoryError,
)
from aclnn.v1 import device_service_pb2 as pb
from tests.service.calling import DEADLINE, Caller, Stubs, Unary, checked, refused
from tests.service.conftest import Serve
from tests.service.gated import GatedBackend
from tests.service.requests import digit, passing, run
from tests.waiting import until

SIZE = 100


@pytest.fixture
def buffer(caller: Caller) -> Caller:
    """A client with buffer 1 of SIZE bytes that count up."""
    caller(pb.MallocRequest(buffer_id=1, bytes=SIZE))
    caller(pb.WriteBufferRequest(buffer_id=1, data=bytes(range(SIZE))))
    return caller


def content(caller: Caller, buffer_id: int = 1, size: int = SIZE) -> list[int]:
    """A buffer's bytes."""
    return list(caller(pb.ReadBufferRequest(buffer_id=buffer_id, bytes=size)).data)


# --- what is refused ------------------------------------------------------------------------------


def memset(offset: int, size: int) -> Message:
    return pb.MemsetRequest(buffer_id=1, offset=offset, bytes=size)


def read(offset: int, size: int) -> Message:
    return pb.ReadBufferRequest(buffer_id=1, offset=offset, bytes=size)


def copy_to(offset: int, size: int) -> Message:
    return pb.MemcpyRequest(
        destination_buffer_id=1, source_buffer_id=2, destination_offset=offset, bytes=size
    )


def copy_from(offset: int, size: int) -> Message:
    return pb.MemcpyRequest(
        destination_buffer_id=2, source_buffer_id=1, source_offset=offset, bytes=size
    )


@pytest.mark.parametrize(
    ("offset", "size"),
    [
        (0, SIZE + 1),
        (1, SIZE),
        (SIZE, 1),
        (SIZE + 1, 0),
        (2**64 - 1, 1),
        (1, 2**64 - 1),
        (2**63, 0),
    ],
)
def test_ranges_outside_the_buffer(buffer: Caller, offset: int, size: int) -> None:
    buffer(pb.MallocRequest(buffer_id=2, bytes=2 * SIZE))
    for make, parameter in (
        (memset, "bytes"),
        (read, "bytes"),
        (copy_to, "destination_offset"),
        (copy_from, "source_offset"),
    ):
        if make is copy_from and size > 2 * SIZE:
            parameter = "destination_offset"
        elif make is read and size > 2**40:
            continue  # refused for its size alone inside Submit
        says = [str(SIZE)] if parameter != "destination_offset" else []
        refused(buffer, make(offset, size), InvalidParameterError, parameter=parameter, says=says)
    assert content(buffer) == list(range(SIZE))


@pytest.mark.parametrize(("offset", "count"), [(0, SIZE + 1), (SIZE, 1), (2**64 - 1, 1)])
def test_writes_outside_the_buffer(buffer: Caller, offset: int, count: int) -> None:
    request = pb.WriteBufferRequest(buffer_id=1, offset=offset, data=bytes(count))
    says = [f"bytes {offset} to {offset + count}", str(SIZE)]
    refused(buffer, request, InvalidParameterError, parameter="data", says=says)
    assert content(buffer) == list(range(SIZE))


@pytest.mark.parametrize("total", [3, 5])
def test_a_write_must_bring_as_many_bytes_as_it_declares(buffer: Caller, total: int) -> None:
    request = pb.WriteBufferRequest(buffer_id=1, data=b"abcd", total_bytes=total)
    says = ["4 bytes", f"declares {total}"]
    refused(buffer, request, InvalidParameterError, parameter="data", says=says)


@pytest.mark.parametrize("value", [256, 2**32 - 1])
def test_a_byte_is_0_to_255(buffer: Caller, value: int) -> None:
    request = pb.MemsetRequest(buffer_id=1, bytes=1, value=value)
    refused(buffer, request, InvalidParameterError, parameter="value", says=[str(value), "255"])
    buffer(pb.MemsetRequest(buffer_id=1, bytes=1, value=255))
    assert content(buffer)[:2] == [255, 1]


@pytest.mark.parametrize("size", [0, 2**34 + 1, 2**64 - 1])
def test_sizes_that_no_buffer_may_have(caller: Caller, backend: GatedBackend, size: int) -> None:
    before = backend.device.allocations
    request = pb.MallocRequest(buffer_id=1, bytes=size)
    refused(caller, request, InvalidParameterError, parameter="bytes", says=[str(size), str(2**34)])
    assert backend.device.allocations == before


def test_more_than_the_device_has(caller: Caller) -> None:
    caller(pb.MallocRequest(buffer_id=1, bytes=2**20))
    request = pb.MallocRequest(buffer_id=2, bytes=2**30)
    error = refused(caller, request, OutOfMemoryError, parameter="", says=[str(2**30)])
    assert error.code == 207001


# --- chunks ---------------------------------------------------------------------------------------


@pytest.fixture
def unary(stubs: Stubs) -> Iterator[Unary]:
    """A client with buffer 1 of SIZE bytes, for calls in chunks."""
    unary = Unary(stubs)
    unary(pb.MallocRequest(buffer_id=1, bytes=SIZE))
    yield unary
    unary.close()


def write(client: Unary, *messages: pb.WriteBufferRequest) -> None:
    """One WriteBuffer call of these messages."""
    for message in messages[:1]:
        message.context_id = client.context_id
    try:
        client.stubs.device.WriteBuffer(iter(messages), timeout=DEADLINE)
    except grpc.RpcError as error:
        raise checked(error) from None


def first(total: int, data: bytes = b"", offset: int = 0) -> pb.WriteBufferRequest:
    return pb.WriteBufferRequest(buffer_id=1, total_bytes=total, data=data, offset=offset)


def more(data: bytes) -> pb.WriteBufferRequest:
    return pb.WriteBufferRequest(data=data)


def test_a_write_in_chunks(unary: Unary) -> None:
    write(unary, first(6, offset=10), more(b"ab"), more(b""), more(b"cdef"))
    assert bytes(content(unary))[9:17] == b"\0abcdef\0"
    write(unary, first(0))
    write(unary, first(0, offset=SIZE), more(b""))


@pytest.mark.parametrize(
    ("chunks", "says"),
    [
        ([b"ab", b"c"], "data has 3 bytes in all; total_bytes declares 4"),
        ([], "data has 0 bytes in all; total_bytes declares 4"),
        ([b"abcde"], "data has 5 bytes so far; total_bytes declares 4"),
        ([b"abc", b"", b"de"], "data has 5 bytes so far; total_bytes declares 4"),
    ],
)
def test_overrun_and_underrun(unary: Unary, chunks: list[bytes], says: str) -> None:
    before = unary.usage()
    with pytest.raises(InvalidParameterError, match=says) as caught:
        write(unary, first(4), *map(more, chunks))
    assert (caught.value.code, caught.value.parameter) == (161002, "data")
    assert content(unary)[4:] == [0] * (SIZE - 4)
    assert unary.usage() == before


def test_a_write_without_a_message(unary: Unary) -> None:
    with pytest.raises(InvalidParameterError, match="no message"):
        write(unary)


def test_a_declared_total_is_checked_before_any_byte_is_written(unary: Unary) -> None:
    with pytest.raises(InvalidParameterError, match=f"bytes 1 to {SIZE + 1} of buffer 1") as caught:
        write(unary, first(SIZE, b"x" * 50, offset=1))
    assert caught.value.parameter == "data"
    assert content(unary) == [0] * SIZE


@pytest.mark.parametrize("chunk", [1, 7, SIZE, SIZE + 1, 2**63, 0])
def test_a_read_in_chunks(unary: Unary, chunk: int) -> None:
    data = bytes(range(SIZE))
    write(unary, first(SIZE, data))
    request = pb.ReadBufferRequest(
        context_id=unary.context_id, buffer_id=1, offset=1, bytes=SIZE - 2, chunk_bytes=chunk
    )
    chunks = [
        response.data for response in unary.stubs.device.ReadBuffer(request, timeout=DEADLINE)
    ]
    assert b"".join(chunks) == data[1:-1]
    assert all(len(part) == min(chunk or SIZE, SIZE - 2) for part in chunks[:-1])


def test_a_buffer_freed_in_the_middle_of_a_write(unary: Unary, backend: GatedBackend) -> None:
    def messages() -> Iterator[pb.WriteBufferRequest]:
        request = first(4, b"ab")
        request.context_id = unary.context_id
        yield request
        until(lambda: backend.device.writes == 1)
        unary(pb.FreeRequest(buffer_id=1))
        assert backend.device.live_bytes == SIZE  # the write still needs it
        assert unary.usage()["buffers"] == 1
        yield more(b"cd")

    unary.stubs.device.WriteBuffer(messages(), timeout=DEADLINE)
    assert backend.device.writes == 2
    assert unary.usage()["bytes"] == 0


# --- content and order ----------------------------------------------------------------------------


def test_a_buffer_begins_as_zeros(caller: Caller) -> None:
    for _ in range(3):
        caller(pb.MallocRequest(buffer_id=2, bytes=SIZE))
        assert content(caller, 2) == [0] * SIZE
        caller(pb.MemsetRequest(buffer_id=2, bytes=SIZE, value=0xAA))
        caller(pb.FreeRequest(buffer_id=2))


@pytest.mark.parametrize("to", [0, 10, 20])
@pytest.mark.parametrize("streamed", [False, True])
def test_ranges_of_a_copy_may_overlap(buffer: Caller, to: int, streamed: bool) -> None:
    expected = list(range(SIZE))
    expected[to : to + 50] = range(10, 60)
    request = pb.MemcpyRequest(
        destination_buffer_id=1,
        destination_offset=to,
        source_buffer_id=1,
        source_offset=10,
        bytes=50,
    )
    request.stream_id = buffer.stream_id if streamed else ""
    buffer(request)
    assert content(buffer) == expected


@pytest.mark.parametrize("streamed", [False, True])
def test_every_command_comes_after_the_work_before_it(
    caller: Caller, backend: GatedBackend, streamed: bool
) -> None:
    """With a stream in its order; without one after the queued work that uses the buffer."""
    stream = caller.stream_id if streamed else ""
    caller(pb.MallocRequest(buffer_id=1, bytes=8))
    caller(pb.MallocRequest(buffer_id=2, bytes=8))
    for value in (1, 2, 3):
        caller(run(caller(digit(value, 1)).executor_id, asynchronous=True))
    caller(pb.MemcpyRequest(destination_buffer_id=2, source_buffer_id=1, bytes=8, stream_id=stream))
    caller(run(caller(digit(4, 1)).executor_id, asynchronous=True))
    request = pb.ReadBufferRequest(buffer_id=2, bytes=8, stream_id=stream)
    assert np.frombuffer(caller(request).data, np.int64).tolist() == [123]
    caller(pb.MemsetRequest(buffer_id=1, bytes=8, stream_id=stream))
    caller(run(caller(digit(5, 1)).executor_id, asynchronous=True))
    request = pb.ReadBufferRequest(buffer_id=1, bytes=8, stream_id=stream)
    assert np.frombuffer(caller(request).data, np.int64).tolist() == [5]
    caller(pb.WriteBufferRequest(buffer_id=1, data=np.int64(7).tobytes(), stream_id=stream))
    caller(run(caller(digit(6, 1)).executor_id, asynchronous=True))
    assert np.frombuffer(caller(request).data, np.int64).tolist() == [76]


def test_commands_of_a_stream_wait_in_it_and_do_not_block(
    caller: Caller, backend: GatedBackend
) -> None:
    caller(pb.MallocRequest(buffer_id=1, bytes=8))
    caller(pb.MallocRequest(buffer_id=2, bytes=8))
    stream = caller.stream_id
    _occupy(caller, backend, gate=1)

    caller(pb.MemsetRequest(buffer_id=1, bytes=8, value=1, stream_id=stream))
    caller(pb.MemcpyRequest(destination_buffer_id=2, source_buffer_id=1, bytes=8, stream_id=stream))
    assert content(caller, 9, 8) == [0] * 8  # nothing blocks what has nothing to do with it
    assert not caller(pb.QueryStreamRequest(stream_id=stream)).complete

    backend.gates[1].open()
    assert content(caller, 2, 8) == [1] * 8


def _occupy(caller: Caller, backend: GatedBackend, gate: int) -> None:
    """Lets a kernel stand at a gate in the default stream; it writes to buffer 8. Buffer 9 is idle."""
    caller(pb.MallocRequest(buffer_id=8, bytes=2**21))
    caller(pb.MallocRequest(buffer_id=9, bytes=8))
    planned = caller(large(gate))
    caller(run(planned.executor_id, asynchronous=True))
    backend.gates[gate].wait_entered()


def large(gate: int) -> Message:
    """Phase one of work that is too large for the thread that queues it."""
    request = passing(gate, buffer=8)
    request.arguments[2].tensor.storage_shape.append(2**19)
    return request


def test_memory_goes_back_when_the_work_that_uses_it_ends(
    caller: Caller, backend: GatedBackend
) -> None:
    _occupy(caller, backend, gate=1)
    caller(pb.FreeRequest(buffer_id=8))
    refused(caller, pb.FreeRequest(buffer_id=8), HandleNotFoundError, parameter="buffer_id")
    usage = caller(pb.RenewContextRequest()).usage
    assert (usage.buffers, usage.bytes) == (2, 2**21 + 16)  # the inline input's 8 bytes too

    caller(pb.MallocRequest(buffer_id=8, bytes=8))  # the id is free at once
    caller(pb.CreateEventRequest(event_id=1))
    caller(pb.RecordEventRequest(event_id=1))
    backend.gates[1].open()
    caller(pb.SynchronizeEventRequest(event_id=1))
    usage = caller(pb.RenewContextRequest()).usage
    assert (usage.buffers, usage.bytes) == (2, 16)


def test_the_result_is_right_where_the_buffer_is_freed_behind_the_work(
    caller: Caller, backend: GatedBackend
) -> None:
    _occupy(caller, backend, gate=1)
    caller(pb.MallocRequest(buffer_id=2, bytes=8))
    caller(
        pb.MemcpyRequest(
            destination_buffer_id=2, source_buffer_id=8, bytes=8, stream_id=caller.stream_id
        )
    )
    caller(pb.FreeRequest(buffer_id=8))
    backend.gates[1].open()
    data = caller(pb.ReadBufferRequest(buffer_id=2, bytes=8)).data
    assert np.frombuffer(data, np.float32).tolist() == [7.0, 8.0]


# --- quota ----------------------------------------------------------------------------------------


def test_the_quota_tells_asked_free_and_limit(serve: Serve, backend: GatedBackend) -> None:
    stubs = serve(max_context_bytes=1000)
    client, other = Unary(stubs), Unary(stubs)
    client(pb.MallocRequest(buffer_id=1, bytes=600))
    before = backend.device.allocations

    request = pb.MallocRequest(buffer_id=2, bytes=401)
    says = ["buffer 2", "401 bytes", "400 free", "1000"]
    error = refused(client, request, OutOfMemoryError, parameter="", says=says)
    assert error.code == 207001
    assert backend.device.allocations == before
    other(pb.MallocRequest(buffer_id=2, bytes=1000))  # another client's quota is its own

    client(pb.FreeRequest(buffer_id=1))
    client(pb.MallocRequest(buffer_id=2, bytes=1000))
    with pytest.raises(AclnnError):
        client(pb.MallocRequest(buffer_id=3, bytes=1))


def test_inline_tensors_outputs_and_workspaces_count(serve: Serve, backend: GatedBackend) -> None:
    client = Unary(serve(max_context_bytes=1000))
    planned = client(passing(0, executor=1))
    assert client.usage()["bytes"] == 8
    client(pb.MallocRequest(buffer_id=1, bytes=990))

    with pytest.raises(OutOfMemoryError, match="out asks for 8 bytes; the context has 2 free"):
        client(run(planned.executor_id))
    assert client.usage()["bytes"] == 990
    assert client.usage()["executors"] == 0
    client(pb.MallocRequest(buffer_id=2, bytes=8))
    says = ["self asks for 8 bytes", "2 free"]
    refused(client, passing(0), OutOfMemoryError, parameter="", says=says)
