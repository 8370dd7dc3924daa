"""Opens the ascend backend in a process of its own and writes down what came of it.

The vendor's libraries may end a process when driver, firmware and CANN do not fit each other; whoever wants
to know, asks a process that may end::

    python -m aclnn_server.backends.ascend.probe FILE
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aclnn import dtypes
from aclnn.errors import AclnnError
from aclnn.tensors import TensorSpec

TEST_OPERATOR = "aclnnSmoothL1LossBackward"
TIMEOUT_SECONDS = 180.0
"""Longest wait: the first use of a device takes CANN a while."""


@dataclass(slots=True)
class Probe:
    """What came of opening the backend."""

    error: str = ""
    """Why it cannot serve; empty where it can."""
    soc: str = ""
    devices: list[tuple[str, int, int]] = field(default_factory=list)
    """Name, free and total bytes of each device."""
    operators: int = 0
    """Operators that it can run."""
    refused: dict[str, str] = field(default_factory=dict)
    """Why it cannot run others, by name."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions that CANN's packages tell of themselves."""


def probe(environment: Mapping[str, str] = os.environ) -> Probe:
    """Opens the backend in another process, and tells what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "aclnn_server.backends.ascend.probe", str(answer)]
        variables = {**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            done = subprocess.run(
                command,
                env=variables,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Probe(f"CANN did not answer within {TIMEOUT_SECONDS:g} seconds")
        if answer.is_file():
            return Probe(**json.loads(answer.read_text("utf-8")))
    return Probe(_how_it_ended(done.returncode, done.stderr))


def _how_it_ended(code: int, errors: str) -> str:
    last = errors.strip().splitlines()[-1:] or ["it said nothing"]
    if code < 0:
        return f"CANN's own code ended the process with {signal.Signals(-code).name}: {last[0]}"
    return f"the attempt ended with code {code}: {last[0]}"


def look() -> Probe:
    """Opens the backend in this process."""
    from aclnn_server.backends.ascend import AscendBackend

    found = Probe()
    try:
        backend = AscendBackend(device="all")
    except (AclnnError, OSError, ValueError) as error:
        found.error = str(error)
        return found
    try:
        _describe(backend, found)
        _try_out(backend.devices[0], found)
    finally:
        backend.close()
    return found


def _describe(backend: Any, found: Probe) -> None:  # noqa: ANN401 - an AscendBackend
    found.soc = backend.soc
    found.devices = [(device.name, *device.memory_info()) for device in backend.devices]
    for name, info in backend.operators.items():
        if info.refused_because:
            found.refused[name] = info.refused_because
    found.operators = len(backend.operators) - len(found.refused)
    found.versions = backend.versions()


def _try_out(device: Any, found: Probe) -> None:  # noqa: ANN401 - an AscendDevice
    """Runs one operator: only that shows that the chip's kernels are installed."""
    spec = TensorSpec.contiguous((8,), dtypes.FLOAT)
    memory = [device.allocate(spec.storage_bytes) for _ in range(4)]
    storages = [*memory[:3], None, None, memory[3]]
    stream = device.create_stream()
    try:
        plan = device.plan(TEST_OPERATOR, (spec, spec, spec, 0, 1.0, spec), storages)
        workspace = device.allocate(plan.workspace_bytes) if plan.workspace_bytes else None
        device.run(plan, storages, workspace, stream)
        device.synchronize(stream)
    except AclnnError as error:
        found.error = f"the devices open, but an operator does not run: {error}"
    finally:
        device.destroy_stream(stream)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(asdict(look())), "utf-8")
