"""The processor's library of linear algebra, held to one thread while blocks are multiplied in several.

OpenBLAS divides each product among threads of its own and, where several threads call it, lets them wait
for each other, awake: many small products then take ten times as long. NumPy has no function for that,
so the library that it loaded is asked.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)
"""What the functions are called, with "get" and "set": NumPy's packages rename them."""


class _Threads:
    """The number of threads of OpenBLAS."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self._get = getattr(library, name.format("get"))
        self._set = getattr(library, name.format("set"))
        self._lock = threading.Lock()
        self._held = 0
        self._before = 1

    def hold(self) -> None:
        """Makes it one until :meth:`release`."""
        with self._lock:
            if self._held == 0:
                self._before = self._get()
                self._set(1)
            self._held += 1

    def release(self) -> None:
        """Makes it what it was, when all that hold it have released it."""
        with self._lock:
            self._held -= 1
            if self._held == 0:
                self._set(self._before)


@contextlib.contextmanager
def in_one_thread() -> Iterator[None]:
    """Lets products be computed by the thread that calls; of no effect with another library."""
    threads = _threads()
    if threads is None:
        yield
        return
    threads.hold()
    try:
        yield
    finally:
        threads.release()


@cache
def _threads() -> _Threads | None:
    for path in _libraries():
        try:
            # It is loaded already: this finds it.
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for name in _NAMES:
            if hasattr(library, name.format("set")) and hasattr(library, name.format("get")):
                return _Threads(library, name)
    return None


def _libraries() -> list[Path]:
    """Files of the library: beside NumPy as its packages have it, or what this process has loaded."""
    folder = Path(np.__file__).parent
    beside = [*folder.parent.glob("numpy.libs/*openblas*"), *folder.glob(".dylibs/*openblas*")]
    maps = Path("/proc/self/maps")
    if beside or not maps.exists():
        return beside
    rows = (line.split(maxsplit=5) for line in maps.read_text(encoding="utf-8").splitlines())
    loaded = {row[5] for row in rows if len(row) == 6}
    return sorted(Path(name) for name in loaded if "blas" in Path(name).name)
