"""Whether and where metrics are served."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from aclnn_server.access.listening import is_loopback
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
    if not is_loopback(host):
        if not config.allow_insecure:
            raise ConfigError(
                f"metrics_listen is {listen!r}, which other machines can reach, without TLS or tokens; "
                "listen on 127.0.0.1, or allow it with --allow-insecure"
            )
        _LOG.warning("metrics on %s without TLS or tokens: anyone can read them", listen)


def open_endpoint(sources: Sources, observer: Observer) -> Endpoint | None:
    """Serves metrics, where the settings say so.

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
    endpoint = Endpoint(listen, Site(sources, observer, host if own_machine_only else None))
    endpoint.start()
    _LOG.info("metrics on http://%s/", endpoint.address)
    return endpoint
