"""What a process has of its machine: all, or what its cgroups leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from aclnn.errors import OutOfMemoryError
from aclnn_server.backends.numpy import NumpyBackend
from aclnn_server.machine import Machine

MIB = 2**20
MEMINFO = "MemTotal:  8192 kB\nMemFree: 1 kB\nMemAvailable:   4096 kB\nHugePages_Total:   0\n"


class Kernel:
    """The kernel's files, written by the test."""

    def __init__(self, folder: Path) -> None:
        self.process, self.cgroups = folder / "proc", folder / "cgroup"
        self.write("proc/meminfo", MEMINFO)

    def write(self, path: str, text: str) -> None:
        file = self.process.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def info(self) -> tuple[int, int]:
        return Machine(self.process, self.cgroups).memory()

    def processors(self) -> int:
        return Machine(self.process, self.cgroups).processors()


@pytest.fixture
def machine(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def test_without_cgroups_it_is_the_machines(machine: Kernel) -> None:
    assert machine.info() == (4 * MIB, 8 * MIB)


def test_where_the_kernel_tells_nothing_it_is_not_known(machine: Kernel) -> None:
    (machine.process / "meminfo").unlink()
    assert machine.info() == (0, 0)


@pytest.mark.parametrize("own", ["/", "/system.slice/aclnn-serve.service", "/elsewhere/unseen"])
def test_version_2_in_a_container_or_a_service(machine: Kernel, own: str) -> None:
    machine.write("proc/self/cgroup", f"0::{own}\n")
    group = "cgroup" if own == "/elsewhere/unseen" else f"cgroup{own.rstrip('/')}"
    machine.write(f"{group}/memory.max", f"{2 * MIB}\n")
    machine.write(f"{group}/memory.current", f"{MIB}\n")
    machine.write(f"{group}/memory.stat", f"anon 1\ninactive_file {MIB // 4}\nactive_file 2\n")
    assert machine.info() == (MIB + MIB // 4, 2 * MIB)


def test_the_tightest_limit_around_holds(machine: Kernel) -> None:
    machine.write("proc/self/cgroup", "0::/a/b\n")
    for group, limit, used in (("a", 3 * MIB, 2 * MIB), ("a/b", 7 * MIB, MIB)):
        machine.write(f"cgroup/{group}/memory.max", f"{limit}\n")
        machine.write(f"cgroup/{group}/memory.current", f"{used}\n")
    assert machine.info() == (MIB, 3 * MIB)


def test_version_1_beside_an_empty_version_2(machine: Kernel) -> None:
    machine.write("proc/self/cgroup", "4:memory:/docker/1\n2:cpu,cpuacct:/\n0::/\n")
    machine.write("cgroup/memory/memory.limit_in_bytes", f"{2 * MIB}\n")
    machine.write("cgroup/memory/memory.usage_in_bytes", f"{MIB}\n")
    machine.write("cgroup/memory/memory.stat", f"inactive_file 0\ntotal_inactive_file {MIB // 2}\n")
    assert machine.info() == (MIB + MIB // 2, 2 * MIB)


@pytest.mark.parametrize("limit", ["max", "9223372036854771712", "", "x"])
def test_a_group_without_a_limit_changes_nothing(machine: Kernel, limit: str) -> None:
    machine.write("proc/self/cgroup", "0::/a\n1:memory:/a\n")
    machine.write("cgroup/a/memory.max", f"{limit}\n")
    machine.write("cgroup/memory/a/memory.limit_in_bytes", f"{limit}\n")
    assert machine.info() == (4 * MIB, 8 * MIB)


def test_a_group_above_its_limit_has_nothing_left(machine: Kernel) -> None:
    machine.write("proc/self/cgroup", "0::/\n")
    machine.write("cgroup/memory.max", f"{MIB}\n")
    machine.write("cgroup/memory.current", f"{2 * MIB}\n")
    assert machine.info() == (0, MIB)


def test_the_device_tells_what_this_process_has() -> None:
    free, total = NumpyBackend().devices[0].memory_info()
    assert 0 < free <= total


def test_nothing_large_is_allocated_where_nothing_is_left(
    machine: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = NumpyBackend().devices[0]
    machine.write("proc/self/cgroup", "0::/\n")
    machine.write("cgroup/memory.max", f"{MIB}\n")
    machine.write("cgroup/memory.current", f"{MIB}\n")
    monkeypatch.setattr(device, "_machine", Machine(machine.process, machine.cgroups))
    with pytest.raises(OutOfMemoryError, match="; 0 of the device's 1048576 bytes are free"):
        device.allocate(64 * MIB)
    assert device.allocate(MIB).nbytes == MIB


# --- processors -------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _sixteen_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("200000 100000", 2), ("150000 100000", 2), ("1000 100000", 1), ("max 100000", 16), ("", 16)],
)
def test_a_share_of_the_processors(machine: Kernel, quota: str, expected: int) -> None:
    machine.write("proc/self/cgroup", "0::/a/b\n")
    machine.write("cgroup/a/cpu.max", f"{quota}\n")
    machine.write("cgroup/a/b/cpu.max", "900000 100000\n" if quota[:1].isdecimal() else "max 1\n")
    assert machine.processors() == expected


@pytest.mark.parametrize(("quota", "expected"), [("250000", 3), ("-1", 16), ("9999999", 16)])
def test_a_share_by_version_1(machine: Kernel, quota: str, expected: int) -> None:
    machine.write("proc/self/cgroup", "3:cpuset:/\n1:cpu,cpuacct:/docker/1\n")
    machine.write("cgroup/cpu/cpu.cfs_quota_us", f"{quota}\n")
    machine.write("cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert machine.processors() == expected


def test_without_cgroups_all_processors_that_it_may_run_on(machine: Kernel) -> None:
    assert machine.processors() == 16
