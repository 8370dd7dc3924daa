"""A server with TLS: with real certificates, its own client, and OpenSSL's."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aclnn.v1 import device_service_pb2 as pb
from aclnn_client import (
    AclnnError,
    HandleNotFoundError,
    InvalidParameterError,
    ServerUnavailable,
    Tls,
    UnauthenticatedError,
    aio,
    connect,
    server_info,
)
from aclnn_client.connection import Connection
from aclnn_client.data_connection import DATA_BYTES
from aclnn_server.config import ConfigError, ServerConfig
from aclnn_server.server import Server
from aclnn_server.sessions.data_port import STRANGE_SECONDS
from tests.access.conftest import HERE, Start, TokenFile
from tests.access.pki import DAY, Authority, Pair
from tests.waiting import until

Serve = Callable[..., Server]
Trusting = Callable[..., Tls]

PATIENCE = 30.0


@pytest.fixture
def serve(start: Start, pair: Pair) -> Serve:
    """Starts a server with TLS."""

    def begin(mine: Pair = pair, **settings: object) -> Server:
        return start(tls_certificate=mine.certificate, tls_key=mine.key, **settings)

    return begin


@pytest.fixture
def trusting(authority: Authority) -> Trusting:
    """A client's side, that trusts the authority, with a certificate of its own or none."""

    def make(own: Pair | None = None, **rest: Any) -> Tls:  # noqa: ANN401 - fields of Tls
        if own is not None:
            rest |= {"certificate": own.certificate, "key": own.key}
        return Tls(root_certificates=authority.certificate, **rest)

    return make


def works(server: Server, tls: bool | Tls | None, token: str | None = None) -> bool:
    with connect(server.address, tls=tls, token=token) as context:
        return bool(context.tensor([1, 2]).numpy().tolist() == [1, 2])


def refusal(server: Server, tls: bool | Tls | None, kind: type[AclnnError]) -> str:
    """What both ways to ask a server are told, after its address."""
    told = set()
    for ask in (server_info, connect):
        with pytest.raises(kind) as caught:
            ask(server.address, tls=tls, timeout=PATIENCE)
        assert type(caught.value) is kind
        assert server.address in caught.value.message
        told.add(caught.value.message.split(f"{server.address}: ", 1)[1])
    (text,) = told
    return text


def read_again(server: Server) -> None:
    """The server's looks at its files, done now."""
    for _ in range(2):
        server._entrance.watch.look()


# --- the two sides ----------------------------------------------------------------------------------


def test_a_client_that_trusts_the_server(serve: Serve, trusting: Trusting) -> None:
    server = serve()
    assert works(server, trusting())
    assert len(server_info(server.address, tls=trusting()).devices) == 4


@pytest.mark.parametrize("host", ["localhost", "[::1]"])
def test_the_server_s_names(serve: Serve, trusting: Trusting, host: str) -> None:
    assert works(serve(listen=f"{host}:0"), trusting())


async def _uses_aio(server: Server, tls: Tls) -> list[int]:
    async with aio.connect(server.address, tls=tls) as context:
        tensor = await context.tensor([1, 2])
        return [int(x) for x in await tensor.numpy()]


@pytest.mark.asyncio
async def test_the_client_for_asyncio(serve: Serve, trusting: Trusting) -> None:
    server = serve()
    assert await _uses_aio(server, trusting()) == [1, 2]


def test_large_transfers_and_all_ways_of_calling(serve: Serve, trusting: Trusting) -> None:
    with connect(serve().address, tls=trusting(), timeout=PATIENCE) as context:
        buffer = context.malloc(5 << 20)
        assert buffer is not None
        buffer.write(bytes(range(256)) * (5 << 12))
        assert bytes(buffer.read()) == bytes(range(256)) * (5 << 12)
        assert context.operators()


def test_data_connections_are_encrypted_too(
    serve: Serve, trusting: Trusting, authority: Authority
) -> None:
    server = serve(shared_memory=False, data_port="auto", tls_client_ca=authority.certificate)
    own = authority.issue("client", ("client",))
    values = np.arange(DATA_BYTES, dtype=np.float32)
    with connect(server.address, tls=trusting(own)) as context:
        np.testing.assert_array_equal(context.tensor(values).numpy(), values)
        assert context.transport == "data connection"
        answer = context._connection.call(
            context._connection.devices.AttachDataConnection,
            pb.AttachDataConnectionRequest(context_id=context._context_id),
            doing="asking",
        )
        # Who does not speak TLS, or shows no certificate, is not asked for the secret.
        for tls in (None, trusting()):
            assert not let_in(server, answer, tls)


def let_in(server: Server, answer: pb.AttachDataConnectionResponse, tls: Tls | None) -> bool:
    """Whether a client who knows the secret gets a data connection."""
    connection = Connection(server.address, token=None, tls=tls, timeout=None)
    try:
        with connection.dial(answer.port, PATIENCE) as dialled:
            dialled.sendall(answer.secret)
            return dialled.recv(1) == b"\1"
    except OSError:
        return False
    finally:
        connection.close()


def test_a_data_connection_goes_to_no_other_server(
    serve: Serve, trusting: Trusting, stranger: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(shared_memory=False)
    impostor = serve(stranger.issue("impostor", HERE), shared_memory=False)
    real = Connection.dial
    monkeypatch.setattr(
        Connection,
        "dial",
        lambda self, port, timeout: real(self, impostor._data_port.number, timeout),
    )
    with connect(server.address, tls=trusting()) as context:
        values = np.arange(DATA_BYTES, dtype=np.float32)
        np.testing.assert_array_equal(context.tensor(values).numpy(), values)
        assert context.transport == "tcp"
        with pytest.raises(ssl.SSLCertVerificationError):
            context._connection.dial(0, PATIENCE)


def test_tls_over_a_socket_file(
    start: Start, pair: Pair, tmp_path: Path, trusting: Trusting
) -> None:
    server = start(listen=f"unix:{tmp_path}/s", tls_certificate=pair.certificate, tls_key=pair.key)
    assert works(server, trusting(server_name="localhost"))
    assert "the server speaks TLS" in refusal(server, None, ServerUnavailable)


def test_a_server_that_is_called_otherwise(
    serve: Serve, authority: Authority, trusting: Trusting
) -> None:
    server = serve(authority.issue("elsewhere", ["npu-1.example.org"]))
    told = refusal(server, trusting(), ServerUnavailable)
    assert told == "the server's certificate is of another host"
    assert works(server, trusting(server_name="npu-1.example.org"))


def test_certificates_that_the_client_does_not_accept(
    serve: Serve, pair: Pair, authority: Authority, stranger: Authority, trusting: Trusting
) -> None:
    server = serve()
    not_trusted = "the server's certificate is not trusted"
    assert refusal(server, True, ServerUnavailable) == not_trusted
    strangers = Tls(root_certificates=stranger.certificate)
    assert refusal(server, strangers, ServerUnavailable) == not_trusted
    # It has expired while the server ran.
    old = authority.issue("old", HERE, begins=-9 * DAY, ends=-DAY)
    certificates = server._entrance._certificates
    assert certificates is not None
    pair_before = pair.certificate.read_bytes(), pair.key.read_bytes()
    try:
        certificates._try = lambda *_: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # type: ignore[method-assign]
        pair.certificate.write_bytes(old.certificate.read_bytes())
        pair.key.write_bytes(old.key.read_bytes())
        certificates.load()
        told = refusal(server, trusting(), ServerUnavailable)
        assert told == "the server's certificate has expired"
    finally:
        pair.certificate.write_bytes(pair_before[0])
        pair.key.write_bytes(pair_before[1])


def test_one_speaks_tls_and_the_other_does_not(
    serve: Serve, start: Start, trusting: Trusting
) -> None:
    told = refusal(serve(), None, ServerUnavailable)
    assert told == (
        "the server speaks TLS, and the client does not: connect with tls=True or tls=Tls(…)"
    )
    told = refusal(start(), trusting(), ServerUnavailable)
    assert told == "the server does not speak TLS at this address"


# --- clients' certificates --------------------------------------------------------------------------


def test_a_client_s_certificate(
    serve: Serve, authority: Authority, stranger: Authority, trusting: Trusting
) -> None:
    server = serve(tls_client_ca=authority.certificate)
    alice = authority.issue("alice", ["alice"])
    assert works(server, trusting(alice))
    assert refusal(server, trusting(), UnauthenticatedError) == (
        "the server asks for a certificate of the client, and there is none: "
        "tls=Tls(certificate=…, key=…)"
    )
    begin = "the server does not accept the client's certificate: "
    mallory = stranger.issue("mallory", ["alice"])
    assert refusal(server, trusting(mallory), UnauthenticatedError) == (
        f"{begin}none of the authorities that it knows has signed it"
    )
    old = authority.issue("old", ["alice"], begins=-9 * DAY, ends=-DAY)
    assert refusal(server, trusting(old), UnauthenticatedError) == f"{begin}certificate has expired"
    assert "the server speaks TLS" in refusal(server, None, ServerUnavailable)


def test_contexts_belong_to_the_name_in_the_certificate(
    serve: Serve, authority: Authority, trusting: Trusting
) -> None:
    server = serve(tls_client_ca=authority.certificate)
    alice = trusting(authority.issue("alice", ["alice", "second"], common="ignored"))
    again = trusting(authority.issue("alice2", ["alice"]))
    bob = trusting(authority.issue("bob", [], common="bob"))
    with connect(server.address, tls=alice) as context:
        context.tensor([1]).numpy()
        (held,) = server.registry._contexts.values()
        assert held.owner == "alice"
        assert server_info(server.address, tls=again).usage.contexts == 1
        assert server_info(server.address, tls=bob).usage.contexts == 0
        with connect(server.address, tls=bob) as other:
            owners = sorted(context.owner for context in server.registry._contexts.values())
            assert owners == ["alice", "bob"]
            stolen = other.commands.submitter._requests
            stolen._head = context.commands.submitter._requests._head
            with pytest.raises(HandleNotFoundError, match="context does not exist"):
                other.synchronize()


def test_a_token_says_who_it_is_where_there_are_both(
    serve: Serve, authority: Authority, trusting: Trusting, tokens: TokenFile
) -> None:
    token = tokens.put("by-token")
    server = serve(tls_client_ca=authority.certificate, tokens=tokens.path)
    tls = trusting(authority.issue("alice", ["alice"]))
    with pytest.raises(UnauthenticatedError, match="asks for a token"):
        works(server, tls)
    with connect(server.address, tls=tls, token=token):
        (held,) = server.registry._contexts.values()
        assert held.owner == "by-token"


def test_a_token_is_not_sent_in_the_open_to_another_machine() -> None:
    for address in ("10.255.255.1:50051", "npu-1.example.org:50051"):
        with pytest.raises(InvalidParameterError, match=r"without TLS.*tls=False") as caught:
            connect(address, token="a-token-of-some-length", timeout=0.01)
        assert caught.value.parameter == "token"
        assert "a-token-of-some-length" not in str(caught.value)
    with pytest.raises(ServerUnavailable):
        connect("127.0.0.1:1", token="a-token-of-some-length")
    with pytest.raises(ServerUnavailable):
        connect("192.0.2.1:50051", token="a-token-of-some-length", tls=False, timeout=0.01)


# --- files that change ------------------------------------------------------------------------------


@pytest.fixture
def changing(authority: Authority, folder: Path) -> Pair:
    """A server's certificate whose files are written anew."""
    return authority.issue("changing", HERE)


def test_a_certificate_that_changes_is_in_force_for_new_connections(
    serve: Serve, changing: Pair, stranger: Authority, trusting: Trusting
) -> None:
    server = serve(changing)
    with connect(server.address, tls=trusting()) as context:
        other = stranger.issue("other", HERE)
        changing.certificate.write_bytes(other.certificate.read_bytes())
        changing.key.write_bytes(other.key.read_bytes())
        read_again(server)
        assert context.tensor([1]).numpy().tolist() == [1]  # the open connection goes on
        assert works(server, Tls(root_certificates=stranger.certificate))
        assert "not trusted" in refusal(server, trusting(), ServerUnavailable)


def test_a_pair_of_which_one_file_is_new_waits_for_the_other(
    serve: Serve,
    changing: Pair,
    authority: Authority,
    trusting: Trusting,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = serve(changing)
    new = authority.issue("new", ["renewed.example.org"])
    changing.certificate.write_bytes(new.certificate.read_bytes())
    read_again(server)
    assert works(server, trusting())
    assert "key values mismatch; what was in force before stays in force" in caplog.text
    changing.key.write_bytes(new.key.read_bytes())
    read_again(server)
    assert works(server, trusting(server_name="renewed.example.org"))


@pytest.mark.parametrize("content", [b"", b"junk"])
def test_a_broken_file_leaves_the_old_one_in_force(
    serve: Serve,
    changing: Pair,
    trusting: Trusting,
    content: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = serve(changing)
    for path in (changing.certificate, changing.key):
        path.write_bytes(content)
    read_again(server)
    assert "what was in force before stays in force" in caplog.text
    assert works(server, trusting())


def test_an_authority_of_clients_that_changes(
    serve: Serve, authority: Authority, stranger: Authority, trusting: Trusting, tmp_path: Path
) -> None:
    known = tmp_path / "clients.pem"
    known.write_bytes(authority.certificate.read_bytes())
    server = serve(tls_client_ca=known)
    alice, mallory = authority.issue("alice", ["alice"]), stranger.issue("mallory", ["mallory"])
    assert works(server, trusting(alice))
    assert "signed it" in refusal(server, trusting(mallory), UnauthenticatedError)
    known.write_bytes(stranger.certificate.read_bytes())
    read_again(server)
    assert works(server, trusting(mallory))
    assert "signed it" in refusal(server, trusting(alice), UnauthenticatedError)


def test_files_that_cannot_be_used_keep_a_server_from_starting(
    pair: Pair, authority: Authority
) -> None:
    other = authority.issue("other", HERE)
    config = ServerConfig(tls_certificate=str(pair.certificate), tls_key=str(other.key))
    with pytest.raises(ConfigError, match="are no pair"):
        Server(config)


# --- OpenSSL's client -------------------------------------------------------------------------------

openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl command")


def s_client(server: Server, *flags: object) -> subprocess.CompletedProcess[str]:
    """Connects with OpenSSL's client, which closes the connection when its input ends."""
    words = ("openssl", "s_client", "-connect", server.address, *map(str, flags))
    return subprocess.run(
        words,
        input="",
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=PATIENCE,
        check=False,
    )


@openssl
def test_openssl_verifies_the_server(serve: Serve, pair: Pair, authority: Authority) -> None:
    server = serve()
    assert "Requested Signature Algorithms" not in s_client(server).stdout
    answer = s_client(
        server, "-CAfile", authority.certificate, "-verify_return_error", "-alpn", "h2",
        "-verify_hostname", "localhost",
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "Verify return code: 0 (ok)" in answer.stdout
    assert "Verification: OK" in answer.stdout
    assert "ALPN protocol: h2" in answer.stdout
    assert "TLSv1.3" in answer.stdout
    assert "".join(pair.certificate.read_text().splitlines()[1:-1]) in answer.stdout.replace(
        "\n", ""
    )


@openssl
def test_openssl_does_not_trust_another_authority(serve: Serve, stranger: Authority) -> None:
    answer = s_client(serve(), "-CAfile", stranger.certificate, "-verify_return_error")
    assert answer.returncode != 0
    assert "unable to get local issuer certificate" in answer.stderr + answer.stdout


@openssl
@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_old_versions_of_tls_are_refused(serve: Serve, version: str) -> None:
    answer = s_client(serve(), version, "-cipher", "ALL@SECLEVEL=0")
    assert answer.returncode != 0
    assert "Cipher is (NONE)" in answer.stdout


@openssl
def test_openssl_without_a_certificate_is_asked_for_one_and_not_let_in(
    serve: Serve, authority: Authority, stranger: Authority
) -> None:
    server = serve(tls_client_ca=authority.certificate)
    trust = ("-CAfile", authority.certificate, "-alpn", "h2")
    answer = s_client(server, *trust)
    assert "Requested Signature Algorithms" in answer.stdout
    alice, mallory = authority.issue("alice", ["alice"]), stranger.issue("mallory", ["mallory"])
    # One that is let in is sent the server's settings, in HTTP/2's frames, before it has said anything.
    for own, let_in in ((None, False), (mallory, False), (alice, True)):
        flags = () if own is None else ("-cert", own.certificate, "-key", own.key)
        process = subprocess.Popen(
            (
                "openssl",
                "s_client",
                "-connect",
                server.address,
                "-quiet",
                *map(str, (*trust, *flags)),
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert process.stdout is not None
            assert (len(process.stdout.read(9)) == 9) is let_in
        finally:
            process.kill()
            process.communicate()


def test_a_handshake_that_never_comes_does_not_hold_up_the_end(serve: Serve) -> None:
    server = serve(data_port="auto")
    with socket.create_connection(("127.0.0.1", server._data_port.number), PATIENCE) as stranger:
        until(lambda: server._data_port._strangers)
        begin = time.monotonic()
        server.stop(0)
        assert time.monotonic() - begin < STRANGE_SECONDS
        assert stranger.recv(1) == b""
