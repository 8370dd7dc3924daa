"""Messages of AdminService, as golden_messages.py has the others."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from aclnn.v1 import admin_service_pb2 as admin
from aclnn.v1 import device_service_pb2 as device

ACTIVITY = admin.Activity(
    calls_per_second=1.0,
    runs_per_second=2.0,
    errors_per_second=3.0,
    received_per_second=4.0,
    sent_per_second=5.0,
    latency=admin.Latency(
        runs=1,
        queue_seconds=0.5,
        copy_in_seconds=0.25,
        run_seconds=0.125,
        copy_out_seconds=2.0,
        p50_seconds=1.0,
        p99_seconds=4.0,
    ),
)
BUSY = admin.Activity(runs_per_second=2.0)
USAGE = device.Usage(contexts=1)

GOLDEN: list[tuple[str, Message, str]] = [
    (
        "GetOverviewRequest",
        admin.GetOverviewRequest(max_contexts=1, max_streams=2),
        "08011002",
    ),
    (
        "Activity",
        ACTIVITY,
        """
        09000000000000f03f110000000000000040190000000000000840210000000000001040290000000000
        0014403238080111000000000000e03f19000000000000d03f21000000000000c03f2900000000000000
        4031000000000000f03f390000000000001040
        """,
    ),
    (
        "GetOverviewResponse",
        admin.GetOverviewResponse(
            version="0.1.0",
            backend="numpy",
            ready=True,
            counted=True,
            uptime=Duration(seconds=60),
            window=Duration(seconds=10),
            usage=USAGE,
            submit_calls=2,
            calls_in_hand=3,
            activity=BUSY,
            devices=[
                admin.DeviceOverview(device=device.Device(index=1), usage=USAGE, activity=BUSY)
            ],
            contexts=[
                admin.ContextOverview(
                    label="0a1b2c3d",
                    owner="o",
                    client_name="n",
                    device_index=1,
                    age=Duration(seconds=2),
                    silent=Duration(seconds=1),
                    usage=USAGE,
                    limit_bytes=2**40,
                    activity=BUSY,
                    streams=[
                        admin.StreamOverview(label="4e5f6071", queued_commands=1, activity=BUSY)
                    ],
                )
            ],
            operators=[
                admin.OperatorOverview(operator="aclnnAbs", runs=1, failures=2, activity=BUSY)
            ],
        ),
        """
        0a05302e312e3012056e756d7079180120012a02083c3202080a3a020801400248035209110000000000
        0000405a130a020801120208011a0911000000000000004062490a08306131623263336412016f1a016e
        20012a020802320208013a020801408080808080204a0911000000000000004052170a08346535663630
        373110011a091100000000000000406a190a0861636c6e6e416273100118022209110000000000000040
        """,
    ),
]
