"""Whether and where metrics are served."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from aclnn_server.access.entrance import Entrance
from aclnn_server.access.listening import check_protected, is_loopback
from aclnn_server.config import ConfigError, ServerConfig
from aclnn_server.metrics.overview import Observer
from aclnn_server.metrics.sources import Sources

if TYPE_CHECKING:
    from aclnn_server.metrics.endpoint import Endpoint

_LOG = logging.getLogger(__name__)


def check_address(config: ServerConfig) -> None:
    """Checks where metrics are to be served.

    Raises:
        ConfigError: the address is none, or other machines can reach it.
    """
    listen = config.metrics_listen
    if not listen:
        return
    host, separator, port = listen.rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(
            f"metrics_listen is {listen!r}; it must be HOST:PORT with a port of 0 to 65535"
        )
    check_protected("metrics_listen", listen, config)


def open_endpoint(sources: Sources, observer: Observer, entrance: Entrance) -> Endpoint | None:
    """Serves metrics, where the settings say so; protected as the calls are, for administrators.

    Raises:
        OSError: the address is in use or not this machine's.
    """
    listen = sources.config.metrics_listen
    if not listen:
        return None
    # What only this needs is not loaded without it.
    from aclnn_server.metrics.endpoint import Endpoint, Site

    host = listen.rpartition(":")[0]
    own_machine_only = is_loopback(host)
    site = Site(sources, observer, host if own_machine_only else None, entrance.admit_administrator)
    endpoint = Endpoint(listen, site, entrance.tls)
    endpoint.start()
    _LOG.info("metrics on %s://%s/", "http" if entrance.tls is None else "https", endpoint.address)
    return endpoint
