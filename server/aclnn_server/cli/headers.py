"""``aclnn-serve headers``: C functions of the operators that a server has and the C library has not."""

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

HEADERS = Path("include/aclnnop")
SOURCE = Path("src/served_operators.c")
LIBRARY = "libcust_opapi.so"


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "headers",
        run,
        summary="write C headers and functions of a server's own operators",
        details=f"""
            Writes what a C or C++ program needs to call operators that the server has, from plug-ins or an
            installed CANN, and that the C library has not: headers under DIR/{HEADERS}, and
            DIR/{SOURCE}, which is compiled into the program or into a library of its own.
            """,
        examples=f"""
            {PROGRAM} headers 127.0.0.1:50051 served
            {PROGRAM} headers 127.0.0.1:50051 served aclnnScale
            """,
    )
    add_address(parser)
    parser.add_argument("directory", type=Path, metavar="DIR", help="where to; made if missing")
    parser.add_argument("name", nargs="*", metavar="NAME", help="only these; known ones too")
    add_timeout(parser, 10.0)
    add_credentials(parser)
    append_help(parser, describe_exits(Exit.DONE, Exit.NO, Exit.USAGE, Exit.NO_ANSWER))


def run(options: argparse.Namespace) -> int:
    """Asks the server for its catalogue, writes the files, and tells how to compile them."""
    from aclnn_server.operators.catalogue import built_in
    from aclnn_server.operators.texts import c_functions

    operators = ask(options)
    origin = f"Written by {PROGRAM} headers {options.address}."
    root: Path = options.directory
    known = built_in().values()
    for name, text in c_functions.headers(operators, origin, beside=known).items():
        _write(root / HEADERS / name, text)
    _write(root / SOURCE, c_functions.source(operators, origin))
    print(
        f"cc -shared -fPIC -I {root / HEADERS.parent} -I client/cpp/include {root / SOURCE} "
        f"-o {LIBRARY} -L client/cpp/build/lib -lopapi -lnnopbase -lascendcl"
    )
    return Exit.DONE


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    print(path)
