"""What a server may answer to whatever it is sent: a documented error, bounded, nothing of its own in it."""

from __future__ import annotations

import os
import re
import sys

from aclnn import errors
from aclnn.errors import MAX_MESSAGE_BYTES, MAX_NAME_BYTES, AclnnError
from aclnn.v1 import error_pb2

UNEXPECTED = (errors.InternalError, errors.ServerUnavailable)
"""Errors that no request may be able to bring about."""
_INTERNAL = re.compile(
    r"Traceback|File \"|\.py\b|\b\w*(?:Error|Exception|Warning)\b"  # Python's
    r"|0x[0-9a-f]{6,}|memfd|/proc/|/dev/shm|/tmp/|site-packages"
    r"|<[\w.]+ object|aclnn_server|numpy\.|google\.protobuf|NoneType"
)
_OWN = tuple(
    text for text in (os.path.expanduser("~"), sys.prefix, os.getcwd()) if text.count("/") > 1
)


def check_error(error: AclnnError, sent: bytes | str = b"") -> None:
    """Checks an error that a client has got.

    Args:
        error: the error.
        sent: what was sent; what of it comes back in the message is the client's own.
    """
    assert type(error) is not AclnnError, f"of no documented kind: {error}"
    assert not isinstance(error, UNEXPECTED), error
    # What the elements of a tensor are, such as indexes, is found out while the operator runs.
    assert error.operator or not isinstance(error, errors.ExecutionFailedError), error
    assert len(error.message.encode()) <= MAX_MESSAGE_BYTES, (
        f"{len(error.message)}: {error.message}"
    )
    for name in (error.operator, error.parameter, error.request_id):
        assert len(name.encode()) <= MAX_NAME_BYTES, name
    quoted = sent if isinstance(sent, str) else sent.decode(errors="ignore")
    for found in _INTERNAL.findall(error.message):
        assert found in quoted, f"{found!r} is the server's own: {error.message}"
    for text in _OWN:
        assert text not in error.message


def check_in_band(message: error_pb2.Error, sent: bytes | str = b"") -> AclnnError:
    """Checks an error inside of an answer of Submit, and gives it."""
    error = errors.from_proto(message)
    assert message.status_code == error.status, message
    assert message.reason == error.reason, message
    check_error(error, sent)
    return error
