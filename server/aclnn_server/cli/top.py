"""``aclnn-serve top``: what a server does, as a table that keeps up."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator
from typing import TYPE_CHECKING

from aclnn_server.cli.exits import Exit, describe_exits
from aclnn_server.cli.parsing import (
    PROGRAM,
    Commands,
    Parser,
    add_address,
    add_command,
    add_timeout,
    append_help,
    positive,
)
from aclnn_server.cli.remote import add_credentials, connection, credentials

if TYPE_CHECKING:
    from aclnn.overview import Overview
    from aclnn_client.connection import Connection

INTERVAL_SECONDS = 2.0
"""Time between two looks."""
FIRST_LOOK_SECONDS = 1.0
"""Time that the rates of a single look are of."""


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "top",
        run,
        summary="show what a server does now",
        details="""
            Shows who uses which device, what waits, how many calls a second are made and where their time
            goes, and keeps it up to date until q or Ctrl-C. Where standard output is no terminal, one look
            follows the other.
            """,
        examples=f"""
            {PROGRAM} top 127.0.0.1:50051
            {PROGRAM} top unix:/run/aclnn.sock --once
            {PROGRAM} top npu-1.example.org:50051 --tls-ca ca.pem --token-file admin.token --json
            """,
    )
    add_address(parser)
    parser.add_argument(
        "--once", action="store_true", help="one look, with rates of one second, and no more"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line for each look, for programs"
    )
    parser.add_argument(
        "--interval",
        type=positive,
        default=INTERVAL_SECONDS,
        metavar="SECONDS",
        help=f"time between two looks (default: {INTERVAL_SECONDS:g})",
    )
    parser.add_argument(
        "--contexts", type=int, default=0, metavar="N", help="contexts to list (default: 100)"
    )
    parser.add_argument(
        "--streams", type=int, default=0, metavar="N", help="streams of each (default: 16)"
    )
    add_timeout(parser, 5.0)
    add_credentials(parser)
    append_help(parser, describe_exits(Exit.DONE, Exit.NO, Exit.USAGE, Exit.NO_ANSWER))


def run(options: argparse.Namespace) -> int:
    """Looks and shows, once or until it is told to stop."""
    with connection(options.address, options.timeout, credentials(options)) as server:
        if options.once:
            _look(server, options)
            time.sleep(FIRST_LOOK_SECONDS)
            _print(_look(server, options), options)
        elif options.json or not sys.stdout.isatty():
            _follow(server, options)
        else:
            _keep_up(server, options)
    return Exit.DONE


def _look(server: Connection, options: argparse.Namespace) -> Overview:
    from aclnn_client.overview import ask_overview

    return ask_overview(server, options.contexts, options.streams)


def _print(overview: Overview, options: argparse.Namespace) -> None:
    from aclnn.overview import as_json
    from aclnn_server.cli.top_frame import frame

    if options.json:
        print(json.dumps(as_json(overview)), flush=True)
    else:
        print("\n".join(frame(overview, options.address)), flush=True)


def _follow(server: Connection, options: argparse.Namespace) -> None:
    while True:
        _print(_look(server, options), options)
        time.sleep(options.interval)
        if not options.json:
            print()


# --- on a terminal ----------------------------------------------------------------------------------

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _REST, _BOLD, _PLAIN = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[1m", "\x1b[0m"


def _keep_up(server: Connection, options: argparse.Namespace) -> None:
    from aclnn.errors import ServerUnavailable
    from aclnn_server.cli.top_frame import frame

    lines = frame(_look(server, options), options.address)  # what is wrong at once is told plainly
    with _screen():
        while True:
            width, height = shutil.get_terminal_size()
            sys.stdout.write(_drawn([line[:width] for line in lines[:height]]))
            sys.stdout.flush()
            if _asked_to_stop(options.interval):
                return
            try:
                lines = frame(_look(server, options), options.address, height)
            except ServerUnavailable as error:
                lines = [error.message, *lines[1:]]


def _drawn(lines: list[str]) -> str:
    bold = not os.environ.get("NO_COLOR")
    first = f"{_BOLD}{lines[0]}{_PLAIN}" if bold else lines[0]
    text = f"{_END_OF_LINE}\n".join([first, *lines[1:]])
    return f"{_HOME}{text}{_END_OF_LINE}{_REST}"


@contextlib.contextmanager
def _screen() -> Iterator[None]:
    """A screen of its own, which leaves the terminal as it was."""
    keyboard = sys.stdin.isatty()
    before = termios.tcgetattr(sys.stdin) if keyboard else None
    try:
        if keyboard:
            tty.setcbreak(sys.stdin)
        sys.stdout.write(_ENTER)
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        if before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _asked_to_stop(seconds: float) -> bool:
    """Waits; returns whether q was pressed meanwhile."""
    if not sys.stdin.isatty():
        time.sleep(seconds)
        return False
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left)[0] and os.read(sys.stdin.fileno(), 1) in b"qQ":
            return True
    return False
