"""What a process holds of its machine, and what a server holds for its clients."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import grpc

from tests.service.calling import Stubs
from tests.waiting import PATIENCE, until

TOLERATED_HANDLES = 8
"""Threads or files that pools may still make; a leak with each client or call is more."""


@dataclass(frozen=True)
class Held:
    """What a process holds."""

    resident_bytes: int
    threads: int
    files: int

    @classmethod
    def by(cls, pid: int) -> Held:
        """What this one holds now."""
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":\t", 1) for line in lines)
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return cls(int(fields["VmRSS"].split()[0]) * 1024, int(fields["Threads"]), files)


def settled(address: str, pid: int, files: int, patience: float = PATIENCE) -> Held:
    """What a server's process holds when all contexts have ended, and connections but for `files` files."""
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        stubs = Stubs(channel)

        def stays() -> dict[str, object]:
            used = {kind: count for kind, count in stubs.usage().items() if count}
            return used | ({} if Held.by(pid).files <= files else _open_files(pid, files))

        until(lambda: not stays(), patience, told=stays)
    return Held.by(pid)


def _open_files(pid: int, limit: int) -> dict[str, object]:
    """A process's open files, by kind, to be told."""
    kinds: Counter[str] = Counter()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            kinds[os.readlink(file).partition(":")[0]] += 1
    return {f"files (at most {limit} may stay)": dict(kinds)}


def check_flat(before: Held, after: Held, tolerated_bytes: int) -> None:
    """Checks that nothing has grown, but for so many bytes of fragments and a few handles."""
    print(f"\nbefore: {before}\nafter:  {after}")  # noqa: T201 - for whoever asks with -s
    assert after.threads <= before.threads + TOLERATED_HANDLES
    assert after.files <= before.files + TOLERATED_HANDLES
    assert after.resident_bytes <= before.resident_bytes + tolerated_bytes
