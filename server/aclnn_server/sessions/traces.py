"""Calls that their callers follow: what becomes of them is told to whoever collects it."""

from __future__ import annotations

from typing import Protocol

from aclnn_server.sessions.timing import Timing


class Traces(Protocol):
    """Collects. Called from any thread, just after what it is told of; never raises."""

    def note_call(
        self,
        traceparent: str,
        name: str,
        context: str,
        nanoseconds: int,
        failure: BaseException | None,
    ) -> None:
        """Notes a phase that was answered at once.

        Args:
            traceparent: span of the caller, as it was given.
            name: of the C function, or of the call where that is not known.
            context: label of the context.
            nanoseconds: that it took.
            failure: what it failed with.
        """

    def note_run(
        self,
        traceparent: str,
        operator: str,
        context: str,
        timing: Timing,
        failure: BaseException | None,
    ) -> None:
        """Notes a run, from being queued to its end; arguments as of :meth:`note_call`."""
