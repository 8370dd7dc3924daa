"""What a server does, for those who run it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from aclnn import overview as _overview
from aclnn.v1 import admin_service_pb2 as pb
from aclnn_client.connection import Connection
from aclnn_client.tls import Tls

if TYPE_CHECKING:
    from aclnn.overview import Overview


def server_overview(
    address: str,
    *,
    token: str | None = None,
    tls: bool | Tls | None = None,
    timeout: float | None = None,
    max_contexts: int = 0,
    max_streams: int = 0,
) -> Overview:
    """Asks a server what it does: who uses which device, what waits, where the time goes.

    Rates are of the time since it was last asked, or of the last ten seconds; ask twice for one look.

    Args:
        address: as of ``connect``, like `token`, `tls` and `timeout`.
        token: an administrator's, where the server asks for tokens.
        tls: what to trust.
        timeout: seconds.
        max_contexts: contexts to list, the busiest first; 0: 100.
        max_streams: streams to list of each, the busiest first; 0: 16.

    Raises:
        ServerUnavailable: no answer.
        PermissionDeniedError: 207006, the token is no administrator's.
    """
    connection = Connection(address, token=token, tls=tls, timeout=timeout)
    try:
        return ask_overview(connection, max_contexts, max_streams)
    finally:
        connection.close()


def ask_overview(connection: Connection, max_contexts: int = 0, max_streams: int = 0) -> Overview:
    """Asks the server of a connection what it does; see :func:`server_overview`."""
    request = pb.GetOverviewRequest(max_contexts=max_contexts, max_streams=max_streams)
    ask = functools.partial(
        connection.call, connection.admin.GetOverview, request, doing="asking what it does"
    )
    return _overview.decode(ask(repeatable=True))
