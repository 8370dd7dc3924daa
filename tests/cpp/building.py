"""Builds the C library, once per process, and programs against it. No fixtures: other folders use it too."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
LIBRARY = PROJECT / "client/cpp"
TOOLS = ("make", "c++", "cc", "protoc", "pkg-config", "objcopy")
LINK = ("-lascendcl", "-lnnopbase", "-lopapi")
"""As the vendor's documentation links."""
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def why_not() -> str:
    """Why the library cannot be built here; empty where it can."""
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        return f"the C library needs {', '.join(missing)}; docs/clients/cpp.md names the packages"
    probe = ("c++", "-fsyntax-only", "-x", "c++", "-")
    done = subprocess.run(
        probe, input="#include <grpc/grpc.h>\n", capture_output=True, text=True, check=False
    )
    if done.returncode:
        return "the C library needs gRPC's headers; docs/clients/cpp.md names the packages"
    return ""


@cache
def libraries() -> Path:
    """Folder of the built libraries; skips the test where they cannot be built, and never in CI."""
    reason = why_not()
    if reason and os.environ.get("CI") != "true":
        pytest.skip(reason)
    assert not reason, reason
    _make("all")
    return LIBRARY / "build/lib"


@cache
def built(name: str) -> Path:
    """A program that the Makefile builds, by its place below build."""
    libraries()
    _make(f"build/{name}")
    return LIBRARY / "build" / name


def built_test(name: str) -> Path:
    """A program of client/cpp/tests, built."""
    return built(f"tests/{name}")


@cache
def sanitized(name: str, sanitizer: str) -> Path:
    """The same, built with the library under a sanitizer: "address" or "thread"; "" for none."""
    if not sanitizer:
        return built_test(name)
    libraries()
    _make(f"build/{sanitizer}/tests/{name}", f"SANITIZE={sanitizer}")
    return LIBRARY / f"build/{sanitizer}/tests" / name


@cache
def _folder() -> Path:
    root = Path(tempfile.mkdtemp(prefix="aclnn-programs-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


@cache
def program(source: Path, *flags: str) -> Path:
    """Compiles a program of one source as a user would; warnings are errors."""
    target = _folder() / f"{source.stem}-{len(list(_folder().iterdir()))}"
    compiler = ("cc", "-std=c11") if source.suffix == ".c" else ("c++", "-std=c++17")
    _run(
        *(*compiler, *WARNINGS, "-O1", "-pthread", f"-I{LIBRARY / 'include'}", str(source)),
        *("-o", str(target), f"-L{libraries()}", *LINK, *flags),
    )
    return target


@cache
def home() -> Path:
    """A folder with libraries and headers laid out as an installed CANN; gone when the process ends."""
    root = _folder() / "cann"
    root.mkdir()
    (root / "lib64").symlink_to(libraries())
    (root / "include").symlink_to(LIBRARY / "include")
    return root


def options(**more: object) -> dict[str, object]:
    """What opens the ascend backend on the library instead of on CANN, at the server ACLNN_SERVER."""
    return {"environment": {"ASCEND_HOME_PATH": str(home())}, **more}


def environment(address: str, **more: str) -> dict[str, str]:
    """Variables for a program that uses the library."""
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(libraries()),
        "ACLNN_SERVER": address,
        **more,
    }


def run(
    command: tuple[str, ...], address: str, code: int = 0, timeout: float = 50.0, **more: str
) -> str:
    """Runs a program against a server; gives what it prints, and nothing may be on standard error."""
    done = subprocess.run(
        command,
        env=environment(address, **more),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, "")
    return done.stdout


def _make(target: str, *variables: str) -> None:
    """Builds a target; one process at a time, whichever test asks."""
    (LIBRARY / "build").mkdir(exist_ok=True)
    with (LIBRARY / "build/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        jobs = f"-j{os.cpu_count() or 1}"
        _run("make", "--silent", "-C", str(LIBRARY), jobs, *variables, target)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
