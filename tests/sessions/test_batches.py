"""Numbered batches: each applied once, and how many answers are kept of one context and of all."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from aclnn.errors import InvalidParameterError, SessionLostError
from aclnn_server.sessions.batches import KEPT_ANSWERS, SMALL_BYTES, Batches, KeptAnswers
from aclnn_server.sessions.environment import Environment
from aclnn_server.sessions.limits import Limits
from aclnn_server.sessions.registry import Registry
from aclnn_server.sessions.streams import Workers
from tests.service.gated import GatedBackend
from tests.sessions.conftest import Clock, unexpected

SMALL = SMALL_BYTES


def never() -> bytes:
    raise AssertionError("a batch was applied twice")


def again(batches: Batches, number: int) -> int:
    """Size of the answer that is kept of a batch."""
    return len(batches.once(number, 0, never))


def lost(batches: Batches, number: int) -> bool:
    with pytest.raises(SessionLostError, match=f"the answer to batch {number} is not kept"):
        batches.once(number, 0, never)
    return True


def test_each_is_applied_once_and_in_order() -> None:
    batches = Batches(KeptAnswers())
    assert batches.once(1, 0, lambda: b"one") == b"one"
    assert batches.once(2, 0, lambda: b"two") == b"two"
    assert batches.once(1, 0, never) == b"one"
    with pytest.raises(InvalidParameterError, match="sequence is 4; the next batch is 3"):
        batches.once(4, 0, never)
    assert batches.once(0, 0, lambda: b"not numbered") == b"not numbered"
    assert batches.once(3, 2, lambda: b"three") == b"three"
    assert lost(batches, 2)
    assert batches.once(3, 0, never) == b"three"


def test_all_contexts_share_room_for_large_answers() -> None:
    kept = KeptAnswers(1000)
    first, second = Batches(kept), Batches(kept)
    first.once(1, 0, lambda: bytes(SMALL + 600))
    assert kept.used == 600
    second.once(1, 0, lambda: bytes(SMALL + 400))
    assert kept.used == 1000
    second.once(2, 0, lambda: bytes(1))  # its own oldest makes room, no other context's
    assert lost(second, 1)
    assert (again(second, 2), again(first, 1), kept.used) == (1, SMALL + 600, 600)
    second.once(3, 0, lambda: bytes(SMALL + 401))
    assert lost(second, 3)  # it alone is too large
    assert kept.used == 600
    first.once(2, 1, lambda: b"")
    assert kept.used == 0
    second.once(4, 0, lambda: bytes(SMALL + 1000))
    assert (again(second, 4), kept.used) == (SMALL + 1000, 1000)


def test_answers_to_small_calls_are_kept_though_others_fill_the_room() -> None:
    kept = KeptAnswers(0)
    batches = Batches(kept)
    for number in range(1, 65):
        batches.once(number, 0, lambda: bytes(SMALL // 64))
    assert [again(batches, number) for number in (1, 64)] == [SMALL // 64] * 2
    batches.once(65, 0, lambda: b"x")
    assert lost(batches, 1)
    assert (again(batches, 2), kept.used) == (SMALL // 64, 0)


def test_no_more_answers_than_a_number() -> None:
    batches = Batches(KeptAnswers())
    for number in range(1, KEPT_ANSWERS + 2):
        batches.once(number, 0, lambda: b"")
    assert lost(batches, 1)
    assert again(batches, 2) == 0


def test_a_context_that_ends_gives_its_room_back(
    backend: GatedBackend, workers: Workers, clock: Clock
) -> None:
    kept = KeptAnswers(1000)
    environment = Environment(Limits(), workers, clock, unexpected, kept_answers=kept)
    registry = Registry(backend.devices, environment)
    context = registry.create_context(None, 60.0)
    context.batches.once(1, 0, lambda: bytes(SMALL + 700))
    assert kept.used == 700
    registry.destroy_context(context)
    assert kept.used == 0


def test_a_context_that_ends_in_the_middle_of_a_batch_keeps_no_room() -> None:
    kept = KeptAnswers(1000)
    batches = Batches(kept)
    batches.once(1, 0, lambda: bytes(SMALL + 100))

    def ends() -> bytes:
        closing = threading.Thread(target=batches.close)
        closing.start()
        closing.join(30)
        assert not closing.is_alive()  # it does not wait for the batch
        return bytes(SMALL + 200)

    batches.once(2, 0, ends)
    assert kept.used == 0


@pytest.mark.parametrize("make", [lambda: bytes(SMALL + 1), lambda: b""])
def test_room_is_counted_right_while_many_take_and_give(make: Callable[[], bytes]) -> None:
    kept = KeptAnswers(3)
    every = [Batches(kept) for _ in range(8)]

    def run(batches: Batches) -> None:
        for number in range(1, 300):
            batches.once(number, number - 1, make)
        batches.close()

    threads = [threading.Thread(target=run, args=(batches,)) for batches in every]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept.used == 0
