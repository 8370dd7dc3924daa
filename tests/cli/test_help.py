"""Help, version, and what the command line refuses."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields

import pytest

from aclnn import __version__
from aclnn_server.cli.entry import build_parser
from aclnn_server.cli.exits import Exit
from aclnn_server.config import ServerConfig
from tests.cli.running import Command

COMMANDS = (
    "serve",
    "token",
    "demo",
    "info",
    "ops",
    "call",
    "top",
    "bench",
    "health",
    "diff",
    "stubs",
    "headers",
    "torch",
    "version",
)


def test_the_program_s_help_lists_commands_and_exit_codes(command: Command) -> None:
    answer = command("--help")
    assert (answer.code, answer.err) == (0, "")
    for name in COMMANDS:
        assert f"    {name} " in answer.out
    for code in Exit:
        assert f"  {code.value:<4} {code.meaning}" in answer.out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command(name: str, command: Command) -> None:
    answer = command(name, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"usage: aclnn-serve {name}")
    assert f"examples:\n  {'aclnn-serve ' + name}" in answer.out or "ACLNN_SERVE_" in answer.out


def test_help_has_every_setting_of_the_server(command: Command) -> None:
    out = command("serve", "--help").out
    for setting in fields(ServerConfig):
        assert "--" + setting.name.replace("_", "-") in out


def test_every_example_of_the_help_is_a_valid_command_line(command: Command) -> None:
    seen = 0
    for name in COMMANDS:
        text = command(name, "--help").out.split("examples:\n")[1].split("\n\n")[0]
        for line in text.replace("\\\n", " ").splitlines():
            words = line.split()
            build_parser().parse_args(words[words.index("aclnn-serve") + 1 :])
            seen += 1
    assert seen > len(COMMANDS)


@pytest.mark.parametrize("arguments", [("version",), ("--version",)])
def test_version(arguments: tuple[str, ...], command: Command) -> None:
    answer = command(*arguments)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"aclnn-serve {__version__}, protocol 1\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "the following arguments are required: COMMAND; aclnn-serve --help tells more"),
        (("serv",), "invalid choice: 'serv'"),
        (("serve", "--port", "1"), "unrecognized arguments: --port 1"),
        (("serve", "--list", "x"), "unrecognized arguments: --list x"),
        (("info",), "required: ADDRESS; aclnn-serve info --help tells more"),
        (("info", "x:1", "--timeout", "0"), "--timeout: it is '0'; it must be a number above 0"),
        (("info", "x:1", "--timeout", "soon"), "it is 'soon'"),
        (("info", "nowhere"), "address is 'nowhere' (no port)"),
        (("health", "http://x:1"), "(a URL; leave out what is before the host)"),
        (("ops", "--soc", "ascend911"), "--soc: 'ascend911' is no product; known are reference"),
        (("ops", "--soc", "ascend910b", "--address", "x:1"), "a server has its own rules"),
        (("serve", "--threads", "many"), "--threads is 'many', which is not a whole number"),
        (("serve", "--max-contexts", "0"), "max_contexts is 0; it must be at least 1"),
        (("serve", "--log-level", "loud"), "allowed are debug, info, warning, error"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_code_2(
    arguments: tuple[str, ...], told: str, refusal: Callable[..., str]
) -> None:
    assert told in refusal(*arguments)


@pytest.mark.parametrize(
    "arguments", [("info",), ("ops", "--address"), ("call", "Abs", "--address")]
)
def test_no_server_is_one_line_and_code_6(
    arguments: tuple[str, ...], refusal: Callable[..., str]
) -> None:
    told = refusal(*arguments, "127.0.0.1:1", code=Exit.NO_ANSWER)
    assert "127.0.0.1:1: connection refused; nothing listens there" in told


def test_an_installation_without_the_server_s_packages_says_what_to_install(
    refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "grpc_health.v1", None)
    told = refusal("health", "127.0.0.1:1", code=Exit.NO)
    assert told == "grpc_health.v1 is not installed; pip install 'aclnn-serve[server]' brings it"


def test_a_mistake_of_the_program_is_no_tidy_line(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aclnn_server.cli.ops._list", lambda entries: entries[0].nothing)
    with pytest.raises(AttributeError, match="nothing"):
        command("ops")
