"""Generated files are what the catalogue says, and the command notices when they are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aclnn_server.operators.catalogue import operators
from aclnn_server.operators.generate import DOCS, OPS, generated, main, stale


def test_committed_files_are_current(project: Path) -> None:
    assert stale(project, generated()) == []


def test_every_operator_has_a_page_and_a_row() -> None:
    files = generated()
    table = files[DOCS / "README.md"]
    for name, operator in operators().items():
        assert f"[{name}]({name}.md)" in table
        assert operator.description in files[DOCS / f"{name}.md"]


def test_writes_what_is_missing_and_removes_what_is_not_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = ["--root", str(tmp_path)]
    assert main(root) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(generated())
    assert main([*root, "--check"]) == 0
    assert main(root) == 0
    assert capsys.readouterr().out == ""
    (tmp_path / DOCS / "aclnnGone.md").write_text("old", encoding="utf-8")
    (tmp_path / OPS).write_text("old", encoding="utf-8")
    assert main([*root, "--check"]) == 1
    named = capsys.readouterr().out
    assert "aclnnGone.md" in named
    assert "ops.py" in named
    assert main(root) == 0
    assert stale(tmp_path, generated()) == []


def test_command() -> None:
    command = [sys.executable, "-m", "aclnn_server.operators.generate", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_client_module_is_formatted_and_typed_by_names(project: Path) -> None:
    text = (project / OPS).read_text(encoding="utf-8")
    assert "def aclnnSmoothL1LossBackwardGetWorkspaceSize(" in text
    assert max(map(len, text.splitlines())) <= 100
