"""Waits that end when what they are for has come, when their time is over, or when their caller is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from aclnn.errors import CancelledError

LOOK_SECONDS = 0.1
"""How often a wait looks whether its caller is still there."""

Gone = Callable[[], bool]
"""Tells that nobody waits for the answer any more."""


class WouldWait(Exception):  # noqa: N818 - not a failure: it has to be done otherwise
    """Raised in place of a wait, with nothing done, where :func:`cannot_wait` is given."""


def cannot_wait() -> bool:
    """A :data:`Gone` of a caller that must not wait at all."""
    raise WouldWait


class Patience:
    """How long one caller waits."""

    def __init__(self, timeout: float | None = None, gone: Gone | None = None) -> None:
        """Begins now.

        Args:
            timeout: seconds; ``None`` for any time.
            gone: tells that the caller is gone; ``None`` where that does not end the wait.
        """
        self._until = None if timeout is None else time.monotonic() + timeout
        self._gone = gone

    @property
    def left(self) -> float | None:
        """Seconds until the time is over, at least 0; ``None`` for any time."""
        return None if self._until is None else max(0.0, self._until - time.monotonic())

    @property
    def pause(self) -> float | None:
        """Seconds to wait at once: no longer than the caller may be gone unseen."""
        left = self.left
        if self._gone is None:
            return left
        return LOOK_SECONDS if left is None else min(left, LOOK_SECONDS)

    def check_there(self) -> None:
        """Checks that the caller is still there.

        Raises:
            CancelledError: it is gone.
        """
        if self._gone is not None and self._gone():
            raise CancelledError("the call was over before what it waits for was done")

    def wait_for(self, wait: Callable[[float | None], bool]) -> bool:
        """Waits by means of `wait`, which takes seconds and tells whether the wait is over.

        Returns:
            Whether it was over before the time was.

        Raises:
            CancelledError: the caller is gone.
        """
        while not wait(self.pause):
            self.check_there()
            if self.left == 0.0:
                return False
        return True

    def wait_until(self, holds: Callable[[], bool], changed: threading.Condition) -> bool:
        """Waits until `holds` does, looking whenever `changed` is notified. The condition is held."""
        return self.wait_for(lambda pause: changed.wait_for(holds, pause))
