"""Operators as the commands show them, from this program's own catalogue or from a server."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aclnn_server.cli.exits import CommandError

if TYPE_CHECKING:
    from aclnn.pythonic import Pythonic
    from aclnn.signatures import Signature
    from aclnn_client.connection import Connection
    from aclnn_client.info import OperatorInfo


@dataclass(frozen=True, slots=True)
class Entry:
    """One operator."""

    signature: Signature
    summary: str
    description: str = ""
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the element types allowed, by parameter."""
    refused_because: str = ""
    """Why it cannot be run; empty where it can."""
    python: Pythonic | None = None
    """The one-line form; ``None`` where there is none."""

    @property
    def name(self) -> str:
        """C name."""
        return self.signature.name


# --- this program's own -----------------------------------------------------------------------------


def local_entries(soc: str) -> list[Entry]:
    """Every operator that this program defines.

    Args:
        soc: product whose dtype rules hold.

    Raises:
        CommandError: there is no such product.
    """
    from aclnn_server.operators.catalogue import operators
    from aclnn_server.operators.products import product

    try:
        rules = product(soc)
    except ValueError as error:
        raise CommandError(f"--soc: {error}") from None
    return [
        Entry(
            operator.signature,
            operator.summary,
            operator.description,
            {
                name: tuple(dtype.name for dtype in rules.allowed(types))
                for name, types in operator.dtypes.items()
            },
            operator.refused_because(rules),
            operator.python,
        )
        for operator in operators().values()
    ]


def local_entry(name: str, soc: str) -> Entry:
    """One of them, by its name with or without the aclnn prefix.

    Raises:
        CommandError: there is none.
    """
    entries = {entry.name: entry for entry in local_entries(soc)}
    return entries[resolve(name, entries)]


# --- a server's -------------------------------------------------------------------------------------


def remote_entries(server: Connection) -> list[Entry]:
    """Every operator of a server, without descriptions."""
    from aclnn_client.info import ask_operators

    return [_entry(info) for info in ask_operators(server)]


def remote_entry(server: Connection, name: str) -> Entry:
    """One operator of a server, by its name with or without the aclnn prefix.

    Raises:
        CommandError: the server has none.
    """
    from aclnn_client.info import ask_operator, ask_operators

    known = resolve(name, [info.name for info in ask_operators(server)])
    return _entry(ask_operator(server, known))


def _entry(info: OperatorInfo) -> Entry:
    return Entry(
        info.signature(),
        info.summary,
        info.description,
        {p.name: tuple(dtype.name for dtype in p.dtypes) for p in info.parameters if p.dtypes},
        info.refused_because,
        info.python,
    )


# --- names ------------------------------------------------------------------------------------------


def resolve(name: str, known: Iterable[str]) -> str:
    """The C name that is meant: with or without prefix, in C's or in Python's writing.

    Raises:
        CommandError: there is none; the text names similar ones.
    """
    by_key = {_key(candidate): candidate for candidate in known}
    if found := by_key.get(_key(name)):
        return found
    close = [by_key[key] for key in difflib.get_close_matches(_key(name), by_key, 3, 0.5)]
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    raise CommandError(f"no operator {name!r} among {len(by_key)}{meant}")


def _key(name: str) -> str:
    return name.replace("_", "").lower().removeprefix("aclnn")
