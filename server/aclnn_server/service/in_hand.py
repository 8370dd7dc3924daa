"""How much is being served."""

from __future__ import annotations

import threading


class InHand:
    """Counts the calls and batches that are being served."""

    def __init__(self) -> None:
        self.count = 0
        """Those that are served now."""
        self.begun = 0
        """Those that ever were."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.count += 1
            self.begun += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.count -= 1
