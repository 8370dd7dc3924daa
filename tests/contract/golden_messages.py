"""The table of test_golden_wire: messages and the bytes that each must have."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from aclnn.v1 import device_service_pb2 as device
from aclnn.v1 import error_pb2 as error
from aclnn.v1 import operator_service_pb2 as operator
from aclnn.v1 import tensor_pb2 as tensor

INLINE = tensor.Tensor(
    data_type=tensor.DATA_TYPE_FLOAT,
    format=tensor.FORMAT_ND,
    shape=[2, 1],
    strides=[1, -1],
    offset=1,
    storage_shape=[3],
    data=bytes(range(12)),
)
IN_BUFFER = tensor.Tensor(
    data_type=tensor.DATA_TYPE_BF16,
    format=tensor.FORMAT_NCHW,
    shape=[300],
    buffer_id=2**64 - 1,
    buffer_offset=64,
)
NO_STORAGE = tensor.Tensor(data_type=tensor.DATA_TYPE_FLOAT16, shape=[0])
SCALAR = tensor.Scalar(data_type=tensor.DATA_TYPE_DOUBLE, value=b"\0\0\0\0\0\0\xf0\x3f")
LEASE = Duration(seconds=60, nanos=5)
LIMITS = device.Limits(
    message_bytes=1,
    tensor_bytes=2,
    context_bytes=2**40,
    contexts=4,
    streams=5,
    executors=6,
    queued_commands=7,
    buffers=8,
    events=9,
    submit_calls=10,
    queued_bytes=11,
)
USAGE = device.Usage(
    contexts=1, streams=2, executors=3, buffers=4, bytes=5, events=6, queued_commands=7
)
OPERATOR = operator.OperatorInfo(
    name="aclnnAbs",
    parameters=[
        operator.Parameter(
            name="self",
            c_type="const aclTensor*",
            output=True,
            optional=True,
            data_types=[tensor.DATA_TYPE_FLOAT, tensor.DATA_TYPE_BF16],
            shaped_by_data=True,
        )
    ],
    summary="s",
    description="d",
    backends=["numpy", "null"],
    refused_because="r",
    one_line="{}",
)
FAILURE = error.Error(
    reason="INVALID_PARAMETER",
    status_code=3,
    acl_code=161002,
    message="m",
    operator="aclnnAbs",
    parameter="self",
    request_id="r",
    retry_after_ms=9,
)
SUBMIT = [
    "get_workspace_size",
    "execute",
    "destroy_executor",
    "synchronize_stream",
    "malloc",
    "free",
    "memset",
    "memcpy",
    "write_buffer",
    "read_buffer",
    "create_stream",
    "destroy_stream",
    "query_stream",
    "create_event",
    "destroy_event",
    "record_event",
    "wait_event",
    "synchronize_event",
    "query_event",
    "get_event_elapsed_time",
    "attach_shared_memory",
    "detach_shared_memory",
    "renew_context",
    "attach_data_connection",
    "detach_data_connection",
]


M = TypeVar("M", bound=Message)


def every(message: type[M], names: list[str]) -> list[M]:
    """One message per name, with that field set to an empty message."""
    made = [message() for _ in names]
    for each, name in zip(made, names, strict=True):
        getattr(each, name).SetInParent()
    return made


GOLDEN: list[tuple[str, Message, str]] = [
    # tensors and arguments
    (
        "tensor inline",
        INLINE,
        """
        080110011a020201220b01ffffffffffffffffff0128013201033a0c000102030405060708090a0b
        """,
    ),
    ("tensor in a buffer", IN_BUFFER, "081010021a02ac0240ffffffffffffffffff014840"),
    ("tensor without storage", NO_STORAGE, "08021a0100"),
    ("null", tensor.Argument(null=tensor.Null()), "0a00"),
    ("tensor", tensor.Argument(tensor=NO_STORAGE), "120508021a0100"),
    (
        "tensor list",
        tensor.Argument(tensor_list=tensor.TensorList(tensors=[NO_STORAGE, IN_BUFFER])),
        """
        1a1e0a0508021a01000a15081010021a02ac0240ffffffffffffffffff014840
        """,
    ),
    ("scalar", tensor.Argument(scalar=SCALAR), "220c080b1208000000000000f03f"),
    (
        "int array",
        tensor.Argument(int_array=tensor.IntArray(values=[1, -1, 300])),
        "2a0f0a0d01ffffffffffffffffff01ac02",
    ),
    (
        "float array",
        tensor.Argument(float_array=tensor.FloatArray(values=[0.5, -2])),
        "320a0a080000003f000000c0",
    ),
    (
        "bool array",
        tensor.Argument(bool_array=tensor.BoolArray(values=[True, False])),
        "3a040a020100",
    ),
    ("text", tensor.Argument(text="mean"), "42046d65616e"),
    ("int64", tensor.Argument(int64_value=-(2**63)), "4880808080808080808001"),
    ("int32", tensor.Argument(int32_value=-2), "50feffffffffffffffff01"),
    ("int8", tensor.Argument(int8_value=127), "587f"),
    ("uint64", tensor.Argument(uint64_value=2**64 - 1), "60ffffffffffffffffff01"),
    ("bool", tensor.Argument(bool_value=True), "6801"),
    ("double", tensor.Argument(double_value=0.1), "719a9999999999b93f"),
    ("float", tensor.Argument(float_value=1.5), "7d0000c03f"),
    ("data type", tensor.Argument(data_type=tensor.DATA_TYPE_INT64), "800109"),
    (
        "scalar list",
        tensor.Argument(scalar_list=tensor.ScalarList(scalars=[SCALAR])),
        "8a010e0a0c080b1208000000000000f03f",
    ),
    # OperatorService
    (
        "GetWorkspaceSizeRequest",
        operator.GetWorkspaceSizeRequest(
            context_id="c",
            stream_id="s",
            executor_id=7,
            operator="aclnnAbs",
            arguments=[
                tensor.Argument(tensor=INLINE),
                # A zero in a oneof is sent: it is a value, not an absence.
                tensor.Argument(int64_value=0),
            ],
            repeatable=True,
            traceparent="00-1",
        ),
        """
        0a01631201731807220861636c6e6e4162732a2a1228080110011a020201220b01ffffffffffffffffff
        0128013201033a0c000102030405060708090a0b2a02480030013a0430302d31
        """,
    ),
    (
        "GetWorkspaceSizeResponse",
        operator.GetWorkspaceSizeResponse(executor_id=7, workspace_bytes=2**33),
        "0807108080808020",
    ),
    (
        "ExecuteRequest",
        operator.ExecuteRequest(
            context_id="c",
            stream_id="s",
            executor_id=7,
            workspace=operator.Workspace(buffer_id=1, offset=512, bytes=1024),
            bindings=[
                operator.Binding(argument=1, element=2, data=b"ab"),
                operator.Binding(argument=3, buffer_id=4, buffer_offset=5),
            ],
            asynchronous=True,
            report_timing=True,
            traceparent="00-1",
        ),
        """
        0a01631201731807220808011080041880082a08080110021a0261622a060803200428053001380142
        0430302d31
        """,
    ),
    (
        "ExecuteResponse",
        operator.ExecuteResponse(
            outputs=[operator.Output(argument=5, element=1, tensor=INLINE)],
            timing=operator.Timing(queue_ns=1, copy_in_ns=2, run_ns=3, copy_out_ns=4),
            shapes=[operator.OutputShape(argument=2, element=1, shape=[3, 300])],
        ),
        """
        0a2e080510011a28080110011a020201220b01ffffffffffffffffff0128013201033a0c000102030405
        060708090a0b120808011002180320041a09080210011a0303ac02
        """,
    ),
    (
        "DestroyExecutorRequest",
        operator.DestroyExecutorRequest(context_id="c", executor_id=7),
        "0a01631007",
    ),
    ("ListOperatorsRequest", operator.ListOperatorsRequest(prefix="aclnnA"), "0a0661636c6e6e41"),
    (
        "ListOperatorsResponse",
        operator.ListOperatorsResponse(operators=[OPERATOR]),
        """
        0a480a0861636c6e6e41627312220a0473656c661210636f6e73742061636c54656e736f722a18012001
        2a02011030011a01732201642a056e756d70792a046e756c6c3201723a027b7d
        """,
    ),
    (
        "GetOperatorRequest",
        operator.GetOperatorRequest(operator="aclnnAbs"),
        "0a0861636c6e6e416273",
    ),
    (
        "GetOperatorResponse",
        operator.GetOperatorResponse(operator=operator.OperatorInfo(name="aclnnAbs")),
        "0a0a0a0861636c6e6e416273",
    ),
    # DeviceService: server, contexts, streams
    (
        "GetServerInfoResponse",
        device.GetServerInfoResponse(
            version="0.1.0",
            protocol_min=1,
            protocol_max=2,
            epoch="e",
            backend="numpy",
            soc="reference",
            device_count=3,
            operator_count=4,
            limits=LIMITS,
            usage=USAGE,
            default_lease=LEASE,
            features=["shared-memory"],
        ),
        """
        0a05302e312e30100118022201652a056e756d707932097265666572656e6365380340044a1b08011002
        18808080808020200428053006380740084809500a580b520e08011002180320042805300638075a0408
        3c1005620d7368617265642d6d656d6f7279
        """,
    ),
    (
        "ListDevicesResponse",
        device.ListDevicesResponse(
            devices=[device.Device(index=1, name="n", total_bytes=2, free_bytes=3, context_count=4)]
        ),
        "0a0b080112016e180220032804",
    ),
    (
        # Device 0 is sent: absent lets the server choose.
        "CreateContextRequest",
        device.CreateContextRequest(
            protocol_version=1, device_index=0, lease=LEASE, client_name="n"
        ),
        "080110001a04083c100522016e",
    ),
    (
        "CreateContextResponse",
        device.CreateContextResponse(
            context_id="c", stream_id="s", device_index=1, lease=LEASE, limits=LIMITS
        ),
        """
        0a016312017318012204083c10052a1b0801100218808080808020200428053006380740084809500a58
        0b
        """,
    ),
    ("RenewContextRequest", device.RenewContextRequest(context_id="c"), "0a0163"),
    (
        "RenewContextResponse",
        device.RenewContextResponse(lease=LEASE, usage=USAGE),
        "0a04083c1005120e0801100218032004280530063807",
    ),
    ("DestroyContextRequest", device.DestroyContextRequest(context_id="c"), "0a0163"),
    (
        "CreateStreamRequest",
        device.CreateStreamRequest(context_id="c", protocol_version=1),
        "0a01631001",
    ),
    (
        "CreateStreamResponse",
        device.CreateStreamResponse(stream_id="s", context_id="c"),
        "0a0173120163",
    ),
    (
        "SynchronizeStreamRequest",
        device.SynchronizeStreamRequest(context_id="c", stream_id="s", timeout=LEASE),
        "0a01631201731a04083c1005",
    ),
    (
        "SynchronizeStreamResponse",
        device.SynchronizeStreamResponse(returned_buffer_ids=[1, 300]),
        "0a0301ac02",
    ),
    ("QueryStreamRequest", device.QueryStreamRequest(stream_id="s"), "0a0173"),
    ("QueryStreamResponse", device.QueryStreamResponse(complete=True), "0801"),
    (
        "QueryStreamResponse with timing",
        device.QueryStreamResponse(complete=True, timing=operator.Timing(run_ns=3)),
        "080112021803",
    ),
    ("DestroyStreamRequest", device.DestroyStreamRequest(stream_id="s"), "0a0173"),
    # DeviceService: memory
    (
        "MallocRequest",
        device.MallocRequest(
            context_id="c",
            buffer_id=1,
            bytes=2**32,
            segment_id=2,
            segment_offset=64,
            uninitialized=True,
        ),
        "0a01631001188080808010200228403001",
    ),
    ("MallocResponse", device.MallocResponse(buffer_id=1), "0801"),
    ("FreeRequest", device.FreeRequest(context_id="c", buffer_id=1), "0a01631001"),
    ("FreeResponse", device.FreeResponse(returned_buffer_ids=[1, 300]), "0a0301ac02"),
    (
        "MemsetRequest",
        device.MemsetRequest(
            context_id="c", stream_id="s", buffer_id=1, offset=2, bytes=3, value=255
        ),
        "0a016312017318012002280330ff01",
    ),
    (
        "MemcpyRequest",
        device.MemcpyRequest(
            context_id="c",
            stream_id="s",
            destination_buffer_id=1,
            destination_offset=2,
            source_buffer_id=3,
            source_offset=4,
            bytes=5,
        ),
        "0a016312017318012002280330043805",
    ),
    (
        "WriteBufferRequest",
        device.WriteBufferRequest(
            context_id="c", stream_id="s", buffer_id=1, offset=2, total_bytes=3, data=b"\0\1\2"
        ),
        "0a01631201731801200228033203000102",
    ),
    (
        "ReadBufferRequest",
        device.ReadBufferRequest(
            context_id="c", stream_id="s", buffer_id=1, offset=2, bytes=3, chunk_bytes=4
        ),
        "0a01631201731801200228033004",
    ),
    ("ReadBufferResponse", device.ReadBufferResponse(data=b"\0\1\2"), "0a03000102"),
    (
        "AttachSharedMemoryRequest",
        device.AttachSharedMemoryRequest(context_id="c", bytes=4096),
        "0a0163108020",
    ),
    (
        "AttachSharedMemoryResponse",
        device.AttachSharedMemoryResponse(segment_id=1, path="p", bytes=4096, secret=b"\1\2"),
        "080112017018802022020102",
    ),
    (
        "DetachSharedMemoryRequest",
        device.DetachSharedMemoryRequest(context_id="c", segment_id=1),
        "0a01631001",
    ),
    (
        "AttachDataConnectionRequest",
        device.AttachDataConnectionRequest(context_id="c"),
        "0a0163",
    ),
    (
        "AttachDataConnectionResponse",
        device.AttachDataConnectionResponse(port=50052, secret=b"\1\2"),
        "088487031202" + "0102",
    ),
    (
        "DetachDataConnectionRequest",
        device.DetachDataConnectionRequest(context_id="c"),
        "0a0163",
    ),
    # DeviceService: events
    ("CreateEventRequest", device.CreateEventRequest(context_id="c", event_id=1), "0a01631001"),
    ("CreateEventResponse", device.CreateEventResponse(event_id=1), "0801"),
    ("DestroyEventRequest", device.DestroyEventRequest(context_id="c", event_id=1), "0a01631001"),
    (
        "RecordEventRequest",
        device.RecordEventRequest(context_id="c", event_id=1, stream_id="s"),
        "0a016310011a0173",
    ),
    (
        "WaitEventRequest",
        device.WaitEventRequest(context_id="c", event_id=1, stream_id="s"),
        "0a016310011a0173",
    ),
    (
        "SynchronizeEventRequest",
        device.SynchronizeEventRequest(context_id="c", event_id=1, timeout=LEASE),
        "0a016310011a04083c1005",
    ),
    ("QueryEventRequest", device.QueryEventRequest(context_id="c", event_id=1), "0a01631001"),
    ("QueryEventResponse", device.QueryEventResponse(complete=True), "0801"),
    (
        "GetEventElapsedTimeRequest",
        device.GetEventElapsedTimeRequest(context_id="c", start_event_id=1, end_event_id=2),
        "0a016310011802",
    ),
    (
        "GetEventElapsedTimeResponse",
        device.GetEventElapsedTimeResponse(elapsed_ns=-1),
        "08ffffffffffffffffff01",
    ),
    # Submit
    (
        "Error",
        FAILURE,
        """
        0a11494e56414c49445f504152414d45544552100318eae90922016d2a0861636c6e6e41627332047365
        6c663a01724009
        """,
    ),
    (
        "SubmitRequest",
        device.SubmitRequest(
            context_id="c", sequence=1, acknowledged=2, commands=every(device.Command, SUBMIT)
        ),
        """
        0a01631001180222020a002202120022021a002202220022022a002202320022023a002202420022024a
        002202520022025a002202620022026a002202720022027a00220382010022038a010022039201002203
        9a01002203a201002203aa01002203b201002203ba01002203c201002203ca0100
        """,
    ),
    (
        "SubmitResponse",
        device.SubmitResponse(sequence=1, results=every(device.Result, ["error", *SUBMIT])),
        """
        080112020a001202120012021a001202220012022a001202320012023a001202420012024a0012025200
        12025a001202620012026a001202720012027a00120382010012038a0100120392010012039a01001203
        a201001203aa01001203b201001203ba01001203c201001203ca01001203d20100
        """,
    ),
]
