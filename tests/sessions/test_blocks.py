"""Large blocks that are kept: for whom, what they hold, how many, and for how long."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aclnn.errors import OutOfMemoryError
from aclnn_server.sessions import blocks as module
from aclnn_server.sessions.blocks import LARGE_BYTES, Blocks
from aclnn_server.sessions.memory import Account, Buffer
from tests.service.gated import CountingDevice, GatedBackend

SIZE = LARGE_BYTES


@pytest.fixture(autouse=True)
def keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices whose blocks are kept."""
    monkeypatch.setattr(CountingDevice, "keeps_blocks", True)


@pytest.fixture
def device(backend: GatedBackend) -> CountingDevice:
    """A device, whose memory has all gone back when the test is over."""
    return backend.device


@pytest.fixture
def blocks() -> Blocks:
    """Blocks of several accounts."""
    return Blocks()


def account(device: CountingDevice, blocks: Blocks, limit: int = 10 * SIZE) -> Account:
    return Account(device, limit, blocks=blocks)


def filled(mine: Account, value: int, size: int = SIZE) -> Buffer:
    """A buffer of that value."""
    buffer = Buffer(1, size, mine)
    mine.device.fill(buffer.memory, value)
    return buffer


def content(buffer: Buffer) -> set[int]:
    """The values of a buffer's bytes."""
    return set(buffer._account.device.read(buffer.memory).tolist())


def test_a_block_is_used_again(device: CountingDevice, blocks: Blocks) -> None:
    mine = account(device, blocks)
    filled(mine, 7).free()
    assert (mine.used, blocks.bytes, device.allocations) == (0, SIZE, 1)
    again = Buffer(2, SIZE, mine, zeroed=False)
    assert content(again) == {7}
    assert (mine.used, blocks.bytes, device.allocations) == (SIZE, 0, 1)
    again.free()
    mine.close()
    assert (blocks.bytes, device.live_bytes) == (0, 0)


def test_it_is_zeroed_unless_told_not_to(device: CountingDevice, blocks: Blocks) -> None:
    mine = account(device, blocks)
    filled(mine, 7).free()
    zeroed = Buffer(2, SIZE, mine)
    assert content(zeroed) == {0}
    assert device.allocations == 1
    zeroed.free()
    mine.close()


def test_nobody_else_gets_it(device: CountingDevice, blocks: Blocks) -> None:
    mine, other = account(device, blocks), account(device, blocks)
    filled(mine, 7).free()
    foreign = Buffer(1, SIZE, other, zeroed=False)
    assert content(foreign) == {0}
    foreign.free()
    assert blocks.bytes == 2 * SIZE
    mine.close()
    assert blocks.bytes == SIZE
    other.close()
    assert device.live_bytes == 0


def test_what_is_freed_after_the_end_is_not_kept(device: CountingDevice, blocks: Blocks) -> None:
    mine = account(device, blocks)
    buffer = filled(mine, 7)
    mine.close()
    buffer.free()
    assert (blocks.bytes, device.live_bytes) == (0, 0)


@pytest.mark.parametrize("size", [1, SIZE - 1, SIZE + 1])
def test_only_large_ones_of_the_same_size(
    device: CountingDevice, blocks: Blocks, size: int
) -> None:
    mine = account(device, blocks)
    filled(mine, 7, size).free()
    assert blocks.bytes == (size if size >= LARGE_BYTES else 0)
    other = Buffer(2, SIZE, mine, zeroed=False)
    assert content(other) == {0}
    other.free()
    mine.close()


def test_a_device_may_keep_none(
    device: CountingDevice, blocks: Blocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountingDevice, "keeps_blocks", False)
    filled(account(device, blocks), 7).free()
    assert (blocks.bytes, device.live_bytes) == (0, 0)


def test_no_more_than_may_be(
    device: CountingDevice, blocks: Blocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 2 * SIZE)
    mine = account(device, blocks)
    buffers = [filled(mine, value) for value in (1, 2, 3)]
    for buffer in buffers:
        buffer.free()
    assert (blocks.bytes, device.live_bytes) == (2 * SIZE, 2 * SIZE)
    left = [Buffer(1, SIZE, mine, zeroed=False) for _ in range(2)]
    assert [content(buffer) for buffer in left] == [{3}, {2}]
    huge = filled(mine, 4, 2 * SIZE + 1)
    huge.free()
    assert blocks.bytes == 0
    for buffer in left:
        buffer.free()
    mine.close()


def test_not_for_long(device: CountingDevice) -> None:
    now = 100.0
    blocks = Blocks(lambda: now)
    mine = account(device, blocks)
    first, second = filled(mine, 1), filled(mine, 2)
    first.free()
    now = 104.0
    second.free()
    now = 105.0
    blocks.release_old()
    assert blocks.bytes == device.live_bytes == SIZE
    now = 109.0
    blocks.release_old()
    assert blocks.bytes == device.live_bytes == 0


ASK: dict[str, Callable[[Account], object]] = {
    "a buffer": lambda mine: mine.allocate_block(2 * SIZE, "a buffer", zeroed=False),
    "a result": lambda mine: mine.allocate(2 * SIZE, "a result"),
    "shared memory": lambda mine: mine.share(2 * SIZE, "a segment"),
}


@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
def test_they_are_given_up_where_the_device_has_no_more(
    blocks: Blocks, ask: Callable[[Account], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = GatedBackend(total_bytes=3 * SIZE)
    device = backend.device

    def share(device: CountingDevice, size: int) -> object:
        return device.allocate(size)

    monkeypatch.setattr(CountingDevice, "share", share)
    mine, other = account(device, blocks), account(device, blocks)
    filled(other, 1, 2 * SIZE).free()
    made = ask(mine)
    assert (blocks.bytes, device.live_bytes, mine.used) == (0, 2 * SIZE, 2 * SIZE)
    with pytest.raises(OutOfMemoryError, match="device 0 has no room"):
        ask(mine)
    assert mine.used == 2 * SIZE
    mine.release(made, 2 * SIZE)
    backend.check_clean()


def test_they_are_in_nobody_s_quota(device: CountingDevice, blocks: Blocks) -> None:
    mine = account(device, blocks, limit=SIZE + 1)
    filled(mine, 1, SIZE + 1).free()
    buffer = filled(mine, 2)
    assert (mine.used, blocks.bytes) == (SIZE, SIZE + 1)
    buffer.free()
    mine.close()


def test_they_are_given_up_for_what_is_no_buffer_too(blocks: Blocks) -> None:
    backend = GatedBackend(total_bytes=3 * SIZE)
    mine, other = account(backend.device, blocks), account(backend.device, blocks)
    filled(other, 1, 2 * SIZE).free()
    memory = mine.allocate(2 * SIZE, "an output")
    assert (blocks.bytes, backend.device.live_bytes) == (0, 2 * SIZE)
    mine.release(memory, 2 * SIZE)
    backend.check_clean()


def test_what_is_freed_while_its_context_ends_is_not_kept(device: CountingDevice) -> None:
    class Late(Blocks):
        def keep(self, *rest: Any) -> bool:  # noqa: ANN401
            mine.close()  # another thread, after it was asked whether the context has ended
            return super().keep(*rest)

    blocks = Late()
    mine = account(device, blocks)
    filled(mine, 7).free()
    assert (mine.used, blocks.bytes, device.live_bytes) == (0, 0, 0)


def test_threads_of_many_contexts_see_their_own_bytes(device: CountingDevice) -> None:
    """Each fills buffers with values of its own, and finds zeros, its own values, or nothing else."""
    blocks = Blocks()

    def work(number: int) -> None:
        choose, mine = random.Random(number), account(device, blocks, 4 * SIZE)
        for _ in range(40):
            zeroed = choose.random() < 0.5
            buffer = Buffer(1, SIZE + choose.randrange(2), mine, zeroed=zeroed)
            held = device.bytes_of(buffer.memory)
            assert (held.min(), held.max()) in ([(0, 0)] if zeroed else [(0, 0), (number, number)])
            device.fill(buffer.memory, number)
            buffer.free()
            if choose.random() < 0.1:
                blocks.release_old(0)
        mine.close()
        assert mine.used == 0

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(1, 7)))
    assert (blocks.bytes, device.live_bytes) == (0, 0)
