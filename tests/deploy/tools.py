"""Other programs that check what `deploy/` holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def tool(name: str, package: str) -> str:
    """Path of a program; where it is missing the test is skipped, and fails where everything is to be there.

    Args:
        name: of the program, beside this Python's or on the PATH.
        package: what brings it.
    """
    beside = str(Path(sys.executable).parent)
    found = shutil.which(name, path=beside) or shutil.which(name)
    if found is None:
        assert os.environ.get("CI") != "true", f"{name} is missing; {package} brings it"
        pytest.skip(f"{name} is not here; {package} brings it")
    return found


def complaints(*command: str) -> str:
    """What a program that checks has to say; empty where all is well."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    text = done.stdout + done.stderr
    assert done.returncode == 0 or text, f"{command[0]} ended with {done.returncode}"
    return text if done.returncode else ""
