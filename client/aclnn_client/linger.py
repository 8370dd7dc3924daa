"""Sends what was held back to go together with more, when nothing more comes within a moment."""

from __future__ import annotations

import threading
import time
from typing import Protocol

SECONDS = 0.0003
"""How long a command may be held back: about as long as a round trip on one machine."""
CALM_SECONDS = 0.002
"""How long the thread rests where others send what is held back: a program that waits after each call."""
CALM_ROUNDS = 8
"""Rounds without anything to send after which it rests longer."""
IDLE_ROUNDS = 100
"""Rounds without anything to send after which the thread ends; the next command starts another."""


class Lingering(Protocol):
    """What holds commands back."""

    requests_sent: int
    """How often something was sent."""

    @property
    def lingers(self) -> bool:
        """Whether something is held back."""

    def send_lingering(self) -> None:
        """Sends it."""


class Linger:
    """A thread that is there only while commands are held back."""

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._lock = threading.Lock()
        self._running = False

    def watch(self, owner: Lingering) -> None:
        """Sees to it that what `owner` holds back now is sent in a moment."""
        if self._running or not self._begin():
            return
        threading.Thread(target=self._run, args=(owner,), name="aclnn-linger", daemon=True).start()

    def _begin(self) -> bool:
        with self._lock:
            begun, self._running = not self._running, True
        return begun

    def _run(self, owner: Lingering) -> None:
        idle = 0
        while idle < IDLE_ROUNDS:
            time.sleep(SECONDS if idle < CALM_ROUNDS else CALM_SECONDS)
            if not owner.lingers:
                idle += 1
            elif idle < CALM_ROUNDS or self._still_lingers(owner):
                idle = 0
                owner.send_lingering()
        with self._lock:
            self._running = False
        if owner.lingers:  # held back by somebody who saw the thread still running
            self.watch(owner)

    def _still_lingers(self, owner: Lingering) -> bool:
        """Whether nobody else sends what is held back, within a moment."""
        before = owner.requests_sent
        time.sleep(SECONDS)
        return owner.lingers and owner.requests_sent == before
