"""Functions of ACL that are exported and not done: each fails with a text, none looks as if it had worked."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.cpp import building
from tests.cpp.symbols import INCLUDE, declared, exported, listed, written

HEADERS = [str(path.relative_to(INCLUDE)) for path in sorted(INCLUDE.glob("acl/*.h"))]
FUNCTIONS = {**listed(), **declared(*HEADERS)}
UNSUPPORTED = {name: kind for name, kind in FUNCTIONS.items() if name not in written()}
TELL_CODES = ("aclrtGetLastError", "aclrtPeekAtLastError")
"""Their answer is the code of an earlier call."""
OF_CODES = [
    name
    for name, kind in FUNCTIONS.items()
    if kind == "code" and name in written() and name not in TELL_CODES
]

SUCCEEDS_WITH_ZEROS = {
    "aclInit": "no configuration",
    "aclFinalize": "of that",
    "aclrtSetSysParamOpt": "option 0 may be 0",
    "aclrtCtxSetSysParamOpt": "option 0 may be 0",
    "aclrtSetOpWaitTimeout": "0 is no limit",
    "aclrtSetOpExecuteTimeOut": "0 is the usual limit",
    "aclrtSetOpExecuteTimeOutWithMs": "0 is the usual limit",
}
"""Of the functions that are done, those for which zeros and nulls are a call that can be."""


@cache
def answers() -> dict[str, list[int | str | None]]:
    """What each function answers to zeros and nulls, and the text that it notes; there is no server."""
    kinds = {**UNSUPPORTED, **dict.fromkeys(OF_CODES, "code")}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("calling.py"))],
        input="".join(f"{kind} {name}\n" for name, kind in kinds.items()),
        env={k: v for k, v in building.environment("").items() if v or not k.startswith("ACLNN")},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_what_is_not_done_fails(name: str) -> None:
    code = 500002 if name.startswith("aclop") else 200001
    expected = {"code": code, "pointer": None, "number": 0, "void": None}[UNSUPPORTED[name]]
    assert answers()[name] == [expected, f"{name} is not supported by this library"]


@pytest.mark.parametrize("name", sorted(OF_CODES))
def test_what_is_done_refuses_what_cannot_be(name: str) -> None:
    """No function succeeds with nothing to work on: a success would be one without its work."""
    code, text = answers()[name]
    if name in SUCCEEDS_WITH_ZEROS:
        assert [code, text] == [0, ""]
    else:
        assert code != 0
        assert text


def asked_for(*ways: str) -> list[str]:
    rows = Path(__file__).with_name("torch_npu_symbols.txt").read_text("utf-8").splitlines()
    words = [row.split() for row in rows if not row.startswith("#")]
    return [name for way, *names in filter(None, words) if way in ways for name in names]


def test_the_list_is_whole() -> None:
    assert len(asked_for("undefined")) == len(set(asked_for("undefined"))) == 84
    assert all(name.startswith("acl") for name in asked_for("must", "should"))


@pytest.mark.parametrize("name", asked_for("undefined", "must", "should"))
def test_what_torch_npu_asks_for_is_there(name: str) -> None:
    assert name in exported("libascendcl.so") | exported("libnnopbase.so")
