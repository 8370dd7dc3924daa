"""The pool of device memory, and pinned memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from aclnn.errors import OutOfMemoryError
from aclnn_server.backends.ascend.device import AscendDevice
from aclnn_server.backends.ascend.memory import (
    LARGEST_SMALL_BLOCK,
    SLAB_BYTES,
    SLACK_BYTES,
    Block,
    Deferred,
    MemoryPool,
    PinnedPool,
    Queue,
)
from tests.ascend.building import Control

MIB = 2**20


class Pool:
    """A pool of its own on the device's thread."""

    def __init__(self, device: AscendDevice, **options: int) -> None:
        self._thread = device._thread
        self._pool = self._thread.call(lambda: MemoryPool(device._acl, **options))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._pool, name)
        return lambda *arguments: self._thread.call(method, *arguments)

    @property
    def kept(self) -> int:
        return self._pool.free_bytes


@pytest.mark.parametrize("size", [1, 479, 481, 5000, LARGEST_SMALL_BLOCK - 32, MIB, 3 * MIB + 1])
def test_blocks_are_aligned_and_have_slack(device: AscendDevice, size: int) -> None:
    pool = Pool(device)
    blocks: list[Block] = [pool.take(size) for _ in range(3)]
    for block in blocks:
        assert block.address % 64 == 0
        assert block.capacity >= size + SLACK_BYTES
    spans = sorted((block.address, block.address + block.capacity) for block in blocks)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    pool.close()


def test_small_blocks_share_a_slab(device: AscendDevice, double: Control) -> None:
    pool = Pool(device)
    before = double.calls("aclrtMalloc")
    blocks = [pool.take(100) for _ in range(SLAB_BYTES // 512)]
    assert double.calls("aclrtMalloc") == before + 1
    pool.take(100)
    assert double.calls("aclrtMalloc") == before + 2
    pool.give_back(blocks[7])
    assert pool.take(400) == blocks[7]
    pool.close()


def test_large_blocks_are_kept_for_the_same_size(device: AscendDevice, double: Control) -> None:
    pool = Pool(device)
    block = pool.take(3 * MIB)
    pool.give_back(block)
    assert pool.kept == block.capacity == 4 * MIB
    before = double.calls("aclrtMalloc")
    assert pool.take(4 * MIB - 100) == block
    assert double.calls("aclrtMalloc") == before
    pool.close()


def test_no_more_is_kept_than_allowed(device: AscendDevice, double: Control) -> None:
    pool = Pool(device, kept_bytes=8 * MIB)
    blocks = [pool.take(size * MIB - SLACK_BYTES) for size in (2, 4, 6)]
    before = double.live("memory")
    for block in blocks:
        pool.give_back(block)
    assert pool.kept == 6 * MIB
    assert double.live("memory") == before - 2, "the oldest went first"
    pool.close()


def test_what_is_kept_goes_before_a_refusal(device: AscendDevice) -> None:
    pool = Pool(device)
    pool.give_back(pool.take(600 * MIB))
    block = pool.take(700 * MIB)
    assert pool.kept == 0
    with pytest.raises(OutOfMemoryError):
        pool.take(700 * MIB)
    pool.give_back(block)
    pool.close()


def test_closing_gives_back_what_is_out_too(device: AscendDevice, double: Control) -> None:
    before = double.live("memory")
    pool = Pool(device)
    for size in (10, MIB, 5 * MIB):
        pool.take(size)
    assert double.live("memory") > before
    pool.close()
    assert double.live("memory") == before


def test_memory_info_counts_what_is_kept_as_free(device: AscendDevice) -> None:
    free, total = device.memory_info()
    device.release(device.allocate(64 * MIB))
    assert device.memory_info() == (free, total)


@pytest.mark.parametrize("size", [1, 1000, 3 * MIB])
def test_no_client_sees_anothers_bytes(device: AscendDevice, size: int) -> None:
    """Fresh memory of the double is full of garbage, and so is what others leave."""
    for _ in range(2):
        memory = device.allocate(size)
        assert bytes(device.read(memory)) == bytes(size)
        device.fill(memory, 0xAB)
        device.release(memory)


class TestDeferred:
    def test_at_once_where_nothing_is_used(self) -> None:
        done: list[str] = []
        Deferred().add([], lambda: done.append("x"))
        assert done == ["x"]

    def test_when_every_use_is_over(self) -> None:
        deferred, done, queues = Deferred(), list[str](), [Queue(), Queue()]
        for queue in queues:
            queue.given = 3
        deferred.add([(queues[0], 2), (queues[1], 3)], lambda: done.append("x"), 100)
        assert (deferred.bytes, deferred.queues()) == (100, set(queues))
        queues[0].done = 2
        deferred.settle()
        assert (done, deferred.queues()) == ([], {queues[1]})
        queues[1].done = 3
        deferred.settle()
        assert (done, deferred.bytes, deferred.queues()) == (["x"], 0, set())


class TestPinned:
    def test_is_used_again(self, device: AscendDevice, double: Control) -> None:
        pool: PinnedPool = device._pinned
        before = double.calls("aclrtMallocHost")
        block = pool.take(5000)
        assert block.array.size == 8192
        pool.give_back(block)
        assert pool.take(8192) is block
        pool.give_back(block)
        assert double.calls("aclrtMallocHost") == before + 1

    def test_no_more_is_kept_than_allowed(
        self, device: AscendDevice, double: Control, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(PinnedPool, "KEPT_BYTES", 10_000)
        pool = device._pinned
        blocks = [pool.take(8192) for _ in range(3)]
        for block in blocks:
            pool.give_back(block)
        assert double.live("host") == 1
