"""Containers: the engine that `deploy/container/engine.sh` finds, and containers of the image under test."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ENGINE = Path(__file__).parents[2] / "deploy/container/engine.sh"
IMAGE = os.environ.get("CONTAINER_IMAGE", "")
"""The image under test; `make container` builds it and names it here."""
# As the documents start it, and as Kubernetes does with its restricted policy.
CONFINED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
PATIENCE = 60.0


def engine(
    *arguments: str, check: bool = True, patience: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    """Runs a command of the engine."""
    done = subprocess.run(
        (str(ENGINE), *arguments), capture_output=True, text=True, timeout=patience, check=False
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def run(*arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs the image until it ends.

    Args:
        arguments: of `aclnn-serve`.
        options: of the engine's `run`.
    """
    return engine("run", "--rm", *CONFINED, *options, IMAGE, *arguments, check=False)


class Served:
    """A container that serves, its port published on this machine; gone after the `with` block."""

    def __init__(self, *arguments: str, options: tuple[str, ...] = ()) -> None:
        started = engine(
            *("run", "--detach", *CONFINED, "--publish", "127.0.0.1::50051", *options),
            *(IMAGE, "serve", *arguments),
        )
        self.id = started.stdout.strip()
        self.address = ""

    def __enter__(self) -> Self:
        try:
            self.address = engine("port", self.id, "50051").stdout.splitlines()[0]
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        engine("rm", "--force", self.id)

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in it."""
        return engine("exec", self.id, *command, check=False)

    def inspect(self) -> Any:  # noqa: ANN401 - JSON
        """What the engine knows of it."""
        return json.loads(engine("inspect", self.id).stdout)[0]

    def log(self) -> list[dict[str, Any]]:
        """The log's lines."""
        text = engine("logs", self.id).stderr
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
