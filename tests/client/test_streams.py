"""Streams and events: order, waiting, time limits, and their end."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from aclnn_client import (
    Context,
    HandleNotFoundError,
    InvalidParameterError,
    NotReadyError,
    Stream,
    Tensor,
    WaitTimeoutError,
    connect,
    get_workspace_size,
)
from aclnn_server.server import Server
from tests.service.gated import GatedBackend


def queue(context: Context, stream: Stream | None = None, gate: int = 0) -> Tensor:
    """Queues a kernel that waits at a gate, and gives its output: 0 before, 7 after.

    Its tensors are large, so that the server lets a worker run it.
    """
    source = context.tensor(np.full(1 << 20, 7, np.int8))
    out = context.empty((1 << 20,), "int8")
    get_workspace_size("aclnnPass", (source, gate, out))[1].run(stream)
    return out


def test_work_is_under_way_until_it_is_waited_for(gated: Context, backend: GatedBackend) -> None:
    stream = gated.create_stream()
    out = queue(gated, stream, gate=1)
    backend.gates[1].wait_entered()
    assert not stream.query()
    assert gated.default_stream.query()
    with pytest.raises(WaitTimeoutError) as caught:
        stream.synchronize(timeout=0.01)
    assert caught.value.code == 507046
    with pytest.raises(WaitTimeoutError):
        gated.synchronize(timeout=0)
    backend.gates[1].open()
    stream.synchronize()
    assert stream.query()
    assert (out.numpy() == 7).all()


def test_streams_do_not_wait_for_each_other(gated: Context, backend: GatedBackend) -> None:
    slow, fast = gated.create_stream(), gated.create_stream()
    queue(gated, slow, gate=1)
    backend.gates[1].wait_entered()
    assert (queue(gated, fast).numpy() == 7).all()
    assert not slow.query()
    backend.gates[1].open()
    gated.synchronize()


def test_an_event_orders_streams(gated: Context, backend: GatedBackend) -> None:
    first, second = gated.create_stream(), gated.create_stream()
    queue(gated, first, gate=1)
    event = gated.create_event()
    assert event.query()
    event.record(first)
    second.wait(event)
    queue(gated, second, gate=2)
    backend.gates[1].wait_entered()
    assert not event.query()
    with pytest.raises(WaitTimeoutError) as caught:
        event.synchronize(timeout=0.01)
    assert caught.value.code == 507047
    assert backend.gates[2].untouched
    backend.gates.open_all()
    event.synchronize()
    assert event.query()
    second.synchronize(timeout=30)


def test_events_time_the_work_between_them(context: Context) -> None:
    start, end = context.create_event(), context.create_event()
    with pytest.raises(NotReadyError) as caught:
        start.elapsed_time(end)
    assert caught.value.code == 107006
    start.record()
    end.record()
    end.synchronize()
    elapsed = start.elapsed_time(end)
    assert isinstance(elapsed, float)
    assert 0 <= elapsed < 30_000
    assert end.elapsed_time(start) == -elapsed
    assert start.elapsed_time(start) == 0


def test_the_with_block_waits_and_destroys(gated: Context) -> None:
    with gated.create_stream() as stream:
        out = queue(gated, stream)
        assert gated.usage().streams == 2
    assert gated.usage().streams == 1
    assert (out.numpy() == 7).all()
    assert "destroyed" in repr(stream)
    stream.destroy()
    stream.close()
    with pytest.raises(HandleNotFoundError):
        stream.synchronize()


def test_an_error_in_the_block_does_not_wait(gated: Context, backend: GatedBackend) -> None:
    def block() -> None:
        with gated.create_stream() as stream:
            queue(gated, stream, gate=1)
            raise KeyError

    with pytest.raises(KeyError):
        block()
    backend.gates.open_all()
    assert gated.usage().streams == 1


def test_destroying_drops_what_is_queued(gated: Context, backend: GatedBackend) -> None:
    stream, other = gated.create_stream(), gated.create_stream()
    queue(gated, other, gate=1)
    backend.gates[1].wait_entered()
    event = gated.create_event()
    event.record(other)
    stream.wait(event)
    out = queue(gated, stream)
    stream.destroy()
    backend.gates.open_all()
    gated.synchronize()
    assert not out.numpy().any()
    assert len(backend.device.runs) == 1


def test_the_default_stream_lives_with_its_context(context: Context) -> None:
    with pytest.raises(NotReadyError):
        context.default_stream.destroy()
    context.default_stream.synchronize()
    assert "default" in repr(context.default_stream)


def test_abandoned_streams_finish_their_work(gated: Context, backend: GatedBackend) -> None:
    stream = gated.create_stream()
    out = queue(gated, stream, gate=1)
    backend.gates.open_all()
    buffer_id = out.buffer.buffer_id
    del stream
    gc.collect()
    assert gated.usage().streams == 2
    assert (out.numpy() == 7).all()
    assert out.buffer.buffer_id == buffer_id
    del out
    gc.collect()
    assert gated.usage().streams == 1


def test_events_end(context: Context) -> None:
    first, second = context.create_event(), context.create_event()
    assert context.usage().events == 2
    first.destroy()
    first.destroy()
    assert context.usage().events == 1
    with pytest.raises(HandleNotFoundError):
        first.synchronize()
    assert repr(second) == f"<Event {second.event_id}>"
    del second
    gc.collect()
    assert context.usage().events == 0


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf")])
def test_impossible_time_limits_are_refused(context: Context, timeout: float) -> None:
    for wait in (
        context.synchronize,
        context.default_stream.synchronize,
        context.create_event().synchronize,
    ):
        with pytest.raises(InvalidParameterError, match="seconds of at least 0"):
            wait(timeout)


def test_contexts_do_not_mix(context: Context, server: Server) -> None:
    with connect(server.address) as other:
        event, theirs = context.create_event(), other.create_event()
        for call in (
            lambda: other.default_stream.wait(event),
            lambda: event.record(other.default_stream),
            lambda: event.elapsed_time(theirs),
        ):
            with pytest.raises(InvalidParameterError, match="another context"):
                call()


def test_the_time_limit_of_the_connection_adds_to_that_of_the_wait(
    gated_server: Server, backend: GatedBackend
) -> None:
    with connect(gated_server.address, timeout=20) as context:
        queue(context, gate=1)
        backend.gates[1].wait_entered()
        with pytest.raises(WaitTimeoutError):
            context.default_stream.synchronize(timeout=0.01)
        backend.gates.open_all()
        context.synchronize()
