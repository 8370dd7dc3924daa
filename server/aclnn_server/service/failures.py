"""Failures that nobody foresaw: the whole text to the server's log, one fixed sentence to the client."""

from __future__ import annotations

import logging
import secrets

from aclnn.errors import AclnnError, InternalError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.sessions.requests import REQUEST_ID

_LOG = logging.getLogger(__name__)


def unexpected(error: BaseException) -> AclnnError:
    """Logs `error` in full under the id of its request and gives the error that the client sees."""
    request_id = REQUEST_ID.get() or secrets.token_hex(8)
    told = {"request_id": request_id}
    _LOG.error("request %s failed unexpectedly", request_id, exc_info=error, extra=told)
    return InternalError(
        f"unexpected failure; the server's log tells more under request id {request_id}",
        request_id=request_id,
    )


def foreseen(error: Exception) -> AclnnError:
    """The error that the client sees: an :class:`AclnnError` as it is, anything else logged."""
    return error if isinstance(error, AclnnError) else unexpected(error)


def encode_failure(error: Exception) -> bytes:
    """The encoded result of a command that failed."""
    return pb.Result(error=foreseen(error).to_proto()).SerializeToString()
