"""Everything generated and committed is what its generator writes today."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def generate(project: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, project / "proto" / "generate.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(project: Path, tmp_path: Path) -> Path:
    """A copy of the schema and its generated code that a test may spoil."""
    root = tmp_path / "proto"
    shutil.copytree(project / "proto" / "aclnn" / "v1", root / "aclnn" / "v1")
    return root


def test_protobuf_code_is_current(project: Path) -> None:
    done = generate(project, "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_operator_table_is_current(project: Path) -> None:
    command = [sys.executable, "-m", "aclnn_server.operators.generate", "--check"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_metrics_table_is_current(project: Path) -> None:
    command = [sys.executable, "-m", "aclnn_server.metrics.generate", "--check"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_names_what_is_stale_and_writes_nothing(project: Path, copy: Path) -> None:
    edited, missing, orphan = (
        copy / "aclnn" / "v1" / name for name in ("tensor_pb2.py", "error_pb2.pyi", "old_pb2.py")
    )
    edited.write_text(edited.read_text() + "# edited by hand\n")
    missing.unlink()
    orphan.write_text("")

    done = generate(project, "--check", "--root", copy)

    assert done.returncode == 1
    assert [line.split()[1] for line in done.stdout.splitlines()] == [
        "aclnn/v1/error_pb2.pyi;",
        "aclnn/v1/old_pb2.py;",
        "aclnn/v1/tensor_pb2.py;",
    ]
    assert edited.read_text().endswith("# edited by hand\n")
    assert orphan.exists()
    assert not missing.exists()


def test_generate_follows_the_schema(project: Path, copy: Path) -> None:
    schema = copy / "aclnn" / "v1" / "error.proto"
    schema.write_text(schema.read_text() + "\n// New.\nmessage Fresh {}\n")

    done = generate(project, "--root", copy)

    assert done.returncode == 0, done.stderr
    assert "class Fresh(" in (copy / "aclnn" / "v1" / "error_pb2.pyi").read_text()
    assert generate(project, "--check", "--root", copy).returncode == 0


def test_a_broken_schema_leaves_the_generated_files_alone(project: Path, copy: Path) -> None:
    schema = copy / "aclnn" / "v1" / "error.proto"
    schema.write_text(schema.read_text() + "message {\n")
    before = {path: path.read_bytes() for path in copy.rglob("*_pb2*")}

    done = generate(project, "--root", copy)

    assert done.returncode == 1
    assert "error.proto" in done.stderr
    assert {path: path.read_bytes() for path in copy.rglob("*_pb2*")} == before
