"""Fixtures that every test may use; each folder adds its own. Nothing is imported from here."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest


def pytest_configure() -> None:
    # No deadline: a slow machine is no failure. In CI the same examples at each run.
    hypothesis.settings.register_profile("developer", deadline=None, print_blob=True)
    hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
    hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "developer")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Where several processes run the tests, no process is left alone with what takes longest.
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/soak", "tests/conformance")))


@pytest.fixture(scope="session", autouse=True)
def _interrupts() -> Iterator[None]:
    """SIGINT as in a terminal: a shell's background jobs, and so their children, ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def project() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def project_files(project: Path) -> list[Path]:
    """The project's files: those that git knows, and new ones that it would not ignore."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listing = subprocess.run(
        [*command, "--cached", "--others", "--exclude-standard"],
        cwd=project,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout.decode()
    # A file that is deleted but not yet committed is still listed.
    return [project / name for name in listing.split("\0") if (project / name).is_file()]


@pytest.fixture(scope="session", autouse=True)
def _own_configuration() -> Iterator[None]:
    """Keeps the developer's own ACLNN_SERVE_* settings out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("ACLNN_SERVE_")]:
            patch.delenv(name)
        yield
