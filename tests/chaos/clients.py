"""Clients in processes of their own, to be killed: forked from one that has loaded what they need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE

UPLOAD_BYTES = 8 << 20
_PROGRAM = """
import os, sys
import numpy as np
import aclnn.v1.device_service_pb2_grpc, aclnn_client.submit_call, aclnn_client.transfer
from aclnn_client import connect

def upload(address, size):
    context = connect(address, shared_memory=False)
    context.tensor(np.ones(size, np.uint8)).numpy()

for line in sys.stdin:
    address, size = line.split()
    child = os.fork()
    if not child:
        upload(address, int(size))
        os._exit(0)
    print(child, flush=True)
    while os.waitpid(-1, os.WNOHANG) != (0, 0):
        pass
"""


class Nursery:
    """Starts clients, each of which opens a context and uploads without an end in sight."""

    def __init__(self, size: int = UPLOAD_BYTES) -> None:
        self._size = size

    def start(self, address: str) -> int:
        """Starts one; gives its process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{address} {self._size}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"},
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._process.kill()
        self._process.communicate(timeout=PATIENCE)


def kill(process: int) -> None:
    """Ends a process as the machine's fall would: nothing of it runs any more."""
    os.kill(process, signal.SIGKILL)
