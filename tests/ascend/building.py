"""Builds the double of CANN, once per process, and speaks to it. No fixtures: other folders use it too."""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parent / "fake"
LIBRARIES = {
    "libascendcl.so": ("rules", "handles", "devices", "memory", "copies", "streams"),
    "libnnopbase.so": ("tensors", "lists", "executors", "elements"),
    "libopapi_math.so": ("arithmetic", "shaping"),
    "libopapi_nn.so": ("losses", "networks", "generated", "echo"),
    "libcust_opapi.so": ("custom",),
}
"""Libraries with their sources; each may use those before it."""
FLAGS = (
    *("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g"),
    *("-shared", "-fPIC", "-fvisibility=hidden", "-pthread"),
)
KINDS = (
    "tensor",
    "scalar",
    "array",
    "list",
    "executor",
    "stream",
    "event",
    "memory",
    "host",
    "device",
)
VERSION = "9.9.9"
COMPILER = os.environ.get("CC", "cc")


def why_not() -> str:
    """Why the double cannot be built here; empty where it can."""
    return "" if shutil.which(COMPILER) else f"there is no C compiler {COMPILER!r} on this machine"


@cache
def home() -> Path:
    """Folder of an installation of the double, laid out as a real one; gone when the process ends."""
    root = Path(tempfile.mkdtemp(prefix="fake-cann-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    install(root)
    return root


def install(root: Path) -> None:
    """Builds the double into a folder."""
    libraries, custom = root / "lib64", root / "opp/vendors/customize/op_api"
    libraries.mkdir(parents=True)
    (custom / "lib").mkdir(parents=True)
    built: list[str] = []
    for name, sources in LIBRARIES.items():
        target = (custom / "lib" if "cust" in name else libraries) / name
        _compile(target, sources, libraries, built)
        built.append(name.removeprefix("lib").removesuffix(".so"))
    shutil.copytree(SOURCES / "include", root / "include")
    shutil.copytree(SOURCES / "custom/op_api/include", custom / "include")
    (root / "opp/vendors/config.ini").write_text("load_priority=customize\n")
    info = root / f"{platform.machine()}-linux" / "ascend_toolkit_install.info"
    info.parent.mkdir()
    info.write_text(f"package_name=Ascend-cann-toolkit\nversion={VERSION}\narch=any\n")


def _compile(target: Path, sources: tuple[str, ...], libraries: Path, before: list[str]) -> None:
    command = [
        *(COMPILER, *FLAGS, f"-Wl,-soname,{target.name}", "-o", str(target)),
        *(f"-I{SOURCES / folder}" for folder in (".", "include")),
        *(str(SOURCES / f"{source}.c") for source in sources),
        *(f"-L{libraries}", *(f"-l{name}" for name in reversed(before)), "-lm"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Control:
    """What the tests may ask of the double in this process."""

    def __init__(self, root: Path) -> None:
        library = ctypes.CDLL(str(root / "lib64/libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
        self._library = library
        for name in ("fakeLive", "fakeCalls", "fakeUsedBytes", "fakeDeterministic"):
            getattr(library, name).restype = ctypes.c_int64
        library.fakeFail.argtypes = (ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32)

    def live(self, kind: str = "all") -> int:
        """Objects that are live, of a kind or of all."""
        return int(self._library.fakeLive(kind.encode()))

    def left(self) -> dict[str, int]:
        """Live objects by kind, where there are any."""
        return {kind: count for kind in KINDS if (count := self.live(kind))}

    def calls(self, name: str) -> int:
        """Calls of a function so far."""
        return int(self._library.fakeCalls(name.encode()))

    def fail(self, name: str, n: int, code: int) -> None:
        """Lets the n-th call of a function from now on fail; 0 takes that back."""
        self._library.fakeFail(name.encode(), n, code)

    def failure_pending(self, name: str) -> bool:
        """Whether a failure that was asked for has not happened yet."""
        return bool(self._library.fakeFailPending(name.encode()))

    def hold(self) -> None:
        """Holds the work of all streams back."""
        self._library.fakeHold(1)

    def let_go(self) -> None:
        """Lets the work of all streams go on."""
        self._library.fakeHold(0)

    def used_bytes(self, device: int = 0) -> int:
        """Bytes of a device that are allocated."""
        return int(self._library.fakeUsedBytes(device))

    def threads(self, device: int = 0) -> int:
        """Threads that ever had the device as theirs."""
        return int(self._library.fakeThreads(device))

    def deterministic(self, device: int = 0) -> int:
        """Level of determinism of a device."""
        return int(self._library.fakeDeterministic(device))


@cache
def control() -> Control:
    """The double in this process."""
    return Control(home())


def options(**more: object) -> dict[str, object]:
    """What opens the ascend backend on the double; skips the test where there is no compiler."""
    if reason := why_not():
        pytest.skip(reason)
    return {"environment": {"ASCEND_HOME_PATH": str(home())}, **more}
