"""A channel that can be begun anew, under the stubs that were made of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import grpc


class Channel:
    """gRPC's channel to one server, or its successor. Thread-safe.

    gRPC may give new calls to a connection that has ended for as long as a write is stuck in it: until the
    machine's network gives up, which takes 10 seconds. So what is made anew is made over another channel.
    """

    def __init__(self, open_channel: Callable[[], grpc.Channel]) -> None:
        """Opens the first one.

        Args:
            open_channel: opens a channel, without waiting.
        """
        self._open = open_channel
        self._lock = threading.Lock()
        self.closed = False
        """Whether it has been closed."""
        self._before: grpc.Channel | None = None
        self.current = open_channel()
        """The channel that calls begin in."""

    def renew(self) -> None:
        """Lets calls begin over another connection; those of the last one may end there."""
        with self._lock:
            if self.closed:
                return
            over, self._before, self.current = self._before, self.current, self._open()
        _close_soon(over)

    def close(self) -> None:
        """Closes it; calls that are under way end. Without effect where that is done."""
        with self._lock:
            closed, self.closed = self.closed, True
        if not closed:
            _close_soon(self._before)
            self.current.close()

    # --- what stubs are made of ---------------------------------------------------------------------

    def unary_unary(self, *method: Any, **options: Any) -> Callable[..., Any]:  # noqa: ANN401
        """As gRPC's."""
        return self._following("unary_unary", method, options)

    def unary_stream(self, *method: Any, **options: Any) -> Callable[..., Any]:  # noqa: ANN401
        """As gRPC's."""
        return self._following("unary_stream", method, options)

    def stream_unary(self, *method: Any, **options: Any) -> Callable[..., Any]:  # noqa: ANN401
        """As gRPC's."""
        return self._following("stream_unary", method, options)

    def stream_stream(self, *method: Any, **options: Any) -> Callable[..., Any]:  # noqa: ANN401
        """As gRPC's."""
        return self._following("stream_stream", method, options)

    def _following(
        self, kind: str, method: tuple[Any, ...], options: dict[str, Any]
    ) -> Callable[..., Any]:
        """A method's calls, each in the channel of its time."""
        # To register a method with a channel that is closed ends the process.
        options.pop("_registered_method", None)

        def call(*request: Any, **how: Any) -> Any:  # noqa: ANN401
            return getattr(self.current, kind)(*method, **options)(*request, **how)

        return call


def _close_soon(channel: grpc.Channel | None) -> None:
    """Closes a channel in a thread: it waits for calls whose writes are stuck."""
    if channel is not None:
        threading.Thread(target=channel.close, name="aclnn-closing", daemon=True).start()
