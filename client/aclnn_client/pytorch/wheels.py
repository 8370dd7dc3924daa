"""Whether torch and torch_npu are installed, in versions that fit."""

from __future__ import annotations

import sys
import warnings
from importlib import metadata

from aclnn_client.pytorch.setup_error import SetupError

TESTED = "2.13.0"
"""The version of both that the tests run."""
INSTALL = "pip install 'aclnn-serve[torch]'"


def check_not_loaded() -> None:
    """Refuses a process that has torch_npu already, and with it the libraries of its choice.

    Raises:
        SetupError: it has.
    """
    if "torch_npu" in sys.modules:
        raise SetupError(
            "torch_npu is loaded already; import aclnn_client.torch_npu before torch (torch loads torch_npu "
            "by itself)"
        )


def check() -> None:
    """Looks for both packages.

    Raises:
        SetupError: one is missing, or they do not belong together.
    """
    torch, torch_npu = (_version(name) for name in ("torch", "torch-npu"))
    if _release(torch) != _release(torch_npu):
        raise SetupError(
            f"torch is {torch} and torch-npu is {torch_npu}: torch-npu loads into its own version of torch "
            f"only; {INSTALL} brings {TESTED} of both"
        )
    if _release(torch_npu) != _release(TESTED):
        warnings.warn(
            f"torch-npu is {torch_npu}; aclnn-serve is tested with {TESTED}", stacklevel=4
        )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise SetupError(f"{package} is not installed; {INSTALL} brings it") from None


def _release(version: str) -> tuple[str, ...]:
    """Major and minor number, of "2.13.0+cpu" or "2.13.0.post1"."""
    return tuple(version.split(".")[:2])
