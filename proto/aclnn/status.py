"""Errors on gRPC's wire: a status with ``google.rpc`` details, and back to the same class.

A status that did not come from this project (a refused connection, a passed deadline, a proxy's
answer) is translated to the class that fits, in words that a user of the client can act on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar, cast

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from aclnn import errors
from aclnn.errors import MAX_MESSAGE_BYTES, MAX_NAME_BYTES, AclnnError, clipped
from aclnn.v1 import error_pb2

REQUEST_ID_KEY = "aclnn-request-id"
"""Metadata of a unary call that makes its repeat safe."""
DOMAIN = "aclnn-serve"
"""Domain of the ``ErrorInfo`` of this project's errors."""

_DETAILS_KEY = "grpc-status-details-bin"
_INVALID_ARGUMENT = grpc.StatusCode.INVALID_ARGUMENT.value[0]

_Detail = TypeVar("_Detail", bound=Message)


def to_status(error: AclnnError) -> grpc.Status:
    """Encodes an error for ``rpc.abort_with_status``.

    The details are an ``ErrorInfo`` (reason, domain ``aclnn-serve``, and of the metadata operator,
    parameter, acl_code and request_id those that are set), a ``BadRequest`` where a parameter of an
    invalid argument is at fault, and a ``RetryInfo`` where a time is known.
    """
    status = status_pb2.Status(code=error.status, message=clipped(error.message, MAX_MESSAGE_BYTES))
    for detail in _details(error, status.message):
        status.details.add().Pack(detail)
    return rpc_status.to_status(status)


def _details(error: AclnnError, message: str) -> Iterable[Message]:
    metadata = {
        "operator": error.operator,
        "parameter": error.parameter,
        "acl_code": str(error.code),
        "request_id": error.request_id,
    }
    names = {key: clipped(value, MAX_NAME_BYTES) for key, value in metadata.items() if value}
    yield error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=names)
    if error.parameter and error.status == _INVALID_ARGUMENT:
        request = error_details_pb2.BadRequest()
        request.field_violations.add(field=names["parameter"], description=message)
        yield request
    if error.retry_after_ms:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(error.retry_after_ms)
        yield retry


def from_rpc_error(rpc_error: grpc.RpcError, *, doing: str = "") -> AclnnError:
    """Rebuilds the error that a call ended with.

    Args:
        rpc_error: what the call raised, of gRPC's synchronous or asyncio half.
        doing: what the call was for, to follow "while": ``"reading a buffer"``. It is told where
            the error is not one of the server's own.

    Returns:
        The server's error, same class and fields; else :class:`~aclnn.errors.ServerUnavailable` or
        the class that fits gRPC's code.
    """
    encoded = _encoded_status(rpc_error)
    error = None if encoded is None else _decoded(encoded)
    return error or _translated(rpc_error, f" while {doing}" if doing else "")


def _encoded_status(rpc_error: grpc.RpcError) -> bytes | None:
    # gRPC's own errors are calls as well, which their type does not say.
    if isinstance(rpc_error, grpc.Call | grpc.aio.AioRpcError):
        metadata = cast("Iterable[tuple[str, str | bytes]]", rpc_error.trailing_metadata() or ())
        for key, value in metadata:
            if key == _DETAILS_KEY and isinstance(value, bytes):
                return value
    return None


def _decoded(encoded: bytes) -> AclnnError | None:
    """The error in an encoded ``google.rpc.Status``; ``None`` where it is not this project's."""
    try:
        status = status_pb2.Status.FromString(encoded)
        info = _unpacked(status, error_details_pb2.ErrorInfo)
        retry = _unpacked(status, error_details_pb2.RetryInfo)
    except DecodeError:
        return None
    if info is None or info.domain != DOMAIN:
        return None
    code = info.metadata.get("acl_code", "")
    proto = error_pb2.Error(
        reason=info.reason,
        status_code=status.code,
        acl_code=int(code) if re.fullmatch(r"\d{1,9}", code) else 0,
        message=status.message,
        operator=info.metadata.get("operator", ""),
        parameter=info.metadata.get("parameter", ""),
        request_id=info.metadata.get("request_id", ""),
        retry_after_ms=retry.retry_delay.ToMilliseconds() if retry else 0,
    )
    return errors.from_proto(proto)


def _unpacked(status: status_pb2.Status, kind: type[_Detail]) -> _Detail | None:
    message = kind()
    return message if any(detail.Unpack(message) for detail in status.details) else None


# ------------------------------------------------------------------------------------ translation

_CLASSES: dict[grpc.StatusCode, type[AclnnError]] = {
    grpc.StatusCode.UNAVAILABLE: errors.ServerUnavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.WaitTimeoutError,
    grpc.StatusCode.CANCELLED: errors.CancelledError,
    grpc.StatusCode.UNAUTHENTICATED: errors.UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: errors.PermissionDeniedError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.LimitExceededError,
    grpc.StatusCode.UNIMPLEMENTED: errors.UnsupportedError,
}

_TEXTS = {
    grpc.StatusCode.UNAVAILABLE: "no answer from the server{doing}: {cause}",
    grpc.StatusCode.DEADLINE_EXCEEDED: "no answer within the time limit{doing}",
    grpc.StatusCode.CANCELLED: "the call was cancelled{doing}",
    grpc.StatusCode.UNAUTHENTICATED: "the server refused the credentials{doing}: {cause}",
    grpc.StatusCode.PERMISSION_DENIED: "the server refused permission{doing}: {cause}",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "a limit was exceeded{doing}: {cause}",
    grpc.StatusCode.UNIMPLEMENTED: "the server does not offer the call{doing}: {cause}",
}

# gRPC's debug texts, most telling first, and what they mean to a user.
_CAUSES = (
    (r"connection refused", "connection refused; nothing listens there"),
    (r"no such file or directory", "there is no such socket"),
    (r"permission denied", "permission denied"),
    (r"domain name not found|dns resolution failed|address lookup failed", "no such host name"),
    (r"wrong_version_number", "the server does not speak TLS at this address"),
    (r"certificate has expired", "the server's certificate has expired"),
    (r"certificate is not yet valid", "the server's certificate is not valid yet"),
    (
        r"certificate_verify_failed|certificate verify failed",
        "the server's certificate is not trusted",
    ),
    (
        r"hostname verification|peer name .* is not in peer certificate",
        "the server's certificate is of another host",
    ),
    (r"handshake failed|handshaker", "the TLS handshake failed"),
    (r"no route to host|network is unreachable", "the network has no route to it"),
    (r"timed out|timeout", "no reply in time"),
    (r"goaway|server.*shutting down", "the server is shutting down"),
    (r"too many pings|enhance_your_calm", "the server closed the connection: too many pings"),
    (r"expected settings frame|parsing http/2", "what listens there does not speak gRPC"),
    (r"status: (\d{3})", r"a proxy or another service answered with HTTP status \1"),
    (r"message larger than max \((\d+) vs\. (\d+)\)", r"a message of \1 bytes, and \2 are allowed"),
    (r"metadata size exceeds", "the metadata is too large"),
    (r"concurrent rpc limit", "the server has as many calls in hand as it takes"),
    (r"reset by peer|broken pipe|socket closed|stream removed|end of file", "the connection broke"),
)
_ADDRESS = re.compile(r"\b(?:ipv4:|ipv6:|unix:|errors resolving )(?P<address>[^\s,]+?)(?=: |$|,)")


def _translated(rpc_error: grpc.RpcError, doing: str) -> AclnnError:
    code, details = _code_and_details(rpc_error)
    if code is grpc.StatusCode.UNIMPLEMENTED and "method not found" in details.lower():
        return errors.VersionMismatchError(
            f"the server does not know the call{doing}: another version, or another service"
        )
    if code in _CLASSES:
        return _CLASSES[code](_TEXTS[code].format(doing=doing, cause=_cause(details)))
    name = code.name if code else "no status"
    return errors.InternalError(f"the call failed{doing}: {name}: {clipped(details, 300)}")


def _code_and_details(rpc_error: grpc.RpcError) -> tuple[grpc.StatusCode | None, str]:
    if isinstance(rpc_error, grpc.Call | grpc.aio.AioRpcError):
        return rpc_error.code(), rpc_error.details() or ""
    return None, str(rpc_error)


def _cause(details: str) -> str:
    """Says in plain words what gRPC's debug text means, with the address where there is one."""
    address = _ADDRESS.search(details)
    where = f"{address['address']}: " if address else ""
    for pattern, meaning in _CAUSES:
        if match := re.search(pattern, details, re.IGNORECASE):
            return where + match.expand(meaning)
    return where + (clipped(details, 300) or "it gives no reason")
