"""Programs that are not Python's, which a machine may lack; continuous integration must not."""

from __future__ import annotations

import os
import shutil

import pytest


def program(*names: str, package: str) -> str:
    """The first of some programs that is there; skips the test where none is."""
    for name in names:
        if found := shutil.which(name):
            return found
    reason = f"{names[0]} is not installed (Debian's package {package})"
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and continuous integration must have it")
    pytest.skip(reason)
