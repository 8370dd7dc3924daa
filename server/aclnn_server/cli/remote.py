"""A server at an address, for commands that ask it something."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from aclnn_server.cli.exits import CommandError

if TYPE_CHECKING:
    from aclnn_client.connection import Connection


@contextlib.contextmanager
def connection(address: str, timeout: float) -> Iterator[Connection]:
    """A connection for unary calls.

    Raises:
        CommandError: the address is none.
    """
    from aclnn.errors import InvalidParameterError
    from aclnn_client.connection import Connection

    try:
        opened = Connection(address, timeout=timeout)
    except InvalidParameterError as error:
        raise CommandError(error.message) from None
    with contextlib.closing(opened):
        yield opened
