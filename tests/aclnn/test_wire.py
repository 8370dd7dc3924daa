"""Messages encoded and decoded by hand are protobuf's, to the byte."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from aclnn import wire
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import error_pb2, operator_service_pb2

BIG = bytes(range(256)) * 100
SIZES = st.sampled_from((0, 1, 127, 128, 16_383, 16_384, 20_000, 70_000))
PAYLOADS = SIZES.map(lambda size: (BIG * 3)[:size])
IDS = st.sampled_from((0, 1, 127, 128, 2**32, 2**63, 2**64 - 1))

HEADERS = st.builds(
    pb.WriteBufferRequest,
    context_id=st.sampled_from(("", "c", "x" * 200)),
    stream_id=st.sampled_from(("", "stream")),
    buffer_id=IDS,
    offset=IDS,
    total_bytes=IDS,
)
WRITES = st.builds(wire.BulkWrite, HEADERS, PAYLOADS)
COMMANDS = st.one_of(
    WRITES,
    st.just(pb.Command()),
    st.builds(lambda n: pb.Command(malloc=pb.MallocRequest(buffer_id=n, bytes=n)), IDS),
)
RESULTS = st.one_of(
    st.builds(wire.BulkRead, PAYLOADS),
    st.just(pb.Result(error=error_pb2.Error(reason="R", message="m" * 300))),
    st.just(pb.Result(execute=operator_service_pb2.ExecuteResponse())),
)


def as_command(command: pb.Command | wire.BulkWrite) -> pb.Command:
    return (
        command if isinstance(command, pb.Command) else pb.Command(write_buffer=as_write(command))
    )


def as_write(write: wire.BulkWrite) -> pb.WriteBufferRequest:
    message = pb.WriteBufferRequest()
    message.CopyFrom(write.header)
    message.data = bytes(write.data)
    return message


def as_request(batch: wire.Batch) -> pb.SubmitRequest:
    return pb.SubmitRequest(
        context_id=batch.context_id,
        sequence=batch.sequence,
        acknowledged=batch.acknowledged,
        commands=[as_command(command) for command in batch.commands],
    )


def as_response(answer: wire.Answer) -> pb.SubmitResponse:
    return pb.SubmitResponse(
        sequence=answer.sequence,
        results=[
            result
            if isinstance(result, pb.Result)
            else pb.Result(read_buffer=pb.ReadBufferResponse(data=bytes(result.data)))
            for result in answer.results
        ],
    )


@given(WRITES)
def test_a_write_is_protobufs_both_ways(write: wire.BulkWrite) -> None:
    encoded = as_write(write).SerializeToString()
    assert wire.encode_write(write.header, write.data) == encoded
    assert as_write(wire.decode_write(encoded)) == as_write(write)


@given(PAYLOADS)
def test_a_read_is_protobufs_both_ways(data: bytes) -> None:
    encoded = pb.ReadBufferResponse(data=data).SerializeToString()
    assert wire.encode_read(data) == encoded
    assert bytes(wire.decode_read(encoded).data) == data


@given(st.sampled_from(("", "context")), IDS, IDS, st.lists(COMMANDS, max_size=5))
def test_a_request_is_protobufs_both_ways(
    context_id: str,
    sequence: int,
    acknowledged: int,
    commands: list[pb.Command | wire.BulkWrite],
) -> None:
    batch = wire.Batch(context_id, sequence, commands, acknowledged)
    encoded = as_request(batch).SerializeToString()
    assert wire.encode_request(batch) == encoded
    assert as_request(wire.decode_request(encoded)) == as_request(batch)


@given(IDS, st.lists(RESULTS, max_size=5))
def test_a_response_is_protobufs_both_ways(
    sequence: int, results: list[pb.Result | wire.BulkRead]
) -> None:
    answer = wire.Answer(sequence, results)
    encoded = as_response(answer).SerializeToString()
    assert wire.encode_response(answer) == encoded
    assert as_response(wire.decode_response(encoded)) == as_response(answer)


def test_bulk_bytes_are_a_view_of_the_message() -> None:
    write = wire.BulkWrite(pb.WriteBufferRequest(buffer_id=5), BIG)
    encoded = wire.encode_request(wire.Batch("c", 1, [write]))
    (decoded,) = wire.decode_request(encoded).commands
    assert isinstance(decoded, wire.BulkWrite)
    assert isinstance(decoded.data, memoryview)
    assert decoded.data.obj is encoded
    answer = wire.encode_response(wire.Answer(1, [wire.BulkRead(BIG)]))
    (result,) = wire.decode_response(answer).results
    assert isinstance(result, wire.BulkRead)
    assert isinstance(result.data, memoryview)
    assert result.data.obj is answer


UNKNOWN_VARINT = b"\xf8\x07\x05"
UNKNOWN_TEXT = b"\xfa\x07\x03abc"
UNKNOWN_FIXED = b"\xf9\x07" + bytes(8)
PLAIN = pb.WriteBufferRequest(buffer_id=5, offset=7, data=BIG).SerializeToString()


@pytest.mark.parametrize("extra", [UNKNOWN_VARINT, UNKNOWN_TEXT, UNKNOWN_FIXED])
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_unknown_fields_are_read_as_protobuf_reads_them(extra: bytes, *, first: bool) -> None:
    encoded = extra + PLAIN if first else PLAIN + extra
    assert bytes(wire.decode_write(encoded).data) == BIG
    batch = pb.SubmitRequest(sequence=3, commands=[pb.Command(malloc=pb.MallocRequest(bytes=1))])
    body = batch.SerializeToString() + wire.encode_request(
        wire.Batch("", 0, [wire.BulkWrite(pb.WriteBufferRequest(buffer_id=5), BIG)])
    )
    decoded = wire.decode_request(extra + body if first else body + extra)
    assert decoded.sequence == 3
    assert [as_command(c).WhichOneof("command") for c in decoded.commands] == [
        "malloc",
        "write_buffer",
    ]


def test_reordered_fields_are_read_as_protobuf_reads_them() -> None:
    data_first = b"\x32" + wire.varint(len(BIG)) + BIG + b"\x18\x05"
    decoded = wire.decode_write(data_first)
    assert (decoded.header.buffer_id, bytes(decoded.data)) == (5, BIG)
    request = wire.encode_request(wire.Batch("", 0, [wire.BulkWrite(pb.WriteBufferRequest(), BIG)]))
    assert wire.decode_request(request + b"\x10\x09").sequence == 9


def test_a_split_field_is_merged_as_protobuf_merges_it() -> None:
    """The last of a repeated plain field counts; a repeated message field is merged."""
    twice = PLAIN + b"\x32\x02hi"
    assert bytes(wire.decode_write(twice).data) == b"hi"
    inner = b"\x4a" + wire.varint(len(PLAIN)) + PLAIN
    command = inner + b"\x4a\x02\x20\x09"
    (decoded,) = wire.decode_request(b"\x22" + wire.varint(len(command)) + command).commands
    message = as_command(decoded).write_buffer
    assert (message.buffer_id, message.offset, message.data) == (5, 9, BIG)


@pytest.mark.parametrize(
    "decode", [wire.decode_write, wire.decode_read, wire.decode_request, wire.decode_response]
)
@given(garbage=st.binary(max_size=40), large=st.booleans())
def test_garbage_is_refused_or_read_as_protobuf_reads_it(
    decode: object, garbage: bytes, *, large: bool
) -> None:
    encoded = garbage + (b"\x32\xff\xff\x7f" + BIG if large else b"")
    try:
        decode(encoded)  # type: ignore[operator]
    except DecodeError:
        return
