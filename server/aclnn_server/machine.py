"""What this process has of its machine: memory and processors, as far as cgroups leave them to it.

In a container or a service with limits the machine's own numbers mislead: the kernel ends a process that
takes more memory, and with a server all that its clients have, and holds up one that runs on more processors.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_NO_LIMIT = 2**60
"""Version 1 of cgroups says "no limit" with a number above this."""


class Machine:
    """The machine as this process has it; what tells of it is found once, and read at each question."""

    def __init__(
        self, process: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")
    ) -> None:
        """Finds the files.

        Args:
            process: where the kernel tells of processes.
            cgroups: where cgroups are mounted.
        """
        self._sizes = str(process / "meminfo")
        groups = list(_groups(process, cgroups))
        self._memory = [kind(folder) for kind in _MEMORY for folder in kind.among(groups)]
        self._processors = [kind(folder) for kind in _PROCESSORS for folder in kind.among(groups)]

    def memory(self) -> tuple[int, int]:
        """Free and total bytes; zeros where not known."""
        sizes = dict(fields(self._sizes))
        free, total = (_kibibytes(sizes.get(key, "")) for key in ("MemAvailable", "MemTotal"))
        for group in self._memory:
            limit = group.limit()
            if limit is not None:
                total = min(total or limit, limit)
                free = min(free or limit, max(0, limit - group.used()))
        return free, total

    def processors(self) -> int:
        """How many threads run at the same time without being held up; at least 1."""
        shares = (group.share() for group in self._processors)
        return min([len(os.sched_getaffinity(0)), *(math.ceil(share) for share in shares if share)])


# --- cgroups ----------------------------------------------------------------------------------------


def _groups(process: Path, cgroups: Path) -> Iterator[tuple[str, Path]]:
    """Controller (empty in version 2) and folder of the process's own groups and of those around them."""
    for line in _lines(str(process / "self/cgroup")):
        _, controllers, own = line.split(":", 2)
        for controller in controllers.split(","):
            # A container sees its own group at the root, whatever the line says.
            for group in (PurePosixPath(own), *PurePosixPath(own).parents):
                yield controller, cgroups / controller / group.relative_to("/")


class _Group:
    """One group's files; a subclass for each version's."""

    controller = ""
    file = ""
    """One that is there where the group has what this is about."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    @classmethod
    def among(cls, groups: list[tuple[str, Path]]) -> Iterator[Path]:
        """The folders that have what this is about."""
        for controller, folder in groups:
            if controller == cls.controller and (folder / cls.file).is_file():
                yield folder

    def _text(self, name: str) -> str:
        return "".join(_lines(f"{self._folder}/{name}"))


class _Memory2(_Group):
    file, taken, reclaimable = "memory.max", "memory.current", "inactive_file"

    def limit(self) -> int | None:
        """Bytes; ``None`` where there is no limit."""
        found = _number(self._text(self.file))
        return None if found is None or found >= _NO_LIMIT else found

    def used(self) -> int:
        """Bytes that are taken, less what the kernel gives up before it runs out: files read long ago."""
        stat = dict(line.split(" ", 1) for line in _lines(f"{self._folder}/memory.stat"))
        return (_number(self._text(self.taken)) or 0) - int(stat.get(self.reclaimable, 0))


class _Memory1(_Memory2):
    controller = "memory"
    file, taken = "memory.limit_in_bytes", "memory.usage_in_bytes"
    reclaimable = "total_inactive_file"


class _Processors2(_Group):
    file = "cpu.max"

    def share(self) -> float | None:
        """Processors; ``None`` where there is no limit."""
        return self._share(*self._text(self.file).split(" ", 1))

    def _share(self, quota: str = "", period: str = "") -> float | None:
        numbers = _number(quota), _number(period)
        return numbers[0] / numbers[1] if numbers[0] and numbers[1] else None


class _Processors1(_Processors2):
    controller, file = "cpu", "cpu.cfs_quota_us"

    def share(self) -> float | None:
        """Processors; ``None`` where there is no limit."""
        return self._share(self._text(self.file), self._text("cpu.cfs_period_us"))


_MEMORY = (_Memory2, _Memory1)
_PROCESSORS = (_Processors2, _Processors1)


# --- the kernel's files -----------------------------------------------------------------------------


def fields(path: str) -> Iterator[tuple[str, str]]:
    """The lines ``key: value`` of one of the kernel's files; none where there is no such file."""
    for line in _lines(path):
        key, _, value = line.partition(":")
        yield key.strip(), value.strip()


def _kibibytes(text: str) -> int:
    return (_number(text.removesuffix(" kB")) or 0) * 1024


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
