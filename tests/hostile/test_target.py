"""What ``make fuzz`` drives finds nothing in inputs that are right or spoilt, and does find what is wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from aclnn import wire
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import tensor_pb2
from tests.hostile import length
from tests.hostile.arguments import BUFFER
from tests.hostile.target import (
    DECODERS,
    Target,
    batch_of,
    check_decoder,
    joined,
    seeds,
    spoilt,
)
from tests.service.requests import plan, run, tensor

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


# --- what it has found, of calls that are recognised by their bytes ------------------------------------

KNOWN = batch_of(
    plan(
        "aclnnAbs",
        tensor([2], buffer_id=BUFFER),
        tensor([2], buffer_id=BUFFER),
        executor=1,
    ),
    run(1),
)


def test_of_two_commands_in_one_the_last_counts(target: Target) -> None:
    for _ in range(2):
        target(KNOWN)
    assert target.refused == 0
    first, second = pb.SubmitRequest.FromString(KNOWN).commands
    other = pb.Command(destroy_event=pb.DestroyEventRequest(event_id=9)).SerializeToString()
    both = first.SerializeToString() + other
    target(joined([both, second.SerializeToString()]))
    assert target.refused == 2  # no event, and no executor


def test_a_number_that_does_not_end_is_none(target: Target) -> None:
    target(batch_of(pb.MallocRequest(buffer_id=0x81, bytes=8)))
    for _ in range(2):
        target(KNOWN)
    place = wire.tag(tensor_pb2.Tensor, "buffer_id")
    target(KNOWN.replace(place + b"\x01", place + b"\x81", 1))
    assert target.refused == 2  # the command is none, and no executor


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
