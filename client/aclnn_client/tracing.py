"""Spans of OpenTelemetry around the phases of a call, where the program uses OpenTelemetry.

A program that has set up OpenTelemetry (its API is imported, and a provider is configured) gets a span
for each phase, below its own. Its identity goes with the request, so that a server that collects spans as
well puts its own below. Others pay nothing.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from aclnn import __version__, wire
from aclnn.errors import AclnnError
from aclnn.v1 import operator_service_pb2 as pb

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_PHASE_ONE = wire.tag(pb.GetWorkspaceSizeRequest, "traceparent")
_PHASE_TWO = wire.tag(pb.ExecuteRequest, "traceparent")
_LENGTH = 55
"""Characters of a traceparent of version 00."""


class Followed(Protocol):
    """A block that is followed, or not."""

    def __enter__(self) -> Followed:
        """Begins it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends it."""

    @property
    def phase_one(self) -> tuple[bytes, ...]:
        """What makes a GetWorkspaceSizeRequest followed; its last field."""

    @property
    def phase_two(self) -> tuple[bytes, ...]:
        """What makes an ExecuteRequest followed; its last field."""


class _Nobody:
    """A block that nobody follows."""

    phase_one: tuple[bytes, ...] = ()
    phase_two: tuple[bytes, ...] = ()

    def __enter__(self) -> _Nobody:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_NOBODY = _Nobody()


class _Spanned:
    """A block that is a span."""

    def __init__(self, span: Span, current: Any) -> None:  # noqa: ANN401 - a context manager of a span
        self._span = span
        self._current = current
        given = span.get_span_context()
        parent = f"00-{given.trace_id:032x}-{given.span_id:016x}-{given.trace_flags:02x}".encode()
        assert len(parent) == _LENGTH
        self.phase_one = (_PHASE_ONE + wire.varint(_LENGTH) + parent,)
        self.phase_two = (_PHASE_TWO + wire.varint(_LENGTH) + parent,)

    def __enter__(self) -> _Spanned:
        self._current.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, AclnnError):
            self._span.set_attribute("aclnn.code", error.code)
        self._current.__exit__(kind, error, traceback)


def follow(name: str) -> Followed:
    """A span for a block, where the program follows what it does.

    Args:
        name: of the C function, or of the one-line form.
    """
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return _NOBODY
    tracer = api.get_tracer("aclnn_client", __version__)
    span = tracer.start_span(name, kind=api.SpanKind.CLIENT, attributes={"rpc.system": "grpc"})
    if not span.is_recording():
        return _NOBODY
    return _Spanned(span, api.use_span(span, end_on_exit=True))
