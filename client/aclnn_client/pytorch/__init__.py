"""What the unmodified torch_npu needs in order to run on the C library: its place, variables, a server.

Importing this does nothing yet; ``import aclnn_client.torch_npu`` and ``aclnn-serve torch`` do it.
"""

from __future__ import annotations

import os

from aclnn_client.pytorch import libraries, local_server, wheels
from aclnn_client.pytorch.setup_error import SetupError
from aclnn_client.pytorch.variables import SERVER, set_variables

__all__ = ["SetupError", "activate"]


def activate() -> None:
    """Makes this process ready for ``import torch``, and those that it starts.

    Raises:
        SetupError: something is missing; the text says what brings it.
    """
    wheels.check_not_loaded()
    wheels.check()
    folder = libraries.find()
    libraries.load(folder)
    set_variables(os.environ, folder)
    if os.environ.get(SERVER):
        local_server.check(os.environ[SERVER])
    else:
        os.environ[SERVER] = local_server.start().address
