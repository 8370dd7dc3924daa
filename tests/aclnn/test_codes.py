"""The table of return codes."""

from __future__ import annotations

import re

import pytest

from aclnn import codes

CODES = {name: value for name, value in vars(codes).items() if re.match(r"ACL(NN)?_", name)}


def test_every_code_has_one_name() -> None:
    assert {codes.name_of(value): value for value in CODES.values()} == CODES


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, "ACLNN_SUCCESS"),
        (161001, "ACLNN_ERR_PARAM_NULLPTR"),
        (161002, "ACLNN_ERR_PARAM_INVALID"),
        (361001, "ACLNN_ERR_RUNTIME_ERROR"),
        (561103, "ACLNN_ERR_INNER_NULLPTR"),
        (100024, "ACL_ERROR_OP_NOT_FOUND"),
        (148049, "ACL_ERROR_INVALID_OPP_PATH"),
        (200005, "ACL_ERROR_INVALID_RESOURCE_HANDLE"),
        (300000, "ACL_ERROR_STORAGE_OVER_LIMIT"),
        (500001, "ACL_ERROR_FAILURE"),
        (107002, "ACL_ERROR_RT_CONTEXT_NULL"),
        (207001, "ACL_ERROR_RT_MEMORY_ALLOCATION"),
        (507015, "ACL_ERROR_RT_AICORE_EXCEPTION"),
        (507901, "ACL_ERROR_RT_SOCKET_CLOSE"),
    ],
)
def test_the_vendors_names(code: int, name: str) -> None:
    assert codes.name_of(code) == name
    assert CODES[name] == code


@pytest.mark.parametrize(
    "block",
    [
        range(100000, 100046),
        range(107000, 107046),
        range(148046, 148054),
        range(161001, 161003),
        range(200000, 200008),
        range(207000, 207022),
        range(500000, 500006),
        range(507000, 507058),
        range(507899, 507917),
        range(561000, 561004),
        range(561101, 561120),
    ],
    ids=str,
)
def test_blocks_of_numbers_have_no_holes(block: range) -> None:
    assert [code for code in block if codes.name_of(code) == "UNKNOWN"] == []


@pytest.mark.parametrize("code", [-1, 1, 161003, 999999, 2**40])
def test_unknown_codes(code: int) -> None:
    assert codes.name_of(code) == "UNKNOWN"
