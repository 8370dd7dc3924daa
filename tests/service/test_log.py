"""The log tells of each context, and at debug of each call and run, under one request id."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from aclnn.errors import AclnnError
from aclnn.labels import label_of
from aclnn.v1 import device_service_pb2 as pb
from tests.service.calling import Caller, Stubs
from tests.service.conftest import Serve
from tests.service.requests import failing, plus, run


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[dict[str, Any]]:
    """What was logged with a text: the extra keys of each record."""
    return [vars(record) for record in caplog.records if record.getMessage() == text]


@pytest.fixture
def caller(
    serve: Serve, way: Callable[[Stubs], Caller], caplog: pytest.LogCaptureFixture
) -> Caller:
    """A client of a server that logs everything."""
    caplog.set_level(logging.DEBUG)
    return way(serve())


def test_a_context_is_logged_when_it_is_opened_and_ended(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stubs = serve()
    context = stubs.create_context()
    request = pb.DestroyContextRequest(context_id=context.context_id)
    stubs.device.DestroyContext(request, timeout=30)
    (opened,), (ended,) = lines(caplog, "context opened"), lines(caplog, "context ended")
    label = label_of(context.context_id)
    assert (opened["context"], opened["owner"], opened["device"]) == (label, "", 0)
    assert (ended["context"], ended["reason"]) == (label, "closed")
    assert ended["seconds"] >= 0
    assert context.context_id not in caplog.text
    assert not [
        r for r in caplog.records if r.name.startswith("aclnn") and r.levelno < logging.INFO
    ]


def test_a_call_and_its_run_have_one_request_id(
    caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    caller(plus(1, 1.0, executor=5))
    caller(run(5))
    caller.close()
    (called,), (ran,) = lines(caplog, "execute"), lines(caplog, "run")
    assert called["request_id"] == ran["request_id"] != ""
    assert called["context"] == ran["context"] == label_of(caller.context_id)
    assert (called["code"], ran["code"], ran["operator"]) == (0, 0, "aclnnPlus")
    assert called["seconds"] > 0
    assert ran["run_seconds"] > 0
    (planned,) = lines(caplog, "get_workspace_size")
    assert planned["request_id"] not in ("", called["request_id"])


def test_a_refused_call_is_logged_with_its_code(
    caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AclnnError):
        caller(pb.FreeRequest(buffer_id=77))
    (freed,) = lines(caplog, "free")
    assert freed["code"] == 107017
    caller.close()


def run_and_wait(caller: Caller) -> None:
    caller(run(5))
    caller(pb.SynchronizeStreamRequest())


@pytest.mark.parametrize("number", [7, -7])
def test_a_failed_run_is_logged_under_the_id_of_its_call(
    number: int, caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    caller(pb.MallocRequest(buffer_id=1, bytes=8))
    caller(failing(number, 1, executor=5))
    with pytest.raises(AclnnError) as failure:
        run_and_wait(caller)
    (called,), (ran,) = lines(caplog, "execute"), lines(caplog, "run")
    assert ran["request_id"] == called["request_id"]
    assert (ran["operator"], ran["code"]) == ("aclnnFail", failure.value.code)
    if number < 0:
        assert failure.value.request_id == called["request_id"]
        (full,) = lines(caplog, f"request {called['request_id']} failed unexpectedly")
        assert full["exc_info"] is not None
    caller.close()
