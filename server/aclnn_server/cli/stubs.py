"""``aclnn-serve stubs``: typed functions of the operators that a server has and this package has not."""

from __future__ import annotations

import argparse
from pathlib import Path

from aclnn_server.cli.exits import CommandError, Exit, describe_exits
from aclnn_server.cli.parsing import (
    PROGRAM,
    Commands,
    Parser,
    add_address,
    add_command,
    add_timeout,
    append_help,
)
from aclnn_server.cli.remote import add_credentials
from aclnn_server.cli.served_operators import ask


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "stubs",
        run,
        summary="write typed functions of a server's own operators",
        details="""
            Writes a Python module with typed functions of the operators that the server has, from plug-ins or
            an installed CANN, and that this installation's aclnn_client.ops has not.
            """,
        examples=f"""
            {PROGRAM} stubs 127.0.0.1:50051 --output served_ops.py
            {PROGRAM} stubs 127.0.0.1:50051 aclnnScale
            """,
    )
    add_address(parser)
    parser.add_argument("name", nargs="*", metavar="NAME", help="only these; known ones too")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to (default: print)")
    add_timeout(parser, 10.0)
    add_credentials(parser)
    append_help(parser, describe_exits(Exit.DONE, Exit.NO, Exit.USAGE, Exit.NO_ANSWER))


def run(options: argparse.Namespace) -> int:
    """Asks the server for its catalogue, and writes the module."""
    from aclnn_server.operators.texts.stubs import module

    text = module(options.address, ask(options))
    if options.output is None:
        print(text, end="")
    else:
        _write(options.output, text)
    return Exit.DONE


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    print(path)
