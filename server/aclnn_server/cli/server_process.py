"""A server in a process of its own, started and stopped by the one that uses it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from types import TracebackType
from typing import Self

from aclnn_server.cli.exits import CommandError, Exit
from aclnn_server.cli.parsing import PROGRAM

STOP_SECONDS = 10.0
"""Time that the server gets to stop by itself."""


class ServerProcess:
    """``aclnn-serve serve`` on a free port of this machine, for the time of a ``with`` block."""

    def __init__(self, *flags: str) -> None:
        """Prepares it.

        Args:
            flags: of ``serve``, besides the address and the log's level.
        """
        self.address = ""
        """Where it listens, once it does."""
        self.banner = ""
        """The line that it said so with."""
        self.exit_code: int | None = None
        """What it ended with, once it has."""
        self.log = ""
        """What it wrote to standard error, once it has ended."""
        self._flags = ("serve", "--listen", "127.0.0.1:0", "--log-level", "warning", *flags)

    @property
    def command(self) -> str:
        """The command line, as a user would write it."""
        return " ".join((PROGRAM, *self._flags))

    def __enter__(self) -> Self:
        # The settings of this shell's own servers are not for this one.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ACLNN_SERVE_")}
        self._process = subprocess.Popen(
            (sys.executable, "-m", "aclnn_server", *self._flags),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        try:
            self._await_banner()
        except BaseException:
            self._stop()
            raise
        return self

    def _await_banner(self) -> None:
        assert self._process.stdout is not None
        self.banner = self._process.stdout.readline().rstrip("\n")
        found = re.search(r"listening on (\S+)", self.banner)
        if found is None:
            raise CommandError(f"the server did not start{self._last_words()}", Exit.NO)
        self.address = found[1]

    def _last_words(self) -> str:
        self._stop()
        lines = self.log.strip().splitlines()
        return f": {lines[-1].removeprefix(f'{PROGRAM}: ')}" if lines else ""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self.exit_code is not None:
            return
        self._process.terminate()
        try:
            _, self.log = self._process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            _, self.log = self._process.communicate()
        self.exit_code = self._process.returncode
