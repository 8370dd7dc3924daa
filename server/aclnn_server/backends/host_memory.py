"""How much memory the host's processor has for this process: the machine's, or what its cgroups leave of it.

In a container or a service with a limit the machine's own numbers mislead: the kernel ends a process that
goes past its limit, and with a server all that its clients have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class _Version:
    """Where one version of cgroups keeps its numbers."""

    folder: str
    limit: str
    used: str
    reclaimable: str
    """Key in ``memory.stat`` of what the kernel gives up before it runs out: files read long ago."""


_VERSIONS = {
    "": _Version("", "memory.max", "memory.current", "inactive_file"),
    "memory": _Version(
        "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
    ),
}
"""By the controllers that a line of /proc/self/cgroup names: version 2 names none."""
_NO_LIMIT = 2**60
"""Version 1 says "no limit" with a number above this."""


class HostMemory:
    """The memory of this process; the files that tell of it are found once, and read at each question."""

    def __init__(
        self, process: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")
    ) -> None:
        """Finds the files.

        Args:
            process: where the kernel tells of processes.
            cgroups: where cgroups are mounted.
        """
        self._machine = str(process / "meminfo")
        self._groups = tuple(_groups(process, cgroups))

    def info(self) -> tuple[int, int]:
        """Free and total bytes; zeros where not known."""
        sizes = dict(fields(self._machine))
        free, total = (_kibibytes(sizes.get(key, "")) for key in ("MemAvailable", "MemTotal"))
        for group in self._groups:
            limit = group.limit()
            if limit is not None:
                total = min(total or limit, limit)
                free = min(free or limit, max(0, limit - group.used()))
        return free, total


@dataclass(frozen=True, slots=True)
class _Group:
    folder: str
    version: _Version

    def limit(self) -> int | None:
        found = _number(f"{self.folder}/{self.version.limit}")
        return None if found is None or found >= _NO_LIMIT else found

    def used(self) -> int:
        stat = dict(line.split(" ", 1) for line in _lines(f"{self.folder}/memory.stat"))
        taken = _number(f"{self.folder}/{self.version.used}") or 0
        return taken - int(stat.get(self.version.reclaimable, 0))


def _groups(process: Path, cgroups: Path) -> Iterator[_Group]:
    """The process's own group and those around it."""
    for line in _lines(str(process / "self/cgroup")):
        _, controllers, own = line.split(":", 2)
        for name in set(controllers.split(",")) & _VERSIONS.keys():
            version = _VERSIONS[name]
            # A container sees its own group at the root, whatever the line says.
            for group in (PurePosixPath(own), *PurePosixPath(own).parents):
                folder = cgroups / version.folder / group.relative_to("/")
                if (folder / version.limit).is_file():
                    yield _Group(str(folder), version)


def _kibibytes(text: str) -> int:
    number = text.removesuffix(" kB")
    return int(number) * 1024 if number.isdecimal() else 0


def _number(path: str) -> int | None:
    text = "".join(_lines(path))
    return int(text) if text.isdecimal() else None


def fields(path: str) -> Iterator[tuple[str, str]]:
    """The lines ``key: value`` of one of the kernel's files; none where there is no such file."""
    for line in _lines(path):
        key, _, value = line.partition(":")
        yield key.strip(), value.strip()


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
