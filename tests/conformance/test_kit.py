"""The kit: the Python client passes it, a client that does something else does not, the cases are current."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conformance import make_cases
from tests.conformance.runner import run

ADAPTER = f"{sys.executable} -m tests.conformance.python_adapter"


def problems(command: str, project: Path, only: str) -> dict[str, str]:
    """What went wrong in each case."""
    return dict(run(command, project, only))


@pytest.mark.timeout(300)
def test_the_python_client_passes_every_case(project: Path) -> None:
    found = problems(ADAPTER, project, "")
    assert len(found) > 200
    assert {name: problem for name, problem in found.items() if problem} == {}


@pytest.mark.parametrize(
    ("source", "replacement", "only"),
    [
        (".numpy()).tobytes()", ".numpy()).tobytes()[::-1]", "tensors/bits of INT16"),
        ("for argument in arguments]", "for argument in arguments[::-1]]", "tensors/broadcasting"),
        ('"code", "name"', '"name"', "failures/a value outside"),
        ("repeatable=repeatable", "repeatable=False", "executors/repeatable"),
        ("on.synchronize(", "repr(", "failures/a one-shot"),
    ],
)
def test_a_client_that_does_something_else_does_not(
    project: Path, tmp_path: Path, source: str, replacement: str, only: str
) -> None:
    text = (project / "tests/conformance/python_adapter.py").read_text("utf-8")
    assert source in text
    broken = tmp_path / "broken.py"
    broken.write_text(text.replace(source, replacement), "utf-8")
    found = problems(f"{sys.executable} {broken}", project, only)
    assert any(found.values())


def test_the_cases_are_current() -> None:
    assert make_cases.main(["--check"]) == 0
