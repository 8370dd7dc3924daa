"""What is known of a call before the server is asked: its signature, and its workspace if planned before."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Hashable

from aclnn.signatures import Signature, parse

CAPACITY = 1024
"""Calls that a context remembers; the one that was not used for longest is forgotten first."""


class Plans:
    """Workspace sizes of calls that were planned before. Thread-safe.

    A call is known by its operator, the specs of its tensors and the values of its other arguments: equal
    calls are planned alike. The server validates each one nevertheless.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._sizes: OrderedDict[Hashable, int] = OrderedDict()

    def find(self, call: Hashable) -> int | None:
        """The workspace size of a call, in bytes; ``None`` where it is not known."""
        with self._lock:
            size = self._sizes.get(call)
            if size is not None:
                self._sizes.move_to_end(call)
            return size

    def keep(self, call: Hashable, size: int) -> None:
        """Remembers the workspace size of a call."""
        with self._lock:
            self._sizes[call] = size
            if len(self._sizes) > self._capacity:
                self._sizes.popitem(last=False)

    def __len__(self) -> int:
        return len(self._sizes)


@functools.cache
def known_signature(operator: str) -> Signature | None:
    """The signature of an operator of this distribution; ``None`` for any other."""
    from aclnn_client.ops import SHAPED_BY_DATA, SIGNATURES

    row = SIGNATURES.get(operator)
    if row is None:
        return None
    prototype, outputs, optional = row
    shaped = SHAPED_BY_DATA.get(operator, ())
    return parse(prototype, outputs=outputs, optional=optional, shaped_by_data=shaped)
