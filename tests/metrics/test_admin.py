"""The admin call tells administrators what the server does, and nobody else."""

from __future__ import annotations

from pathlib import Path

import grpc
import numpy as np
import pytest

from aclnn.errors import PermissionDeniedError, ServerUnavailable, UnauthenticatedError
from aclnn.v1 import admin_service_pb2 as pb
from aclnn.v1 import admin_service_pb2_grpc
from aclnn_client import connect, server_overview
from aclnn_server.server import Server
from tests.access.conftest import TokenFile
from tests.metrics.conftest import Start

ONES = np.ones((4, 2), np.float32)


def test_without_tokens_everyone_is_told(server: Server) -> None:
    with connect(server.address) as context:
        for _ in range(4):
            context.ops.add(ONES, ONES)
        overview = server_overview(server.address)
    assert [row.label for row in overview.contexts] == [context.label]
    assert overview.activity.latency.runs == 4
    assert [(row.operator, row.runs) for row in overview.operators] == [("aclnnAdd", 4)]
    assert overview.window <= overview.uptime


def test_with_tokens_only_administrators_are(start: Start, tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.toml")
    alice, boss = tokens.put("alice"), tokens.put("boss", admin=True)
    server = start(tokens=str(tokens.path))
    with connect(server.address, token=alice) as context:
        context.ops.add(ONES, ONES)
        overview = server_overview(server.address, token=boss)
        with pytest.raises(PermissionDeniedError, match=r"'alice' .* no administrator"):
            server_overview(server.address, token=alice)
    assert [(row.label, row.owner) for row in overview.contexts] == [(context.label, "alice")]
    with pytest.raises(UnauthenticatedError):
        server_overview(server.address)


def test_how_much_is_told_can_be_chosen(server: Server) -> None:
    contexts = [connect(server.address) for _ in range(3)]
    streams = [context.create_stream() for context in contexts]
    overview = server_overview(server.address, max_contexts=2, max_streams=1)
    assert [len(row.streams) for row in overview.contexts] == [1, 1]
    assert overview.usage.streams == 6
    del streams
    for context in contexts:
        context.close()


def test_no_server() -> None:
    with pytest.raises(ServerUnavailable, match=r"127\.0\.0\.1:1: .*nothing listens there"):
        server_overview("127.0.0.1:1")


def test_looking_is_a_call_that_is_counted(server: Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        stub = admin_service_pb2_grpc.AdminServiceStub(channel)
        first = stub.GetOverview(pb.GetOverviewRequest(), timeout=30)
        second = stub.GetOverview(pb.GetOverviewRequest(), timeout=30)
    assert first.activity.calls_per_second == 0
    assert second.activity.calls_per_second * second.window.ToNanoseconds() / 1e9 == pytest.approx(
        1
    )
