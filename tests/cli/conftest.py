"""The command in this process, and a server for it to talk to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from aclnn_server.cli import main
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.cli.running import Answer, Command


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs ``aclnn-serve`` with the given arguments."""

    def run(*arguments: object) -> Answer:
        code = main([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return run


@pytest.fixture
def refusal(command: Command) -> Callable[..., str]:
    """Runs a command that is to be refused with code 2; gives its one line, without the beginning."""

    def run(*arguments: object, code: int = 2) -> str:
        answer = command(*arguments)
        assert (answer.code, answer.out) == (code, "")
        assert answer.err.count("\n") == 1
        assert answer.err.startswith("aclnn-serve: ")
        return answer.err.removeprefix("aclnn-serve: ").rstrip("\n")

    return run


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server(ServerConfig(listen="127.0.0.1:0")) as running:
        yield running
