# ruff: noqa: F811 - fixtures, by their names
"""TLS and tokens with the C library: what lets a program in, and what is said where nothing does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from aclnn_server.server import Server
from tests.access.conftest import (  # noqa: F401 - fixtures
    Start,
    TokenFile,
    authority,
    backend,
    folder,
    pair,
    start,
    stranger,
    tokens,
)
from tests.access.pki import Authority, Pair
from tests.cpp import building
from tests.cpp.driving import drive
from tests.cpp.test_runtime import variables

NO_PERMISSION, BROKEN, INVALID = 207006, 507901, 100000
DAY = timedelta(days=1)


def lets_in(server: Server, **settings: object) -> None:
    """A program connects, computes, and ends."""
    run(server.address, ("a_process_that_just_ends_leaves_nothing_behind",), **settings)


def refuses(address: str, code: int, text: str, **settings: object) -> None:
    """A program is refused by every call that needs the server, with a line that says why."""
    errors = run(address, ("there_is_no_server", str(code), text), **settings)
    assert errors.count("\n") == 1
    assert text in errors


def run(address: str, arguments: tuple[str, ...], **settings: object) -> str:
    given = {f"ACLNN_SERVE_{name}": str(value) for name, value in settings.items()}
    program = building.built_test("process_test")
    lines, errors = drive(program, variables(address, **given), {}, *arguments)
    assert lines == []
    return errors


# --- certificates -----------------------------------------------------------------------------------


@pytest.fixture
def protected(start: Start, pair: Pair) -> Server:
    """A server with a certificate."""
    return start(tls_certificate=pair.certificate, tls_key=pair.key)


@pytest.fixture
def mutual(start: Start, pair: Pair, authority: Authority) -> Server:
    """A server that asks for a certificate of its clients."""
    return start(
        tls_certificate=pair.certificate, tls_key=pair.key, tls_client_ca=authority.certificate
    )


def client(authority: Authority, **options: object) -> dict[str, object]:
    """Settings of a client with a certificate."""
    usage = ExtendedKeyUsageOID.CLIENT_AUTH
    pair = authority.issue("client", ["client"], usage=usage, **options)  # type: ignore[arg-type]
    return {"TLS_CERTIFICATE": pair.certificate, "TLS_KEY": pair.key}


def test_a_server_that_is_trusted(protected: Server, authority: Authority) -> None:
    lets_in(protected, TLS_CA=authority.certificate)


def test_a_server_that_is_not(protected: Server, stranger: Authority) -> None:
    text = "the server's certificate is not trusted"
    refuses(protected.address, BROKEN, text, TLS_CA=stranger.certificate)


def test_a_server_of_another_name(start: Start, authority: Authority) -> None:
    other = authority.issue("other", ["pool.example"])
    server = start(tls_certificate=other.certificate, tls_key=other.key)
    trusted = {"TLS_CA": authority.certificate}
    refuses(server.address, BROKEN, "certificate of another host", **trusted)
    lets_in(server, TLS_SERVER_NAME="pool.example", **trusted)
    refuses(server.address, BROKEN, "certificate of another host", TLS_SERVER_NAME="x.y", **trusted)


def test_only_one_side_speaks_tls(protected: Server, start: Start, authority: Authority) -> None:
    refuses(protected.address, BROKEN, "the server speaks TLS, and the program does not")
    text = "the server does not speak TLS at this address"
    refuses(start().address, BROKEN, text, TLS_CA=authority.certificate)


def test_both_sides_show_a_certificate(mutual: Server, authority: Authority) -> None:
    lets_in(mutual, TLS_CA=authority.certificate, **client(authority))


def test_a_client_without_a_certificate(mutual: Server, authority: Authority) -> None:
    text = "it asks for one of the client, ACLNN_SERVE_TLS_CERTIFICATE and ACLNN_SERVE_TLS_KEY"
    refuses(mutual.address, NO_PERMISSION, text, TLS_CA=authority.certificate)


def test_a_client_whose_certificate_is_not_accepted(
    mutual: Server, authority: Authority, stranger: Authority
) -> None:
    text = "it does not accept the one that ACLNN_SERVE_TLS_CERTIFICATE names"
    over = client(authority, begins=-2 * DAY, ends=-DAY)
    for shown in (client(stranger), over):
        refuses(mutual.address, NO_PERMISSION, text, TLS_CA=authority.certificate, **shown)


# --- tokens -----------------------------------------------------------------------------------------


def test_a_token_by_the_environment_and_by_a_file(
    start: Start, tokens: TokenFile, tmp_path: Path
) -> None:
    token = tokens.put("alice")
    server = start(tokens=tokens.path)
    lets_in(server, TOKEN=token)
    (file := tmp_path / "token").write_text(f"{token}\n")
    lets_in(server, TOKEN_FILE=file)


def test_tokens_that_let_nobody_in(start: Start, tokens: TokenFile) -> None:
    tokens.put("alice")
    over = tokens.put("bob", expires=datetime(2020, 1, 1, tzinfo=UTC))
    server = start(tokens=tokens.path)
    refuses(server.address, NO_PERMISSION, "asks for a token, and the call brought none")
    for token, text in (("x" * 43, "is not one of this server's"), (over, "expired")):
        refuses(server.address, NO_PERMISSION, text, TOKEN=token)


def test_a_token_goes_to_another_machine_by_tls_only() -> None:
    text = "the token would travel to pool.example:5 for all to read"
    refuses("pool.example:5", INVALID, text, TOKEN="x" * 43)


def test_a_token_under_tls(
    start: Start, tokens: TokenFile, pair: Pair, authority: Authority
) -> None:
    token = tokens.put("alice")
    server = start(tokens=tokens.path, tls_certificate=pair.certificate, tls_key=pair.key)
    lets_in(server, TOKEN=token, TLS_CA=authority.certificate)
