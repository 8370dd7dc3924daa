"""The C library with the vendor's names: where it is, how it is built, how torch_npu comes to use it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from aclnn_client.pytorch.setup_error import SetupError
from aclnn_client.pytorch.variables import LIBRARIES

NAMES = (
    "libascendcl",
    "libnnopbase",
    "libacl_op_compiler",
    "libhccl",
    "libge_runner",
    "libgraph",
    "libacl_tdt_channel",
    "libopapi",
)
"""What torch_npu links to or opens, in an order in which each finds what it needs."""
SOURCES = Path(__file__).resolve().parents[2] / "cpp"
"""In a checkout, or where it was installed with ``pip install --editable``."""
BUILD = "aclnn-serve torch --build"
PACKAGES = "docs/clients/cpp.md names the packages that it needs"
_TOOLS = ("make", "g++", "protoc", "pkg-config")
_OURS = "aclnnServeExecute"
_INSTALLED = tuple(Path(prefix, "lib") for prefix in ("/usr/local", "/usr"))
"""Where ``make -C client/cpp install`` puts it."""


def find() -> Path:
    """The folder of the libraries.

    Raises:
        SetupError: they are nowhere; the text says how to build them.
    """
    for folder in _candidates():
        if _complete(folder):
            return folder
    looked = ", ".join(map(str, _candidates()))
    if os.environ.get(LIBRARIES):
        raise SetupError(f"{LIBRARIES} names {looked}, which has not all of {', '.join(NAMES)}")
    if SOURCES.is_dir():
        raise SetupError(f"the C library is not built; {BUILD} builds it. Looked in {looked}")
    raise SetupError(
        f"the C library is not installed: make -C client/cpp in a checkout builds it, and {LIBRARIES} names "
        f"its folder, client/cpp/build/lib; {PACKAGES}. Looked in {looked}"
    )


def _candidates() -> Iterator[Path]:
    named = os.environ.get(LIBRARIES)
    if named:
        yield Path(named).absolute()
        return
    yield SOURCES / "build/lib"
    yield from _INSTALLED


def _complete(folder: Path) -> bool:
    return all((folder / f"{name}.so").is_file() for name in NAMES)


def load(folder: Path) -> None:
    """Loads the libraries: torch_npu, which asks for them by name, then gets these.

    Raises:
        SetupError: they cannot be loaded, or they are another maker's.
    """
    for name in NAMES:
        path = folder / f"{name}.so"
        try:
            loaded = ctypes.CDLL(str(path))
        except OSError as error:
            raise SetupError(f"{path} cannot be loaded: {error}") from None
    if not hasattr(loaded, _OURS):
        raise SetupError(f"{path} is not aclnn-serve's: it has no {_OURS}")


def build() -> Path:
    """Builds the library in its checkout, with what a compiler says on standard error; gives its folder.

    Raises:
        SetupError: there are no sources or no compiler, or it does not compile.
    """
    if not SOURCES.is_dir():
        raise SetupError(
            f"there are no sources at {SOURCES}; build in a checkout: make -C client/cpp"
        )
    missing = [tool for tool in _TOOLS if not shutil.which(tool)]
    if missing:
        raise SetupError(f"the C library needs {', '.join(missing)}; {PACKAGES}")
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    done = subprocess.run(("make", "--silent", "-C", str(SOURCES), jobs), stdout=2, check=False)
    if done.returncode:
        raise SetupError(f"make -C {SOURCES} failed with {done.returncode}; {PACKAGES}")
    return SOURCES / "build/lib"
