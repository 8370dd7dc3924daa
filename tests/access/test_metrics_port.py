"""The metrics' port is protected as the calls are, and for administrators."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from pathlib import Path

import pytest

from aclnn_server.config import ConfigError, ServerConfig
from aclnn_server.metrics.port import check_address
from aclnn_server.server import Server
from tests.access.conftest import HERE, Start, TokenFile
from tests.access.pki import Authority, Pair

PATIENCE = 30.0


def ask(
    server: Server, trust: Path, own: Pair | None = None, authorization: str = ""
) -> tuple[int, str]:
    """Status and body of what the port answers over TLS."""
    context = ssl.create_default_context(cafile=str(trust))
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    assert server.metrics_address is not None
    connection = http.client.HTTPSConnection(
        server.metrics_address, timeout=PATIENCE, context=context
    )
    try:
        headers = {"Authorization": authorization} if authorization else {}
        connection.request("GET", "/status.json", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_tls_and_an_administrator_s_token(
    start: Start, pair: Pair, authority: Authority, tokens: TokenFile
) -> None:
    alice, boss = tokens.put("alice"), tokens.put("boss", admin=True)
    server = start(
        metrics_listen="127.0.0.1:0",
        tls_certificate=pair.certificate,
        tls_key=pair.key,
        tokens=tokens.path,
    )
    trust = authority.certificate
    status, body = ask(server, trust, authorization=f"Bearer {boss}")
    assert (status, json.loads(body)["ready"]) == (200, True)
    password = base64.b64encode(f"anyone:{boss}".encode()).decode()
    assert ask(server, trust, authorization=f"Basic {password}")[0] == 200
    for authorization, told in (
        ("", "this server asks for a token"),
        ("Bearer wrong", "the token is not one of this server's"),
        (f"Bearer {alice}", "the token 'alice' may not look at other clients"),
    ):
        status, body = ask(server, trust, authorization=authorization)
        assert status == 401
        assert told in body


def test_certificates_of_clients_and_files_that_change(
    start: Start, authority: Authority, stranger: Authority
) -> None:
    mine, new = authority.issue("metrics", HERE), stranger.issue("metrics-new", HERE)
    server = start(
        metrics_listen="127.0.0.1:0",
        tls_certificate=mine.certificate,
        tls_key=mine.key,
        tls_client_ca=authority.certificate,
    )
    prometheus = authority.issue("prometheus", ["prometheus"])
    assert ask(server, authority.certificate, prometheus)[0] == 200
    for own in (None, stranger.issue("mallory", ["prometheus"])):
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            ask(server, authority.certificate, own)
    mine.certificate.write_bytes(new.certificate.read_bytes())
    mine.key.write_bytes(new.key.read_bytes())
    for _ in range(2):
        server._entrance.watch.look()
    assert ask(server, stranger.certificate, prometheus)[0] == 200


def test_where_other_machines_can_reach_it_the_same_protection_is_needed() -> None:
    tls = {"tls_certificate": "server.pem", "tls_key": "server.key"}
    for settings, missing in (
        ({}, "without TLS"),
        (tls, "without asking who calls"),
        ({"tokens": "t"}, "without TLS"),
    ):
        config = ServerConfig(metrics_listen="0.0.0.0:0", **settings)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=f"metrics_listen is .*{missing}"):
            check_address(config)
    config = ServerConfig(metrics_listen="0.0.0.0:0", tokens="t", **tls)  # type: ignore[arg-type]
    check_address(config)
