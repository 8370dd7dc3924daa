"""What every backend promises."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.errors import OperatorNotFoundError, OutOfMemoryError
from aclnn.tensors import TensorSpec
from aclnn_server.backends.base import Backend, Device, Plan, Value

GRADIENT = "aclnnSmoothL1LossBackward"
LOSS = "aclnnSmoothL1Loss"


def content(device: Device, memory: Any) -> bytes:  # noqa: ANN401 - the backend's own
    return bytes(device.read(memory))


def plan_gradient(device: Device, *shape: int, repeatable: bool = False) -> Plan:
    spec = TensorSpec.contiguous(shape, dtypes.FLOAT)
    return device.plan(GRADIENT, [spec, spec, spec, 0, 1.0, spec], repeatable=repeatable)


class TestBackend:
    def test_devices_are_numbered_and_named(self, backend: Backend) -> None:
        assert [device.index for device in backend.devices] == list(range(len(backend.devices)))
        assert all(device.name for device in backend.devices)

    def test_catalogue_is_in_order_and_describes_its_operators(self, backend: Backend) -> None:
        assert list(backend.operators) == sorted(backend.operators)
        assert {GRADIENT, LOSS} <= backend.operators.keys()
        for name, info in backend.operators.items():
            assert info.signature.name == name
            assert info.summary
            assert info.description
        assert {backend.operators[name].refused_because for name in (GRADIENT, LOSS)} == {""}

    def test_catalogue_cannot_be_changed(self, backend: Backend) -> None:
        with pytest.raises(TypeError):
            backend.operators["aclnnAdd"] = None  # type: ignore[index]

    def test_types_are_listed_by_parameters_of_the_signature(self, backend: Backend) -> None:
        info = backend.operators[GRADIENT]
        assert info.dtypes is not None
        assert info.dtypes.keys() == {"gradOutput", "self", "target", "gradInput"}

    def test_close_is_safe_to_repeat(self, backend: Backend) -> None:
        backend.close()
        backend.close()


class TestMemory:
    def test_sizes_are_known(self, device: Device) -> None:
        free, total = device.memory_info()
        assert 0 < free <= total

    @pytest.mark.parametrize("size", [1, 63, 64, 4096, 1 << 20, 100_000_000])
    def test_is_zeroed_and_of_its_size(self, device: Device, size: int) -> None:
        memory = device.allocate(size)
        assert len(device.read(memory)) == size
        sample = np.frombuffer(device.read(memory), np.uint8)[:: max(1, size // 1000)]
        assert not sample.any()
        device.release(memory)

    def test_is_zeroed_after_others_used_it(self, device: Device) -> None:
        for size in (1 << 10, 1 << 16, 1 << 21):
            used = device.allocate(size)
            device.fill(used, 0xAB)
            device.release(used)
            del used
            again = device.allocate(size)
            assert content(device, again) == bytes(size)
            device.release(again)

    def test_too_much_is_refused_with_what_there_is(self, device: Device) -> None:
        _, total = device.memory_info()
        for size in (total * 2, 1 << 60):
            with pytest.raises(OutOfMemoryError, match=f"{size} bytes were asked for") as caught:
                device.allocate(size)
            assert caught.value.code == 207001
            assert str(total) in caught.value.message

    def test_write_and_read(self, device: Device) -> None:
        memory = device.allocate(10)
        device.write(memory, memoryview(b"abcdef"))
        assert content(device, memory) == b"abcdef" + bytes(4)
        device.write(memory, memoryview(b""))
        assert content(device, memory) == b"abcdef" + bytes(4)

    def test_write_from_what_is_no_bytes(self, device: Device) -> None:
        memory = device.allocate(16)
        device.write(memory, np.arange(4, dtype=np.int32).data.cast("B"))
        assert content(device, memory) == np.arange(4, dtype=np.int32).tobytes()

    def test_slice_is_the_same_memory(self, device: Device) -> None:
        memory = device.allocate(10)
        part = device.slice(memory, 2, 5)
        device.write(part, memoryview(b"abcde"))
        assert content(device, memory) == b"\0\0abcde\0\0\0"
        assert content(device, device.slice(part, 1, 2)) == b"bc"
        assert content(device, device.slice(memory, 10, 0)) == b""

    def test_fill(self, device: Device) -> None:
        memory = device.allocate(6)
        device.fill(device.slice(memory, 1, 3), 255)
        assert content(device, memory) == b"\0\xff\xff\xff\0\0"

    def test_copy(self, device: Device) -> None:
        one, two = device.allocate(4), device.allocate(4)
        device.write(one, memoryview(b"abcd"))
        device.copy(two, one)
        assert content(device, two) == b"abcd"

    @pytest.mark.parametrize("shift", [-3, 0, 3])
    @pytest.mark.parametrize("size", [8, 100_000])
    def test_copy_between_overlapping_regions(self, device: Device, shift: int, size: int) -> None:
        data = np.random.default_rng(1).integers(0, 256, size + 6, np.uint8).tobytes()
        memory = device.allocate(size + 6)
        device.write(memory, memoryview(data))
        device.copy(device.slice(memory, 3 + shift, size), device.slice(memory, 3, size))
        expected = bytearray(data)
        expected[3 + shift : 3 + shift + size] = data[3 : 3 + size]
        assert content(device, memory) == expected

    def test_wrap_holds_the_data(self, device: Device) -> None:
        for data in (b"abc", b""):
            wrapped = device.wrap(memoryview(data))
            assert content(device, wrapped) == data
            device.release(wrapped)


class TestOperators:
    def test_plan_keeps_the_call(self, device: Device) -> None:
        spec = TensorSpec.contiguous((4, 2), dtypes.FLOAT)
        arguments: list[Value] = [spec, spec, spec, 1, 0.5, spec]
        plan = device.plan(GRADIENT, arguments)
        assert plan.operator == GRADIENT
        assert plan.arguments == tuple(arguments)
        assert plan.workspace_bytes >= 0

    def test_unknown_operator(self, device: Device) -> None:
        with pytest.raises(OperatorNotFoundError) as caught:
            device.plan("aclnnNoSuchThing", [])
        assert caught.value.code == 100024

    def test_inputs_keep_their_bytes(self, device: Device) -> None:
        plan = plan_gradient(device, 100)
        memories = [device.allocate(400) for _ in range(4)]
        for value, memory in enumerate(memories[:3]):
            device.fill(memory, value + 1)
        storages = [*memories[:3], None, None, memories[3]]
        stream = device.create_stream()
        device.run(plan, storages, None, stream)
        device.synchronize(stream)
        assert [content(device, memory)[:1] for memory in memories[:3]] == [b"\1", b"\2", b"\3"]

    def test_empty_call_needs_nothing(self, device: Device) -> None:
        plan = plan_gradient(device, 0, 3)
        memory = device.allocate(1)
        assert plan.workspace_bytes == 0
        stream = device.create_stream()
        device.run(plan, [memory, memory, memory, None, None, memory], None, stream)
        assert content(device, memory) == b"\0"

    def test_a_plan_runs_many_times_and_from_many_threads(self, device: Device) -> None:
        plan = plan_gradient(device, 1000, repeatable=True)
        failures: list[Exception] = []

        def run() -> None:
            try:
                storages = [device.allocate(4000) for _ in range(4)]
                stream = device.create_stream()
                for _ in range(20):
                    device.run(plan, [*storages[:3], None, None, storages[3]], None, stream)
                device.synchronize(stream)
                device.destroy_stream(stream)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
