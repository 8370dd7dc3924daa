"""From a return code and the vendor's text to the error that a client sees."""

from __future__ import annotations

import logging

import pytest

from aclnn import codes
from aclnn.errors import (
    AclnnError,
    ExecutionFailedError,
    InvalidParameterError,
    LimitExceededError,
    NullPointerError,
    OutOfMemoryError,
    UnsupportedError,
    ViewOutsideStorageError,
    WaitTimeoutError,
)
from aclnn_server.backends.ascend.failures import LONGEST_TEXT, cleaned, failure

TEXT = (
    "[PID: 4711] 2026-01-02-03:04:05.678.901 AclNN_Parameter_Error(EZ1001): Expected reduction to be one of "
    "0, 1, 2.\n        TraceBack (most recent call last):\n        CheckParams failed[FUNC:Check]"
    "[FILE:/usr1/code/op_api/aclnn.cpp][LINE:170]\n"
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (161001, NullPointerError),
        (161002, InvalidParameterError),
        (207001, OutOfMemoryError),
        (207018, OutOfMemoryError),
        (207008, LimitExceededError),
        (207000, UnsupportedError),
        (507046, WaitTimeoutError),
        (561003, ExecutionFailedError),
        (507015, ExecutionFailedError),
        (999999, ExecutionFailedError),
    ],
)
def test_class_and_code(code: int, kind: type[AclnnError]) -> None:
    error = failure("aclnnX", code, "")
    assert (type(error), error.code) == (kind, code)


def test_a_view_outside_of_its_storage_is_one_only_at_phase_one() -> None:
    code = codes.ACLNN_ERR_INNER_NULLPTR
    assert isinstance(failure("f", code, "", planning=True), ViewOutsideStorageError)
    assert isinstance(failure("f", code, ""), ExecutionFailedError)


def test_message_has_the_function_and_the_vendors_words() -> None:
    error = failure("aclnnXGetWorkspaceSize", 161002, TEXT, operator="aclnnX")
    assert error.message == (
        "aclnnX: aclnnXGetWorkspaceSize failed: AclNN_Parameter_Error(EZ1001): Expected reduction to be one "
        "of 0, 1, 2."
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [(561003, "install the ops package"), (507008, "do not fit"), (100039, "the one to link with")],
)
def test_what_the_vendor_does_not_say_plainly(code: int, words: str) -> None:
    assert words in failure("f", code, TEXT).message


def test_the_log_has_the_whole_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        failure("aclrtMalloc", 207001, TEXT)
        failure("aclnnXGetWorkspaceSize", 161002, TEXT)
    assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG"]
    assert "[FILE:/usr1/code/op_api/aclnn.cpp]" in caplog.records[0].getMessage()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ""),
        ("plain words", "plain words"),
        ("EE9999: Inner error, see /var/log/npu/slog.txt now", "EE9999: Inner error, see … now"),
        ("bad handle 0x7f2cf00013a8 in ~/x/y.so", "bad handle … in …"),
        ("[PID:1] failed[FUNC:a][FILE:b.cc][LINE:3]", "failed………"),
        ("shape [4, 2] and ratio 1/2 stay", "shape [4, 2] and ratio 1/2 stay"),
    ],
)
def test_places_in_the_server_are_not_told(text: str, told: str) -> None:
    assert cleaned(text) == told


def test_long_texts_are_cut() -> None:
    assert len(cleaned("word " * 500)) == LONGEST_TEXT
