"""The NumPy backend beyond the contract: memory in place, lazily taken, and what it refuses."""

from __future__ import annotations

import resource
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.errors import OutOfMemoryError, StreamDestroyedError
from aclnn.tensors import TensorSpec
from aclnn_server.backends.host import HostDevice, processor_name
from aclnn_server.backends.numpy import NumpyBackend, NumpyDevice
from aclnn_server.operators.engines import casts

GRADIENT = "aclnnSmoothL1LossBackward"


@pytest.fixture
def device() -> NumpyDevice:
    return NumpyBackend(threads=2).devices[0]


@pytest.mark.parametrize("size", [1, 100, 5000, 1 << 22])
def test_memory_begins_at_a_cache_line(device: NumpyDevice, size: int) -> None:
    kept = [device.allocate(size) for _ in range(8)]
    assert all(memory.ctypes.data % 64 == 0 for memory in kept)


def test_large_memory_is_taken_when_it_is_written(device: NumpyDevice) -> None:
    free, _ = device.memory_info()
    before = _resident()
    memory = device.allocate(min(free // 2, 1 << 30))
    assert _resident() - before < 1 << 24
    memory[: 1 << 25] = 1
    assert _resident() - before >= 1 << 24


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def test_wrap_reads_and_writes_in_place(device: NumpyDevice) -> None:
    data = bytearray(b"abcd")
    memory = device.wrap(memoryview(data))
    data[0] = ord("x")
    assert bytes(device.read(memory)) == b"xbcd"
    device.fill(memory, ord("y"))
    assert data == b"yyyy"


def test_read_is_without_a_copy(device: NumpyDevice) -> None:
    memory = device.allocate(4)
    view = device.read(memory)
    device.fill(memory, 7)
    assert bytes(view) == b"\7\7\7\7"


def test_allocation_that_the_system_refuses(
    device: NumpyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HostDevice, "memory_info", lambda self: (0, 0))
    with pytest.raises(OutOfMemoryError):
        device.allocate(1 << 60)


def test_the_processor_has_a_name_without_the_kernels_file(tmp_path: Path) -> None:
    assert processor_name(str(tmp_path / "absent"))
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Some CPU: fast\n")
    assert processor_name(str(tmp_path / "cpuinfo")) == "Some CPU: fast"


def test_run_takes_no_memory_of_the_size_of_the_tensors(device: NumpyDevice) -> None:
    size = 6_000_000
    half = TensorSpec(dtypes.FLOAT16, (size,), (2,), 0, (2 * size,))
    spec = TensorSpec(dtypes.FLOAT, (size,), (2,), 1, (2 * size,))
    plan = device.plan(GRADIENT, [half, spec, half, 1, 0.5, spec])
    storages = [device.allocate(row.storage_bytes) for row in (half, spec, half, spec)]
    assert plan.workspace_bytes == 0
    casts.loops()  # what compiles them takes memory once
    tracemalloc.start()
    device.run(plan, [*storages[:3], None, None, storages[3]], None, None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * size


def test_output_in_wrapped_memory(device: NumpyDevice) -> None:
    out = bytearray(8)
    spec = TensorSpec.contiguous((2,), dtypes.FLOAT)
    plan = device.plan(GRADIENT, [spec, spec, spec, 0, 1.0, spec])
    ones = device.wrap(np.ones(2, np.float32).data.cast("B"))
    zeros = device.allocate(8)
    device.run(plan, [ones, ones, zeros, None, None, device.wrap(memoryview(out))], None, None)
    assert np.frombuffer(out, np.float32).tolist() == [1, 1]


def test_a_call_that_is_not_wanted_any_more_is_broken_off(device: NumpyDevice) -> None:
    """Its blocks that were not begun keep what they held."""
    left = [None] * 3

    def check() -> None:
        if not left:
            raise StreamDestroyedError("the stream was destroyed")
        left.pop()

    spec = TensorSpec.contiguous((1 << 23,), dtypes.FLOAT)
    source, out = device.allocate(spec.storage_bytes), device.allocate(spec.storage_bytes)
    source.view(np.float32)[:] = 1
    plan = device.plan("aclnnRelu", (spec, spec))
    with pytest.raises(StreamDestroyedError):
        device.run(plan, (source, out), None, device.create_stream(check))
    assert 0 < np.count_nonzero(out.view(np.float32)) < spec.elements
    device.run(plan, (source, out), None, device.create_stream(lambda: None))
    assert np.count_nonzero(out.view(np.float32)) == spec.elements
