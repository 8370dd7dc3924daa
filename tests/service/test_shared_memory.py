"""Segments of shared memory: who gets them, what lies in them, and how they end."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aclnn.errors import (
    HandleExistsError,
    HandleNotFoundError,
    InvalidParameterError,
    LimitExceededError,
    NotReadyError,
    OutOfMemoryError,
)
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from aclnn_server.sessions import segments
from aclnn_server.sessions.handover import WAITING
from tests.service.calling import Caller, Stubs, Submitting, Unary, refused
from tests.service.conftest import Serve
from tests.service.gated import GatedBackend
from tests.service.mapping import Mapping, asked, connected
from tests.service.requests import passing, run
from tests.service.test_memory import large
from tests.waiting import until

SIZE = 1 << 22
HALF = SIZE // 2
Segment = pb.AttachSharedMemoryResponse
PAGE = os.sysconf("SC_PAGESIZE")


@pytest.fixture
def segment(caller: Caller) -> Any:  # noqa: ANN401 - a response
    """A segment of SIZE bytes, in the caller's context."""
    return caller(pb.AttachSharedMemoryRequest(bytes=SIZE))


@pytest.fixture
def mapping(segment: Segment) -> Iterator[Mapping]:
    """That segment, mapped."""
    with Mapping(segment) as mapping:
        yield mapping


def malloc(segment: Segment, buffer_id: int, offset: int, size: int) -> Any:  # noqa: ANN401
    return pb.MallocRequest(
        buffer_id=buffer_id, bytes=size, segment_id=segment.segment_id, segment_offset=offset
    )


# --- what lies in it --------------------------------------------------------------------------------


def test_both_sides_see_the_same_bytes(caller: Caller, segment: Segment, mapping: Mapping) -> None:
    assert not mapping.bytes.any()
    caller(malloc(segment, 1, 4096, 100))
    caller(pb.WriteBufferRequest(buffer_id=1, offset=3, data=b"from the server"))
    assert mapping.bytes[4099:4114].tobytes() == b"from the server"
    mapping.bytes[4096:4099] = [7, 8, 9]
    assert caller(pb.ReadBufferRequest(buffer_id=1, bytes=4)).data == b"\7\10\11f"
    caller(pb.MemsetRequest(buffer_id=1, bytes=100, value=5))
    assert (mapping.bytes[4096:4196] == 5).all()
    assert mapping.bytes.sum() == 500
    caller(pb.FreeRequest(buffer_id=1))


def test_kernels_read_and_write_it(caller: Caller, segment: Segment, mapping: Mapping) -> None:
    caller(malloc(segment, 1, 0, 8))
    planned = caller(passing(0, buffer=1, stream=caller.stream_id))
    caller(run(planned.executor_id, stream=caller.stream_id))
    caller(pb.SynchronizeStreamRequest(stream_id=caller.stream_id))
    assert mapping.bytes[:8].view("f4").tolist() == [7, 8]
    caller(pb.FreeRequest(buffer_id=1))


def test_its_size_is_that_of_whole_pages(caller: Caller) -> None:
    before = caller.usage()["bytes"]
    segment = caller(pb.AttachSharedMemoryRequest(bytes=1))
    assert segment.bytes == PAGE
    assert caller.usage()["bytes"] == before + PAGE
    caller(malloc(segment, 1, PAGE - 64, 64))
    request = malloc(segment, 2, PAGE - 64, 65)
    says = [f"takes bytes {PAGE - 64} to {PAGE + 1} of a segment of {PAGE}"]
    refused(caller, request, InvalidParameterError, parameter="segment_offset", says=says)


def test_nobody_can_change_its_size(mapping: Mapping) -> None:
    for size in (0, SIZE - 1, SIZE + 1):
        with pytest.raises(PermissionError):
            os.ftruncate(mapping.file, size)
    with pytest.raises(PermissionError):
        os.posix_fallocate(mapping.file, SIZE, 1)
    with pytest.raises(PermissionError):
        fcntl.fcntl(mapping.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert os.fstat(mapping.file).st_size == SIZE


def test_pages_that_the_client_throws_away_are_zeros(
    caller: Caller, segment: Segment, mapping: Mapping
) -> None:
    caller(malloc(segment, 1, 0, SIZE))
    caller(pb.MemsetRequest(buffer_id=1, bytes=SIZE, value=1))
    base: Any = mapping.bytes.base
    base.obj.madvise(9)  # MADV_REMOVE
    assert caller(pb.ReadBufferRequest(buffer_id=1, bytes=HALF)).data == bytes(HALF)
    caller(pb.FreeRequest(buffer_id=1))


# --- places -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "size", "says"),
    [
        (1, 64, "is 1; it must be a multiple of 64"),
        (SIZE, 1, f"takes bytes {SIZE} to {SIZE + 1} of a segment of {SIZE}"),
        (0, SIZE + 1, f"takes bytes 0 to {SIZE + 1} of a segment of {SIZE}"),
        (2**64 - 64, 64, f"takes bytes {2**64 - 64} to {2**64} of a segment of {SIZE}"),
    ],
)
def test_places_that_cannot_be(
    caller: Caller, segment: Segment, offset: int, size: int, says: str
) -> None:
    request = malloc(segment, 1, offset, size)
    refused(caller, request, InvalidParameterError, parameter="segment_offset", says=[says])


@pytest.mark.parametrize(
    ("offset", "size"), [(1024, 1), (1024, 512), (0, 1025), (1472, 64), (960, 2048)]
)
def test_two_buffers_never_share_a_byte(
    caller: Caller, segment: Segment, offset: int, size: int
) -> None:
    caller(malloc(segment, 1, 1024, 512))
    says = [f"is {offset}, for bytes to {offset + size}", "buffer 1", "bytes 1024 to 1536"]
    request = malloc(segment, 2, offset, size)
    refused(caller, request, InvalidParameterError, parameter="segment_offset", says=says)
    caller(malloc(segment, 2, 0, 1024))
    caller(malloc(segment, 3, 1536, 64))
    assert caller(pb.FreeRequest(buffer_id=1)).returned_buffer_ids == [1]
    caller(malloc(segment, 4, 1024, 512))


def test_a_repeat_finds_the_buffer_in_its_place(caller: Caller, segment: Segment) -> None:
    for _ in range(2):
        assert caller(malloc(segment, 1, 64, 64)).buffer_id == 1
    for request in (malloc(segment, 1, 128, 64), malloc(segment, 1, 64, 65)):
        refused(caller, request, HandleExistsError, parameter="buffer_id", says=["64 bytes"])
    caller(pb.MallocRequest(buffer_id=2, bytes=64))
    says = ["in another place"]
    refused(
        caller, malloc(segment, 2, 256, 64), HandleExistsError, parameter="buffer_id", says=says
    )


def test_a_segment_of_another_context_is_none(
    caller: Caller, segment: Segment, stubs: Stubs
) -> None:
    other = Unary(stubs)
    request = malloc(segment, 1, 0, 64)
    foreign = refused(other, request, HandleNotFoundError, parameter="segment_id")
    detach = pb.DetachSharedMemoryRequest(segment_id=segment.segment_id)
    refused(other, detach, HandleNotFoundError, parameter="segment_id")
    request.segment_id = 12345
    missing = refused(other, request, HandleNotFoundError, parameter="segment_id")
    assert foreign.message.replace(str(segment.segment_id), "12345") == missing.message
    other.close()
    caller(malloc(segment, 1, 0, 64))


@pytest.mark.parametrize("context_id", ["", "none"])
def test_a_context_that_does_not_exist_has_no_segments(stubs: Stubs, context_id: str) -> None:
    with pytest.raises(HandleNotFoundError):
        stubs.unary(pb.AttachSharedMemoryRequest(context_id=context_id, bytes=1))


# --- places that are free again -----------------------------------------------------------------------


def occupy(caller: Caller, segment: Segment, backend: GatedBackend) -> None:
    """Lets a kernel stand at gate 1 that writes to buffer 8, the first half of the segment."""
    caller(malloc(segment, 8, 0, HALF))
    planned = caller(large(1))
    caller(run(planned.executor_id, asynchronous=True))
    backend.gates[1].wait_entered()


def test_a_place_is_free_when_no_work_uses_it(
    caller: Caller, segment: Segment, backend: GatedBackend
) -> None:
    caller(malloc(segment, 2, HALF, 64))
    occupy(caller, segment, backend)
    assert caller(pb.FreeRequest(buffer_id=8)).returned_buffer_ids == []
    request = malloc(segment, 3, 0, 64)
    says = ["in use by queued work"]
    refused(caller, request, InvalidParameterError, parameter="segment_offset", says=says)
    assert caller(pb.FreeRequest(buffer_id=2)).returned_buffer_ids == [2]
    backend.gates[1].open()
    answer = caller(pb.SynchronizeStreamRequest(stream_id=caller.stream_id))
    assert answer.returned_buffer_ids == [8]
    assert caller(request).buffer_id == 3
    assert caller(pb.SynchronizeStreamRequest()).returned_buffer_ids == []


def test_a_free_tells_of_earlier_ones(
    caller: Caller, segment: Segment, backend: GatedBackend
) -> None:
    caller(malloc(segment, 2, HALF, 64))
    occupy(caller, segment, backend)
    caller(pb.FreeRequest(buffer_id=8))
    caller(pb.CreateEventRequest(event_id=1))
    caller(pb.RecordEventRequest(event_id=1))
    backend.gates[1].open()
    caller(pb.SynchronizeEventRequest(event_id=1))
    assert caller(pb.FreeRequest(buffer_id=2)).returned_buffer_ids == [8, 2]


# --- who gets it --------------------------------------------------------------------------------------


def test_a_secret_is_good_once(segment: Segment, mapping: Mapping) -> None:
    with connected(segment.path) as again:
        assert asked(again, segment.secret) is None
    assert asked(mapping.connection, segment.secret) is None  # and nothing else can be said


@pytest.mark.parametrize("change", [lambda s: s[:-1], lambda s: s + b"\0", lambda s: bytes(len(s))])
def test_another_secret_gets_nothing(segment: Segment, change: Callable[[bytes], bytes]) -> None:
    with connected(segment.path) as stranger:
        assert asked(stranger, change(segment.secret)) is None
    with Mapping(segment):
        pass


def test_two_segments_have_two_secrets(caller: Caller) -> None:
    first, second = (caller(pb.AttachSharedMemoryRequest(bytes=PAGE)) for _ in range(2))
    assert first.secret != second.secret
    assert len(first.secret) == 32
    with Mapping(second) as two, Mapping(first) as one:
        one.bytes[0] = 1
        assert two.bytes[0] == 0


def test_after_its_end_nobody_gets_it(caller: Caller, stubs: Stubs) -> None:
    detached = caller(pb.AttachSharedMemoryRequest(bytes=PAGE))
    caller(pb.DetachSharedMemoryRequest(segment_id=detached.segment_id))
    other = Unary(stubs)
    ended = other(pb.AttachSharedMemoryRequest(bytes=PAGE))
    other.close()
    for segment in (detached, ended):
        with connected(segment.path) as late:
            assert asked(late, segment.secret) is None


def test_silent_connections_make_room(segment: Segment) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connected(segment.path)) for _ in range(WAITING)]
        with Mapping(segment):
            assert silent[0].recv(1) == b""  # the one that was silent for longest
            silent[1].send(b"x")
            assert silent[1].recv(1) == b""


# --- quotas and limits --------------------------------------------------------------------------------


@pytest.fixture
def narrow(serve: Serve) -> Iterator[Submitting]:
    """A client of a server that allows a context 1 MiB."""
    client = Submitting(serve(max_context_bytes=1 << 20))
    yield client
    client.close()


def test_a_segment_is_on_the_account(narrow: Submitting) -> None:
    segment = narrow(pb.AttachSharedMemoryRequest(bytes=1 << 19))
    assert narrow.usage()["bytes"] == 1 << 19
    narrow(malloc(segment, 1, 0, 1 << 18))
    assert narrow.usage()["bytes"] == 1 << 19
    request = pb.AttachSharedMemoryRequest(bytes=(1 << 19) + 1)
    says = [f"asks for {(1 << 19) + PAGE} bytes", f"{1 << 19} free of its {1 << 20}"]
    refused(narrow, request, OutOfMemoryError, parameter="", says=says)
    detach = pb.DetachSharedMemoryRequest(segment_id=segment.segment_id)
    refused(narrow, detach, NotReadyError, parameter="segment_id", says=["1 buffers in it"])
    narrow(pb.FreeRequest(buffer_id=1))
    narrow(detach)
    assert narrow.usage()["bytes"] == 0
    refused(narrow, detach, HandleNotFoundError, parameter="segment_id")


def test_no_bytes_are_no_segment(caller: Caller) -> None:
    request = pb.AttachSharedMemoryRequest()
    refused(caller, request, InvalidParameterError, parameter="bytes", says=["at least 1"])


def test_more_than_a_context_may_have(caller: Caller) -> None:
    refused(caller, pb.AttachSharedMemoryRequest(bytes=2**63), OutOfMemoryError, parameter="")


def test_a_context_has_so_many_segments(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, stubs: Stubs
) -> None:
    for _ in range(segments.SEGMENTS):
        caller(pb.AttachSharedMemoryRequest(bytes=1))
    request = pb.AttachSharedMemoryRequest(bytes=1)
    refused(caller, request, LimitExceededError, parameter="", says=["64 segments"])
    other = Unary(stubs)
    other(request)
    other.close()


def test_a_server_has_so_many_segments(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (27, 27))
    stubs = serve()
    first, second = Unary(stubs), Unary(stubs)
    request = pb.AttachSharedMemoryRequest(bytes=1)
    held = [first(request), second(request), second(request)]
    for client in (first, second):
        says = ["the server has 3 segments", "at most 3"]
        refused(client, request, LimitExceededError, parameter="", says=says)
    first(pb.DetachSharedMemoryRequest(segment_id=held[0].segment_id))
    first(request)
    second.close()
    first(request)
    first.close()


def test_no_open_file_is_left(serve: Serve) -> None:
    client = Submitting(serve())

    def use() -> None:
        segment = client(pb.AttachSharedMemoryRequest(bytes=SIZE))
        with Mapping(segment):
            client(pb.DetachSharedMemoryRequest(segment_id=segment.segment_id))
        segment = client(pb.AttachSharedMemoryRequest(bytes=SIZE))
        client(pb.DetachSharedMemoryRequest(segment_id=segment.segment_id))

    use()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        use()
    until(lambda: len(os.listdir("/proc/self/fd")) <= before)
    client.close()


def test_a_client_that_does_not_let_go_is_hung_up_on(serve: Serve) -> None:
    client = Submitting(serve())
    segment = client(pb.AttachSharedMemoryRequest(bytes=SIZE))
    with Mapping(segment) as mapping:
        mapping.bytes[:] = 1
        client(pb.DetachSharedMemoryRequest(segment_id=segment.segment_id))
        assert mapping.connection.recv(1) == b""
        assert not mapping.bytes.any()
    client.close()


# --- the end ------------------------------------------------------------------------------------------


def test_what_a_client_maps_outlives_its_context(stubs: Stubs) -> None:
    client = Unary(stubs)
    segment = client(pb.AttachSharedMemoryRequest(bytes=SIZE))
    with Mapping(segment) as mapping:
        client(malloc(segment, 1, 0, SIZE))
        client(pb.MemsetRequest(buffer_id=1, bytes=SIZE, value=3))
        client.close()
        assert stubs.usage()["bytes"] == 0
        assert (mapping.bytes == 3).all()
        mapping.bytes[0] = 4  # it is the client's own now
        mapping.let_go()
        # What nobody seems to map any more is given back to the system.
        until(lambda: not mapping.bytes.any())


def test_a_client_that_dies_early_leaves_nothing_behind(stubs: Stubs) -> None:
    client = Unary(stubs)
    segment = client(pb.AttachSharedMemoryRequest(bytes=SIZE))
    with Mapping(segment) as mapping:
        mapping.bytes[:] = 1
        mapping.let_go()
        client(malloc(segment, 1, 0, SIZE))
        # The context goes on; its memory is the server's.
        assert client(pb.ReadBufferRequest(buffer_id=1, bytes=2)).data == b"\1\1"
        client.close()
        until(lambda: not mapping.bytes.any())


def test_a_server_that_stops_leaves_the_memory_to_its_client(backend: GatedBackend) -> None:
    server = Server(ServerConfig(listen="127.0.0.1:0"), backend=backend).start()
    context = server.registry.create_context(None, 60.0)
    made = context.segments.attach(SIZE)
    path = Path(made.path)
    segment = pb.AttachSharedMemoryResponse(path=made.path, secret=made.secret, bytes=SIZE)
    with Mapping(segment) as mapping:
        mapping.bytes[:] = 9
        server.stop(0)
        assert mapping.connection.recv(1) == b""
        assert (mapping.bytes == 9).all()
    assert not path.exists()
