"""Calls of DeviceService that belong to the server: what it is, its devices, opening and ending contexts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from aclnn import PROTOCOL_VERSION, __version__
from aclnn.errors import ServerUnavailable, VersionMismatchError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.backends.base import Backend
from aclnn_server.config import ServerConfig
from aclnn_server.service.calls import Call, duration, encode_usage, seconds
from aclnn_server.sessions.registry import Registry

LONGEST_NAME = 100
"""Characters that are kept of what a client calls itself."""


class ServerCalls:
    """Tells about the server, and opens and ends contexts."""

    def __init__(
        self,
        config: ServerConfig,
        backend: Backend,
        registry: Registry,
        features: Callable[[], list[str]] = list,
    ) -> None:
        """Prepares the calls.

        Args:
            config: settings.
            backend: what computes.
            registry: contexts.
            features: tells which optional features are offered.
        """
        self._features = features
        self._config = config
        self._backend = backend
        self._registry = registry
        self.draining = False
        """Whether the server is stopping and opens no context any more."""

    def get_server_info(
        self, call: Call, request: pb.GetServerInfoRequest
    ) -> pb.GetServerInfoResponse:
        """What the server is, and what it holds for the caller."""
        tenant, registry = call.tenant, self._registry
        usage = registry.usage if tenant.sees_all else registry.usage_of(tenant)
        return pb.GetServerInfoResponse(
            version=__version__,
            protocol_min=PROTOCOL_VERSION,
            protocol_max=PROTOCOL_VERSION,
            epoch=registry.epoch,
            backend=self._backend.name,
            soc=self._config.soc,
            device_count=len(registry.devices_of(tenant)),
            operator_count=len(self._backend.operators),
            limits=pb.Limits(**asdict(tenant.narrow(self._config.limits))),
            usage=encode_usage(usage),
            default_lease=duration(self._config.lease_seconds),
            features=self._features(),
        )

    def list_devices(self, call: Call, request: pb.ListDevicesRequest) -> pb.ListDevicesResponse:
        """The devices that the caller may use, with their memory."""
        response = pb.ListDevicesResponse()
        for device in self._registry.devices_of(call.tenant):
            free, total = device.memory_info()
            response.devices.add(
                index=device.index,
                name=device.name,
                free_bytes=free,
                total_bytes=total,
                context_count=self._registry.contexts_on(device),
            )
        return response

    def create_context(
        self, call: Call, request: pb.CreateContextRequest
    ) -> pb.CreateContextResponse:
        """Opens a context."""
        self._check_welcome(request.protocol_version)
        lease = self._config.lease_seconds
        if request.HasField("lease"):
            lease = min(lease, seconds(request.lease, "lease"))
        index = request.device_index if request.HasField("device_index") else None
        context = self._registry.create_context(index, lease, call.tenant, call.client)
        context.client_name = request.client_name[:LONGEST_NAME]
        return pb.CreateContextResponse(
            context_id=context.id,
            stream_id=context.default_session.id,
            device_index=context.device.index,
            lease=duration(lease),
            limits=pb.Limits(**asdict(call.tenant.narrow(context.limits))),
        )

    def destroy_context(
        self, call: Call, request: pb.DestroyContextRequest
    ) -> pb.DestroyContextResponse:
        """Ends a context."""
        self._registry.destroy_context(self._registry.context(request.context_id, call.tenant))
        return pb.DestroyContextResponse()

    def create_lone_stream(
        self, call: Call, request: pb.CreateStreamRequest
    ) -> pb.CreateStreamResponse:
        """Opens a context for one stream, for clients that want nothing else."""
        self._check_welcome(request.protocol_version)
        lease = self._config.lease_seconds
        session = self._registry.create_lone_stream(lease, call.tenant, call.client)
        return pb.CreateStreamResponse(stream_id=session.id, context_id=session.context.id)

    def _check_welcome(self, version: int) -> None:
        if version != PROTOCOL_VERSION:
            raise VersionMismatchError(
                f"protocol_version is {version}; this server ({__version__}) speaks {PROTOCOL_VERSION}",
                parameter="protocol_version",
            )
        if self.draining:
            raise ServerUnavailable("the server is stopping", retry_after_ms=1000)
