"""What a server tells systemd, or whoever else started it and speaks its protocol (``sd_notify``)."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

_MARGIN_SECONDS = 10.0
"""Time that a stop may take beyond the grace: a kernel that runs is waited for."""

_LOG = logging.getLogger(__name__)


def ready(banner: str) -> None:
    """Says that the server listens."""
    _tell(READY=1, STATUS=banner)


def stopping(grace: float) -> None:
    """Says that the server stops, and how long that may take whatever the unit says."""
    _tell(STOPPING=1, EXTEND_TIMEOUT_USEC=int((grace + _MARGIN_SECONDS) * 1e6))


def _tell(environment: Mapping[str, str] = os.environ, **state: object) -> None:
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # a name without a file
        address = f"\0{address[1:]}"
    message = "\n".join(f"{name}={value}" for name, value in state.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(message.encode(), address)
    except OSError as error:
        _LOG.warning("NOTIFY_SOCKET is %r, which takes no messages: %s", address, error.strerror)
