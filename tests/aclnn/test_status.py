"""Errors over a real gRPC connection: encoded by a server, rebuilt by a client."""

from __future__ import annotations

import asyncio
import base64
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from aclnn import errors, status
from aclnn.errors import AclnnError
from aclnn.status import from_rpc_error, to_status

CLASSES = [AclnnError, *errors.BY_REASON.values()]
NO_PROXY = (("grpc.enable_http_proxy", 0),)
LARGEST = 4096
"""Bytes of a message that the server takes."""

Handler = Callable[[bytes, grpc.ServicerContext], bytes]


class Abort(grpc.GenericRpcHandler):
    """Answers ``/test/call`` by what the test has set; knows no other method."""

    handle: Handler

    def service(
        self, details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        if details.method != "/test/call":
            return None
        return grpc.unary_unary_rpc_method_handler(lambda request, rpc: self.handle(request, rpc))

    def with_error(self, error: AclnnError) -> None:
        def handle(_: bytes, rpc: grpc.ServicerContext) -> bytes:
            rpc.abort_with_status(to_status(error))

        self.handle = handle

    def with_code(self, code: grpc.StatusCode, details: str) -> None:
        def handle(_: bytes, rpc: grpc.ServicerContext) -> bytes:
            rpc.abort(code, details)

        self.handle = handle


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Abort, str]]:
    handler = Abort()
    options = [("grpc.max_receive_message_length", LARGEST), ("grpc.so_reuseport", 0)]
    grpc_server = grpc.server(ThreadPoolExecutor(4), [handler], options=options)
    address = f"127.0.0.1:{grpc_server.add_insecure_port('127.0.0.1:0')}"
    grpc_server.start()
    yield handler, address
    grpc_server.stop(None).wait()


@pytest.fixture
def handler(server: tuple[Abort, str]) -> Abort:
    return server[0]


@pytest.fixture
def address(server: tuple[Abort, str]) -> str:
    return server[1]


def failed_call(
    address: str, *, method: str = "/test/call", request: bytes = b"", timeout: float = 30
) -> grpc.RpcError:
    """The error that a call ends with."""
    with grpc.insecure_channel(address, NO_PROXY) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(method, bytes, bytes)(request, timeout=timeout)
        return caught.value


def failed_asyncio_call(address: str) -> grpc.RpcError:
    async def call() -> grpc.RpcError:
        async with grpc.aio.insecure_channel(address, NO_PROXY) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                await channel.unary_unary("/test/call", bytes, bytes)(b"", timeout=30)
            return caught.value

    return asyncio.run(call())


def full(cls: type[AclnnError]) -> AclnnError:
    return cls(
        "gradInput has shape [2]; it must be [4, 2]…",
        operator="aclnnAdd",
        parameter="gradInput",
        code=161002,
        request_id="5e0f",
        retry_after_ms=1500,
    )


def fields(error: AclnnError) -> tuple[object, ...]:
    names = ("code", "message", "operator", "parameter", "request_id", "retry_after_ms")
    return (type(error), *(getattr(error, name) for name in names))


# ---------------------------------------------------------------------------------------- own errors


@pytest.mark.parametrize("call", [failed_call, failed_asyncio_call])
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.reason)
def test_same_class_and_fields_on_the_other_side(
    handler: Abort, address: str, cls: type[AclnnError], call: Callable[[str], grpc.RpcError]
) -> None:
    handler.with_error(full(cls))
    assert fields(from_rpc_error(call(address))) == fields(full(cls))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.reason)
def test_errors_with_nothing_but_a_text(
    handler: Abort, address: str, cls: type[AclnnError]
) -> None:
    handler.with_error(cls("no"))
    assert fields(from_rpc_error(failed_call(address), doing="testing")) == fields(cls("no"))


def test_what_is_on_the_wire(handler: Abort, address: str) -> None:
    handler.with_error(full(errors.InvalidParameterError))
    error: Any = failed_call(address)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "aclnnAdd: gradInput has shape [2]; it must be [4, 2]…"

    sent = rpc_status.from_call(error)
    info = error_details_pb2.ErrorInfo()
    request = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    for packed, message in zip(sent.details, (info, request, retry), strict=True):
        assert packed.Unpack(message)
    assert (info.reason, info.domain) == ("INVALID_PARAMETER", "aclnn-serve")
    assert info.metadata == {
        "operator": "aclnnAdd",
        "parameter": "gradInput",
        "acl_code": "161002",
        "request_id": "5e0f",
    }
    (violation,) = request.field_violations
    assert (violation.field, violation.description) == ("gradInput", error.details())
    assert retry.retry_delay.ToMilliseconds() == 1500


def test_only_details_that_say_something_are_sent() -> None:
    encoded = to_status(errors.HandleNotFoundError("no such stream", parameter="stream_id"))
    ((_, details),) = encoded.trailing_metadata
    assert isinstance(details, bytes)
    (detail,) = status_pb2.Status.FromString(details).details
    info = error_details_pb2.ErrorInfo()
    assert detail.Unpack(info)
    assert info.metadata == {"parameter": "stream_id", "acl_code": "107017"}


def test_long_texts_are_cut_so_that_the_reply_arrives(handler: Abort, address: str) -> None:
    handler.with_error(
        errors.InvalidParameterError(
            "längst " * 10_000,
            operator="ö" * 100_000,
            parameter="p" * 100_000,
            request_id="r" * 999,
        )
    )
    error = from_rpc_error(failed_call(address))
    assert isinstance(error, errors.InvalidParameterError)
    assert error.operator == "ö" * 62 + "…"
    assert error.parameter == "p" * 125 + "…"
    assert len(error.message.encode()) <= errors.MAX_MESSAGE_BYTES
    assert error.message.endswith("…")


def test_texts_of_the_largest_size_are_whole(handler: Abort, address: str) -> None:
    text = "€" * (errors.MAX_MESSAGE_BYTES // 3)
    handler.with_error(errors.InvalidParameterError(text, parameter="p" * errors.MAX_NAME_BYTES))
    error = from_rpc_error(failed_call(address))
    assert (error.message, error.parameter) == (text, "p" * errors.MAX_NAME_BYTES)


def test_the_largest_error_fits_the_metadata_that_grpc_takes() -> None:
    text = "€" * 1000  # three bytes, nine when percent-encoded
    largest = errors.InvalidParameterError(
        text, operator=text, parameter=text, request_id=text, retry_after_ms=2**50
    )
    encoded = to_status(largest)
    ((key, details),) = encoded.trailing_metadata
    assert isinstance(details, bytes)
    size = len(quote(encoded.details)) + len(key) + len(base64.b64encode(details))
    assert size < 8192 - 256


# ---------------------------------------------------------------------------------------- others' details


def with_details(*details: object, code: int = 5) -> Handler:
    sent = status_pb2.Status(code=code, message="as sent")
    for detail in details:
        sent.details.add().Pack(detail)  # type: ignore[arg-type]

    def handle(_: bytes, rpc: grpc.ServicerContext) -> bytes:
        rpc.abort_with_status(rpc_status.to_status(sent))

    return handle


def test_a_reason_of_a_newer_version(handler: Abort, address: str) -> None:
    handler.handle = with_details(
        error_details_pb2.ErrorInfo(
            reason="FLUX", domain="aclnn-serve", metadata={"acl_code": "207001", "extra": "1"}
        )
    )
    error = from_rpc_error(failed_call(address))
    assert type(error) is AclnnError
    assert (error.code, error.message) == (207001, "as sent")


@pytest.mark.parametrize("code", ["", "x", "1e5", "-1", "9" * 30])
def test_a_code_that_is_none(handler: Abort, address: str, code: str) -> None:
    handler.handle = with_details(
        error_details_pb2.ErrorInfo(
            reason="OUT_OF_MEMORY", domain="aclnn-serve", metadata={"acl_code": code}
        )
    )
    assert from_rpc_error(failed_call(address)).code == 207001


@pytest.mark.parametrize(
    "details",
    [
        [],
        [error_details_pb2.ErrorInfo(reason="OUT_OF_MEMORY", domain="googleapis.com")],
        [error_details_pb2.DebugInfo(detail="stack")],
    ],
    ids=["none", "another domain", "another kind"],
)
def test_details_of_another_service(handler: Abort, address: str, details: list[object]) -> None:
    handler.handle = with_details(*details)
    error = from_rpc_error(failed_call(address), doing="reading")
    assert isinstance(error, errors.InternalError)
    assert error.message == "the call failed while reading: NOT_FOUND: as sent"


def test_details_that_are_garbage(handler: Abort, address: str) -> None:
    def handle(_: bytes, rpc: grpc.ServicerContext) -> bytes:
        rpc.set_trailing_metadata((("grpc-status-details-bin", b"\xff\xff\xff"), ("other", "x")))
        rpc.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")

    handler.handle = handle
    error = from_rpc_error(failed_call(address))
    assert isinstance(error, errors.UnauthenticatedError)
    assert error.message == "the server refused the credentials: no token"


# ---------------------------------------------------------------------------------------- gRPC's own errors


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_nothing_listens(asynchronous: bool) -> None:
    address = f"127.0.0.1:{closed_port()}"
    call = failed_asyncio_call if asynchronous else failed_call
    error = from_rpc_error(call(address), doing="connecting")
    assert isinstance(error, errors.ServerUnavailable)
    assert error.message == (
        f"no answer from the server while connecting: {address}: connection refused; "
        "nothing listens there"
    )


def test_no_such_socket(tmp_path: Path) -> None:
    error = from_rpc_error(failed_call(f"unix:{tmp_path}/none.sock"))
    assert isinstance(error, errors.ServerUnavailable)
    assert error.message == (
        f"no answer from the server: {tmp_path}/none.sock: there is no such socket"
    )


def test_what_listens_speaks_no_grpc() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"220 mail.example SMTP\r\n" * 10)
                connection.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        error = from_rpc_error(failed_call(f"127.0.0.1:{listener.getsockname()[1]}"))
        thread.join()
    assert isinstance(error, errors.ServerUnavailable)
    assert "what listens there does not speak gRPC" in error.message


def test_deadline(handler: Abort, address: str) -> None:
    done = threading.Event()

    def handle(request: bytes, rpc: grpc.ServicerContext) -> bytes:
        done.wait(30)
        return b""

    handler.handle = handle
    error = from_rpc_error(failed_call(address, timeout=0.05), doing="waiting for a stream")
    done.set()
    assert isinstance(error, errors.WaitTimeoutError)
    assert error.message == "no answer within the time limit while waiting for a stream"


def test_cancelled(handler: Abort, address: str) -> None:
    entered, done = threading.Event(), threading.Event()

    def handle(request: bytes, rpc: grpc.ServicerContext) -> bytes:
        entered.set()
        done.wait(30)
        return b""

    handler.handle = handle
    channel = grpc.insecure_channel(address, NO_PROXY)
    call = channel.unary_unary("/test/call", bytes, bytes).future(b"")
    assert entered.wait(30)
    channel.close()
    with pytest.raises(grpc.RpcError) as caught:
        call.result()
    done.set()
    error = from_rpc_error(caught.value)
    assert isinstance(error, errors.CancelledError)
    assert error.message == "the call was cancelled"


def test_message_larger_than_the_server_takes(address: str) -> None:
    error = from_rpc_error(failed_call(address, request=bytes(LARGEST + 1)), doing="uploading")
    assert isinstance(error, errors.LimitExceededError)
    assert error.message == (
        "a limit was exceeded while uploading: a message of 4097 bytes, and 4096 are allowed"
    )


def test_a_method_that_the_server_does_not_know(address: str) -> None:
    error = from_rpc_error(failed_call(address, method="/test/other"))
    assert isinstance(error, errors.VersionMismatchError)
    assert error.message == (
        "the server does not know the call: another version, or another service"
    )


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (grpc.StatusCode.UNAVAILABLE, errors.ServerUnavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.WaitTimeoutError),
        (grpc.StatusCode.CANCELLED, errors.CancelledError),
        (grpc.StatusCode.UNAUTHENTICATED, errors.UnauthenticatedError),
        (grpc.StatusCode.PERMISSION_DENIED, errors.PermissionDeniedError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.LimitExceededError),
        (grpc.StatusCode.UNIMPLEMENTED, errors.UnsupportedError),
        (grpc.StatusCode.UNKNOWN, errors.InternalError),
        (grpc.StatusCode.INTERNAL, errors.InternalError),
        (grpc.StatusCode.DATA_LOSS, errors.InternalError),
        (grpc.StatusCode.ABORTED, errors.InternalError),
    ],
)
def test_class_of_each_code(
    handler: Abort, address: str, code: grpc.StatusCode, cls: type[AclnnError]
) -> None:
    handler.with_code(code, "for a reason of its own")
    error = from_rpc_error(failed_call(address), doing="testing")
    assert type(error) is cls
    assert error.code == cls.default_code
    assert "while testing" in error.message
    if cls not in (errors.WaitTimeoutError, errors.CancelledError):
        assert "for a reason of its own" in error.message


@pytest.mark.parametrize(
    ("details", "cause"),
    [
        (
            "errors resolving no-such-host.invalid:1: [field:hostname lookup error:address lookup "
            "failed for no-such-host.invalid:1: Domain name not found]",
            "no-such-host.invalid:1: no such host name",
        ),
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:5005: Tls "
            "handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:100000f7:SSL "
            "routines:OPENSSL_internal:WRONG_VERSION_NUMBER: Invalid certificate verification "
            "context: OK",
            "10.0.0.1:5005: the server does not speak TLS at this address",
        ),
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv6:[::1]:5005: Ssl "
            "handshake failed: SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:"
            "CERTIFICATE_VERIFY_FAILED: self signed certificate",
            "[::1]:5005: the server's certificate is not trusted",
        ),
        (
            "Received http2 header with status: 502",
            "a proxy or another service answered with HTTP status 502",
        ),
        ("recvmsg:Connection reset by peer", "the connection broke"),
        ("Socket closed", "the connection broke"),
        (
            "GOAWAY received; Error code: 0; Debug Text: server_shutdown",
            "the server is shutting down",
        ),
        ("keepalive watchdog timeout", "no reply in time"),
        ("", "it gives no reason"),
        ("x" * 1000, "x" * 297 + "…"),
    ],
)
def test_causes_in_plain_words(handler: Abort, address: str, details: str, cause: str) -> None:
    """The texts of gRPC 1.85, sent by the server: a connection that fails so cannot be made here."""
    handler.with_code(grpc.StatusCode.UNAVAILABLE, details)
    error = from_rpc_error(failed_call(address))
    assert isinstance(error, errors.ServerUnavailable)
    assert error.message == f"no answer from the server: {cause}"


def test_an_error_that_is_no_call() -> None:
    error = from_rpc_error(grpc.RpcError("the channel is closed"), doing="testing")
    assert isinstance(error, errors.InternalError)
    assert error.message == "the call failed while testing: no status: the channel is closed"


def test_importing_is_cheap() -> None:
    """Over what every client needs anyway: NumPy, gRPC and the schema."""
    program = (
        "import time, numpy, ml_dtypes, grpc, aclnn.v1.error_pb2, aclnn.errors\n"
        "start = time.perf_counter()\n"
        "import aclnn.status\n"
        "print(time.perf_counter() - start)"
    )
    path = str(Path(status.__file__).parent.parent)
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONPATH": path},
        )
        for _ in range(3)
    ]
    assert min(float(run.stdout) for run in runs) < 0.1
