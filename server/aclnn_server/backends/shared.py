"""Memory of the host that another process can map as well: a file without a name, whose size is sealed."""

from __future__ import annotations

import fcntl
import mmap
import os
import threading

import numpy as np

from aclnn_server.backends.base import Memory, SharedMemory

_NO_EXECUTION = 0x8
"""MFD_NOEXEC_SEAL, which Python before 3.14 does not name and Linux before 6.3 does not know."""
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class SharedHostMemory(SharedMemory):
    """Zeroed memory of the host, as an array of bytes.

    It takes no memory until it is written. Its size can be changed by nobody: a client that could cut it
    would end the server by a bus error.
    """

    def __init__(self, size: int) -> None:
        """Makes the memory.

        Args:
            size: bytes, a multiple of the system's page.

        Raises:
            OSError: the system gives no such file, or as many as allowed are open.
        """
        self._file = _create()
        self._lock = threading.Lock()
        try:
            os.ftruncate(self._file, size)
            fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, _SEALS)
            self._map = mmap.mmap(self._file, size)
        except BaseException:
            os.close(self._file)
            raise
        self.memory: Memory = np.frombuffer(self._map, np.uint8)

    @property
    def file(self) -> int:
        """Number of the open file; not to be closed. Only before :meth:`close_file`."""
        return self._file

    def close_file(self) -> None:
        """Closes the file; the memory stays, here and where the file was handed to."""
        with self._lock:
            file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def clear(self) -> None:
        """Gives every page back to the system: whoever still maps the memory reads zeros from now on."""
        self._map.madvise(mmap.MADV_REMOVE)


def _create() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("aclnn-serve", flags | _NO_EXECUTION)
    except OSError:
        return os.memfd_create("aclnn-serve", flags)
