"""The Dockerfile and the scripts beside it, without building anything."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from aclnn import __version__
from tests.deploy.tools import complaints, tool

GROUP = "the dependency group `deploy`"


def test_hadolint_has_nothing_to_say(project: Path) -> None:
    linter = tool("hadolint", GROUP)
    assert complaints(linter, "--failure-threshold", "style", str(project / "Dockerfile")) == ""


def test_hadolint_would_say_something(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /tmp\n")
    assert "DL3006" in complaints(tool("hadolint", GROUP), str(tmp_path / "Dockerfile"))


def test_shellcheck_has_nothing_to_say(project: Path, project_files: list[Path]) -> None:
    scripts = [path for path in project_files if is_script(path)]
    assert {path.name for path in scripts} >= {"run", "entrypoint.sh", "build.sh"}
    assert complaints(tool("shellcheck", GROUP), *map(str, scripts)) == ""


def is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return re.match(rb"#!.*\b(ba)?sh\b", file.readline()) is not None


def test_the_label_names_this_version(project: Path) -> None:
    assert f"\nARG VERSION={__version__}\n" in (project / "Dockerfile").read_text()


def test_all_that_is_copied_enters_the_build(project: Path) -> None:
    """The build sees what .dockerignore lets in, and everything that the package is made of is among it."""
    let_in = re.findall(r"^!(.+)$", (project / ".dockerignore").read_text(), re.MULTILINE)
    assert all((project / path).exists() for path in let_in)
    packages = re.search(r"^packages = \[(.*)\]$", (project / "pyproject.toml").read_text(), re.M)
    assert packages is not None
    for package in re.findall(r'"([^"]+)"', packages[1]):
        assert any(package == path or package.startswith(f"{path}/") for path in let_in)
    scripts = re.findall(r"deploy/\S+\.sh", (project / "Dockerfile").read_text())
    assert scripts
    assert set(scripts) <= set(let_in)


# --- the program that a container begins with ---------------------------------------------------------


@pytest.fixture
def entrypoint(project: Path, tmp_path: Path) -> list[str]:
    """Runs it with a stand-in for `aclnn-serve` that tells its arguments and its environment."""
    stand_in = tmp_path / "bin/aclnn-serve"
    stand_in.parent.mkdir()
    stand_in.write_text('#!/bin/sh\necho "$$ $CANN_WAS_HERE $*"\n')
    stand_in.chmod(0o755)
    return [str(project / "deploy/container/entrypoint.sh")]


def started(command: list[str], tmp_path: Path, **environment: str) -> tuple[int, list[str]]:
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={"PATH": path, **environment}
    )
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return process.pid, out.rstrip("\n").split(" ", 2)


@pytest.mark.parametrize("variable", ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"])
def test_the_server_begins_with_canns_environment(
    entrypoint: list[str], tmp_path: Path, variable: str
) -> None:
    home = tmp_path / "cann"
    home.mkdir()
    (home / "set_env.sh").write_text("export CANN_WAS_HERE=$UNSET_BEFORE-yes\n")
    pid, told = started(
        [*entrypoint, "serve", "--device", "a b"], tmp_path, **{variable: str(home)}
    )
    assert told == [str(pid), "-yes", "serve --device a b"]  # the same process: it gets the signals


def test_the_server_begins_without_cann(entrypoint: list[str], tmp_path: Path) -> None:
    pid, told = started([*entrypoint, "version"], tmp_path, ASCEND_HOME_PATH=str(tmp_path))
    assert told == [str(pid), "", "version"]
