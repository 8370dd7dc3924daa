"""Spans of OpenTelemetry, of calls whose clients follow them.

They are made when all is over, with the times that were measured anyway, so that a call that nobody follows
costs nothing. A run is a span from being queued to its end, with one below it for each part.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from aclnn import __version__
from aclnn.errors import AclnnError
from aclnn_server.config import ConfigError
from aclnn_server.sessions.timing import Timing

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider as SdkProvider
    from opentelemetry.trace import Span, TracerProvider

PARTS = ("copy_in", "queue", "run", "copy_out")
"""Parts of a run, in their order; bytes that came with phase one were taken in before it was queued."""


class Spans:
    """Makes spans; what :class:`~aclnn_server.sessions.traces.Traces` asks for."""

    def __init__(self, provider: TracerProvider) -> None:
        """Makes them by a provider of OpenTelemetry's SDK."""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = provider.get_tracer("aclnn_server", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def note_call(
        self,
        traceparent: str,
        name: str,
        context: str,
        nanoseconds: int,
        failure: BaseException | None,
    ) -> None:
        """See :class:`~aclnn_server.sessions.traces.Traces`."""
        end = time.time_ns()
        if (parent := self._parent(traceparent)) is not None:
            span = self._begin(parent, name, context, end - nanoseconds)
            _end(span, end, failure)

    def note_run(
        self,
        traceparent: str,
        operator: str,
        context: str,
        timing: Timing,
        failure: BaseException | None,
    ) -> None:
        """See :class:`~aclnn_server.sessions.traces.Traces`."""
        from opentelemetry.trace import set_span_in_context

        end = time.time_ns()
        if (parent := self._parent(traceparent)) is None:
            return
        lengths = [getattr(timing, part) for part in PARTS]
        begin = end - sum(lengths)
        span = self._begin(parent, operator, context, begin)
        below = set_span_in_context(span)
        for part, length in zip(PARTS, lengths, strict=True):
            if length:
                inner = self._tracer.start_span(part, below, start_time=begin)
                inner.end(begin + length)
            begin += length
        _end(span, end, failure)

    def _parent(self, traceparent: str) -> Context | None:
        """The caller's span; ``None`` where it cannot be read, or its trace is not recorded."""
        from opentelemetry.trace import get_current_span

        found = self._propagator.extract({"traceparent": traceparent})
        span = get_current_span(found).get_span_context()
        return found if span.is_valid and span.trace_flags.sampled else None

    def _begin(self, parent: Context, name: str, context: str, begin: int) -> Span:
        from opentelemetry.trace import SpanKind

        facts = {"rpc.system": "grpc", "aclnn.context": context}
        return self._tracer.start_span(
            name, parent, kind=SpanKind.SERVER, attributes=facts, start_time=begin
        )


def _end(span: Span, end: int, failure: BaseException | None) -> None:
    from opentelemetry.trace import Status, StatusCode

    if isinstance(failure, AclnnError):
        span.set_attribute("aclnn.code", failure.code)
        span.set_status(Status(StatusCode.ERROR, failure.message))
    elif failure is not None:
        span.set_status(Status(StatusCode.ERROR, "unexpected failure"))
    span.end(end)


def open_spans() -> tuple[Spans, SdkProvider]:
    """Spans that go to a collector as OpenTelemetry's variables ``OTEL_…`` say, and their provider.

    The provider's ``shutdown`` sends what is left.

    Raises:
        ConfigError: the packages of the extra ``tracing`` are not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(
            f"tracing needs packages that are not installed ({error.name}): "
            "pip install 'aclnn-serve[tracing]'"
        ) from None
    service = Resource.create({"service.version": __version__})
    if str(service.attributes["service.name"]).startswith("unknown_service"):
        service = service.merge(Resource({"service.name": "aclnn-serve"}))
    provider = TracerProvider(resource=service)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Spans(provider), provider
