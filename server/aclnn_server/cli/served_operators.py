"""The operators that a server has and this package has not, or those that are named."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aclnn_server.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from aclnn.dtypes import DType
    from aclnn.pythonic import Pythonic
    from aclnn.signatures import Signature
    from aclnn_client.info import OperatorInfo


@dataclass(frozen=True, slots=True)
class Served:
    """An operator as its server tells of it."""

    name: str
    signature: Signature
    summary: str
    description: str
    dtypes: Mapping[str, tuple[DType, ...]]
    python: Pythonic | None


def ask(options: argparse.Namespace) -> list[Served]:
    """Asks the server at ``options.address`` for ``options.name``, or for all that is not known here.

    Raises:
        CommandError: it has none.
    """
    from aclnn_client.info import ask_operator, ask_operators
    from aclnn_client.ops import SIGNATURES
    from aclnn_server.cli.remote import connection, credentials

    with connection(options.address, options.timeout, credentials(options)) as server:
        names = options.name or [
            info.name for info in ask_operators(server) if info.name not in SIGNATURES
        ]
        found = [_described(ask_operator(server, name)) for name in names]
    if not found:
        raise CommandError(f"{options.address} has no operator that is not known here", Exit.NO)
    return found


def _described(info: OperatorInfo) -> Served:
    allowed = {row.name: row.dtypes for row in info.parameters}
    return Served(
        info.name,
        info.signature(),
        info.summary or "The server tells nothing of it.",
        info.description or "The server does not describe it.",
        allowed,
        info.python,
    )
