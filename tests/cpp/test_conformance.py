"""The conformance kit against the C library: a program for CANN, of nothing but the vendor's functions."""

from __future__ import annotations

import subprocess

import pytest

from tests.conformance.runner import run
from tests.cpp import building


@pytest.mark.timeout(300)
def test_the_c_library_passes_every_case() -> None:
    adapter = building.built("conformance/adapter")
    found = dict(run(str(adapter), building.PROJECT))
    assert len(found) > 200
    assert {name: problem for name, problem in found.items() if problem} == {}


def test_the_adapter_uses_what_a_program_for_cann_uses() -> None:
    """But for the entry of operators that the library has no functions of, which one case asks for."""
    adapter = building.built("conformance/adapter")
    done = subprocess.run(
        ["nm", "--dynamic", "--undefined-only", adapter], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    assert {name for name in names if name.startswith("_ZN5aclnn")} == set()
    assert {name for name in names if name.startswith("aclnnServe")} == {
        "aclnnServeGetWorkspaceSize"
    }
    assert {"aclnnSmoothL1LossBackward", "aclGetViewShape", "aclrtMalloc"} <= names
