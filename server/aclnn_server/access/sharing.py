"""Where clients of this machine get shared memory, as the settings have it."""

from __future__ import annotations

import logging
from pathlib import Path

from aclnn_server.access.listening import ListenError
from aclnn_server.backends.base import Backend
from aclnn_server.config import ServerConfig
from aclnn_server.sessions.handover import Handover

SHARED_MEMORY = "shared-memory"
"""Name of the feature."""

_COMMON = Path("/dev/shm")
"""A directory that programs of a machine have in common, and mostly the containers of a pod."""
_LOG = logging.getLogger(__name__)


def open_handover(handover: Handover, config: ServerConfig, backend: Backend) -> None:
    """Lets a server offer shared memory, where that is wanted and possible.

    Raises:
        ListenError: it is not possible in the directory that the settings name.
    """
    if not config.shared_memory or not any(device.shares_memory for device in backend.devices):
        return
    directories = [_COMMON]
    if config.shared_memory_dir:
        directories = [Path(config.shared_memory_dir)]
    elif config.listen.startswith("unix:"):
        listening = Path(config.listen.removeprefix("unix:").removeprefix("//"))
        directories = [listening.parent, _COMMON]
    try:
        handover.open(directories, int(config.socket_mode, 8))
    except OSError as error:
        why = error.strerror or error
        if config.shared_memory_dir:
            raise ListenError(
                f"cannot hand over shared memory in {config.shared_memory_dir}: {why}"
            ) from None
        _LOG.info("no shared memory is offered, in none of %s: %s", directories, why)
