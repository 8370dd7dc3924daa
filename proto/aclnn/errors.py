"""Errors: one class per reason, each with its gRPC status and its ACL code.

::

    AclnnError
    ├── NullPointerError             161001  INVALID_ARGUMENT    a pointer that must not be null is
    ├── InvalidParameterError        161002  INVALID_ARGUMENT    a value outside of what is allowed
    ├── ViewOutsideStorageError      561103  INVALID_ARGUMENT    a view reaches outside its storage
    ├── OperatorNotFoundError        100024  NOT_FOUND           no such operator on this server
    ├── HandleNotFoundError          107017  NOT_FOUND           no such context, stream, buffer, …
    ├── HandleExistsError            107017  ALREADY_EXISTS      the id names something else already
    ├── ExecutorUsedError            200005  FAILED_PRECONDITION a one-shot executor was run before
    ├── NotReadyError                107006  FAILED_PRECONDITION the object is in another state
    ├── OutOfMemoryError             207001  RESOURCE_EXHAUSTED  quota or device memory is used up
    ├── LimitExceededError           207012  RESOURCE_EXHAUSTED  as many objects as allowed exist
    ├── StreamDestroyedError         107023  ABORTED             the stream was destroyed meanwhile
    ├── SessionLostError             507010  ABORTED             the server restarted; ids are gone
    ├── WaitTimeoutError             507046  DEADLINE_EXCEEDED   a wait was longer than its limit
    ├── CancelledError               107022  CANCELLED           the caller gave up
    ├── ExecutionFailedError         361001  INTERNAL            the computation failed
    ├── UnsupportedError             207000  UNIMPLEMENTED       not offered by this server
    ├── VersionMismatchError         500001  FAILED_PRECONDITION two versions of the protocol
    ├── UnauthenticatedError         207006  UNAUTHENTICATED     credentials are missing or wrong
    ├── PermissionDeniedError        207006  PERMISSION_DENIED   the token may not do this
    ├── InternalError                561000  INTERNAL            unexpected; see the server's log
    └── ServerUnavailable            507901  UNAVAILABLE         no answer from the server

The same class is raised on both sides: the server encodes it, the client rebuilds it.
"""

from __future__ import annotations

from typing import ClassVar, Self

from aclnn import codes
from aclnn.v1 import error_pb2

MAX_MESSAGE_BYTES = 1024
"""Bytes of the message that are sent, in UTF-8; the rest is cut off.

In a unary call the message travels three times in the trailing metadata, once percent-encoded, and gRPC drops
a reply whose metadata is larger than 8 KiB.
"""
MAX_NAME_BYTES = 128
"""Bytes of a name (operator, parameter, request id) that are sent, in UTF-8."""


def clipped(text: str, size: int) -> str:
    """A text of at most `size` bytes in UTF-8; a longer one ends in an ellipsis."""
    if len(text) * 4 <= size:
        return text
    encoded = text.encode()
    return text if len(encoded) <= size else encoded[: size - 3].decode(errors="ignore") + "…"


class AclnnError(Exception):
    """A call that failed, with the code that the vendor's C API returns for the cause."""

    reason: ClassVar[str] = "UNKNOWN"
    """Machine-readable cause, the same on the wire."""
    default_code: ClassVar[int] = codes.ACLNN_ERR_INNER
    """ACL code of this class where the raiser names none."""
    status: ClassVar[int] = 2
    """Number of the gRPC status code."""

    code: int
    """ACL code, for example 161002."""
    message: str
    """Which check failed, of which parameter, the value and what is allowed."""
    operator: str
    """Operator at fault, with the aclnn prefix; empty where no operator is involved."""
    parameter: str
    """Parameter at fault; empty where none is."""
    request_id: str
    """Id under which the server's log holds the full text; empty where the message is complete."""
    retry_after_ms: int
    """Milliseconds after which a repeat can succeed; 0 where none is known."""

    def __init__(
        self,
        detail: str,
        *,
        operator: str = "",
        parameter: str = "",
        code: int | None = None,
        request_id: str = "",
        retry_after_ms: int = 0,
    ) -> None:
        self.message = f"{operator}: {detail}" if operator else detail
        self.operator = operator
        self.parameter = parameter
        self.code = self.default_code if code is None else code
        self.request_id = request_id
        self.retry_after_ms = retry_after_ms
        super().__init__(self.message)

    @property
    def name(self) -> str:
        """Name of the code, for example ``"ACLNN_ERR_PARAM_INVALID"``."""
        return codes.name_of(self.code)

    def __str__(self) -> str:
        return f"{self.message} ({self.code} {self.name})"

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        return _unpickle, (self.to_proto().SerializeToString(),)

    def to_proto(self) -> error_pb2.Error:
        """Encodes the error for the wire, its texts cut off where they are too long."""
        return error_pb2.Error(
            reason=self.reason,
            status_code=self.status,
            acl_code=self.code,
            message=clipped(self.message, MAX_MESSAGE_BYTES),
            operator=clipped(self.operator, MAX_NAME_BYTES),
            parameter=clipped(self.parameter, MAX_NAME_BYTES),
            request_id=clipped(self.request_id, MAX_NAME_BYTES),
            retry_after_ms=self.retry_after_ms,
        )

    @classmethod
    def _restore(cls, proto: error_pb2.Error) -> Self:
        error = cls(
            proto.message,
            parameter=proto.parameter,
            code=proto.acl_code or None,
            request_id=proto.request_id,
            retry_after_ms=proto.retry_after_ms,
        )
        error.operator = proto.operator
        return error


class NullPointerError(AclnnError):
    """A pointer that must not be null is null."""

    reason, default_code, status = "NULL_POINTER", codes.ACLNN_ERR_PARAM_NULLPTR, 3


class InvalidParameterError(AclnnError):
    """A value is outside of what is allowed."""

    reason, default_code, status = "INVALID_PARAMETER", codes.ACLNN_ERR_PARAM_INVALID, 3


class ViewOutsideStorageError(AclnnError):
    """A view reaches outside its storage, or the backend cannot read the storage's format."""

    reason, default_code, status = "VIEW_OUTSIDE_STORAGE", codes.ACLNN_ERR_INNER_NULLPTR, 3


class OperatorNotFoundError(AclnnError):
    """The server has no such operator."""

    reason, default_code, status = "OPERATOR_NOT_FOUND", codes.ACL_ERROR_OP_NOT_FOUND, 5


class HandleNotFoundError(AclnnError):
    """No such context, stream, buffer, executor or event, or it belongs to another context."""

    reason, default_code, status = "HANDLE_NOT_FOUND", codes.ACL_ERROR_RT_INVALID_HANDLE, 5


class HandleExistsError(AclnnError):
    """The id that the client chose names something else already."""

    reason, default_code, status = "HANDLE_EXISTS", codes.ACL_ERROR_RT_INVALID_HANDLE, 6


class ExecutorUsedError(AclnnError):
    """A one-shot executor was run before."""

    reason, default_code, status = "EXECUTOR_USED", codes.ACL_ERROR_INVALID_RESOURCE_HANDLE, 9


class NotReadyError(AclnnError):
    """The object is not in the state that the call needs, for example an event without a mark."""

    reason, default_code, status = "NOT_READY", codes.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, 9


class OutOfMemoryError(AclnnError):
    """The context's quota or the device's memory is used up."""

    reason, default_code, status = "OUT_OF_MEMORY", codes.ACL_ERROR_RT_MEMORY_ALLOCATION, 8


class LimitExceededError(AclnnError):
    """As many contexts, streams, executors, buffers, events or queued commands as allowed exist."""

    reason, default_code, status = "LIMIT_EXCEEDED", codes.ACL_ERROR_RT_OVER_LIMIT, 8


class StreamDestroyedError(AclnnError):
    """The stream was destroyed before the work was run, or while it was."""

    reason, default_code, status = "STREAM_DESTROYED", codes.ACL_ERROR_RT_STREAM_ABORT, 10


class SessionLostError(AclnnError):
    """The server restarted; contexts, streams and buffers of before are gone."""

    reason, default_code, status = "SESSION_LOST", codes.ACL_ERROR_RT_LOST_HEARTBEAT, 10


class WaitTimeoutError(AclnnError):
    """A wait was longer than the limit that its caller gave."""

    reason, default_code, status = "WAIT_TIMEOUT", codes.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, 4


class CancelledError(AclnnError):
    """The caller gave up before the work was run, or before it was done."""

    reason, default_code, status = "CANCELLED", codes.ACL_ERROR_RT_DEVICE_TASK_ABORT, 1


class ExecutionFailedError(AclnnError):
    """The computation failed on the device."""

    reason, default_code, status = "EXECUTION_FAILED", codes.ACLNN_ERR_RUNTIME_ERROR, 13


class UnsupportedError(AclnnError):
    """Not offered by this server or backend."""

    reason, default_code, status = "UNSUPPORTED", codes.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 12


class VersionMismatchError(AclnnError):
    """Client and server speak different versions of the protocol."""

    reason, default_code, status = "VERSION_MISMATCH", codes.ACL_ERROR_FAILURE, 9


class UnauthenticatedError(AclnnError):
    """Credentials are missing or wrong."""

    reason, default_code, status = "UNAUTHENTICATED", codes.ACL_ERROR_RT_NO_PERMISSION, 16


class PermissionDeniedError(AclnnError):
    """The credentials do not allow this."""

    reason, default_code, status = "PERMISSION_DENIED", codes.ACL_ERROR_RT_NO_PERMISSION, 7


class InternalError(AclnnError):
    """Unexpected failure; the server's log has the full text under the request id."""

    reason, default_code, status = "INTERNAL", codes.ACLNN_ERR_INNER, 13


class ServerUnavailable(AclnnError):  # noqa: N818 - the name is part of the public API
    """The server did not answer: not there, gone in mid-call, or too slow for the time-out."""

    reason, default_code, status = "SERVER_UNAVAILABLE", codes.ACL_ERROR_RT_SOCKET_CLOSE, 14


BY_REASON: dict[str, type[AclnnError]] = {
    cls.reason: cls for cls in AclnnError.__subclasses__() if cls.__module__ == __name__
}
"""The class of each reason."""


def from_proto(proto: error_pb2.Error) -> AclnnError:
    """Rebuilds the error that :meth:`AclnnError.to_proto` encoded.

    A reason that this version does not know gives an :class:`AclnnError` with the code and text
    as sent.
    """
    return BY_REASON.get(proto.reason, AclnnError)._restore(proto)


def _unpickle(encoded: bytes) -> AclnnError:
    return from_proto(error_pb2.Error.FromString(encoded))
