"""Calls of AdminService."""

from __future__ import annotations

from aclnn.errors import PermissionDeniedError
from aclnn.overview import encode
from aclnn.v1 import admin_service_pb2 as pb
from aclnn_server.metrics.overview import Observer
from aclnn_server.service.calls import Call


class AdminCalls:
    """Tells those who run the server what it does."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def get_overview(self, call: Call, request: pb.GetOverviewRequest) -> pb.GetOverviewResponse:
        """What the server does now.

        Raises:
            PermissionDeniedError: 207006, the caller is no administrator, where callers are told apart.
        """
        if not call.tenant.sees_all:
            raise PermissionDeniedError(
                f"{call.tenant.name!r} is no administrator, and only those are told what others do"
            )
        return encode(self._observer.look(request.max_contexts, request.max_streams))
