"""Ctrl-C held back while it would do harm: in the middle of a change, or of a wait inside of gRPC."""

from __future__ import annotations

# The module `signal` takes 25 microseconds for what this does in one.
import _signal  # type: ignore[import-not-found]
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGINT = int(_signal.SIGINT)


class HeldBack:
    """Holds SIGINT back in a block of the main thread; at its end comes what usually comes.

    A block that waits looks at :attr:`noted` to end early.
    """

    __slots__ = ("_frame", "_usual", "_wake", "noted")

    def __init__(self, wake: Callable[[], object]) -> None:
        """Prepares it.

        Args:
            wake: ends a wait of the block; called in the main thread, at any point of the block.
        """
        self.noted = False
        """Whether an interrupt has come."""
        self._wake = wake
        self._frame: FrameType | None = None
        self._usual: Any = None

    def __enter__(self) -> HeldBack:
        self._usual = _signal.getsignal(_SIGINT)
        if callable(self._usual):
            _signal.signal(_SIGINT, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.noted, self._frame = True, frame
        self._wake()

    def __exit__(self, *_: object) -> None:
        if callable(self._usual):
            _signal.signal(_SIGINT, self._usual)
        if self.noted:
            self._usual(_SIGINT, self._frame)


class NotHeld:
    """The block of another thread, which no interrupt comes to."""

    noted = False

    def __enter__(self) -> NotHeld:
        return self

    def __exit__(self, *_: object) -> None:
        pass


NO_INTERRUPTS = NotHeld()
Interrupts = HeldBack | NotHeld


def held_back(wake: Callable[[], object]) -> Interrupts:
    """Holds SIGINT back in a ``with`` block, where this is the main thread."""
    if threading.get_ident() == threading.main_thread().ident:
        return HeldBack(wake)
    return NO_INTERRUPTS
