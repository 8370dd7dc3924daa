"""``aclnn-serve info``: what a server is, has and holds."""

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
)
from aclnn_server.cli.remote import add_credentials, connection, credentials
from aclnn_server.cli.tables import indented, seconds, size, table

if TYPE_CHECKING:
    from aclnn_client.info import ServerInfo


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "info",
        run,
        summary="show what a server is, has and holds",
        details="Shows a server's version, backend, devices, limits, usage, features and operators.",
        examples=f"""
            {PROGRAM} info 127.0.0.1:50051
            {PROGRAM} info unix:/run/aclnn.sock --json
            {PROGRAM} info npu-1.example.org:50051 --tls-ca ca.pem --token-file alice.token
            """,
    )
    add_address(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    add_timeout(parser, 5.0)
    add_credentials(parser)
    append_help(parser, describe_exits(Exit.DONE, Exit.USAGE, Exit.NO_ANSWER))


def run(options: argparse.Namespace) -> int:
    """Asks and prints."""
    from aclnn_client.info import ask_info, ask_operators

    with connection(options.address, options.timeout, credentials(options)) as server:
        info = ask_info(server)
        operators = [operator.name for operator in ask_operators(server)]
    if options.json:
        print(json.dumps(dataclasses.asdict(info) | {"operators": operators}, indent=2))
    else:
        print(_as_text(options.address, info, operators))
    return Exit.DONE


def _as_text(address: str, info: ServerInfo, operators: list[str]) -> str:
    facts = {
        "protocol": " to ".join(map(str, sorted(set(info.protocol)))),
        "backend": info.backend,
        "dtype rules": info.soc,
        "lease": seconds(info.default_lease_seconds),
        "features": ", ".join(info.features) or "none",
        "operators": _names(operators, address),
    }
    lines = [f"{PROGRAM} {info.version} at {address}"]
    lines += [f"  {name:<13}{value}" for name, value in facts.items()]
    return "\n".join([*lines, "", indented(_devices(info)), "", indented(_holdings(info))])


def _names(names: list[str], address: str) -> str:
    if len(names) <= 5:
        return ", ".join(names) or "none"
    return f"{len(names)}; {PROGRAM} ops --address {address} lists them"


def _devices(info: ServerInfo) -> str:
    rows = [
        (
            device.index,
            device.name,
            _memory(device.free_bytes),
            _memory(device.total_bytes),
            device.context_count,
        )
        for device in info.devices
    ]
    return table(("device", "name", "free", "total", "contexts"), rows)


def _memory(count: int) -> str:
    return size(count) if count else "?"


def _holdings(info: ServerInfo) -> str:
    """What all contexts hold, beside what each may hold."""
    usage, limits = info.usage, info.limits
    rows = [
        ("contexts", usage.contexts, _limit(limits.contexts), "server"),
        ("streams", usage.streams, _limit(limits.streams), "context"),
        ("buffers", usage.buffers, _limit(limits.buffers), "context"),
        ("memory", size(usage.bytes), _limit_of_bytes(limits.context_bytes), "context"),
        ("executors", usage.executors, _limit(limits.executors), "context"),
        ("events", usage.events, _limit(limits.events), "context"),
        ("queued commands", usage.queued_commands, _limit(limits.queued_commands), "stream"),
        ("queued writes", "", _limit_of_bytes(limits.queued_bytes), "stream"),
        ("Submit calls", "", _limit(limits.submit_calls), "server"),
        ("bytes", "", _limit_of_bytes(limits.tensor_bytes), "tensor"),
        ("bytes", "", _limit_of_bytes(limits.message_bytes), "message"),
    ]
    return table(("what", "in use", "limit", "of each"), rows)


def _limit(count: int) -> str:
    return str(count) if count else "none"


def _limit_of_bytes(count: int) -> str:
    return size(count) if count else "none"
