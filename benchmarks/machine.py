"""Where a run took place, and of which commit."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import time
from pathlib import Path

from aclnn_server.backends.host import processor_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("grpcio", "protobuf", "numpy", "pyarrow", "numba")


def describe() -> dict[str, str]:
    """Facts that the figures depend on, each as text."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": _commit(),
        "processor": f"{processor_name()}, {len(os.sched_getaffinity(0))} cores for this process",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": ", ".join(_versions()),
        "load before": f"{os.getloadavg()[0]:.1f} runnable processes",
    }


def _commit() -> str:
    commit = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "--", "proto", "server", "client", "benchmarks/*.py")
    return f"{commit}, with changes not committed" if commit and changed else commit or "unknown"


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _versions() -> list[str]:
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
