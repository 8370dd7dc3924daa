"""Failures of CANN's functions: from a return code and the vendor's text to the error that a client sees."""

from __future__ import annotations

import logging
import re

from aclnn import codes
from aclnn.errors import (
    AclnnError,
    ExecutionFailedError,
    InvalidParameterError,
    LimitExceededError,
    NullPointerError,
    OutOfMemoryError,
    UnsupportedError,
    ViewOutsideStorageError,
    WaitTimeoutError,
)

_LOG = logging.getLogger(__name__)

_CLASSES: dict[int, type[AclnnError]] = {
    codes.ACLNN_ERR_PARAM_NULLPTR: NullPointerError,
    codes.ACLNN_ERR_PARAM_INVALID: InvalidParameterError,
    codes.ACL_ERROR_RT_MEMORY_ALLOCATION: OutOfMemoryError,
    codes.ACL_ERROR_RT_DEVICE_OOM: OutOfMemoryError,
    codes.ACL_ERROR_BAD_ALLOC: OutOfMemoryError,
    codes.ACL_ERROR_RT_NO_STREAM_RESOURCE: LimitExceededError,
    codes.ACL_ERROR_RT_NO_EVENT_RESOURCE: LimitExceededError,
    codes.ACL_ERROR_RT_FEATURE_NOT_SUPPORT: UnsupportedError,
    codes.ACL_ERROR_API_NOT_SUPPORT: UnsupportedError,
    codes.ACL_ERROR_FEATURE_UNSUPPORTED: UnsupportedError,
    codes.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT: WaitTimeoutError,
    codes.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT: WaitTimeoutError,
}
"""Errors that are more than a failed execution."""

_NO_KERNELS = (
    "the operator's kernels for this chip are not found: install the ops package (kernels) of this chip "
    "and CANN version, and start the server in an environment that has sourced set_env.sh"
)
_HINTS: dict[int, str] = {
    codes.ACLNN_ERR_INNER_FIND_KERNEL_ERROR: _NO_KERNELS,
    codes.ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND: _NO_KERNELS,
    codes.ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND: _NO_KERNELS,
    codes.ACL_ERROR_RT_SOC_VERSION: "driver, firmware and CANN do not fit this chip or each other",
    codes.ACL_ERROR_COMPILING_STUB_MODE: "the library that was loaded is the one to link with, not to run",
    codes.ACL_ERROR_RT_NO_DEVICE: "no device is visible: see npu-smi info, and the container's devices",
    codes.ACL_ERROR_RT_AICORE_EXCEPTION: "a kernel failed on the device",
    codes.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION: "a kernel failed on the device",
    codes.ACL_ERROR_RT_AICORE_TIMEOUT: "a kernel took too long on the device",
}
"""What the vendor's texts do not say plainly."""

LONGEST_TEXT = 400
"""Characters of the vendor's text that a client gets; the log has all of it."""

_PREFIX = re.compile(r"^\s*(\[PID:\s*\d+\])?\s*(\d{4}-\d\d-\d\d[-T ][\d:.]+)?\s*")
_PLACE = re.compile(r"\[(FUNC|FILE|LINE|THREAD|TID|PID):[^\]]*\]")
_PATH = re.compile(r"(?<![\w.])(~|\.{0,2})/[\w.+-][\w./+-]*")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")


def failure(
    function: str, code: int, text: str, *, operator: str = "", planning: bool = False
) -> AclnnError:
    """The error for a function that returned a code other than 0; logs the whole text.

    Args:
        function: its name in C.
        code: what it returned.
        text: what aclGetRecentErrMsg gave afterwards, in the same thread; may be empty.
        operator: the operator that was called, with the aclnn prefix.
        planning: whether it was a phase one.
    """
    users_own = code in (codes.ACLNN_ERR_PARAM_NULLPTR, codes.ACLNN_ERR_PARAM_INVALID)
    level = logging.DEBUG if users_own else logging.WARNING
    _LOG.log(level, "%s returned %d %s: %s", function, code, codes.name_of(code), text)
    kind = _CLASSES.get(code, ExecutionFailedError)
    if planning and code == codes.ACLNN_ERR_INNER_NULLPTR:
        kind = ViewOutsideStorageError
    parts = [f"{function} failed", _HINTS.get(code, ""), cleaned(text)]
    return kind(": ".join(part for part in parts if part), operator=operator, code=code)


def cleaned(text: str) -> str:
    """The newest message of the vendor's text, without places in the server's files and memory."""
    first = text.split("TraceBack", 1)[0]
    first = _PREFIX.sub("", first, count=1)
    for pattern in (_PLACE, _PATH, _ADDRESS):
        first = pattern.sub("…", first)
    first = " ".join(first.split())
    return first if len(first) <= LONGEST_TEXT else first[: LONGEST_TEXT - 1] + "…"
