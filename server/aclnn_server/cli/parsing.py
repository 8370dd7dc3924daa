"""The parser of every command: errors in one line, help with examples."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from typing import NoReturn

from aclnn_server.cli.exits import CommandError

PROGRAM = "aclnn-serve"

Run = Callable[[argparse.Namespace], int]
"""Runs a command; returns its exit code."""


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are :class:`CommandError`."""

    def error(self, message: str) -> NoReturn:
        """Raises instead of printing the usage, so that an error is one line."""
        raise CommandError(f"{message}; {self.prog} --help tells more")


Commands = argparse._SubParsersAction
"""Where the commands are added."""


def add_command(
    commands: Commands[Parser], name: str, run: Run, *, summary: str, details: str, examples: str
) -> Parser:
    """Adds a command.

    Args:
        commands: where to.
        name: its name on the command line.
        run: what runs it.
        summary: its line in the list of commands.
        details: what its help says above the flags; may be indented.
        examples: command lines, one a line, and what follows them in the help.
    """
    parser = commands.add_parser(
        name,
        help=summary,
        description=textwrap.dedent(details).strip(),
        epilog=f"examples:\n{textwrap.indent(textwrap.dedent(examples).strip(), '  ')}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


def append_help(parser: Parser, text: str) -> None:
    """Adds a paragraph at the end of a command's help."""
    parser.epilog = f"{parser.epilog}\n\n{text}"


def add_address(parser: Parser) -> None:
    """Adds the positional ADDRESS."""
    parser.add_argument("address", metavar="ADDRESS", help="HOST:PORT or unix:PATH of a server")


def add_timeout(parser: Parser, default: float) -> None:
    """Adds ``--timeout``."""
    parser.add_argument(
        "--timeout",
        type=positive,
        default=default,
        metavar="SECONDS",
        help=f"longest wait for an answer (default: {default:g})",
    )


def positive(text: str) -> float:
    """A number above 0, for a flag."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"it is {text!r}; it must be a number above 0")
    return value
