"""Where the examples find a server: at --address, or one of their own on this machine's CPU."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from aclnn_server.config import ServerConfig
from aclnn_server.server import Server


@contextlib.contextmanager
def server_address(description: str | None) -> Iterator[str]:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--address", help="HOST:PORT or unix:PATH of a server (default: its own)")
    address = parser.parse_args().address
    if address:
        yield address
        return
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        yield server.address
