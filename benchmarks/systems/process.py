"""A server in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 10.0


class ServerProcess:
    """``python -m MODULE …``, which prints one line with "listening on ADDRESS" when it is ready."""

    def __init__(self, *command: str) -> None:
        """Starts it, and waits until it is ready.

        Raises:
            RuntimeError: it ended before.
        """
        start = time.perf_counter()
        self._process = subprocess.Popen(
            (sys.executable, "-m", *command),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=clean_environment(),
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.ready_seconds = time.perf_counter() - start
        """From the start of the process to the line that says it listens."""
        found = re.search(r"listening on (\S+)", line)
        if found is None:
            _, told = self._process.communicate()
            raise RuntimeError(f"{' '.join(command)} did not start: {told.strip()[-500:]}")
        self.address = found[1]
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def clean_environment() -> dict[str, str]:
    """The environment without settings that are for the user's own servers."""
    return {name: v for name, v in os.environ.items() if not name.startswith("ACLNN_SERVE_")}


def say_ready(address: str) -> None:
    """Prints the line that :class:`ServerProcess` waits for."""
    print(f"listening on {address}", flush=True)
