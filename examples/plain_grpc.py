"""A client of the protocol alone, without aclnn_client: what a program in any language does.

It uses nothing but the code that protoc and gRPC's plugin generate from proto/aclnn/v1, one blocking unary
call after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import grpc
import numpy as np
from a_server import server_address
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from aclnn.v1 import device_service_pb2 as device
from aclnn.v1 import operator_service_pb2 as operator
from aclnn.v1.device_service_pb2_grpc import DeviceServiceStub
from aclnn.v1.operator_service_pb2_grpc import OperatorServiceStub
from aclnn.v1.tensor_pb2 import DATA_TYPE_FLOAT, Argument, Tensor

OPERATOR = "aclnnSmoothL1LossBackward"
ONES = np.ones(8, "<f4").tobytes()
ZERO_TO_SEVEN = np.arange(8, dtype="<f4").tobytes()


def tensor(*, data: bytes | None = None, buffer_id: int | None = None) -> Argument:
    """A 4x2 FLOAT tensor, inline or in a buffer; with neither, an output that is returned inline."""
    described = Tensor(data_type=DATA_TYPE_FLOAT, shape=[4, 2])
    if data is not None:
        described.data = data
    if buffer_id is not None:
        described.buffer_id = buffer_id
    return Argument(tensor=described)


def arguments(x: Argument, output: Argument, beta: float = 1.0) -> list[Argument]:
    """In the C prototype's order: gradOutput, self, target, reduction, beta, gradInput."""
    ones = tensor(data=ONES)
    return [ones, x, ones, Argument(int64_value=0), Argument(float_value=beta), output]


def shortest(devices: DeviceServiceStub, operators: OperatorServiceStub) -> None:
    """Three calls, and nothing to clean up but the stream: everything travels inline."""
    stream = devices.CreateStream(device.CreateStreamRequest(protocol_version=1))
    plan = operators.GetWorkspaceSize(
        operator.GetWorkspaceSizeRequest(
            stream_id=stream.stream_id,
            operator=OPERATOR,
            arguments=arguments(tensor(data=ZERO_TO_SEVEN), tensor()),
        )
    )
    # executor_id was left at 0, so the server chose one. Without a workspace it lends its own.
    answer = operators.Execute(
        operator.ExecuteRequest(stream_id=stream.stream_id, executor_id=plan.executor_id)
    )
    print("inline:      ", np.frombuffer(answer.outputs[0].tensor.data, "<f4"))
    # This stream has a context of its own, which ends with it.
    devices.DestroyStream(device.DestroyStreamRequest(stream_id=stream.stream_id))


def with_buffers(devices: DeviceServiceStub, operators: OperatorServiceStub, context: str) -> None:
    """Data that stays on the device, under ids that the client chooses."""
    x, result, workspace, executor = 1, 2, 3, 1
    for buffer in (x, result):
        devices.Malloc(device.MallocRequest(context_id=context, buffer_id=buffer, bytes=32))
    devices.WriteBuffer(chunks(context, x, ZERO_TO_SEVEN))

    # No stream is named: the context's default stream.
    plan = operators.GetWorkspaceSize(
        operator.GetWorkspaceSizeRequest(
            context_id=context,
            executor_id=executor,
            operator=OPERATOR,
            arguments=arguments(tensor(buffer_id=x), tensor(buffer_id=result)),
        )
    )
    run = operator.ExecuteRequest(context_id=context, executor_id=executor, asynchronous=True)
    size = plan.workspace_bytes
    if size:
        devices.Malloc(device.MallocRequest(context_id=context, buffer_id=workspace, bytes=size))
        run.workspace.CopyFrom(operator.Workspace(buffer_id=workspace, bytes=size))
    operators.Execute(run)
    devices.SynchronizeStream(device.SynchronizeStreamRequest(context_id=context))

    read = device.ReadBufferRequest(context_id=context, buffer_id=result, bytes=32)
    data = b"".join(chunk.data for chunk in devices.ReadBuffer(read))
    print("from buffers:", np.frombuffer(data, "<f4"))


def chunks(context: str, buffer: int, data: bytes) -> Iterator[device.WriteBufferRequest]:
    """The first message says where to and how much; each carries the next bytes."""
    size = 16  # about 1 MiB is right for real data
    for start in range(0, len(data), size):
        request = device.WriteBufferRequest(data=data[start : start + size])
        if start == 0:
            request.context_id, request.buffer_id = context, buffer
            request.total_bytes = len(data)
        yield request


def refused(operators: OperatorServiceStub, context: str) -> None:
    """A status has details: a reason for programs, the vendor's code, and the field at fault."""
    try:
        operators.GetWorkspaceSize(
            operator.GetWorkspaceSizeRequest(
                context_id=context,
                operator=OPERATOR,
                arguments=arguments(tensor(data=ZERO_TO_SEVEN), tensor(), beta=-1.0),
            )
        )
    except grpc.RpcError as error:
        call = cast("grpc.Call", error)  # what blocking calls raise is the call itself
        print(f"refused:      {call.code().name}: {call.details()}")
        for name, value in details(rpc_status.from_call(call)).items():
            print(f"              {name}: {value}")


def details(status: status_pb2.Status | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for detail in status.details if status else ():
        info, request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        if detail.Unpack(info):
            found |= {"reason": info.reason, **info.metadata}
        if detail.Unpack(request):
            found |= {"field": request.field_violations[0].field}
    return found


def main(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        devices, operators = DeviceServiceStub(channel), OperatorServiceStub(channel)
        shortest(devices, operators)

        request = device.CreateContextRequest(protocol_version=1, client_name="plain_grpc/1")
        context = devices.CreateContext(request).context_id
        with_buffers(devices, operators, context)
        refused(operators, context)
        # Frees its buffers too. A client that forgets is silent, and the lease ends the context.
        devices.DestroyContext(device.DestroyContextRequest(context_id=context))


if __name__ == "__main__":
    with server_address(__doc__) as address:
        main(address)
