"""``torch``: what the program gets, and what is refused. The program here is no PyTorch, but prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aclnn_client.pytorch import libraries
from aclnn_server.cli.exits import Exit
from aclnn_server.server import Server
from tests.cli.running import Command

PROGRAM = """
import json, os, socket, sys
address = os.environ["ACLNN_SERVER"]
if address.startswith("unix:"):
    socket.socket(socket.AF_UNIX).connect(address.removeprefix("unix:"))
names = ("ACLNN_SERVER", "ACLNN_LIBRARIES", "LD_LIBRARY_PATH", "TASK_QUEUE_ENABLE")
print(json.dumps([os.environ[name] for name in names]))
sys.exit(7)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "lib"
    found.mkdir()
    for name in libraries.NAMES:
        (found / f"{name}.so").touch()
    return found


def run(folder: Path, runtime: Path, **more: str) -> list[str]:
    # Another folder than this interpreter's: the packages of a program elsewhere are not looked at.
    program = folder / "python"
    program.symlink_to(sys.executable)
    kept = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    told = {"ACLNN_LIBRARIES": str(folder), "XDG_RUNTIME_DIR": str(runtime), **more}
    done = subprocess.run(
        (sys.executable, "-m", "aclnn_server", "torch", "--", program, "-c", PROGRAM),
        env=kept | told,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (7, "")
    values: list[str] = json.loads(done.stdout)
    return values


def test_a_program_with_a_server_of_its_own(folder: Path, tmp_path: Path) -> None:
    address, *others = run(folder, tmp_path)
    assert address.startswith(f"unix:{tmp_path}/aclnn-serve-{os.getuid()}/")
    assert others == [str(folder), str(folder), "0"]


def test_a_program_with_a_server_that_is_named(
    folder: Path, tmp_path: Path, server: Server
) -> None:
    assert run(folder, tmp_path, ACLNN_SERVER=server.address)[0] == server.address


def test_what_is_refused(
    refusal: Callable[..., str],
    command: Command,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert refusal("torch").startswith("no program is given; for example")
    assert refusal("torch", "--", "/no/program") == "/no/program: there is no such program"
    monkeypatch.setenv("ACLNN_LIBRARIES", str(folder / "none"))
    told = refusal("torch", "--", "true", code=Exit.NO)
    assert told.startswith(f"ACLNN_LIBRARIES names {folder}/none, which has not all of libascendcl")
