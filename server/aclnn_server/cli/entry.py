"""The command's beginning and end: picks the subcommand, and turns what it raises into an exit code."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from aclnn import PROTOCOL_VERSION, __version__
from aclnn_server.cli import (
    bench,
    call,
    demo,
    diff,
    doctor,
    headers,
    health,
    info,
    ops,
    serve,
    stubs,
    token,
    top,
    torch,
)
from aclnn_server.cli.exits import CommandError, Exit, describe_exits
from aclnn_server.cli.parsing import PROGRAM, Parser, add_command

_SERVER_EXTRAS = ("grpc_health", "grpc_reflection", "grpc_channelz", "prometheus_client")
"""Packages that a client alone does not need."""
VERSION = f"{PROGRAM} {__version__}, protocol {PROTOCOL_VERSION}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs ``aclnn-serve``.

    Args:
        arguments: the command line after the program's name; the process's own where left out.

    Returns:
        The exit code, see :class:`~aclnn_server.cli.exits.Exit`.
    """
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return Exit.CLOSED_PIPE
    except Exception as error:
        told = _told(error)
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.flush()
        print(f"{PROGRAM}: {told}", file=sys.stderr)
        return told.code
    return code


def _run(arguments: Sequence[str] | None) -> int:
    # What gRPC's own library writes to standard error, a caller reads in our words.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        options = build_parser().parse_args(arguments)
    except SystemExit as end:  # --help and --version
        return int(end.code or 0)
    code: int = options.run(options)
    return code


def _told(error: Exception) -> CommandError:
    """What to tell of an error that is no mistake of this program; others are raised again."""
    if isinstance(error, CommandError):
        return error
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith(_SERVER_EXTRAS):
        text = f"{error.name} is not installed; pip install 'aclnn-serve[server]' brings it"
        return CommandError(text, Exit.NO)
    if isinstance(error, MemoryError):
        return CommandError("this machine has not enough memory free for that", Exit.NO)
    from aclnn.errors import AclnnError, ServerUnavailable

    if isinstance(error, AclnnError):
        code = Exit.NO_ANSWER if isinstance(error, ServerUnavailable) else Exit.NO
        return CommandError(" ".join(str(error).split()), code)
    raise error


def _forget_output() -> None:
    """Keeps Python from complaining, at its end, that nobody reads the rest of the output."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(
        prog=PROGRAM,
        description=(
            "Serves the two-phase aclnn operator API of Ascend NPUs, or of this machine's CPU, over gRPC."
        ),
        epilog=(
            f"examples:\n  {PROGRAM} demo\n  {PROGRAM} serve --listen 127.0.0.1:50051\n"
            f"  {PROGRAM} ops aclnnSmoothL1LossBackward\n\n{describe_exits(*Exit)}"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=VERSION, help="show the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for command in (
        *(serve, token, demo, doctor, info, ops, call, top, bench, health, diff),
        *(stubs, headers, torch),
    ):
        command.add(commands)
    add_command(
        commands,
        "version",
        _print_version,
        summary="show the version",
        details="Shows the version of this program and of the protocol that it speaks.",
        examples=f"{PROGRAM} version",
    )
    return parser


def _print_version(_: argparse.Namespace) -> int:
    print(VERSION)
    return Exit.DONE
