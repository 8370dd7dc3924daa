"""Buffers: bytes in and out, ranges, copies on the device, and their end."""

from __future__ import annotations

import gc
import io
import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aclnn_client import (
    Buffer,
    Context,
    ExecutionFailedError,
    HandleNotFoundError,
    InvalidParameterError,
    OutOfMemoryError,
    buffer,
    connect,
    get_workspace_size,
    transfer,
)
from aclnn_client.progress import Progress
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.service.gated import GatedBackend


def allocate(context: Context, size: int) -> Buffer:
    made = context.malloc(size)
    assert made is not None
    return made


def test_a_buffer_begins_as_zeros_and_keeps_what_is_written(context: Context) -> None:
    memory = allocate(context, 10)
    assert memory.size == 10
    assert memory.read() == bytes(10)
    memory.write(b"abc", 4)
    memory.write(bytearray(b"de"))
    memory.write(memoryview(b"-xyz-")[1:4], 7)
    assert memory.read() == b"de\0\0abcxyz"
    assert memory.read(4, 3) == b"abc"
    assert memory.read(10) == memory.read(3, 0) == b""
    assert repr(memory) == f"<Buffer {memory.buffer_id}: 10 bytes>"


def test_arrays_are_written_in_c_order(context: Context) -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    memory = allocate(context, 12)
    for layout in (array, np.asfortranarray(array), array[::-1][::-1]):
        memory.fill(0)
        memory.write(layout)
        assert memory.read() == array.tobytes()


def test_long_writes_and_reads_go_in_chunks(context: Context) -> None:
    size = 5 * (1 << 20) + 123
    data = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    memory = allocate(context, size)
    memory.write(data)
    assert memory.read() == data.tobytes()
    assert memory.read(1 << 20, 2 << 20) == data[1 << 20 : 3 << 20].tobytes()


def test_chunks_respect_the_servers_message_limit() -> None:
    with (
        Server(ServerConfig(listen="127.0.0.1:0", max_message_bytes=100_000)) as server,
        connect(server.address) as context,
    ):
        data = bytes(range(250)) * 4000
        memory = allocate(context, len(data))
        memory.write(data)
        assert memory.read() == data
        big = np.arange(120_000, dtype=np.float32)
        result = context.ops.smooth_l1_loss(big, big + 2, reduction="none")
        assert (result == 1.5).all()


def test_fill_and_copies_on_the_device(context: Context) -> None:
    first, second = allocate(context, 6), allocate(context, 4)
    first.fill(7)
    second.write(b"abcd")
    first.copy_from(second, offset=1, source_offset=1)
    assert first.read() == b"\7bcd\7\7"
    first.copy_from(first, offset=2, source_offset=0, size=4)
    assert first.read() == b"\7b\7bcd"
    stream = context.create_stream()
    second.copy_from(first, size=4, stream=stream)
    assert second.read() == b"\7b\7b"


@pytest.mark.parametrize("value", [-1, 256])
def test_a_fill_with_more_than_a_byte_is_refused(context: Context, value: int) -> None:
    with pytest.raises(InvalidParameterError, match="a byte is 0 to 255"):
        allocate(context, 1).fill(value)


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, 11), (10, 1), (11, 0), (0, -1)])
def test_ranges_outside_are_refused(context: Context, offset: int, size: int) -> None:
    memory = allocate(context, 10)
    with pytest.raises(InvalidParameterError, match="the buffer has 10 bytes"):
        memory.read(offset, size)
    if size >= 0:
        with pytest.raises(InvalidParameterError, match="the buffer has 10 bytes"):
            memory.write(bytes(size), offset)


def test_a_copy_outside_is_told_at_the_next_wait(context: Context) -> None:
    first, second = allocate(context, 4), allocate(context, 8)
    first.copy_from(second)
    with pytest.raises(InvalidParameterError):
        first.read()
    assert first.read() == bytes(4)
    stream = context.create_stream()
    first.copy_from(second, stream=stream)
    with pytest.raises(InvalidParameterError):
        stream.synchronize()


def test_a_copy_between_contexts_is_refused(context: Context, server: Server) -> None:
    with connect(server.address) as other:
        theirs = allocate(other, 4)
        with pytest.raises(InvalidParameterError, match="another context"):
            allocate(context, 4).copy_from(theirs)


@pytest.mark.parametrize("size", [-1, 1.5, None, "8", True])
def test_impossible_sizes_are_refused(context: Context, size: int) -> None:
    with pytest.raises(InvalidParameterError, match="size is") as caught:
        context.malloc(size)
    assert caught.value.parameter == "size"


def test_nothing_is_allocated_for_no_bytes(context: Context) -> None:
    assert context.malloc(0) is None
    assert context.usage().buffers == 0


def test_freed_buffers_are_gone(context: Context) -> None:
    memory = allocate(context, 100)
    assert context.usage().bytes == 100
    memory.free()
    memory.free()
    assert repr(memory).endswith("freed>")
    assert context.usage().bytes == 0
    with pytest.raises(HandleNotFoundError):
        memory.read()
    memory.write(bytes(3))
    with pytest.raises(HandleNotFoundError):
        context.synchronize()


def test_buffers_that_nobody_refers_to_are_freed(context: Context) -> None:
    kept = [allocate(context, 10) for _ in range(5)]
    assert context.usage().buffers == 5
    del kept[1:]
    gc.collect()
    assert context.usage().buffers == 1


def test_buffers_can_be_dropped_in_any_thread(context: Context) -> None:
    memory = [allocate(context, 10) for _ in range(20)]
    threads = [threading.Thread(target=memory.pop) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert context.usage().buffers == 0


def test_memory_that_queued_work_needs_outlives_its_buffer(
    gated: Context, backend: GatedBackend
) -> None:
    out = gated.empty((4,), "int64")
    source = gated.tensor(np.arange(4))
    _, executor = get_workspace_size("aclnnPass", (source, 1, out))
    executor.run(gated.create_stream())
    source.free()
    del source
    backend.gates.open_all()
    assert out.numpy().tolist() == [0, 1, 2, 3]


def test_nothing_is_read_and_a_failure_is_told(gated: Context) -> None:
    out = gated.empty((1,), "int8")
    get_workspace_size("aclnnFail", (3, out))[1].run()
    with pytest.raises(ExecutionFailedError):
        out.buffer.read(0, 0)
    assert gated.empty((0,), "int8").numpy().shape == (0,)


def test_a_refused_allocation_is_told_at_the_next_wait() -> None:
    with (
        Server(ServerConfig(listen="127.0.0.1:0", max_context_bytes=1000)) as server,
        connect(server.address) as context,
    ):
        kept = allocate(context, 600)
        lost = allocate(context, 600)
        lost.write(b"follows from it")
        with pytest.raises(OutOfMemoryError, match="600"):
            context.synchronize()
        assert kept.read() == bytes(600)
        assert context.limits.context_bytes == 1000


# --- progress ---------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A terminal that keeps what is written."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_one_line_that_grows() -> None:
    out = Terminal()
    bar = Progress("upload", 3 << 20, shown=True, out=out)
    for _ in range(3):
        bar.advance(1 << 20)
    text = out.getvalue()
    assert text.startswith("\rupload [##########                    ]  33 % of 3.0 MiB, ")
    assert text.endswith(" MiB/s\n")
    assert text.count("\n") == 1
    assert "100 % of 3.0 MiB" in text.rpartition("\r")[2]


def test_a_file_gets_a_line_per_tenth() -> None:
    out = io.StringIO()
    bar = Progress("download", 1000, shown=True, out=out)
    for _ in range(100):
        bar.advance(10)
    lines = out.getvalue().splitlines()
    assert [line.split("]")[1].split("%")[0].strip() for line in lines] == [
        str(tenth) for tenth in range(10, 101, 10)
    ]


@pytest.mark.parametrize(("total", "shown"), [(0, True), (10, False)])
def test_nothing_is_shown_of_nothing_or_unasked(total: int, shown: bool) -> None:
    out = io.StringIO()
    Progress("upload", total, shown=shown, out=out).advance(10)
    assert out.getvalue() == ""


def test_transfers_show_their_progress_when_asked(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    array = np.zeros(20 << 20, np.uint8)
    with connect(server.address, shared_memory=False) as context:
        _transfer_with_progress(context, array, capsys)


def _transfer_with_progress(
    context: Context, array: npt.NDArray[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    tensor = context.tensor(array)
    tensor.numpy()
    assert capsys.readouterr().err == ""
    tensor = context.tensor(array, progress=True)
    shown = capsys.readouterr().err
    assert shown.startswith("upload [")
    assert "100 % of 20.0 MiB" in shown
    tensor.numpy(progress=True)
    assert "100 % of 20.0 MiB" in capsys.readouterr().err
    tensor.write(array, progress=True)
    tensor.buffer.read(progress=True)
    tensor.buffer.write(b"abc", progress=True)
    assert capsys.readouterr().err.count("100 %") == 3
    assert sys.stderr is not None
    assert transfer.WINDOW < 20


def test_the_types_that_bytes_are_taken_from() -> None:
    assert set(buffer.BytesLike.__args__) >= {bytes, bytearray, memoryview}
