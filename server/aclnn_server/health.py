"""Health: readiness under the empty name and each service's, liveness apart from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

LIVENESS = "liveness"
"""Name that is SERVING for as long as the process lives; the empty name is readiness."""
SERVICE_NAME = health.SERVICE_NAME


class Health:
    """grpc.health.v1, answered from a thread of its own while every other one is busy."""

    def __init__(self, services: Iterable[str]) -> None:
        self._names = ("", *services)
        self.ready = False
        """Whether new work is welcome."""
        self._servicer = health.HealthServicer()
        self._thread = ThreadPoolExecutor(1, "aclnn-health")
        self.set_ready(ready=False)
        self._servicer.set(LIVENESS, health_pb2.HealthCheckResponse.SERVING)

    def add_to(self, server: grpc.Server) -> None:
        """Serves health on `server`."""
        servicer = self._servicer

        def check(
            request: health_pb2.HealthCheckRequest, rpc: grpc.ServicerContext
        ) -> health_pb2.HealthCheckResponse:
            return health.HealthServicer.Check(servicer, request, rpc)

        def watch(
            request: health_pb2.HealthCheckRequest,
            rpc: grpc.ServicerContext,
            send: Callable[[health_pb2.HealthCheckResponse | None], None],
        ) -> None:
            health.HealthServicer.Watch(servicer, request, rpc, send)

        # Functions of this server's own: the servicer keeps its thread pool on the class, for all servers.
        watch.experimental_non_blocking = True  # type: ignore[attr-defined]
        check.experimental_thread_pool = self._thread  # type: ignore[attr-defined]
        watch.experimental_thread_pool = self._thread  # type: ignore[attr-defined]
        servicer.Check = check  # type: ignore[method-assign, assignment]
        servicer.Watch = watch  # type: ignore[method-assign, assignment]
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)

    def set_ready(self, *, ready: bool) -> None:
        """Says whether new work is welcome."""
        self.ready = ready
        answer = health_pb2.HealthCheckResponse
        for name in self._names:
            self._servicer.set(name, answer.SERVING if ready else answer.NOT_SERVING)

    def close(self) -> None:
        """Ends the thread."""
        self._thread.shutdown()
