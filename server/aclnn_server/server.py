"""The composition root: configuration → backend → sessions → service → gRPC server."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

import grpc
from grpc_channelz.v1 import channelz
from grpc_reflection.v1alpha import reflection

from aclnn import __version__
from aclnn_server.access.data import DATA_CONNECTION, open_data_port, port_of
from aclnn_server.access.entrance import Entrance
from aclnn_server.access.listening import ListenError
from aclnn_server.access.sharing import SHARED_MEMORY, open_handover
from aclnn_server.backends import open_backend
from aclnn_server.backends.base import Backend
from aclnn_server.config import ConfigError, ServerConfig
from aclnn_server.health import SERVICE_NAME as HEALTH_SERVICE
from aclnn_server.health import Health
from aclnn_server.machine import Machine
from aclnn_server.metrics.overview import Observer
from aclnn_server.metrics.port import check_address as check_metrics_address
from aclnn_server.metrics.port import open_endpoint
from aclnn_server.metrics.sources import Sources
from aclnn_server.metrics.tracing import open_spans
from aclnn_server.service.admin_calls import AdminCalls
from aclnn_server.service.failures import unexpected
from aclnn_server.service.operator_calls import OperatorCalls
from aclnn_server.service.pools import FairPool
from aclnn_server.service.rpc import SERVICES, WAITING_CALLS, Service
from aclnn_server.service.server_calls import ServerCalls
from aclnn_server.sessions.batches import KeptAnswers
from aclnn_server.sessions.data_port import DataPort
from aclnn_server.sessions.environment import Environment
from aclnn_server.sessions.handover import Handover
from aclnn_server.sessions.meters import Meters
from aclnn_server.sessions.rates import Arrivals
from aclnn_server.sessions.registry import Registry
from aclnn_server.sessions.streams import Workers

if TYPE_CHECKING:
    from aclnn_server.metrics.endpoint import Endpoint

UNARY_THREADS = 64
"""Unary calls that are served at the same time; more wait."""
QUIET_SECONDS = 0.25
"""Time in which no client with a context calls, after which a server that stops takes their work for done."""
FLUSH_SECONDS = 0.1
"""Time in which the last answers leave a server that stops, before open calls are broken off."""

_LOG = logging.getLogger(__name__)


class Server:
    """A server, started and stopped once.

    ::

        with Server(ServerConfig(listen="127.0.0.1:0")) as server:
            connect(server.address)
    """

    def __init__(
        self,
        config: ServerConfig | None = None,
        *,
        backend: Backend | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Builds the server; nothing listens before :meth:`start`.

        Args:
            config: settings; the defaults where left out.
            backend: an open backend in place of the one that `config` names.
            clock: seconds, for leases.

        Raises:
            ConfigError: settings that cannot be.
        """
        self.config = config = config or ServerConfig()
        check_metrics_address(config)
        port_of(config)
        self._entrance = Entrance(config, lambda tenant: self.registry.evict(tenant), clock)
        self.backend = backend or open_backend(config.backend, **_backend_options(config))
        self._workers = Workers(config.workers or Machine().processors())
        meters = Meters() if config.metering else None
        kept = KeptAnswers(config.max_kept_bytes)
        self._handover = Handover()
        self._data_port = DataPort()
        spans = open_spans() if config.tracing else None
        traces = None if spans is None else spans[0]
        self._span_provider = None if spans is None else spans[1]
        environment = Environment(
            config.limits,
            self._workers,
            clock,
            unexpected,
            meters,
            kept,
            self._handover,
            data_port=self._data_port,
            traces=traces,
        )
        self._blocks = environment.blocks
        arrivals = Arrivals(config.context_rate, config.client_context_rate, clock)
        self.registry = Registry(self.backend.devices, environment, arrivals)
        self._server_calls = ServerCalls(config, self.backend, self.registry, self._features)
        self._sources = Sources(
            config,
            self.backend,
            self.registry,
            meters,
            ready=lambda: self._health.ready,
            submit_calls=lambda: self._service.open_submit_calls,
            calls_in_hand=lambda: self._service.in_hand.count,
            clock=clock,
        )
        self._observer = Observer(self._sources)
        self._service = Service(
            self.registry,
            OperatorCalls(self.backend),
            self._server_calls,
            AdminCalls(self._observer),
            config.max_submit_calls,
            self._entrance.identify,
        )
        self._endpoint: Endpoint | None = None
        self._health = Health(service.full_name for service in SERVICES)
        self._threads = FairPool(UNARY_THREADS, "aclnn-call", WAITING_CALLS)
        self._grpc = self._build()
        self._port = 0
        self._stop_lock = threading.Lock()
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._reaper = threading.Thread(target=self._reap, name="aclnn-reaper", daemon=True)

    def _build(self) -> grpc.Server:
        config = self.config
        server = grpc.server(
            self._threads,
            handlers=self._service.handlers(),
            interceptors=self._entrance.interceptors,
            options=(
                # A second server on the port must fail to bind instead of taking half of the calls.
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", config.max_message_bytes),
                ("grpc.max_send_message_length", config.max_message_bytes),
                # Clients may ask every 10 seconds whether the server is still there.
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                ("grpc.keepalive_permit_without_calls", 1),
                # A client whose machine is gone must not keep its lease with an open Submit call.
                ("grpc.keepalive_time_ms", 30_000),
                ("grpc.keepalive_timeout_ms", 20_000),
            ),
        )
        self._health.add_to(server)
        reflection.enable_server_reflection(
            [service.full_name for service in SERVICES]
            + [HEALTH_SERVICE, "grpc.channelz.v1.Channelz", reflection.SERVICE_NAME],
            server,
        )
        channelz.add_channelz_servicer(server)
        return server

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Listens.

        Raises:
            ListenError: the address is in use or not this machine's; a file or port beside it cannot be made.
        """
        try:
            self._port = self._entrance.open(self._grpc)
            open_handover(self._handover, self.config, self.backend)
            open_data_port(self._data_port, self.config, self._entrance, self._service.in_hand)
        except ListenError:
            self.stop(0)
            raise
        try:
            self._endpoint = open_endpoint(self._sources, self._observer, self._entrance)
        except OSError as error:
            self.stop(0)
            raise ListenError(
                f"cannot serve metrics on {self.config.metrics_listen}: {error.strerror}"
            ) from None
        self._grpc.start()
        self._health.set_ready(ready=True)
        self._reaper.start()
        _LOG.info("listening on %s", self.address)
        return self

    def _features(self) -> list[str]:
        """Names of the optional features that are offered."""
        offered = {SHARED_MEMORY: self._handover.path, DATA_CONNECTION: self._data_port.number}
        return [name for name, there in offered.items() if there]

    @property
    def address(self) -> str:
        """Address that clients connect to: ``host:port`` with the real port, or ``unix:path``."""
        if self.config.listen.startswith("unix:"):
            return self.config.listen
        return f"{self.config.listen.rpartition(':')[0]}:{self._port}"

    @property
    def metrics_address(self) -> str | None:
        """``host:port`` of the metrics, with the real port; ``None`` where there are none."""
        return None if self._endpoint is None else self._endpoint.address

    def banner(self) -> str:
        """One line that tells what listens where."""
        devices = ", ".join(f"{device.index}: {device.name}" for device in self.backend.devices)
        return (
            f"aclnn-serve {__version__} listening on {self.address} "
            f"(backend {self.backend.name}, devices {devices})"
        )

    def stop(self, grace: float | None = None) -> None:
        """Drains and stops: no new contexts, running work gets `grace` seconds (default: the config's)."""
        with self._stop_lock:
            first = not self._stopping.is_set()
            self._stopping.set()
        if not first:
            self._stopped.wait()
            return
        try:
            self._drain(self.config.grace_seconds if grace is None else grace)
            self._end()
        finally:
            self._stopped.set()

    def _drain(self, grace: float) -> None:
        self._server_calls.draining = True
        self._health.set_ready(ready=False)
        until = time.monotonic() + grace
        begun, quiet = -1, 0.0
        while (now := time.monotonic()) < until:
            busy = self._busy()
            if busy or begun != self._service.in_hand.begun:
                # Between two calls of one piece of work, such as a download in chunks, nothing is in hand.
                begun, quiet = self._service.in_hand.begun, now + QUIET_SECONDS
            if not busy and (now >= quiet or not self.registry.usage.contexts):
                break
            time.sleep(0.01)

    def _busy(self) -> bool:
        return bool(self._service.in_hand.count or self.registry.usage.queued_commands)

    def _end(self) -> None:
        self._grpc.stop(FLUSH_SECONDS).wait()
        self.registry.close()
        self._handover.close()
        self._data_port.close()
        self._workers.stop()
        self._threads.shutdown()
        self._service.close()
        self._health.close()
        self._entrance.close()
        if self._endpoint is not None:
            self._endpoint.close()
        if self._reaper.is_alive():
            self._reaper.join()
        self.backend.close()
        if self._span_provider is not None:
            self._span_provider.shutdown()

    def wait(self) -> None:
        """Waits until the server has stopped."""
        self._stopped.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _reap(self) -> None:
        pause = max(0.05, min(1.0, self.config.lease_seconds / 4))
        while not self._stopping.wait(pause):
            try:
                self._blocks.release_old()
                ended = self.registry.reap()
                silent = self._threads.break_off_silent() + self._service.break_off_silent()
            except Exception as error:  # one context that cannot end must not keep all others
                unexpected(error)
                continue
            if ended:
                _LOG.info("%d contexts ended with their leases", ended)
            if silent:
                _LOG.warning("%d calls that sent nothing were broken off: others waited", silent)


def _backend_options(config: ServerConfig) -> dict[str, object]:
    if config.backend == "ascend":
        return {
            "device": config.device,
            "soc": config.soc,
            "deterministic": config.deterministic,
        }
    if config.backend == "numpy":
        count = _device_count(config.device)
        return {"threads": config.threads or None, "soc": config.soc, "device_count": count}
    if config.device not in ("0", "all"):
        raise ConfigError(
            f"device is {config.device!r}; the backend {config.backend} has device 0 only"
        )
    return {}


def _device_count(device: str) -> int:
    """How many devices the host's processor is to be, of a setting that counts them."""
    count = 1 if device == "all" else len(device.split(","))
    if device != "all" and device.split(",") != [str(number) for number in range(count)]:
        raise ConfigError(
            f"device is {device!r}; the backend numpy has one device, 0, or as many as are counted: 0,1,2"
        )
    return count
