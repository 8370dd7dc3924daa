"""Environment variables of a program that uses PyTorch on the C library."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

from aclnn_client.pytorch.setup_error import SetupError

SERVER = "ACLNN_SERVER"
LIBRARIES = "ACLNN_LIBRARIES"
"""The folder of the C library, where it is not found by itself."""
_CANN = "ASCEND_HOME_PATH"
_PATH = "LD_LIBRARY_PATH"

_DEFAULTS = {
    # The C library does not wait anyway. A second queue in a thread of its own costs a program twice as
    # much for each operator, and reports errors later.
    "TASK_QUEUE_ENABLE": "0",
    # An operator that is missing is an error that names it, never one of the older interface.
    "ACL_OP_INIT_MODE": "2",
}


def set_variables(environment: MutableMapping[str, str], folder: Path) -> None:
    """Sets what torch_npu and child processes go by; what the user has set stays.

    Raises:
        SetupError: the environment is that of an installed CANN.
    """
    if environment.get(_CANN):
        raise SetupError(
            f"{_CANN} is set: torch_npu would mix the libraries of that CANN with those of aclnn-serve; "
            f"unset it"
        )
    environment[LIBRARIES] = str(folder)
    folders = [part for part in environment.get(_PATH, "").split(os.pathsep) if part]
    if str(folder) not in folders:
        environment[_PATH] = os.pathsep.join((str(folder), *folders))
    for name, value in _DEFAULTS.items():
        environment.setdefault(name, value)
