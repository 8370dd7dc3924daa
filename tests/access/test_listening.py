"""Where a server listens: what needs protection, and who may open a socket file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from aclnn_client import connect
from aclnn_server.access.listening import check_address
from aclnn_server.config import ConfigError, ServerConfig
from tests.access.conftest import Start

TLS = {"tls_certificate": "server.pem", "tls_key": "server.key"}
TOKENS = {"tokens": "tokens.toml"}
CLIENTS = {"tls_client_ca": "ca.pem"}


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "10.0.0.7", "example.org"])
@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({}, ["without TLS", "without asking who calls"]),
        (TLS, ["without asking who calls"]),
        (TOKENS, ["without TLS"]),
    ],
)
def test_what_other_machines_can_reach_is_protected_or_allowed_not_to_be(
    host: str,
    settings: dict[str, str],
    missing: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_address(ServerConfig(listen=f"{host}:0", **settings))  # type: ignore[arg-type]
    assert f"listen is '{host}:0', which other machines can reach, " in str(caught.value)
    assert [
        w for w in ("without TLS", "without asking who calls") if w in str(caught.value)
    ] == missing
    config = ServerConfig(listen=f"{host}:0", allow_insecure=True, **settings)  # type: ignore[arg-type]
    check_address(config)
    (warning,) = caplog.messages
    assert [w for w in ("without TLS", "without asking who calls") if w in warning] == missing


@pytest.mark.parametrize("who", [TOKENS, CLIENTS, TOKENS | CLIENTS])
def test_tls_and_somebody_who_is_asked_are_enough(
    who: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    check_address(ServerConfig(listen="0.0.0.0:0", **TLS, **who))  # type: ignore[arg-type]
    assert caplog.messages == []


@pytest.mark.parametrize(
    "listen", ["127.0.0.1:0", "127.8.9.1:0", "[::1]:0", "localhost:0", "unix:x"]
)
def test_this_machine_s_own_addresses_need_nothing(
    listen: str, caplog: pytest.LogCaptureFixture
) -> None:
    for settings in (TLS, TOKENS, {}):
        check_address(ServerConfig(listen=listen, **settings))  # type: ignore[arg-type]
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"tls_key": "k"}, "only one of tls_certificate and tls_key is given"),
        ({"tls_certificate": "c"}, "only one of tls_certificate and tls_key is given"),
        ({"tls_client_ca": "ca"}, "tls_client_ca is given without tls_certificate"),
        ({"socket_mode": "999"}, "socket_mode is '999'; it must be three octal digits"),
        ({"socket_mode": "rw-"}, "socket_mode is 'rw-'"),
        ({"max_kept_bytes": 0}, "max_kept_bytes is 0"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ServerConfig(**settings)  # type: ignore[arg-type]


# --- socket files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "bits"), [(None, 0o600), ("660", 0o660), ("0666", 0o666)])
def test_a_socket_file_is_for_whom_it_is_said_to_be(
    start: Start, tmp_path: Path, mode: str | None, bits: int
) -> None:
    path = tmp_path / "serve.sock"
    before = os.umask(0)
    try:
        settings = {} if mode is None else {"socket_mode": mode}
        server = start(listen=f"unix:{path}", **settings)
        assert os.umask(0) == 0  # as it was
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == bits
    with connect(server.address) as context:
        assert context.device == 0
