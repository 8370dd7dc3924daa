"""``aclnn-serve stubs``: typed functions of the operators that a server has and this package has not."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
from aclnn_server.cli.remote import add_credentials, connection, credentials

if TYPE_CHECKING:
    from aclnn.dtypes import DType
    from aclnn.pythonic import Pythonic
    from aclnn.signatures import Signature
    from aclnn_client.info import OperatorInfo


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
    from aclnn_server.operators.stubs import module

    operators = _ask(options)
    if not operators:
        raise CommandError(f"{options.address} has no operator that is not known here", Exit.NO)
    text = module(options.address, operators)
    if options.output is None:
        print(text, end="")
    else:
        _write(options.output, text)
    return Exit.DONE


@dataclass(frozen=True, slots=True)
class _Served:
    """An operator as its server tells of it."""

    name: str
    signature: Signature
    summary: str
    description: str
    dtypes: Mapping[str, tuple[DType, ...]]
    python: Pythonic | None


def _ask(options: argparse.Namespace) -> list[_Served]:
    from aclnn_client.info import ask_operator, ask_operators
    from aclnn_client.ops import SIGNATURES

    with connection(options.address, options.timeout, credentials(options)) as server:
        names = options.name or [
            info.name for info in ask_operators(server) if info.name not in SIGNATURES
        ]
        return [_described(ask_operator(server, name)) for name in names]


def _described(info: OperatorInfo) -> _Served:
    allowed = {row.name: row.dtypes for row in info.parameters}
    return _Served(
        info.name,
        info.signature(),
        info.summary or "The server tells nothing of it.",
        info.description or "The server does not describe it.",
        allowed,
        info.python,
    )


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    print(path)
