"""The metrics' port answers what it is for, to those who may ask, and cannot be kept from it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket

import pytest

from aclnn_server.access.listening import ListenError
from aclnn_server.config import ConfigError, ServerConfig
from aclnn_server.metrics.endpoint import THREADS, Answer, Site
from aclnn_server.server import Server
from tests.metrics.asking import ask
from tests.metrics.conftest import Start


def test_without_the_flag_nothing_listens() -> None:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        assert server.metrics_address is None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/metrics", "text/plain; version=1.0.0; charset=utf-8; escaping=underscores"),
        ("/status.json", "application/json"),
        ("/live", "text/plain; charset=utf-8"),
        ("/ready", "text/plain; charset=utf-8"),
    ],
)
def test_what_is_there(server: Server, path: str, kind: str) -> None:
    answer, body = ask(server, f"{path}?x=1")
    assert (answer.status, answer.headers["X-Content-Type-Options"]) == (200, "nosniff")
    assert answer.headers["Content-Type"].split(";")[0] == kind.split(";")[0]
    assert answer.headers["Cache-Control"] == "no-store"
    assert len(body) == int(answer.headers["Content-Length"]) > 0
    head, empty = ask(server, path, "HEAD")
    assert (head.status, head.headers["Content-Type"], empty) == (
        200,
        answer.headers["Content-Type"],
        b"",
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/secret", 404), ("GET", "/metrics/..", 404), ("POST", "/metrics", 501)],
)
def test_what_is_not_there(server: Server, method: str, path: str, status: int) -> None:
    answer, _ = ask(server, path, method)
    assert answer.status == status


def test_the_page_runs_nothing_but_what_is_in_it(server: Server) -> None:
    answer, body = ask(server, "/")
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), body, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy
    assert re.findall(rb"(?:src|href)=\"(?!/|data:)", body) == []


@pytest.mark.parametrize("name", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_pages_of_elsewhere_cannot_ask_a_loopback_address(server: Server, name: str) -> None:
    answer, body = ask(server, "/status.json", Host=name)
    assert (answer.status, body) == (403, b"ask by a name of this machine, such as localhost\n")


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:9464", "127.0.0.1:1", "[::1]:9464"])
def test_a_loopback_address_has_names(server: Server, name: str) -> None:
    assert ask(server, "/status.json", Host=name)[0].status == 200


def test_ipv6(start: Start) -> None:
    try:
        server = start(metrics_listen="[::1]:0")
    except ListenError:
        pytest.skip("this machine has no IPv6")
    assert ask(server, "/status.json")[0].status == 200
    assert re.fullmatch(r"\[::1\]:\d+", str(server.metrics_address))


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "metrics.example:9464"])
def test_other_machines_can_ask_only_where_that_is_allowed(listen: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"metrics_listen is {listen!r}, which other")):
        Server(ServerConfig(listen="127.0.0.1:0", metrics_listen=listen))


@pytest.mark.parametrize("listen", ["9464", "localhost", ":9464", "localhost:x", "localhost:65536"])
def test_an_address_that_is_none_is_refused(listen: str) -> None:
    with pytest.raises(ConfigError, match=r"it must be HOST:PORT with a port of 0 to 65535"):
        Server(ServerConfig(listen="127.0.0.1:0", metrics_listen=listen))


def test_an_address_in_use_keeps_the_server_from_starting(server: Server) -> None:
    taken = server.metrics_address
    assert taken is not None
    second = Server(ServerConfig(listen="127.0.0.1:0", metrics_listen=taken))
    with pytest.raises(ListenError, match=f"cannot serve metrics on {taken}: "):
        second.start()


def test_a_token_is_asked_for_as_a_bearers_or_as_a_browsers_password() -> None:
    from aclnn.errors import UnauthenticatedError

    asked: list[str] = []

    def admit(authorization: str) -> None:
        asked.append(authorization)
        if authorization != "Bearer s3cret":
            raise UnauthenticatedError("the token is not one of this server's")

    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        site = Site(server._sources, server._observer, admit=admit)

    def answer(authorization: str | None) -> Answer:
        given = {} if authorization is None else {"Authorization": authorization}
        return site.answer("/status.json", given)

    password = base64.b64encode(b"anyone:s3cret").decode()
    assert [answer("Bearer s3cret").status, answer(f"Basic {password}").status] == [200, 200]
    for wrong in (None, "Bearer x", "Basic !", f"Basic {base64.b64encode(b'a:b').decode()}"):
        refused = answer(wrong)
        assert refused.status == 401
        assert refused.body == b"the token is not one of this server's\n"
        assert dict(refused.headers)["WWW-Authenticate"].startswith("Basic realm=")
    asked.clear()
    assert [site.answer(path, {}).status for path in ("/live", "/ready")] == [
        200,
        503,
    ]  # it stopped
    assert asked == []


def test_clients_that_say_nothing_keep_nobody_waiting_for_ever(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aclnn_server.metrics.endpoint.PATIENCE_SECONDS", 0.05)
    host, _, port = str(server.metrics_address).rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(2 * THREADS)]
    answer, body = ask(server, "/status.json")
    assert answer.status == 200
    assert json.loads(body)["ready"] is True
    for each in silent:
        each.close()


def test_the_port_tells_that_the_server_drains(start: Start) -> None:
    server = start()
    server._server_calls.draining = True
    server._health.set_ready(ready=False)
    assert json.loads(ask(server, "/status.json")[1])["ready"] is False
    assert b"\naclnn_serve_ready 0.0\n" in ask(server, "/metrics")[1]
    answer, body = ask(server, "/ready")
    assert (answer.status, body) == (503, b"the server takes no new contexts\n")
    assert ask(server, "/live")[0].status == 200
