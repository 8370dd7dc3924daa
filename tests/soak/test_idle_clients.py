"""Clients that are connected and do nothing keep nobody from being served."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import numpy as np

from aclnn.errors import LimitExceededError
from aclnn.status import from_rpc_error
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import device_service_pb2_grpc
from aclnn_client import connect
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server

IDLE = 1000
DEADLINE = 120.0


async def open_submit(stub: Any) -> Any:  # noqa: ANN401 - the stubs of grpc.aio have no types
    """A client with an open Submit call."""
    request = pb.CreateContextRequest(protocol_version=1)
    context = await stub.CreateContext(request, timeout=DEADLINE)
    call = stub.Submit(timeout=DEADLINE)
    renew = pb.Command(renew_context=pb.RenewContextRequest())
    await call.write(pb.SubmitRequest(context_id=context.context_id, commands=[renew]))
    answer = await call.read()
    assert isinstance(answer, pb.SubmitResponse), await call.details()
    assert answer.results[0].HasField("renew_context")
    return call


def one_call(address: str) -> list[float]:
    """What a client does that is not idle."""
    with connect(address) as context:
        ones = np.ones(3, np.float32)
        result = context.ops.smooth_l1_loss_backward(ones, ones * 3, ones, reduction="none")
        return list(result)


async def crowd(server: Server) -> None:
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = device_service_pb2_grpc.DeviceServiceStub(channel)
        calls = [await open_submit(stub) for _ in range(IDLE)]
        assert await asyncio.to_thread(one_call, server.address) == [1.0, 1.0, 1.0]
        calls.append(await open_submit(stub))
        try:
            await open_submit(stub)
        except grpc.RpcError as error:
            refused = from_rpc_error(error, doing="opening")
            assert isinstance(refused, LimitExceededError)
            assert str(IDLE + 1) in refused.message
        else:
            raise AssertionError("one call more than allowed is open")
        for call in calls:
            call.cancel()


def test_a_thousand_idle_clients_and_the_next_one() -> None:
    config = ServerConfig(listen="127.0.0.1:0", max_submit_calls=IDLE + 1, client_context_rate=0.0)
    with Server(config) as server:
        asyncio.run(asyncio.wait_for(crowd(server), DEADLINE))
