"""A headless Chromium, driven over its DevTools protocol by a pair of pipes."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 30.0
"""Seconds after which a wait counts as hung."""
# A browser that asks for nothing but what it is told to.
QUIET = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
    *("--hide-scrollbars", "--force-device-scale-factor=1", "--disable-dev-shm-usage"),
)


def find() -> str | None:
    """Chromium's program, where this machine has it."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """One page in a browser of its own."""

    def __init__(self, program: str, folder: Path) -> None:
        """Prepares it; `folder` is for what it writes."""
        self.said: list[str] = []
        """What the page complained of: errors, refusals of its policy."""
        self._command = [program, *QUIET, f"--user-data-dir={folder}", "--remote-debugging-pipe"]
        if os.geteuid() == 0:
            self._command.append("--no-sandbox")  # which root cannot have
        self._numbers = itertools.count(1)
        self._unread = b""
        self._answers: dict[int, dict[str, Any]] = {}
        self._session = ""

    def __enter__(self) -> Self:
        ends = [*os.pipe(), *os.pipe()]
        # Out of the way of 3 and 4, as which the browser wants its ends.
        to_read, self._to, self._from, to_write = (
            fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends
        )
        for end in ends:
            os.close(end)
        nothing = [(os.POSIX_SPAWN_OPEN, output, os.devnull, os.O_WRONLY, 0) for output in (1, 2)]
        pipes = [(os.POSIX_SPAWN_DUP2, to_read, 3), (os.POSIX_SPAWN_DUP2, to_write, 4)]
        self._process = os.posix_spawn(
            self._command[0], self._command, os.environ, file_actions=[*nothing, *pipes]
        )
        os.close(to_read)
        os.close(to_write)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._to)
        os.close(self._from)

    # --- the protocol -----------------------------------------------------------------------------

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Makes a call of the protocol and gives its result."""
        number = next(self._numbers)
        message: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while number not in self._answers:
            self._read(until)
        answer = self._answers.pop(number)
        assert "error" not in answer, answer["error"]
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self, until: float) -> None:
        ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
        assert ready, "the browser does not answer"
        read = os.read(self._from, 2**20)
        assert read, "the browser has ended"
        *messages, self._unread = (self._unread + read).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            elif message["method"] == "Log.entryAdded":
                self.said.append(message["params"]["entry"]["text"])
            elif message["method"] == "Runtime.exceptionThrown":
                self.said.append(json.dumps(message["params"]["exceptionDetails"]))

    # --- the page ---------------------------------------------------------------------------------

    def open(self, url: str, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
        """Opens a page in a window of that size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        url += f"?look={next(self._numbers)}"  # so that the page of before is not taken for it
        self.call("Page.navigate", url=url)
        self.wait_for("location.href", lambda value: value == url)

    def run(self, script: str) -> Any:  # noqa: ANN401 - what the expression gives
        """Value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, script: str, holds: Callable[[Any], bool] = bool) -> Any:  # noqa: ANN401
        """Waits until an expression holds, and gives its value."""
        until = time.monotonic() + PATIENCE
        while not holds(value := self.run(script)):
            assert time.monotonic() < until, f"{script} is still {value!r}; {self.said}"
            time.sleep(0.02)
        return value

    def screenshot(self) -> bytes:
        """The whole page as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])
