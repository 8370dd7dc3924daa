"""The page on security is done as it says: every command, in order, with real certificates."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aclnn_server.access.token_file import parse
from aclnn_server.cli import main
from aclnn_server.cli.entry import build_parser
from aclnn_server.config import load
from aclnn_server.server import Server
from tests.docs.test_blocks import blocks

PATIENCE = 30.0
PORTS = ("50051", "50052")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Shell:
    """Runs the page's blocks in the current folder: aclnn-serve in this process, all else by bash.

    Servers run on until the end.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.commands = 0
        self._ports = {port: str(free_port()) for port in PORTS}
        self._capsys = capsys
        self._servers: list[Server] = []

    def run(self, block: str) -> None:
        """Runs each command of a block; it must succeed."""
        for command in block.replace("\\\n", " ").splitlines():
            self.commands += 1
            line = self.local(command)
            redirected = re.fullmatch(r"\(umask 077; (aclnn-serve .*) > (\S+)\)", line)
            if redirected:
                Path(redirected[2]).write_text(self._own(redirected[1]))
            elif line.startswith("aclnn-serve "):
                assert self._own(line)
            else:
                self._bash(line)

    def _own(self, line: str) -> str:
        """Runs a command of aclnn-serve; gives what it prints."""
        words = shlex.split(line)[1:]
        if words[0] == "serve":
            self._servers.append(Server(load(vars(build_parser().parse_args(words)), {})))
            return self._servers[-1].start().banner()
        code = main(words)
        out, err = self._capsys.readouterr()
        assert (code, err) == (0, ""), line
        return out

    @staticmethod
    def _bash(line: str) -> None:
        done = subprocess.run(
            ("bash", "-ec", line), capture_output=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)

    def local(self, text: str) -> str:
        """The text with ports that are free here."""
        return re.sub("|".join(PORTS), lambda match: self._ports[match[0]], text)

    def close(self) -> None:
        """Ends the servers."""
        for server in self._servers:
            server.stop(0)


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shell]:
    monkeypatch.chdir(tmp_path)
    shell = Shell(capsys)
    yield shell
    shell.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl command")
def test_the_page_on_security(
    project: Path,
    shell: Shell,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    page = blocks(project / "docs" / "security.md")
    for (language, text), (following, printed) in zip(page, [*page[1:], ("", "")], strict=True):
        if language == "sh":
            shell.run(text)
        elif language == "python":
            exec(compile(shell.local(text), "security.md", "exec"), {})
            assert capsys.readouterr().out == (printed if following == "text" else "")
    assert shell.commands >= 14
    tokens = [path.read_text().strip() for path in Path().glob("*.token")]
    assert len(tokens) == 2
    assert not any(token in caplog.text for token in tokens)


def test_the_file_of_tokens_on_the_page_reads(project: Path) -> None:
    page = blocks(project / "docs" / "security.md")
    (text,) = (text for language, text in page if language == "toml")
    hashes = iter(f"{number:064x}" for number in range(1, 9))
    text = re.sub(r'"\w{3}…"', lambda _: f'"{next(hashes)}"', text)
    entries = parse(text.encode(), "security.md")
    assert [entry.name for entry in entries] == ["alice", "jobs", "operations"]
    assert entries[2].quota.admin
