"""Runs a test program of the C library, and does for it what it cannot do itself: gates, breaks, kills.

The program writes a request as a line on standard output and waits for the line ``done`` on standard input.
Any other line of it is kept.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

PATIENCE = 50.0
"""Seconds after which a program counts as hung."""
SOON = 0.1
"""Seconds until something is done that a request asked to be done soon, in which the program goes on."""

Act = Callable[..., object]


def drive(
    program: Path,
    environment: Mapping[str, str],
    acts: Mapping[str, Act],
    *arguments: str,
    code: int = 0,
) -> tuple[list[str], str]:
    """Runs a program to its end.

    Args:
        program: the program.
        environment: its variables.
        acts: what to do by the first words of a request; the rest of the line are arguments.
        arguments: of the program.
        code: what it must end with.

    Returns:
        The lines of its standard output that are no requests, and its standard error.
    """
    with subprocess.Popen(
        [program, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        errors: list[str] = []
        assert process.stderr is not None
        reader = threading.Thread(target=lambda e=process.stderr: errors.append(e.read()))
        reader.start()
        limit = threading.Timer(PATIENCE, process.kill)
        limit.start()
        try:
            lines = _serve(process, acts)
            process.wait()
        finally:
            limit.cancel()
            process.kill()
        reader.join()
    assert process.returncode == code, f"ended with {process.returncode}: {errors[0]}"
    return lines, errors[0]


def _serve(process: subprocess.Popen[str], acts: Mapping[str, Act]) -> list[str]:
    assert process.stdin is not None
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        words = line.split()
        known = next((name for name in acts if words[: len(name.split())] == name.split()), None)
        if known is None:
            lines.append(line.rstrip("\n"))
            continue
        acts[known](*words[len(known.split()) :])
        process.stdin.write("done\n")
        process.stdin.flush()
    return lines


def soon(act: Act) -> Act:
    """The same a little later, while the program goes on."""

    def start(*arguments: str) -> None:
        threading.Timer(SOON, act, arguments).start()

    return start
