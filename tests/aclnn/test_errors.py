"""The error classes: one per reason, the same on both sides of the wire."""

from __future__ import annotations

import copy
import pickle
import re

import grpc
import pytest

from aclnn import codes, errors
from aclnn.errors import MAX_MESSAGE_BYTES, AclnnError, InvalidParameterError
from aclnn.v1 import error_pb2

CLASSES = sorted(errors.BY_REASON.values(), key=lambda cls: cls.reason)
STATUS = {code.value[0]: code.name for code in grpc.StatusCode}


def full(cls: type[AclnnError]) -> AclnnError:
    """An error with every field set."""
    return cls(
        "gradInput has shape [2]; it must be [4, 2]",
        operator="aclnnAdd",
        parameter="gradInput",
        code=161002,
        request_id="5e0f",
        retry_after_ms=1500,
    )


def fields(error: AclnnError) -> tuple[object, ...]:
    names = ("code", "message", "operator", "parameter", "request_id", "retry_after_ms", "args")
    return (type(error), *(getattr(error, name) for name in names))


def test_every_class_has_a_reason_of_its_own() -> None:
    subclasses = [cls for cls in vars(errors).values() if isinstance(cls, type)]
    named = [cls for cls in subclasses if issubclass(cls, AclnnError) and cls is not AclnnError]
    assert sorted(named, key=lambda cls: cls.reason) == CLASSES
    assert len({cls.reason for cls in named}) == len(named) == 21
    assert all(re.fullmatch(r"[A-Z]+(_[A-Z]+)*", cls.reason) for cls in named)


def test_the_modules_table_is_true() -> None:
    table = re.findall(r"── (\w+) +(\d+) +([A-Z_]+) ", errors.__doc__ or "")
    assert sorted(table) == sorted(
        (cls.__name__, str(cls.default_code), STATUS[cls.status]) for cls in CLASSES
    )


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.reason)
def test_defaults(cls: type[AclnnError]) -> None:
    error = cls("no more")
    assert error.message == "no more"
    assert error.code == cls.default_code
    assert (error.operator, error.parameter, error.request_id, error.retry_after_ms) == (
        "",
    ) * 3 + (0,)
    assert error.name == codes.name_of(cls.default_code) != "UNKNOWN"
    assert str(error) == f"no more ({error.code} {error.name})"


@pytest.mark.parametrize("cls", [AclnnError, *CLASSES], ids=lambda cls: cls.reason)
def test_same_class_and_fields_after_the_wire(cls: type[AclnnError]) -> None:
    error = full(cls)
    encoded = error.to_proto().SerializeToString()
    assert fields(errors.from_proto(error_pb2.Error.FromString(encoded))) == fields(error)


@pytest.mark.parametrize("cls", [AclnnError, *CLASSES], ids=lambda cls: cls.reason)
def test_copies(cls: type[AclnnError]) -> None:
    error = full(cls)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert fields(other) == fields(error)
        assert str(other) == str(error)


def test_text_names_operator_code_and_its_name() -> None:
    error = errors.NullPointerError("self is null", operator="aclnnAbs", parameter="self")
    assert str(error) == "aclnnAbs: self is null (161001 ACLNN_ERR_PARAM_NULLPTR)"
    assert error.message == "aclnnAbs: self is null"


def test_a_code_without_a_name() -> None:
    assert str(AclnnError("odd", code=42)) == "odd (42 UNKNOWN)"


def test_what_is_encoded() -> None:
    assert full(errors.InvalidParameterError).to_proto() == error_pb2.Error(
        reason="INVALID_PARAMETER",
        status_code=3,
        acl_code=161002,
        message="aclnnAdd: gradInput has shape [2]; it must be [4, 2]",
        operator="aclnnAdd",
        parameter="gradInput",
        request_id="5e0f",
        retry_after_ms=1500,
    )


def test_long_texts_are_cut_off() -> None:
    error = InvalidParameterError("längst " * 1000, operator="ö" * 100, parameter="p" * 129)
    error.request_id = "r" * 128
    encoded = error.to_proto()
    assert len(encoded.message.encode()) in (MAX_MESSAGE_BYTES - 1, MAX_MESSAGE_BYTES)
    assert encoded.message.startswith("ö" * 100 + ": längst längst")
    assert encoded.message.endswith("…")
    assert encoded.operator == "ö" * 62 + "…"
    assert encoded.parameter == "p" * 125 + "…"
    assert encoded.request_id == "r" * 128


def test_a_reason_of_a_newer_version_keeps_code_and_text() -> None:
    error = errors.from_proto(
        error_pb2.Error(reason="FLUX", acl_code=207001, message="out", operator="aclnnAbs")
    )
    assert type(error) is AclnnError
    assert (error.code, error.message, error.operator) == (207001, "out", "aclnnAbs")


def test_a_sender_without_codes_gets_the_classs() -> None:
    error = errors.from_proto(error_pb2.Error(reason="OUT_OF_MEMORY", message="full"))
    assert error.code == 207001


def test_one_except_clause_catches_all() -> None:
    for cls in CLASSES:
        with pytest.raises(AclnnError):
            raise cls("x")
