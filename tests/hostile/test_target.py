"""What ``make fuzz`` drives finds nothing in inputs that are right or spoilt, and does find what is wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from aclnn import wire
from aclnn.v1 import device_service_pb2 as pb
from tests.hostile import length
from tests.hostile.target import DECODERS, Target, batch_of, check_decoder, seeds, spoilt

STEP = 7
"""Every so manieth seed in the short form."""
pytestmark = pytest.mark.timeout(120 + 2 * length.LONG_SECONDS)


@pytest.fixture
def target() -> Iterator[Target]:
    """The target; in the end nothing is left in it."""
    with Target() as target:
        yield target


def test_right_and_spoilt_batches(target: Target) -> None:
    known = [*seeds()][:: 1 if length.LONG_SECONDS else STEP]
    for data in known:
        target(data)
    assert (
        target.refused < target.results / 8
    )  # some are of a type that their operator does not take
    for seed in length.seeds(100):
        choose = random.Random(seed)
        try:
            target(spoilt(choose.choice(known), choose))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_a_decoder_that_reads_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = batch_of(pb.SynchronizeStreamRequest())
    for decode in DECODERS:
        check_decoder(decode, data)
    split = wire._split_request
    monkeypatch.setattr(
        wire, "_split_request", lambda view: wire.RawBatch("x", 0, split(view).commands)
    )
    with pytest.raises(AssertionError, match="split_request: "):
        check_decoder(wire.split_request, data)
