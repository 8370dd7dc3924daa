"""Servers that a test starts and stops by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grpc_health.v1 import health_pb2, health_pb2_grpc

from aclnn_server.server import Server
from tests.service.calling import DEADLINE, Stubs

HEALTH = health_pb2.HealthCheckResponse
SERVICES = {"aclnn.v1.DeviceService", "aclnn.v1.OperatorService"}

Open = Callable[..., tuple[Server, Stubs]]


def health_of(stubs: Stubs, service: str = "") -> int:
    """What the server says about its health."""
    stub: Any = health_pb2_grpc.HealthStub(stubs.channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=DEADLINE)
    found: int = answer.status
    return found
