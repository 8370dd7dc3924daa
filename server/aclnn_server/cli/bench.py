"""``aclnn-serve bench``: what calls and transfers cost between here and a server."""

from __future__ import annotations

import argparse
import dataclasses
import json
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
from aclnn_server.cli.remote import add_credentials, connect, credentials
from aclnn_server.cli.tables import indented, size, table

if TYPE_CHECKING:
    from aclnn_server.cli.bench_measures import Calls, Measured

NOT_CONNECTED = (
    "The server offers data connections, and none could be made from here: large tensors went in "
    "messages.\nIs the server's --data-port open to this machine?"
)


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "bench",
        run,
        summary="measure calls and transfers between here and a server",
        details="""
            Measures what a client on this machine gets from a server, in about ten seconds: how long a small
            call takes, in one line and in two phases; how many run a second when they do not wait for each
            other; and how fast tensors go up and down, by size, and by what they go: shared memory, a data
            connection, or messages over TCP or a Unix socket.

            It opens a context of its own, in which it holds less than 200 MiB of device memory. Other clients
            slow it down, and it slows them down.
            """,
        examples=f"""
            {PROGRAM} bench 127.0.0.1:50051
            {PROGRAM} bench unix:/run/aclnn.sock --seconds 3 --json
            """,
    )
    add_address(parser)
    parser.add_argument("--device", type=int, metavar="N", help="device (default: the least used)")
    parser.add_argument(
        "--seconds",
        type=positive,
        default=10.0,
        help="time to take about (default: 10); more gives steadier figures",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    add_timeout(parser, 30.0)
    add_credentials(parser)
    append_help(parser, describe_exits(Exit.DONE, Exit.NO, Exit.USAGE, Exit.NO_ANSWER))


def run(options: argparse.Namespace) -> int:
    """Measures and prints."""
    from aclnn_server.cli.bench_measures import measure

    known = credentials(options)
    with connect(options.address, options.timeout, known, device=options.device) as context:
        measured = measure(context, options.seconds)
    if options.json:
        print(json.dumps(dataclasses.asdict(measured), indent=2))
    else:
        print(_as_text(measured))
    return Exit.DONE


def _as_text(measured: Measured) -> str:
    head = (
        f"{PROGRAM} {measured.version} at {measured.address}, backend {measured.backend}, "
        f"device {measured.device}\n{measured.operator}, FLOAT, {measured.elements} elements"
    )
    parts = [head, indented(_calls(measured)), indented(_transfers(measured))]
    return "\n\n".join([*parts, NOT_CONNECTED] if _not_connected(measured) else parts)


def _calls(measured: Measured) -> str:
    rows = [
        ("one line", *_latency(measured.one_line)),
        ("two phases and synchronize", *_latency(measured.two_phases)),
        (f"two phases, {measured.in_flight_calls} in flight", "", "", round(measured.in_flight)),
    ]
    return table(("call", "p50 µs", "p99 µs", "calls/s"), rows)


def _latency(calls: Calls) -> tuple[int, ...]:
    values = (calls.p50_seconds * 1e6, calls.p99_seconds * 1e6, calls.calls_per_second)
    return tuple(map(round, values))


def _transfers(measured: Measured) -> str:
    rows = [
        (
            size(row.bytes),
            _rate(row.upload_bytes_per_second),
            _rate(row.download_bytes_per_second),
            row.transport,
        )
        for row in measured.transfers
    ]
    return table(("transfer", "up MiB/s", "down MiB/s", "by"), rows)


def _not_connected(measured: Measured) -> bool:
    """Whether data connections are offered, and tensors that are large enough went in messages."""
    from aclnn_client.data_connection import DATA_BYTES
    from aclnn_server.access.data import DATA_CONNECTION

    in_messages = [row for row in measured.transfers if row.transport == "tcp"]
    return DATA_CONNECTION in measured.features and any(
        row.bytes >= DATA_BYTES for row in in_messages
    )


def _rate(value: float) -> int:
    return round(value / 2**20)
