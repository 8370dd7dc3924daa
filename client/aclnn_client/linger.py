"""Sends what was held back to go together with more, when nothing more comes within a moment."""

from __future__ import annotations

import os
import threading
import time
from typing import Protocol

SECONDS = 0.0003
"""How long a command may be held back: about as long as a round trip on one machine."""
CALM_SECONDS = 0.002
"""How long the thread rests where others send what is held back: programs that wait after each call, or that
make so many that requests are full."""
CALM_ROUNDS = 8
"""Rounds in which no program paused after which it rests longer."""
MOST_SECONDS = 0.004
"""How long a command may be held back while more and more of them come."""
IDLE_ROUNDS = 100
"""Rounds without anything held back after which the thread ends; the next command starts another."""


class Lingering(Protocol):
    """What holds commands back."""

    requests_sent: int
    """How often something was sent."""
    held: int
    """Commands that wait to be sent."""

    @property
    def lingers(self) -> bool:
        """Whether something is held back."""

    def send_lingering(self) -> None:
        """Sends it; must not wait for the connection."""


class _Look:
    """What was seen of one that holds commands back."""

    __slots__ = ("held", "sent", "since", "suspected")

    def __init__(self, owner: Lingering) -> None:
        self.take(owner)

    def take(self, owner: Lingering) -> None:
        """Looks, when something has just been held back, or sent."""
        self.sent, self.held, self.since = owner.requests_sent, owner.held, time.monotonic()
        self.suspected = False
        """Whether nothing had come when the thread looked after a long rest."""


class Linger:
    """A thread that is there only while commands are held back, by whatever context of this process."""

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._running = False
        self._owners: dict[Lingering, _Look] = {}

    def watch(self, owner: Lingering) -> None:
        """Sees to it that what `owner` holds back now is sent in a moment."""
        with self._lock:
            self._owners[owner] = _Look(owner)
            begin, self._running = not self._running, True
        if begin:
            threading.Thread(target=self._run, name="aclnn-linger", daemon=True).start()

    def _run(self) -> None:
        idle = calm = 0
        suspicion = False
        while True:
            rests = calm >= CALM_ROUNDS and not suspicion
            time.sleep(CALM_SECONDS if rests else SECONDS)
            suspicion = paused = False
            with self._lock:
                looks = list(self._owners.items())
                idle = 0 if looks else idle + 1
                if idle > IDLE_ROUNDS:
                    self._running = False
                    return
            for owner, look in looks:
                if not owner.lingers:
                    self._drop(owner, look)
                elif owner.requests_sent != look.sent:
                    look.take(owner)
                elif owner.held != look.held and time.monotonic() - look.since < MOST_SECONDS:
                    look.held = owner.held  # whoever calls is still at it
                elif owner.held == look.held and rests and not look.suspected:
                    look.suspected = suspicion = True
                else:
                    paused = paused or owner.held == look.held
                    self._drop(owner, look)
                    owner.send_lingering()
            calm = 0 if paused else calm + 1

    def _drop(self, owner: Lingering, look: _Look) -> None:
        with self._lock:
            if self._owners.get(owner) is look:
                del self._owners[owner]


LINGER = Linger()
"""That of this process."""
if hasattr(os, "register_at_fork"):  # the thread stays with the parent
    os.register_at_fork(after_in_child=LINGER._begin_anew)
