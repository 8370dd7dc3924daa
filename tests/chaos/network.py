"""A proxy before both ports of a server: faults come to calls and to data connections alike."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

import pytest

from aclnn_client.connection import Connection
from tests.chaos.proxy import Fault, Proxy


class Network(Proxy):
    """Takes the data connections of clients in this process that call by its address.

    The server names its port for them itself, so they are led here where the client dials it.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.beside = f"localhost:{address.rpartition(':')[2]}"
        """Address of the server itself, of whose clients faults come to data connections only."""
        self._data = Proxy("")
        self._data.happened = self.happened
        self._patch = pytest.MonkeyPatch()

    @property
    def data_connections(self) -> int:
        """Data connections that were made, ever."""
        return self._data.connections

    def plan(self, *faults: Fault) -> None:
        """As of :class:`Proxy`, on each of the two ways with bytes of its own."""
        super().plan(*faults)
        self._data.plan(*faults)

    def __enter__(self) -> Self:
        super().__enter__()
        self._data.__enter__()
        dial, ours = Connection.dial, int(self._data.address.rpartition(":")[2])

        def led_here(connection: Connection, port: int, timeout: float) -> socket.socket:
            if connection.address in (self.address, self.beside):
                self._data.server = f"127.0.0.1:{port}"
                port = ours
            return dial(connection, port, timeout)

        self._patch.setattr(Connection, "dial", led_here)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._patch.undo()
        self._data.__exit__(kind, error, traceback)
        super().__exit__(kind, error, traceback)
