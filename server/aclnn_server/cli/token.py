"""``aclnn-serve token``: makes the token of a client, and its lines for the server's file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from aclnn_server.cli.exits import CommandError, Exit, describe_exits
from aclnn_server.cli.parsing import PROGRAM, Commands, Parser, add_command, append_help
from aclnn_server.config import ConfigError

_FILE = """
the file: a TOML table for each name; every key but one of sha256 and token may be left out
  [alice]
  sha256 = "…"               hash of the token; a list while one token takes another's place
  token = "…"                or the token itself, of 20 characters or more
  expires = 2027-01-31       a day (its beginning, UTC) or a time such as 2027-01-31T12:00:00Z
  memory_bytes = 8589934592  bytes of device memory of all its contexts
  contexts = 4               contexts at the same time
  contexts_per_second = 2    new contexts; ten seconds' worth at once
  calls_per_second = 500     calls and requests of open calls; a second's worth at once
  devices = [0, 1]           devices that it may see and use
  admin = true               sees what others hold (totals only), and connections (channelz)

A server reads the file again when it changes. Who is in it no more is out at once: its calls end, and its
contexts with all that they hold."""


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "token",
        run,
        summary="make a token for a client",
        details="""
            Makes a token of 256 random bits and tells it, once: a server keeps only its hash. With --file the
            lines for the server are put into its file, and nothing but the token is printed; without, both
            are printed. Clients give the token to connect(…, token=…), commands take it by --token-file.
            """,
        examples=f"""
            {PROGRAM} token alice --file tokens.toml
            {PROGRAM} token batch-jobs --contexts 8 --memory-bytes 17179869184 --expires 2027-01-31
            """,
    )
    parser.add_argument("name", metavar="NAME", help="whose it is; logs and metrics tell it")
    parser.add_argument("--file", type=Path, help="file of the server's --tokens, to add it to")
    parser.add_argument("--expires", type=_moment, metavar="DATE", help="when it ends to be good")
    parser.add_argument("--memory-bytes", type=int, metavar="N", help="device memory, in all")
    parser.add_argument("--contexts", type=int, metavar="N", help="contexts at the same time")
    parser.add_argument(
        "--contexts-per-second", type=float, metavar="N", help="new contexts, on average"
    )
    parser.add_argument("--calls-per-second", type=float, metavar="N", help="calls, on average")
    parser.add_argument("--devices", type=_numbers, metavar="N,N", help="devices that it may use")
    parser.add_argument("--admin", action="store_true", help="sees what all others hold together")
    append_help(parser, f"{_FILE.strip()}\n\n{describe_exits(Exit.DONE, Exit.NO, Exit.USAGE)}")


def run(options: argparse.Namespace) -> int:
    """Makes the token, and tells it."""
    from aclnn_server.access.token_file import make_token, write_entry

    token = make_token()
    try:
        entry = write_entry(options.name, token, dict(_settings(options)))
        if options.file is not None:
            _append(options.file, options.name, entry)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    if options.file is not None:
        print(token)
    else:
        print(
            f"the token, told this once:\n{token}\n\nlines for the server's file:\n{entry}", end=""
        )
    return Exit.DONE


def _settings(options: argparse.Namespace) -> Iterator[tuple[str, object]]:
    keys = ("expires", "memory_bytes", "contexts", "contexts_per_second", "calls_per_second")
    for key in (*keys, "devices", "admin"):
        value = getattr(options, key)
        if value is not None and value is not False:
            yield key, value


def _append(path: Path, name: str, entry: str) -> None:
    from aclnn_server.access.token_file import parse

    try:
        before = path.read_bytes() if path.exists() else b""
        if before.strip():
            if name in {known.name for known in parse(before, str(path))}:
                raise CommandError(f"{path} has a token of {name} already")
            entry = ("" if before.endswith(b"\n") else "\n") + "\n" + entry
        # In one piece, for its user only where it is new.
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(file, "w") as output:
            output.write(entry)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", Exit.NO) from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"it is {text!r}; it must be as 2027-01-31") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"it is {text!r}; it must be numbers such as 0,1"
        ) from None
