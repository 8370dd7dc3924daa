"""Files that are read again when they change, while the server runs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from aclnn_server.config import ConfigError

LOOK_SECONDS = 0.5
"""Pause between two looks; a change is in force after two of them at most, and the time to read."""

_LOG = logging.getLogger(__name__)

_Print = tuple[tuple[int, int, int, int] | None, ...]


class Source(Protocol):
    """What is read from files."""

    @property
    def paths(self) -> Sequence[Path]:
        """The files."""

    def load(self) -> None:
        """Reads the files and puts them in force.

        Raises:
            ConfigError: they cannot be read, or not be used; what was in force stays.
        """

    def pass_time(self) -> None:
        """Called at each look: ends what has expired."""


class Watch:
    """Reads sources, and again when their files change.

    A file is taken once it has not changed for one look, since who writes it may not have finished.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        """Reads all of them.

        Raises:
            ConfigError: one cannot be read or used.
        """
        self._sources = sources
        self._loaded = [_print(source.paths) for source in sources]
        self._seen = list(self._loaded)
        for source in sources:
            source.load()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aclnn-files", daemon=True)

    def start(self) -> None:
        """Begins to look, where there is anything to look at."""
        if self._sources:
            self._thread.start()

    def stop(self) -> None:
        """Ends it."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Looks once."""
        for index, source in enumerate(self._sources):
            try:
                source.pass_time()
                self._look_at(index, source)
            except Exception:  # the next look must come
                _LOG.exception("looking at %s failed", _names(source))

    def _look_at(self, index: int, source: Source) -> None:
        before, self._seen[index] = self._seen[index], _print(source.paths)
        if self._seen[index] != before or before == self._loaded[index]:
            return
        self._loaded[index] = before
        try:
            source.load()
        except ConfigError as error:
            _LOG.error("%s; what was in force before stays in force", error)
        else:
            _LOG.info("read again: %s", _names(source))


def _names(source: Source) -> str:
    return ", ".join(map(str, source.paths))


def _print(paths: Sequence[Path]) -> _Print:
    """What tells a file from its next version: also where a link leads to another file."""
    return tuple(map(_print_of, paths))


def _print_of(path: Path) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def read(path: Path, setting: str) -> bytes:
    """Reads a file of a setting.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{setting} is {str(path)!r}, which cannot be read: {error.strerror}"
        ) from None
