"""Metrics have the values of what was done, exactly."""

from __future__ import annotations

import grpc
import numpy as np
import pytest

from aclnn import __version__
from aclnn.errors import AclnnError, InvalidParameterError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client import Context, connect, get_workspace_size, ops
from aclnn_server.metrics.catalogue import METRICS, Kind
from aclnn_server.server import Server
from tests.metrics.asking import Scrape, ask
from tests.metrics.conftest import Start
from tests.service.calling import Stubs, Submitting, Unary
from tests.service.gated import GatedBackend
from tests.service.requests import failing, floats, plan, run, tensor

ONES = np.ones((4, 2), np.float32)
BIG = np.ones(2**19, np.float32)
"""Its work goes to a worker."""


def test_every_metric_of_the_catalogue_is_there_and_no_other(
    server: Server, context: Context
) -> None:
    context.ops.add(ONES, ONES)
    with pytest.raises(InvalidParameterError):
        context.ops.softmax(ONES, dim=7)
    scrape = Scrape(server)
    told = {name: family for name, family in scrape.families.items() if name.startswith("aclnn")}
    names = {metric.name.removesuffix("_total"): metric for metric in METRICS}
    assert set(told) == set(names)
    for name, family in told.items():
        metric = names[name]
        assert (family.type, family.documentation) == (metric.kind.value, metric.help)
        extra = {"le"} if metric.kind is Kind.HISTOGRAM else set()
        for sample in family.samples:
            assert set(sample.labels) - extra == set(metric.labels)
    assert scrape("process_cpu_seconds_total") is not None


def test_what_the_server_is(server: Server) -> None:
    scrape = Scrape(server)
    about = {"version": __version__, "protocol": 1, "backend": "numpy", "soc": "reference"}
    assert scrape("aclnn_serve_build_info", **about) == 1
    assert scrape("aclnn_serve_ready") == 1
    assert scrape("aclnn_serve_limit", limit="contexts") == server.config.max_contexts
    name = server.backend.devices[0].name
    assert scrape("aclnn_serve_device_info", device=0, name=name) == 1
    assert (
        scrape("aclnn_serve_device_memory_bytes", device=0)
        == (server.backend.devices[0].memory_info()[1])
    )


def test_what_contexts_hold(server: Server, context: Context) -> None:
    tensor = context.tensor(BIG)
    stream = context.create_stream()
    stream.synchronize()
    with connect(server.address, shared_memory=False) as other:
        other.synchronize()
        scrape = Scrape(server)
    who = {"device": 0, "owner": ""}
    held = {
        name: scrape(f"aclnn_serve_{name}", **who)
        for name in ("contexts", "streams", "buffers", "memory_used_bytes", "queued_commands")
    }
    assert held == {
        "contexts": 2,
        "streams": 3,
        "buffers": 1,
        "memory_used_bytes": BIG.nbytes,
        "queued_commands": 0,
    }
    assert scrape("aclnn_serve_memory_limit_bytes", **who) == 2 * server.config.max_context_bytes
    assert scrape("aclnn_serve_submit_calls") == 2
    tensor.free()
    context.synchronize()
    assert Scrape(server)("aclnn_serve_memory_used_bytes", **who) == 0


def test_runs_are_counted_by_operator_with_their_times(server: Server, context: Context) -> None:
    for _ in range(5):
        context.ops.add(ONES, ONES)
    a, out = context.tensor(ONES), context.empty(ONES.shape, "float32")
    for _ in range(3):
        size, executor = ops.aclnnReluGetWorkspaceSize(a, out)
        ops.aclnnRelu(context.malloc(size), size, executor)
    context.synchronize()
    scrape = Scrape(server)
    who = {"device": 0, "owner": ""}
    assert scrape("aclnn_serve_executions_total", operator="aclnnAdd", **who) == 5
    assert scrape("aclnn_serve_executions_total", operator="aclnnRelu", **who) == 3
    for name, runs in (("aclnnAdd", 5), ("aclnnRelu", 3)):
        assert scrape("aclnn_serve_execution_seconds_count", operator=name) == runs
        buckets = scrape.all("aclnn_serve_execution_seconds_bucket")
        of_name = [(dict(labels), count) for labels, count in buckets.items()]
        counts = [count for labels, count in of_name if labels["operator"] == name]
        assert counts == sorted(counts)
        assert counts[-1] == runs
        parts = [
            scrape("aclnn_serve_execution_part_seconds_sum", operator=name, part=part) or 0.0
            for part in ("queue", "copy_in", "run", "copy_out")
        ]
        whole = scrape("aclnn_serve_execution_seconds_sum", operator=name)
        assert sum(parts) == pytest.approx(whole, rel=1e-9)
    run = sum(
        value
        for labels, value in scrape.all("aclnn_serve_execution_part_seconds_sum").items()
        if ("part", "run") in labels
    )
    assert scrape("aclnn_serve_run_seconds_total", **who) == pytest.approx(run, rel=1e-9)


@pytest.mark.parametrize("kind", [Unary, Submitting])
def test_calls_and_bytes_are_counted(
    kind: type[Unary] | type[Submitting], start: Start, backend: GatedBackend
) -> None:
    server = start(backend)
    with grpc.insecure_channel(server.address) as channel:
        caller = kind(Stubs(channel))
        before = Scrape(server)
        caller(pb.MallocRequest(buffer_id=1, bytes=4096))
        caller(pb.WriteBufferRequest(buffer_id=1, data=bytes(4096)))
        caller(pb.ReadBufferRequest(buffer_id=1, bytes=4000))
        caller(pb.ReadBufferRequest(buffer_id=1, bytes=96))
        after = Scrape(server)
        caller.close()
    assert after.growth(before, "aclnn_serve_calls_total") == {
        ("0", "Malloc", ""): 1,
        ("0", "WriteBuffer", ""): 1,
        ("0", "ReadBuffer", ""): 2,
    }
    received = after.growth(before, "aclnn_serve_received_bytes_total")["0", ""]
    sent = after.growth(before, "aclnn_serve_sent_bytes_total")["0", ""]
    assert 4096 <= received <= 4096 + 300
    assert 4096 <= sent <= 4096 + 300


@pytest.mark.parametrize("kind", [Unary, Submitting])
def test_errors_are_counted_by_cause(
    kind: type[Unary] | type[Submitting], start: Start, backend: GatedBackend
) -> None:
    server = start(backend)
    with grpc.insecure_channel(server.address) as channel:
        caller = kind(Stubs(channel))
        before = Scrape(server)
        refused = [
            pb.FreeRequest(buffer_id=77),
            plan("aclnnNoSuchThing\n{evil}"),
            plan("aclnnRefuse", floats(1), tensor([1])),
        ]
        for request in refused:
            with pytest.raises(AclnnError):
                caller(request)
        after = Scrape(server)
        caller.close()
    # Labels in the order of their names: code, device, method, operator, owner, reason.
    assert after.growth(before, "aclnn_serve_errors_total") == {
        ("107017", "0", "Free", "", "", "HANDLE_NOT_FOUND"): 1,
        ("100024", "0", "GetWorkspaceSize", "", "", "OPERATOR_NOT_FOUND"): 1,
        ("561000", "0", "GetWorkspaceSize", "", "", "INTERNAL"): 1,
    }


@pytest.mark.parametrize("number", [7, -7])
def test_a_run_that_fails_is_counted_as_such(
    number: int, start: Start, backend: GatedBackend
) -> None:
    server = start(backend)
    with grpc.insecure_channel(server.address) as channel:
        caller = Submitting(Stubs(channel))
        caller(pb.MallocRequest(buffer_id=1, bytes=8))
        caller(failing(number, 1, executor=5))
        caller(run(5))
        with pytest.raises(AclnnError) as failure:
            caller(pb.SynchronizeStreamRequest())
        scrape = Scrape(server)
        caller.close()
    who = {"device": 0, "owner": ""}
    why = {"reason": failure.value.reason, "code": failure.value.code}
    name = {"operator": "aclnnFail"}
    assert scrape("aclnn_serve_executions_total", **name, **who) == 1
    assert scrape("aclnn_serve_execution_failures_total", **name, **why, **who) == 1
    assert scrape("aclnn_serve_execution_seconds_count", **name) is None
    told = scrape.all("aclnn_serve_errors_total")
    assert [dict(labels)["method"] for labels in told] == ["SynchronizeStream"]


def test_the_queue_is_seen_while_it_is_there(start: Start, backend: GatedBackend) -> None:
    server = start(backend, workers=1)
    with connect(server.address) as context:
        big, out = context.tensor(BIG), context.empty(BIG.shape, "float32")
        for _ in range(3):
            _, executor = get_workspace_size("aclnnPass", (big, 1, out))
            executor.run()
        context.usage()
        backend.gates[1].wait_entered()
        assert Scrape(server)("aclnn_serve_queued_commands", device=0, owner="") == 3
        backend.gates.open_all()
        context.synchronize()
        assert Scrape(server)("aclnn_serve_queued_commands", device=0, owner="") == 0


def test_contexts_that_have_ended_are_counted_and_lose_nothing(start: Start) -> None:
    server = start()
    with connect(server.address) as context:
        context.ops.add(ONES, ONES)
    scrape = Scrape(server)
    who = {"device": 0, "owner": ""}
    assert scrape("aclnn_serve_contexts", **who) is None
    assert scrape("aclnn_serve_contexts_opened_total", **who) == 1
    assert scrape("aclnn_serve_contexts_ended_total", reason="closed", **who) == 1
    assert scrape("aclnn_serve_executions_total", operator="aclnnAdd", **who) == 1
    assert scrape("aclnn_serve_calls_total", method="Execute", **who) == 1
    assert scrape("aclnn_serve_calls_total", method="DestroyContext", device="", owner="") == 1


def test_without_metering_there_are_gauges_only(start: Start) -> None:
    server = start(metering=False)
    with connect(server.address) as context:
        context.ops.add(ONES, ONES)
        scrape = Scrape(server)
    kinds = {
        family.type for name, family in scrape.families.items() if name.startswith("aclnn_serve")
    }
    assert kinds == {"gauge"}
    assert scrape("aclnn_serve_contexts", device=0, owner="") == 1


def test_openmetrics_is_answered_where_it_is_asked_for(server: Server) -> None:
    accepted = "application/openmetrics-text; version=1.0.0"
    answer, body = ask(server, "/metrics", Accept=accepted)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
