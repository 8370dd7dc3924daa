"""``aclnn-serve ops``: the operators, and what one of them takes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from aclnn_server.cli import catalogue
from aclnn_server.cli.exits import CommandError, Exit, describe_exits
from aclnn_server.cli.parsing import (
    PROGRAM,
    Commands,
    Parser,
    add_command,
    add_timeout,
    append_help,
)
from aclnn_server.cli.remote import add_credentials, connection, credentials
from aclnn_server.cli.tables import indented, table

if TYPE_CHECKING:
    from aclnn.pythonic import Pythonic
    from aclnn.signatures import Parameter


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "ops",
        run,
        summary="list the operators, or describe one",
        details="""
            Lists the operators; with NAME, shows one's C prototypes, parameters, element types and
            description. Without --address it shows those that this program defines, and needs no server.
            """,
        examples=f"""
            {PROGRAM} ops
            {PROGRAM} ops aclnnSmoothL1LossBackward
            {PROGRAM} ops SmoothL1LossBackward --soc ascend310p
            {PROGRAM} ops --address 127.0.0.1:50051
            """,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="with or without the aclnn prefix")
    parser.add_argument("--address", help="HOST:PORT or unix:PATH of a server to ask")
    parser.add_argument(
        "--soc", help="product whose dtype rules are shown (default: reference, which has all)"
    )
    add_timeout(parser, 5.0)
    add_credentials(parser)
    append_help(parser, describe_exits(Exit.DONE, Exit.USAGE, Exit.NO_ANSWER))


def run(options: argparse.Namespace) -> int:
    """Prints the list, or one operator."""
    if options.address and options.soc:
        raise CommandError("--soc is for this program's own operators; a server has its own rules")
    if options.name:
        print(_one(_find(options)))
    else:
        print(_list(_find_all(options)))
    return Exit.DONE


def _find(options: argparse.Namespace) -> catalogue.Entry:
    if not options.address:
        return catalogue.local_entry(options.name, options.soc or "reference")

    with connection(options.address, options.timeout, credentials(options)) as server:
        return catalogue.remote_entry(server, options.name)


def _find_all(options: argparse.Namespace) -> list[catalogue.Entry]:
    if not options.address:
        return catalogue.local_entries(options.soc or "reference")

    with connection(options.address, options.timeout, credentials(options)) as server:
        return catalogue.remote_entries(server)


def _list(entries: list[catalogue.Entry]) -> str:
    rows = [
        (
            entry.name,
            entry.python.name if entry.python else "",
            entry.refused_because or entry.summary,
        )
        for entry in entries
    ]
    return table(("operator", "in one line", "what it does"), rows)


def _one(entry: catalogue.Entry) -> str:
    parts = [f"{entry.name}: {entry.summary}"]
    if entry.refused_because:
        parts.append(f"Cannot be run: {entry.refused_because}.")
    parts += [indented(prototype) for prototype in entry.signature.prototypes()]
    parts.append(indented(_parameters(entry)))
    if entry.python is not None:
        parts.append(f"In one line of Python:\n\n  {_one_line(entry.python)}")
    if entry.description:
        parts.append(entry.description)
    return "\n\n".join(parts)


def _parameters(entry: catalogue.Entry) -> str:
    rows = [
        (
            parameter.name,
            parameter.c_type,
            _use(parameter),
            ", ".join(entry.types.get(parameter.name, ())) or _choices(entry, parameter.name),
        )
        for parameter in entry.signature.parameters
    ]
    return table(("parameter", "C type", "use", "allowed"), rows)


def _use(parameter: Parameter) -> str:
    use = "output" if parameter.output else "input"
    return f"{use}, may be null" if parameter.optional else use


def _choices(entry: catalogue.Entry, name: str) -> str:
    choices = entry.python.choices.get(name, {}) if entry.python else {}
    return ", ".join(f"{number} ({choice})" for choice, number in choices.items())


def _one_line(python: Pythonic) -> str:
    attributes = [f"{name}={default!r}" for name, default in python.attributes.items()]
    return f"context.ops.{python.name}({', '.join([*python.inputs, *attributes])})"
