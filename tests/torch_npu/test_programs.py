"""Programs: how they end, several at once, their children, and what happens when the server is gone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from aclnn_server.server import Server
from tests.torch_npu.models import mlp, trained

PROJECT = Path(__file__).resolve().parents[2]
PATIENCE = 150.0
"""Seconds after which a program counts as hung, on a busy machine too."""
pytestmark = pytest.mark.timeout(2 * PATIENCE)
NOTICE = "Warning: ASCEND_HOME_PATH environment variable is not set.\n"
"""What torch_npu prints wherever there is no CANN."""


def start(name: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Starts one of the programs, with this process's variables and further ones."""
    return subprocess.Popen(
        (sys.executable, "-m", f"tests.torch_npu.programs.{name}", *arguments),
        cwd=PROJECT,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> str:
    """Waits for its end, which must be a good one; gives what it printed."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "aclnn:" not in err
    return out.replace(NOTICE, "")


def expected() -> list[float]:
    return trained(mlp, torch.optim.SGD, 6, "cpu", lr=0.1, foreach=False)


@pytest.mark.parametrize("mode", ["1", "2"])
def test_queues_of_torch_npu_s_own(mode: str) -> None:
    """With its queue in a thread, for both phases or one, which this process has switched off."""
    assert os.environ["TASK_QUEUE_ENABLE"] == "0"
    found = json.loads(end(start("training", "npu", TASK_QUEUE_ENABLE=mode)))
    assert found == pytest.approx(expected(), rel=2e-4)


def test_two_programs_share_a_server(server: Server) -> None:
    both = [start("training", "npu", ACLNN_SERVER=server.address) for _ in range(2)]
    found = [json.loads(end(program)) for program in both]
    assert found[0] == found[1]
    assert found[0] == pytest.approx(expected(), rel=2e-4)
    assert server.registry.usage.contexts == 0


def test_two_devices(server: Server) -> None:
    assert end(start("two_devices", ACLNN_SERVER=server.address)) == "both\n"


def test_a_step_waits_only_where_it_reads(server: Server) -> None:
    metrics = server.metrics_address
    assert metrics is not None
    variables: Mapping[str, str] = {"ACLNN_SERVER": server.address, "METRICS": metrics}
    one, ten, read = json.loads(end(start("waits", **variables)))
    operators = one.pop("Execute")
    assert ten.pop("Execute") == read.pop("Execute") == operators > 8
    # The waits are those of the synchronisation at the end, whatever the number of steps.
    assert {name: 10 * count for name, count in ten.items()} == pytest.approx(one)
    # Reading is a wait and a copy at each step, and nothing is left to wait for at the end.
    assert read == {"SynchronizeStream": 1, "ReadBuffer": 1}


def test_children() -> None:
    assert end(start("children")).splitlines() == [
        "fork 9.0",
        "spawn 9.0",
        "program 2.0",
    ]


def test_by_import() -> None:
    """Without the command: the import starts a server, which ends with the program."""
    names = ("ACLNN_SERVER", "ACLNN_LIBRARIES", "LD_LIBRARY_PATH", "TASK_QUEUE_ENABLE")
    kept = {name: os.environ.pop(name) for name in names}
    try:
        program = start("by_import", ACLNN_LIBRARIES=kept["ACLNN_LIBRARIES"])
    finally:
        os.environ.update(kept)
    total, server = end(program).split()
    assert total == "2.0"
    limit = time.monotonic() + PATIENCE
    while Path("/proc", server).exists() and time.monotonic() < limit:
        time.sleep(0.05)
    assert not Path("/proc", server).exists()


def test_a_server_that_is_gone() -> None:
    """The program gets an exception that says so, and ends by itself."""
    serving = subprocess.Popen(
        (sys.executable, "-m", "aclnn_server", "serve", "--listen", "127.0.0.1:0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert serving.stdout is not None
    with serving, contextlib.ExitStack() as stack:
        stack.callback(serving.kill)
        address = serving.stdout.readline().split("listening on ")[1].split()[0]
        program = start("lost_server", ACLNN_SERVER=address)
        stack.callback(program.kill)
        assert program.stdout is not None
        assert program.stdout.readline() == NOTICE
        assert float(program.stdout.readline()) > 0
        serving.kill()
        serving.wait()
        out, err = program.communicate(timeout=PATIENCE)
    assert program.returncode == 0, err
    told = "\n".join(line for line in out.splitlines() if not re.fullmatch(r"[\d.]+", line))
    assert told.startswith("RuntimeError: ")
    assert f"{address}: " in told
