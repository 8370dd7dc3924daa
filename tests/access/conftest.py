"""Servers that are protected: their certificates, their tokens, and clients of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aclnn_server.access.token_file import make_token, write_entry
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.access.pki import Authority, Pair
from tests.service.gated import GatedBackend

HERE = ("localhost", "127.0.0.1", "::1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a module's certificates are."""
    return tmp_path_factory.mktemp("pki")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    """An authority that both sides trust."""
    return Authority(folder, "trusted")


@pytest.fixture(scope="module")
def stranger(folder: Path) -> Authority:
    """An authority that nobody knows."""
    return Authority(folder, "stranger")


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    """A server's certificate for this machine."""
    return authority.issue("server", HERE)


@pytest.fixture
def backend() -> Iterator[GatedBackend]:
    """A backend of four devices; when the test is over it must be clean."""
    backend = GatedBackend(devices=4)
    yield backend
    backend.gates.open_all()
    backend.check_clean()


Start = Callable[..., Server]


@pytest.fixture
def start(backend: GatedBackend) -> Iterator[Start]:
    """Starts servers of `backend` with the settings given."""
    servers: list[Server] = []

    def begin(**settings: object) -> Server:
        texts = {k: str(v) if isinstance(v, Path) else v for k, v in settings.items()}
        config = ServerConfig(**({"listen": "127.0.0.1:0"} | texts))  # type: ignore[arg-type]
        servers.append(Server(config, backend=backend))
        return servers[-1].start()

    yield begin
    backend.gates.open_all()
    for server in servers:
        server.stop(0)


class TokenFile:
    """A file of tokens, and the tokens."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tokens: dict[str, str] = {}
        self._settings: dict[str, dict[str, object]] = {}

    def put(self, name: str, **settings: object) -> str:
        """Adds a token of that name, or gives it other settings; the file changes at once."""
        self.tokens.setdefault(name, make_token())
        self._settings[name] = settings
        self.write()
        return self.tokens[name]

    def replace(self, name: str) -> str:
        """Gives a name another token."""
        del self.tokens[name]
        return self.put(name, **self._settings[name])

    def take_out(self, name: str) -> None:
        """Removes a name."""
        del self.tokens[name], self._settings[name]
        self.write()

    def write(self, more: str = "") -> None:
        """Writes the file, all at once."""
        entries = [write_entry(n, t, self._settings[n]) for n, t in self.tokens.items()]
        new = self.path.with_suffix(".new")
        new.write_text("\n".join([*entries, more]))
        new.replace(self.path)


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    """A file of tokens."""
    return TokenFile(tmp_path / "tokens.toml")
