"""Clients in processes of their own, to be killed: forked from one that has loaded what they need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import TracebackType
from typing import Self

from aclnn.v1 import device_service_pb2 as pb
from aclnn_client import connect
from tests.waiting import PATIENCE

UPLOAD_BYTES = 8 << 20
_PROGRAM = """
import os, sys
import numpy as np
import aclnn.v1.device_service_pb2_grpc, aclnn_client.submit_call, aclnn_client.transfer
from aclnn.addresses import open_socket
from aclnn_client import connect
from aclnn_client.connection import Connection

def upload(address, data, size):
    if data:
        Connection.dial = lambda connection, port, timeout: open_socket(data, timeout)
    context = connect(address, shared_memory=False)
    context.tensor(np.ones(size, np.uint8)).numpy()

for line in sys.stdin:
    size, address, *data = line.split()
    child = os.fork()
    if not child:
        upload(address, "".join(data), int(size))
        os._exit(0)
    print(child, flush=True)
    while os.waitpid(-1, os.WNOHANG) != (0, 0):
        pass
"""


class Nursery:
    """Starts clients, each of which opens a context and uploads without an end in sight."""

    def __init__(self, size: int = UPLOAD_BYTES) -> None:
        self._size = size

    def start(self, address: str, data: str = "") -> int:
        """Starts one; gives its process id.

        Args:
            address: of the server.
            data: where to make data connections, if not where the server says.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{self._size} {address} {data}\n")
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


def data_address(address: str) -> str:
    """Where a server of this machine takes data connections."""
    with connect(address, shared_memory=False) as context:
        answer = context._connection.call(
            context._connection.devices.AttachDataConnection,
            pb.AttachDataConnectionRequest(context_id=context._context_id),
            doing="asking where",
        )
    return f"127.0.0.1:{answer.port}"


def kill(process: int) -> None:
    """Ends a process as the machine's fall would: nothing of it runs any more."""
    os.kill(process, signal.SIGKILL)
