"""The declarations, and the one check of every return code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from aclnn.errors import ExecutionFailedError, NullPointerError, OutOfMemoryError
from aclnn_server.backends.ascend import acl as declarations
from aclnn_server.backends.ascend.acl import Acl, MissingFunctionError
from aclnn_server.backends.ascend.loader import Cann, open_cann
from tests.ascend.building import Control

Find = Callable[[str], Any]


@pytest.fixture
def cann(double: Control, environment: dict[str, str]) -> Cann:
    return open_cann(environment)


@pytest.fixture
def acl(cann: Cann) -> Acl:
    return Acl(cann.find)


def without(find: Find, *names: str) -> Find:
    """A library that lacks functions."""

    def look_up(name: str) -> Any:  # noqa: ANN401
        if name in names:
            raise AttributeError(name)
        return find(name)

    return look_up


def declared(acl: Acl) -> dict[str, Any]:
    """The functions by name."""
    return {name: value for name, value in vars(acl).items() if name.startswith("acl")}


def test_every_function_has_its_types(acl: Acl) -> None:
    functions = declared(acl)
    assert len(functions) > 45
    assert all(function.argtypes is not None for function in functions.values())
    assert {function.restype for function in functions.values()} == {
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_char_p,
    }


def test_every_function_is_checked_but_those_that_give_a_text(acl: Acl) -> None:
    unchecked = [n for n, f in declared(acl).items() if getattr(f, "errcheck", None) is None]
    assert sorted(unchecked) == ["aclGetRecentErrMsg", "aclrtGetSocName"]


def test_what_every_cann_has_must_be_there(cann: Cann) -> None:
    with pytest.raises(MissingFunctionError, match=r"lack aclInit, aclCreateTensor$"):
        Acl(without(cann.find, "aclInit", "aclCreateTensor"))


def test_what_not_every_cann_has_may_be_missing(cann: Cann) -> None:
    acl = Acl(without(cann.find, "aclInitTensor", "aclsysGetVersionStr"))
    assert not acl.has("aclInitTensor")
    assert acl.has("aclCreateTensor")


def test_a_code_is_raised_with_the_librarys_text(acl: Acl, double: Control) -> None:
    double.fail("aclInit", 1, 100000)
    with pytest.raises(ExecutionFailedError) as caught:
        acl.aclInit(None)
    assert caught.value.code == 100000
    assert caught.value.name == "ACL_ERROR_INVALID_PARAM"
    assert "aclInit failed: AclNN_Parameter_Error(EZ1001): aclInit fails because" in str(
        caught.value
    )
    assert acl.recent_message() == "", "the text was taken"


def test_null_is_a_failure_of_what_creates(acl: Acl, double: Control) -> None:
    acl.aclInit(None)
    acl.aclrtSetDevice(0)
    double.fail("aclCreateIntArray", 1, 561000)
    with pytest.raises(ExecutionFailedError, match=r"aclCreateIntArray failed: .*the test asked"):
        acl.aclCreateIntArray((ctypes.c_int64 * 1)(7), 1)
    acl.aclrtResetDevice(0)
    acl.aclFinalize()


def test_codes_have_their_classes(acl: Acl, double: Control) -> None:
    acl.aclInit(None)
    acl.aclrtSetDevice(0)
    double.fail("aclrtMalloc", 1, 207018)
    with pytest.raises(OutOfMemoryError) as caught:
        acl.aclrtMalloc(ctypes.byref(ctypes.c_void_p()), 64, 0)
    assert caught.value.code == 207018
    acl.aclrtResetDevice(0)
    acl.aclFinalize()


def test_phases_of_an_operator_are_typed_by_its_header(backend: Any) -> None:  # noqa: ANN401
    signature = backend.operators["aclnnEcho"].signature
    plan, run = backend.acl.operator(backend.cann.find_operator, signature)
    by_name = dict(zip((p.name for p in signature.parameters), plan.argtypes, strict=False))
    expected = {
        "wide": ctypes.c_int64,
        "word": ctypes.c_int32,
        "number": ctypes.c_int32,
        "small": ctypes.c_int8,
        "natural": ctypes.c_uint64,
        "flag": ctypes.c_bool,
        "real": ctypes.c_double,
        "single": ctypes.c_float,
        "dtype": ctypes.c_int32,
        "textOptional": ctypes.c_char_p,
        "tensorOptional": ctypes.c_void_p,
    }
    assert {name: by_name[name] for name in expected} == expected
    assert len(plan.argtypes) == len(signature.parameters) + 2
    assert run.argtypes == (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p)
    assert plan.restype is run.restype is ctypes.c_int32


def test_an_operator_is_declared_once(backend: Any) -> None:  # noqa: ANN401
    """Another declaration would pull the first one's from under a call of another device's thread."""
    signature = backend.operators["aclnnEcho"].signature
    first = backend.acl.operator(backend.cann.find_operator, signature)
    before = [function.errcheck for function in first]
    assert backend.acl.operator(backend.cann.find_operator, signature) is first
    assert all(f.errcheck is check for f, check in zip(first, before, strict=True))


def test_phase_one_names_its_operator(backend: Any, device: Any) -> None:  # noqa: ANN401
    with pytest.raises(NullPointerError) as caught:
        device.plan("aclnnMatmul", [None, None, None, 0])
    assert caught.value.operator == "aclnnMatmul"


def test_kinds_that_are_no_handles_are_all_in_the_table() -> None:
    from aclnn.signatures import Kind

    handles = {
        *(Kind.TENSOR, Kind.TENSOR_LIST, Kind.SCALAR, Kind.SCALAR_LIST),
        *(Kind.INT_ARRAY, Kind.FLOAT_ARRAY, Kind.BOOL_ARRAY),
    }
    assert declarations.ARGUMENT_TYPES.keys() == set(Kind) - handles
