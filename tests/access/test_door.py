"""A server with tokens: which calls need one, what they are told, and what each token may have."""

# ruff: noqa: ANN401 - any call, with any request
from __future__ import annotations

import logging
import queue
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from aclnn.errors import (
    AclnnError,
    HandleNotFoundError,
    LimitExceededError,
    OutOfMemoryError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client import Context, connect, server_info
from aclnn_server.server import Server
from aclnn_server.service.rpc import SERVICES
from tests.access.conftest import Start, TokenFile
from tests.service.calling import DEADLINE, PROTOCOL, Stubs, checked
from tests.service.living import HEALTH, health_of

METHODS = [method for service in SERVICES for method in service.methods]


@pytest.fixture
def server(start: Start, tokens: TokenFile) -> Server:
    """A server that knows alice, and bob who may do less."""
    tokens.put("alice")
    tokens.put("bob", devices=[1, 3], contexts=2, memory_bytes=1000)
    return start(tokens=tokens.path)


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    """What is closed when the test is over."""
    with ExitStack() as stack:
        yield stack


def stubs_of(server: Server, clients: ExitStack) -> Stubs:
    return Stubs(clients.enter_context(grpc.insecure_channel(server.address)))


def bearing(token: str | None) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),) if token else ()


def read_again(server: Server) -> None:
    """The server's looks at its files, done now."""
    for _ in range(2):
        server._entrance.watch.look()


# --- every call -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=lambda method: str(method.name))
@pytest.mark.parametrize(
    ("token", "told"),
    [(None, "asks for a token"), ("wrong-token-of-some-length", "is not one of this server's")],
)
def test_every_call_needs_a_token(
    server: Server, clients: ExitStack, method: Any, token: str | None, told: str
) -> None:
    channel = clients.enter_context(grpc.insecure_channel(server.address))
    kind = ("stream" if method.client_streaming else "unary") + (
        "_stream" if method.server_streaming else "_unary"
    )
    make = getattr(channel, kind)
    request = GetMessageClass(method.input_type)()
    call = make(
        f"/{method.containing_service.full_name}/{method.name}",
        type(request).SerializeToString,
        GetMessageClass(method.output_type).FromString,
    )
    given = iter([request]) if method.client_streaming else request
    with pytest.raises(grpc.RpcError) as caught:
        # A call whose answer is a stream fails when it is iterated, the others at once.
        next(iter(call(given, timeout=DEADLINE, metadata=bearing(token))))
    error = checked(caught.value)
    assert isinstance(error, UnauthenticatedError)
    assert told in error.message
    assert error.code == 207006


def test_health_needs_none(server: Server, clients: ExitStack) -> None:
    assert health_of(stubs_of(server, clients)) == HEALTH.SERVING
    assert health_of(stubs_of(server, clients), "liveness") == HEALTH.SERVING


def test_reflection_needs_any(server: Server, clients: ExitStack, tokens: TokenFile) -> None:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(stubs_of(server, clients).channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    with pytest.raises(grpc.RpcError) as caught:
        next(stub.ServerReflectionInfo(iter([request]), timeout=DEADLINE))
    assert isinstance(checked(caught.value), UnauthenticatedError)
    metadata = bearing(tokens.tokens["bob"])
    (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=DEADLINE, metadata=metadata)
    assert answer.list_services_response.service


def test_connections_are_shown_to_administrators(
    server: Server, clients: ExitStack, tokens: TokenFile
) -> None:
    stub = channelz_pb2_grpc.ChannelzStub(stubs_of(server, clients).channel)
    request = channelz_pb2.GetServersRequest()
    for token, kind in ((None, UnauthenticatedError), ("alice", PermissionDeniedError)):
        metadata = bearing(token and tokens.tokens[token])
        with pytest.raises(grpc.RpcError) as caught:
            stub.GetServers(request, timeout=DEADLINE, metadata=metadata)
        error = checked(caught.value)
        assert type(error) is kind
    assert error.message == (
        "the token 'alice' may not look at other clients; it is no administrator's"
    )
    alice = tokens.put("alice", admin=True)
    read_again(server)
    assert stub.GetServers(request, timeout=DEADLINE, metadata=bearing(alice)).server


def test_the_whole_server_is_shown_to_administrators(
    server: Server, clients: ExitStack, tokens: TokenFile
) -> None:
    channel = clients.enter_context(grpc.insecure_channel(server.address))
    call: Any = channel.unary_unary("/aclnn.v1.AdminService/GetOverview")
    error = refusal(call, b"", bearing(tokens.tokens["alice"]))
    assert isinstance(error, PermissionDeniedError)
    assert (error.code, error.status) == (207006, 7)
    assert isinstance(refusal(call, b"", ()), UnauthenticatedError)


def test_a_call_without_a_token_is_answered_before_its_message_is_there(server: Server) -> None:
    """Nobody can fill a server's memory without having been let in."""
    with grpc.insecure_channel(server.address) as channel:
        sent: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        call: Any = channel.stream_unary("/aclnn.v1.DeviceService/WriteBuffer")
        with pytest.raises(grpc.RpcError) as caught:
            call(iter(sent.get, None), timeout=DEADLINE)
        sent.put(b"")
    assert isinstance(checked(caught.value), UnauthenticatedError)


def test_no_token_gets_no_further_with_a_message_that_is_none(
    server: Server, clients: ExitStack
) -> None:
    channel = clients.enter_context(grpc.insecure_channel(server.address))
    for message in (b"\xff" * 100, b"\0" * (1 << 20)):
        call: Any = channel.unary_unary("/aclnn.v1.DeviceService/Malloc")
        with pytest.raises(grpc.RpcError) as caught:
            call(message, timeout=DEADLINE)
        assert isinstance(checked(caught.value), UnauthenticatedError)


def test_a_method_that_is_none_is_none_with_a_token_only(
    server: Server, clients: ExitStack, tokens: TokenFile
) -> None:
    channel = clients.enter_context(grpc.insecure_channel(server.address))
    call: Any = channel.unary_unary("/aclnn.v1.DeviceService/Nothing")
    codes = []
    for token in (None, tokens.tokens["alice"]):
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=DEADLINE, metadata=bearing(token))
        codes.append(caught.value.code())
    assert codes == [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED]


# --- the Python client ------------------------------------------------------------------------------


def test_a_client_with_a_token_does_everything(server: Server, tokens: TokenFile) -> None:
    with connect(server.address, token=tokens.tokens["alice"]) as context:
        assert context.tensor([1, 2]).numpy().tolist() == [1, 2]
        large = context.malloc(5 << 20)
        assert large is not None
        large.write(bytes(5 << 20))
        assert len(large.read()) == 5 << 20
        assert context.operators()
        (held,) = server.registry._contexts.values()
        assert held.owner == "alice"


def test_a_client_without_is_told_what_to_do(server: Server) -> None:
    for ask in (connect, server_info):
        with pytest.raises(UnauthenticatedError, match=r"connect\(…, token=…\)"):
            ask(server.address)
        with pytest.raises(UnauthenticatedError, match="not one of this server's"):
            ask(server.address, token="wrong-token-of-some-length")


def test_a_server_without_tokens_does_not_mind_one(start: Start) -> None:
    with connect(start().address, token="some-token") as context:
        assert context.tensor([1]).numpy().tolist() == [1]


# --- what is another's ------------------------------------------------------------------------------


def test_what_another_token_made_does_not_exist(
    server: Server, clients: ExitStack, tokens: TokenFile
) -> None:
    stubs = stubs_of(server, clients)
    alice, bob = (bearing(tokens.tokens[name]) for name in ("alice", "bob"))
    opened = pb.CreateContextRequest(protocol_version=PROTOCOL)
    made = stubs.device.CreateContext(opened, timeout=DEADLINE, metadata=alice)
    stub: Any = stubs.device
    calls = {
        "context_id": [
            (stub.RenewContext, pb.RenewContextRequest(context_id=made.context_id)),
            (stub.Malloc, pb.MallocRequest(context_id=made.context_id, bytes=8)),
            (stub.CreateStream, pb.CreateStreamRequest(context_id=made.context_id)),
            (stub.DestroyContext, pb.DestroyContextRequest(context_id=made.context_id)),
            (stub.SynchronizeStream, pb.SynchronizeStreamRequest(context_id=made.context_id)),
        ],
        "stream_id": [
            (stub.QueryStream, pb.QueryStreamRequest(stream_id=made.stream_id)),
            (stub.SynchronizeStream, pb.SynchronizeStreamRequest(stream_id=made.stream_id)),
            (stub.DestroyStream, pb.DestroyStreamRequest(stream_id=made.stream_id)),
        ],
    }
    for parameter, requests in calls.items():
        for call, request in requests:
            foreign = refusal(call, request, bob)
            named = type(request)()
            named.CopyFrom(request)
            setattr(named, parameter, f"{server.registry.epoch}-no-such-id")
            absent = refusal(call, named, bob)
            assert isinstance(foreign, HandleNotFoundError), request
            assert str(foreign) == str(absent)
            assert foreign.to_proto() == absent.to_proto()
    first = iter([pb.SubmitRequest(context_id=made.context_id)])
    with pytest.raises(grpc.RpcError) as caught:
        next(stub.Submit(first, timeout=DEADLINE, metadata=bob))
    assert isinstance(checked(caught.value), HandleNotFoundError)
    kept = pb.RenewContextRequest(context_id=made.context_id)
    assert stub.RenewContext(kept, timeout=DEADLINE, metadata=alice).usage.contexts == 1


def refusal(call: Any, request: Any, metadata: Any) -> AclnnError:
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=DEADLINE, metadata=metadata)
    return checked(caught.value)


def test_what_others_hold_is_told_to_administrators(server: Server, tokens: TokenFile) -> None:
    alice, bob = tokens.tokens["alice"], tokens.tokens["bob"]
    with connect(server.address, token=alice), connect(server.address, token=bob) as context:
        context.tensor([1.0] * 8).numpy()
        assert server_info(server.address, token=alice).usage.contexts == 1
        assert server_info(server.address, token=alice).usage.bytes == 0
        assert server_info(server.address, token=bob).usage.bytes > 0
        tokens.put("alice", admin=True)
        read_again(server)
        assert server_info(server.address, token=alice).usage.contexts == 2


# --- quotas -----------------------------------------------------------------------------------------


def test_devices(server: Server, tokens: TokenFile) -> None:
    alice, bob = tokens.tokens["alice"], tokens.tokens["bob"]
    assert [d.index for d in server_info(server.address, token=alice).devices] == [0, 1, 2, 3]
    assert [d.index for d in server_info(server.address, token=bob).devices] == [1, 3]
    with connect(server.address, token=bob, device=3) as context:
        assert context.device == 3
        assert len(context.info().devices) == 2
    with connect(server.address, token=bob) as context:
        assert context.device in (1, 3)
    for device in (0, 2, 9):
        with pytest.raises(PermissionDeniedError, match="this server's devices 1, 3") as caught:
            connect(server.address, token=bob, device=device)
        assert (caught.value.code, caught.value.parameter) == (207006, "device_index")


def test_contexts_and_memory(server: Server, tokens: TokenFile) -> None:
    bob = tokens.tokens["bob"]
    with connect(server.address, token=bob) as first, connect(server.address, token=bob) as second:
        assert (first.limits.contexts, first.limits.context_bytes) == (2, 1000)
        with pytest.raises(LimitExceededError, match="the token 'bob' has 2 contexts; at most 2"):
            connect(server.address, token=bob)
        buffer = first.malloc(900)
        first.synchronize()
        with pytest.raises(OutOfMemoryError) as caught:
            take(second, 101)
        assert "asks for 101 bytes; the token 'bob' has 100 free of its 1000" in str(caught.value)
        take(second, 100)
        assert buffer is not None
        buffer.free()
        first.synchronize()
        take(second, 900)
        with connect(server.address, token=tokens.tokens["alice"]) as other:
            take(other, 5000)
    with connect(server.address, token=bob) as again:
        take(again, 1000)


def take(context: Context, size: int) -> None:
    context.malloc(size)
    context.synchronize()


def test_calls_of_a_token(start: Start, tokens: TokenFile, clients: ExitStack) -> None:
    alice = tokens.put("alice", calls_per_second=0.001)
    stubs = stubs_of(start(tokens=tokens.path), clients)
    request = pb.GetServerInfoRequest()
    stubs.device.GetServerInfo(request, timeout=DEADLINE, metadata=bearing(alice))
    error = refusal(stubs.device.GetServerInfo, request, bearing(alice))
    assert isinstance(error, LimitExceededError)
    assert "calls come faster than the 0.001 a second that the token 'alice' may" in error.message
    assert 0 < error.retry_after_ms <= 1_000_000
    assert health_of(stubs) == HEALTH.SERVING


def test_requests_of_an_open_call_are_slowed_down(start: Start, tokens: TokenFile) -> None:
    alice = tokens.put("alice", calls_per_second=20.0)
    server = start(tokens=tokens.path)
    begin = time.monotonic()
    with connect(server.address, token=alice) as context:
        for _ in range(24):  # one request each, and two calls before them
            context.synchronize()
    assert time.monotonic() - begin >= (24 + 2 - 20) / 20


def test_new_contexts_of_a_token(start: Start, tokens: TokenFile) -> None:
    alice = tokens.put("alice", contexts_per_second=0.1)
    bob = tokens.put("bob")
    server = start(tokens=tokens.path)
    connect(server.address, token=alice).close()
    with pytest.raises(LimitExceededError, match=r"the 0\.1 a second"):
        connect(server.address, token=alice)
    connect(server.address, token=bob).close()


# --- tokens that end --------------------------------------------------------------------------------


def test_a_token_that_has_expired(start: Start, tokens: TokenFile) -> None:
    old = tokens.put("old", expires=datetime(2020, 1, 1, tzinfo=UTC))
    new = tokens.put("new", expires=datetime(9000, 1, 1, tzinfo=UTC))
    server = start(tokens=tokens.path)
    told = "the token 'old' expired at 2020-01-01T00:00:00Z"
    for ask in (connect, server_info):
        with pytest.raises(UnauthenticatedError, match=told):
            ask(server.address, token=old)
    connect(server.address, token=new).close()


def test_who_is_taken_out_loses_what_it_has_at_once(server: Server, tokens: TokenFile) -> None:
    alice, bob = tokens.tokens["alice"], tokens.tokens["bob"]
    context = connect(server.address, token=alice)
    with connect(server.address, token=bob) as other:
        tensor = context.tensor([1, 2])
        tensor.numpy()
        tokens.take_out("alice")
        read_again(server)
        assert server.registry.usage.contexts == 1
        with pytest.raises(UnauthenticatedError, match="the token was withdrawn"):
            tensor.numpy()
        with pytest.raises(UnauthenticatedError):
            context.synchronize()
        with pytest.raises(UnauthenticatedError, match="not one of this server's"):
            connect(server.address, token=alice)
        assert other.tensor([3]).numpy().tolist() == [3]
    context.close()


def test_an_open_call_that_nobody_uses_is_broken_off_with_its_token(
    server: Server, tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(server.address, token=tokens.tokens["bob"]) as other:
        other.synchronize()
        context = connect(server.address, token=tokens.tokens["alice"])
        context.synchronize()
        assert server._service.open_submit_calls == 2
        tokens.take_out("alice")
        read_again(server)
        server._entrance.watch.look()
        assert server._service.open_submit_calls == 2  # it may still ask, and be told why
        monkeypatch.setattr("aclnn_server.access.tokens.LEAVING_SECONDS", -1.0)
        server._entrance.watch.look()
        while server._service.open_submit_calls == 2:
            time.sleep(0.001)
        with pytest.raises(AclnnError):
            context.synchronize()
        context.close()
        assert other.tensor([1]).numpy().tolist() == [1]


def test_a_token_that_takes_another_s_place_ends_calls_and_no_contexts(
    server: Server, tokens: TokenFile, clients: ExitStack
) -> None:
    old = tokens.tokens["alice"]
    context = connect(server.address, token=old)
    tensor = context.tensor([1, 2])
    tensor.numpy()
    new = tokens.replace("alice")
    read_again(server)
    with pytest.raises(UnauthenticatedError, match="the token was withdrawn"):
        tensor.numpy()
    (held,) = server.registry._contexts.values()
    renew = pb.RenewContextRequest(context_id=held.id)
    stubs = stubs_of(server, clients)
    assert stubs.device.RenewContext(renew, timeout=DEADLINE, metadata=bearing(new)).usage.bytes > 0
    context.close()


def test_a_token_that_is_added_is_good_at_once(server: Server, tokens: TokenFile) -> None:
    carol = tokens.put("carol")
    with pytest.raises(UnauthenticatedError):
        connect(server.address, token=carol)
    read_again(server)
    connect(server.address, token=carol).close()


def test_a_file_that_is_wrong_leaves_tokens_as_they_are(
    server: Server, tokens: TokenFile, caplog: pytest.LogCaptureFixture
) -> None:
    alice = tokens.tokens["alice"]
    with connect(server.address, token=alice) as context:
        tokens.path.write_text("[alice\n")
        read_again(server)
        assert context.tensor([1]).numpy().tolist() == [1]
        connect(server.address, token=alice).close()
    assert "what was in force before stays in force" in caplog.text


# --- the log ----------------------------------------------------------------------------------------


def test_refusals_are_logged_but_not_as_fast_as_they_are_made(
    server: Server, clients: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    stubs = stubs_of(server, clients)
    for _ in range(200):
        refusal(stubs.device.GetServerInfo, pb.GetServerInfoRequest(), ())
    records = [r for r in caplog.records if r.name == "aclnn_server.access.door"]
    assert 1 <= len(records) < 100
    assert records[0].getMessage().startswith("refused a call from ipv4:127.0.0.1:")
    told = vars(records[0])
    assert told["reason"] == "UNAUTHENTICATED"
    assert told["method"] == "/aclnn.v1.DeviceService/GetServerInfo"


def test_no_token_is_in_the_log_or_in_an_answer(
    server: Server, clients: ExitStack, tokens: TokenFile, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = "aclnn_wrong-token-of-some-length-000000000000000"
    alice = tokens.tokens["alice"]
    stubs = stubs_of(server, clients)
    told: list[str] = []
    with caplog.at_level(logging.DEBUG):
        for token in (alice, wrong):
            for metadata in (
                bearing(token),
                (("authorization", token),),
                (("authorization", f"Basic {token}"),),
                bearing(token) * 2,
            ):
                try:
                    stubs.device.GetServerInfo(
                        pb.GetServerInfoRequest(), timeout=DEADLINE, metadata=metadata
                    )
                except grpc.RpcError as error:
                    told.append(f"{error} {error.trailing_metadata()}")
        with connect(server.address, token=alice) as context:
            context.tensor([1]).numpy()
            told.append(f"{context!r} {context._connection!r} {vars(context)}")
        tokens.take_out("alice")
        read_again(server)
        told += [repr(server.config), repr(server._entrance), repr(server._entrance._door)]
    told.append(caplog.text)
    told += [str(vars(record)) for record in caplog.records]
    assert len(told) > 10
    for text in told:
        assert alice not in text
        assert wrong not in text


def test_a_connection_that_says_nothing_keeps_nobody_waiting(
    server: Server, clients: ExitStack, tokens: TokenFile
) -> None:
    host, _, port = server.address.rpartition(":")
    for _ in range(100):
        clients.enter_context(socket.create_connection((host, int(port))))
    with connect(server.address, token=tokens.tokens["alice"]) as context:
        assert context.tensor([1]).numpy().tolist() == [1]
