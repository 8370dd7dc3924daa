"""What becomes of memory that a call has given back: the allocator keeps some of it for the next call.

Messages of hundreds of KiB, and what is made of them, come and go with each call. By itself glibc gives the
end of its heap back to the system when a call's messages are freed, and the next call takes fresh pages,
which cost more than all else that it does: a one-line call with 1 MiB of arrays took 4.1 ms and 860 page
faults, and with this 1.6 ms and 5.
"""

from __future__ import annotations

import ctypes
import os

KEPT_BYTES = 8 << 20
"""Free bytes at the end of a heap, of which there are a few, that are not given back to the system."""
APART_BYTES = 4 << 20
"""Bytes from which a block lies apart from the heaps, and goes back to the system as soon as it is free:
tensors, not messages."""
SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""Variables by which whoever starts the process tells glibc's allocator."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Of <malloc.h>."""


def keep_freed_memory() -> bool:
    """Tells the allocator of this process; whether it could be told.

    Where the environment has settings of its own for glibc's allocator, those hold.
    """
    if any(name in os.environ for name in SETTINGS):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # not glibc
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_MMAP_THRESHOLD, APART_BYTES))
