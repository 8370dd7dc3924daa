"""The metrics' own port: ``/metrics`` for Prometheus, ``/status.json`` for programs, ``/`` for people.

``/live`` and ``/ready`` are for whoever starts and stops the server, and are answered without a token.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from socketserver import TCPServer
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from aclnn.errors import AclnnError
from aclnn.overview import as_json
from aclnn_server.metrics.collector import ServerCollector
from aclnn_server.metrics.overview import Observer
from aclnn_server.metrics.sources import Sources

THREADS = 4
"""Requests that are answered at the same time; more wait."""
PATIENCE_SECONDS = 10.0
"""Longest wait for a part of a request, or for one to be taken."""

_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")

_LOG = logging.getLogger(__name__)

Admit = Callable[[str], None]
"""Lets a request in by its ``Authorization`` header, or raises why not."""
Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with."""

    body: bytes
    kind: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()


class Site:
    """What is at which path, and who may see it."""

    def __init__(
        self,
        sources: Sources,
        observer: Observer,
        loopback: str | None = None,
        admit: Admit | None = None,
    ) -> None:
        """Puts it together.

        Args:
            sources: what there is to tell.
            observer: tells it to people.
            loopback: host that is listened on, where only this machine can reach it.
            admit: lets requests in; ``None``: all of them.
        """
        self._sources = sources
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(ServerCollector(sources))
        ProcessCollector(registry=self._registry)
        self._observer = observer
        self._names = None if loopback is None else {loopback.strip("[]").lower(), *_LOCAL_NAMES}
        self._admit = admit
        page = files("aclnn_server.metrics").joinpath("page.html").read_text("utf-8")
        self._page = Answer(
            page.encode(),
            "text/html; charset=utf-8",
            headers=(("Content-Security-Policy", _policy(page)),),
        )
        self._paths: dict[str, Callable[[Headers], Answer]] = {
            "/": lambda _: self._page,
            "/metrics": self._metrics,
            "/status.json": self._status,
        }
        self._probes = {"/live": lambda: Answer(b"alive\n"), "/ready": self._ready}

    def answer(self, path: str, headers: Headers) -> Answer:
        """Answers a request for a path."""
        name = re.sub(r":\d+$", "", headers.get("Host", "")).strip("[]").lower()
        # A page of elsewhere, whose name was made to lead here, must not read what is here.
        if self._names is not None and name not in self._names:
            return _refusal(
                HTTPStatus.FORBIDDEN, "ask by a name of this machine, such as localhost"
            )
        path = path.partition("?")[0]
        if path in self._probes:
            return self._probes[path]()
        tell = self._paths.get(path)
        if tell is None:
            there = ", ".join((*self._paths, *self._probes))
            return _refusal(HTTPStatus.NOT_FOUND, f"there are {there}")
        if self._admit is not None:
            try:
                self._admit(_bearer(headers.get("Authorization", "")))
            except AclnnError as error:
                how = ("WWW-Authenticate", 'Basic realm="aclnn-serve: the password is the token"')
                return _refusal(HTTPStatus.UNAUTHORIZED, error.message, how)
        return tell(headers)

    def _ready(self) -> Answer:
        if self._sources.ready():
            return Answer(b"ready\n")
        return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the server takes no new contexts")

    def _metrics(self, headers: Headers) -> Answer:
        encode, kind = choose_encoder(headers.get("Accept", ""))
        return Answer(encode(self._registry), kind)

    def _status(self, _: Headers) -> Answer:
        return Answer(json.dumps(as_json(self._observer.look())).encode(), "application/json")


def _refusal(status: HTTPStatus, text: str, *headers: tuple[str, str]) -> Answer:
    return Answer(f"{text}\n".encode(), status=status, headers=headers)


def _policy(page: str) -> str:
    """A policy by which a browser runs and styles the page with what is in it, and nothing else."""

    def allowed(tag: str) -> str:
        found = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert found is not None
        digest = hashlib.sha256(found[1].encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; script-src {allowed('script')}; style-src {allowed('style')}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _bearer(authorization: str) -> str:
    """The header as a bearer's; browsers can only ask for a name and a password, which is the token."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() != "basic":
        return authorization
    try:
        password = base64.b64decode(rest, validate=True).decode().partition(":")[2]
    except ValueError:
        return authorization
    return f"Bearer {password}"


# --- the port ---------------------------------------------------------------------------------------


class Endpoint:
    """Serves a site over HTTP."""

    def __init__(
        self, listen: str, site: Site, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        """Listens; nothing is answered before :meth:`start`.

        Args:
            listen: ``HOST:PORT``, where an IPv6 host has brackets and port 0 picks one.
            site: what is answered.
            tls: gives what a connection is encrypted with; ``None``: it is not.

        Raises:
            OSError: the address is in use or not this machine's.
        """
        self._host, _, port = listen.rpartition(":")
        self._server = _Server(self._host.strip("[]"), int(port), site, tls)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="aclnn-metrics", daemon=True
        )

    @property
    def address(self) -> str:
        """``HOST:PORT`` with the real port."""
        return f"{self._host}:{self._server.server_port}"

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def close(self) -> None:
        """Ends it, after the requests in hand."""
        if self._thread.is_alive():
            self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that listens
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(HTTPServer):
    """Answers each connection in one of a few threads, and encrypts it there."""

    def __init__(
        self, host: str, port: int, site: Site, tls: Callable[[], ssl.SSLContext] | None
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.site = site
        self._tls = tls
        self._threads = ThreadPoolExecutor(THREADS, "aclnn-metrics")
        super().__init__((host, port), _Request)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's looks the name up, and may wait for that
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        self._threads.submit(self._serve, request, client_address)

    def _serve(self, request: socket.socket, client_address: object) -> None:
        try:
            request.settimeout(PATIENCE_SECONDS)
            if self._tls is not None:
                request = self._tls().wrap_socket(request, server_side=True)
            self.finish_request(request, client_address)
        except OSError:
            pass  # the one who asked is gone, or no friend
        except Exception:
            _LOG.exception("a request to the metrics' port failed")
        finally:
            self.shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        self._threads.shutdown()


class _Request(BaseHTTPRequestHandler):
    """One connection, with one request."""

    server_version = "aclnn-serve"
    sys_version = ""

    def do_GET(self) -> None:
        """Answers."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answers without a body."""
        self._answer()

    def _answer(self) -> None:
        assert isinstance(self.server, _Server)
        answer = self.server.site.answer(self.path, self.headers)  # type: ignore[arg-type]
        self.send_response(answer.status)
        for name, value in (
            ("Content-Type", answer.kind),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *answer.headers,
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def address_string(self) -> str:
        """The address, with no look-up of its name."""
        return str(self.client_address[0])

    def log_message(self, format: str, *arguments: object) -> None:
        """Logs at debug."""
        _LOG.debug("%s: %s", self.address_string(), format % arguments)
