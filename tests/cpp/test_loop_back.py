"""Both ABIs in one test: the ascend backend calls the C library, which calls a server on NumPy.

What every backend promises, and every operator, in a process of its own; see tests/cpp/loop_back.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.cpp import building


@pytest.mark.parametrize(
    ("tests", "least"),
    [("tests/backends/test_contract.py", 30), ("tests/cpp/loop_back", 800)],
    ids=["contract", "every-operator"],
)
@pytest.mark.timeout(120)
def test_the_ascend_backend_on_the_c_library(tests: str, least: int, address: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    variables = building.environment(address, ACLNN_TEST_BACKEND="c-library")
    variables.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(
        [*command, tests],
        cwd=building.PROJECT,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= least
    assert "skipped" not in done.stdout
