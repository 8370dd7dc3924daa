"""Spans of OpenTelemetry, from the client's call to the server's parts of it."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import grpc
import numpy as np
import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from aclnn.errors import InvalidParameterError
from aclnn.v1 import operator_service_pb2 as op
from aclnn_client import Context, aio, connect, ops
from aclnn_server import server as server_module
from aclnn_server.config import ConfigError, ServerConfig
from aclnn_server.metrics import tracing
from aclnn_server.server import Server
from tests.service.calling import Stubs, Unary
from tests.service.requests import floats, outputs, plan, tensor

SMALL = np.arange(8, dtype=np.float32)


class Collected:
    """Spans that were made in this process, of one side."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """By name; each name once."""
        spans = self._exporter.get_finished_spans()
        found = {span.name: span for span in spans}
        assert len(found) == len(spans)
        return found


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Collected:
    """What servers of this test make."""
    collected = Collected()
    opened = tracing.Spans(collected.provider), collected.provider
    monkeypatch.setattr(server_module, "open_spans", lambda: opened)
    return collected


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Collected:
    """What the client makes, in a program that uses OpenTelemetry."""
    collected = Collected()
    monkeypatch.setattr(trace, "get_tracer", collected.provider.get_tracer)
    return collected


@pytest.fixture
def server(served: Collected) -> Iterator[Server]:
    with Server(ServerConfig(listen="127.0.0.1:0", tracing=True)) as server:
        yield server


@pytest.fixture
def context(server: Server) -> Iterator[Context]:
    with connect(server.address) as context:
        context.ops.neg(SMALL)  # so that calls are known, where nobody follows them
        context.ops.neg(SMALL)
        yield context


def follows(below: ReadableSpan, above: ReadableSpan) -> bool:
    """Whether a span is just below another."""
    assert below.parent is not None
    assert below.context is not None
    assert above.context is not None
    same: bool = below.context.trace_id == above.context.trace_id
    return same and below.parent.span_id == above.context.span_id


def length(span: ReadableSpan) -> int:
    assert span.start_time is not None
    assert span.end_time is not None
    return span.end_time - span.start_time


def check_parts(spans: Mapping[str, ReadableSpan], run: str, parts: set[str]) -> None:
    """Checks that the parts of a run follow each other, and fill it."""
    inner = [spans[part] for part in tracing.PARTS if part in spans]
    assert {span.name for span in inner} == parts
    assert all(follows(span, spans[run]) for span in inner)
    assert sum(map(length, inner)) == length(spans[run])
    assert inner[0].start_time == spans[run].start_time
    for before, after in pairwise(inner):
        assert before.end_time == after.start_time


def test_both_phases(
    context: Context, server: Server, served: Collected, program: Collected
) -> None:
    x, out = context.tensor(SMALL), context.empty((8,), "float32")
    with program.provider.get_tracer("test").start_as_current_span("step"):
        size, executor = ops.aclnnNegGetWorkspaceSize(x, out)
        ops.aclnnNeg(context.malloc(size), size, executor)
        np.testing.assert_array_equal(out.numpy(), -SMALL)
    ours, theirs = program.spans, served.spans
    assert set(ours) == {"step", "aclnnNegGetWorkspaceSize", "aclnnNeg"}
    assert set(theirs) == {"aclnnNegGetWorkspaceSize", "aclnnNeg", "queue", "run"}
    (session_context,) = server.registry.contexts
    for name in ("aclnnNegGetWorkspaceSize", "aclnnNeg"):
        assert follows(ours[name], ours["step"])
        assert follows(theirs[name], ours[name])
        assert (ours[name].kind, theirs[name].kind) == (SpanKind.CLIENT, SpanKind.SERVER)
        assert theirs[name].attributes == {
            "rpc.system": "grpc",
            "aclnn.context": session_context.label,
        }
    check_parts(theirs, "aclnnNeg", {"queue", "run"})


def test_one_line(context: Context, served: Collected, program: Collected) -> None:
    np.testing.assert_array_equal(context.ops.neg(SMALL), -SMALL)
    ours, theirs = program.spans, served.spans
    assert set(ours) == {"aclnnNeg"}
    assert set(theirs) == {
        "aclnnNegGetWorkspaceSize",
        "aclnnNeg",
        *("copy_in", "queue", "run", "copy_out"),
    }
    assert follows(theirs["aclnnNegGetWorkspaceSize"], ours["aclnnNeg"])
    assert follows(theirs["aclnnNeg"], ours["aclnnNeg"])
    check_parts(theirs, "aclnnNeg", {"copy_in", "queue", "run", "copy_out"})


def test_asyncio_programs(server: Server, served: Collected, program: Collected) -> None:
    async def main() -> None:
        async with aio.connect(server.address) as context:
            with program.provider.get_tracer("test").start_as_current_span("step"):
                await context.ops.neg(SMALL)

    asyncio.run(main())
    assert follows(program.spans["aclnnNeg"], program.spans["step"])
    assert follows(served.spans["aclnnNeg"], program.spans["aclnnNeg"])


def test_a_failure(context: Context, served: Collected, program: Collected) -> None:
    x, out = context.tensor(SMALL), context.empty((7,), "float32")
    with pytest.raises(InvalidParameterError) as caught:
        ops.aclnnNegGetWorkspaceSize(x, out)
    for side in (program, served):
        span = side.spans["aclnnNegGetWorkspaceSize"]
        assert span.attributes is not None
        assert span.attributes["aclnn.code"] == 161002
        assert span.status.status_code is StatusCode.ERROR
        assert caught.value.message in (span.status.description or "")


def test_who_follows_nothing_makes_no_spans(context: Context, served: Collected) -> None:
    context.ops.neg(SMALL)
    assert served.spans == {}


def test_what_is_not_recorded_is_not_recorded_here(
    context: Context, served: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = TracerProvider(sampler=ALWAYS_OFF)
    monkeypatch.setattr(trace, "get_tracer", nobody.get_tracer)
    context.ops.neg(SMALL)
    assert served.spans == {}


@pytest.mark.parametrize(
    "traceparent",
    ["nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 4000, "\x00", "00-" + "é" * 52],
    ids=["no span", "zeros", "long", "a zero byte", "other letters"],
)
def test_what_cannot_be_read_is_as_if_it_were_not_there(
    server: Server, served: Collected, traceparent: str
) -> None:
    with grpc.insecure_channel(server.address) as channel:
        client = Unary(Stubs(channel))
        planned = plan("aclnnNeg", floats(1, 2), tensor([2]))
        planned.traceparent = traceparent
        request = op.ExecuteRequest(executor_id=client(planned).executor_id)
        request.traceparent = traceparent
        assert outputs(client(request)) == [[-1.0, -2.0]]
        client.close()
    assert served.spans == {}


def test_without_the_packages_it_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError) as caught:
        Server(ServerConfig(listen="127.0.0.1:0", tracing=True))
    assert str(caught.value) == (
        "tracing needs packages that are not installed (opentelemetry.sdk.trace): "
        "pip install 'aclnn-serve[tracing]'"
    )


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector that takes what is exported to it."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Any]] = []
        """Names of services, and spans."""
        self.come = threading.Event()

    def Export(self, request: Any, _: object) -> Any:  # noqa: ANN401 - gRPC's form
        for resource in request.resource_spans:
            (service,) = (
                attribute.value.string_value
                for attribute in resource.resource.attributes
                if attribute.key == "service.name"
            )
            for scope in resource.scope_spans:
                self.spans += [(service, span) for span in scope.spans]
        self.come.set()
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    yield collector
    server.stop(0).wait()


def test_a_server_sends_them_to_a_collector_before_it_is_gone(
    collector: Collector, program: Collected
) -> None:
    with (
        Server(ServerConfig(listen="127.0.0.1:0", tracing=True)) as server,
        connect(server.address) as context,
    ):
        context.ops.neg(SMALL)
    assert collector.come.is_set()
    ours = program.spans["aclnnNeg"].context
    assert ours is not None
    assert {service for service, _ in collector.spans} == {"aclnn-serve"}
    found = {span.name: span for _, span in collector.spans}
    assert set(found) == {"aclnnNegGetWorkspaceSize", "aclnnNeg", *tracing.PARTS}
    assert found["aclnnNeg"].trace_id == ours.trace_id.to_bytes(16, "big")
    assert found["aclnnNeg"].parent_span_id == ours.span_id.to_bytes(8, "big")
