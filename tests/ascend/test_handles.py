"""Owning objects: released once, in order, and also when a release fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

import pytest

from aclnn import dtypes
from aclnn.errors import ExecutionFailedError
from aclnn_server.backends.ascend import handles
from aclnn_server.backends.ascend.acl import Acl
from aclnn_server.backends.ascend.handles import DeviceMemory, DeviceUse, Event, Handle, Stream
from aclnn_server.backends.ascend.loader import open_cann
from tests.ascend.building import Control


@pytest.fixture
def acl(double: Control, environment: dict[str, str]) -> Iterator[Acl]:
    """CANN, started, with device 0 as this thread's."""
    acl = Acl(open_cann(environment).find)
    acl.aclInit(None)
    use = DeviceUse(acl, 0)
    yield acl
    use.close()
    acl.aclFinalize()


def test_released_once(acl: Acl, double: Control) -> None:
    memory = DeviceMemory(acl, 100)
    assert memory.value is not None
    assert memory.value % 64 == 0
    memory.close()
    memory.close()
    assert repr(memory) == "<DeviceMemory released>"
    assert double.live("memory") == 0


def test_says_what_it_is(acl: Acl) -> None:
    stream = Stream(acl)
    assert repr(stream) == f"<Stream {stream.value:#x}>"
    stream.close()
    assert repr(stream) == "<Stream released>"


@pytest.mark.parametrize("times", [1, 2])
def test_a_release_that_fails_is_tried_once_more(
    acl: Acl, double: Control, caplog: pytest.LogCaptureFixture, times: int
) -> None:
    calls = []

    def release(value: int) -> None:
        calls.append(value)
        if len(calls) <= times:
            raise ExecutionFailedError("not now")

    Handle(7, release).close()
    assert calls == [7, 7]
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert len(said) == times - 1


def test_streams_and_events(acl: Acl, double: Control) -> None:
    stream, early, late = Stream(acl), Event(acl), Event(acl)
    acl.aclrtRecordEvent(early.value, stream.value)
    acl.aclrtRecordEvent(late.value, stream.value)
    acl.aclrtSynchronizeStream(stream.value)
    assert stream.is_complete()
    assert early.is_complete()
    assert late.nanoseconds_since(early) >= 0
    for handle in (late, early, stream):
        handle.close()
    assert double.left() == {"device": 1}


def test_work_that_is_not_done(acl: Acl, double: Control) -> None:
    double.hold()
    stream, event = Stream(acl), Event(acl)
    acl.aclrtRecordEvent(event.value, stream.value)
    assert not stream.is_complete()
    assert not event.is_complete()
    double.let_go()
    stream.close()
    event.close()


def test_an_abandoned_stream_drops_its_work(acl: Acl, double: Control) -> None:
    memory = DeviceMemory(acl, 64)
    double.hold()
    stream = Stream(acl)
    acl.aclrtMemsetAsync(memory.value, 64, 1, 64, stream.value)
    stream.abandon()
    assert double.live("stream") == 0
    memory.close()


def test_lists_own_their_elements(acl: Acl, double: Control) -> None:
    make = partial(handles.scalar, acl, b"\0\0\0\0", dtypes.FLOAT)
    owner = handles.scalar_list(acl, [make, make])
    assert double.live("scalar") == 2
    owner.close()
    assert (double.live("scalar"), double.live("list")) == (0, 0)


@pytest.mark.parametrize("function", ["aclCreateScalar", "aclCreateScalarList"])
def test_a_list_that_cannot_be_made_leaves_nothing(
    acl: Acl, double: Control, function: str
) -> None:
    make = partial(handles.scalar, acl, b"\0\0\0\0", dtypes.FLOAT)
    double.fail(function, 2 if function == "aclCreateScalar" else 1, 561000)
    with pytest.raises(ExecutionFailedError):
        handles.scalar_list(acl, [make, make, make])
    assert double.live("scalar") == 0


def test_empty_arrays_and_lists(acl: Acl, double: Control) -> None:
    made = [
        handles.int_array(acl, ()),
        handles.float_array(acl, ()),
        handles.bool_array(acl, ()),
        handles.tensor_list(acl, ()),
    ]
    assert (double.live("array"), double.live("list")) == (3, 1)
    for handle in made:
        handle.close()


def test_memory_is_told_in_the_kind_that_the_card_has(acl: Acl) -> None:
    assert handles.memory_info(acl) == (2**30, 2**30)
