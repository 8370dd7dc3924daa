"""What a call gives back is there for the next one, without new pages of the system."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from aclnn_server.freed_memory import SETTINGS, keep_freed_memory

ROUNDS = 50
MESSAGES = f"""
import resource
{{begin}}
def call():
    return [bytes(1 << 20) for _ in range(4)]
for _ in range(5):
    call()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    call()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
"""Messages of 1 MiB, four at a time; prints the page faults of all rounds."""
TOLD = "from aclnn_server.freed_memory import keep_freed_memory\nassert keep_freed_memory()"

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="the allocator is not glibc's"
)


def page_faults(begin: str) -> int:
    environment = {name: v for name, v in os.environ.items() if name not in SETTINGS}
    told = subprocess.run(
        (sys.executable, "-c", MESSAGES.format(begin=begin)),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(told.stdout)


def test_messages_of_the_next_call_take_no_new_pages() -> None:
    assert page_faults("") >= ROUNDS
    assert page_faults(TOLD) < ROUNDS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MALLOC_TRIM_THRESHOLD_", "1048576"),
        ("MALLOC_MMAP_THRESHOLD_", "1048576"),
        ("GLIBC_TUNABLES", "glibc.malloc.arena_max=2"),
    ],
)
def test_settings_of_the_environment_hold(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert not keep_freed_memory()
