"""What a server does, as AdminService tells it: the same on both sides, and as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from aclnn.v1 import admin_service_pb2 as pb

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Latency:
    """Where the time of runs of operators went, in the window; seconds of one run."""

    runs: int = 0
    """Runs that ended well."""
    queue_seconds: float = 0.0
    """Mean time from being queued to being started."""
    copy_in_seconds: float = 0.0
    """Mean time of taking inline inputs in."""
    run_seconds: float = 0.0
    """Mean time of computing."""
    copy_out_seconds: float = 0.0
    """Mean time of taking inline outputs out."""
    p50_seconds: float = 0.0
    """Time that half of the runs did not exceed; exact to a factor of two."""
    p99_seconds: float = 0.0
    """Time that 99 of 100 runs did not exceed; exact to a factor of two."""


@dataclass(frozen=True, slots=True)
class Activity:
    """How much was done, a second, in the window."""

    calls_per_second: float = 0.0
    """Calls and commands."""
    runs_per_second: float = 0.0
    """Runs of operators."""
    errors_per_second: float = 0.0
    """Calls and commands answered with an error."""
    received_per_second: float = 0.0
    """Bytes of requests."""
    sent_per_second: float = 0.0
    """Bytes of answers."""
    latency: Latency = Latency()
    """Times of the runs."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a server, a device or a context holds now."""

    contexts: int = 0
    """Contexts."""
    streams: int = 0
    """Streams, default ones included."""
    executors: int = 0
    """Executors planned and not yet freed."""
    buffers: int = 0
    """Buffers, freed ones that queued work still uses included."""
    bytes: int = 0
    """Bytes of device memory in buffers, workspaces and inline tensors."""
    events: int = 0
    """Events."""
    queued_commands: int = 0
    """Commands queued or running."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device of a server."""

    index: int = 0
    """Its index, as ``connect(device=…)`` takes it."""
    name: str = ""
    """Its product name, or the host processor's."""
    total_bytes: int = 0
    """Memory in bytes; 0 where not known."""
    free_bytes: int = 0
    """Memory that is free, in bytes; 0 where not known."""
    context_count: int = 0
    """Contexts on it."""


@dataclass(frozen=True, slots=True)
class DeviceOverview:
    """A device with what is done on it."""

    device: DeviceInfo = DeviceInfo()
    usage: Usage = Usage()
    activity: Activity = Activity()


@dataclass(frozen=True, slots=True)
class StreamOverview:
    """A stream with what is done in it."""

    label: str = ""
    queued_commands: int = 0
    activity: Activity = Activity()
    """Of the rates, that of runs."""


@dataclass(frozen=True, slots=True)
class ContextOverview:
    """A context with what is done in it."""

    label: str = ""
    owner: str = ""
    """Name of the token that it was opened with; empty without tokens."""
    client_name: str = ""
    """What the client called itself."""
    device_index: int = 0
    age: float = 0.0
    """Seconds since it was opened."""
    silent: float = 0.0
    """Seconds since its client was last heard of."""
    usage: Usage = Usage()
    limit_bytes: int = 0
    """Device memory that it may hold."""
    activity: Activity = Activity()
    streams: tuple[StreamOverview, ...] = ()
    """Its busiest streams."""


@dataclass(frozen=True, slots=True)
class OperatorOverview:
    """An operator with what is done with it."""

    operator: str = ""
    runs: int = 0
    """Runs that ended well, since the server's start."""
    failures: int = 0
    """Runs that failed, since the server's start."""
    activity: Activity = Activity()
    """Its runs in the window; of the rates, that of runs."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What a server does."""

    version: str = ""
    backend: str = ""
    ready: bool = False
    """Whether new contexts are welcome."""
    counted: bool = False
    """Whether calls are counted; where they are not, all rates are 0."""
    uptime: float = 0.0
    """Seconds since the server's start."""
    window: float = 0.0
    """Seconds up to now that rates and latencies are of."""
    usage: Usage = Usage()
    """What all contexts hold together."""
    submit_calls: int = 0
    """Open Submit calls."""
    calls_in_hand: int = 0
    """Calls and commands that are being served."""
    activity: Activity = Activity()
    devices: tuple[DeviceOverview, ...] = ()
    contexts: tuple[ContextOverview, ...] = ()
    """The busiest contexts."""
    operators: tuple[OperatorOverview, ...] = ()
    """The operators that were run, the one that took most time in the window first."""


def encode(overview: Overview) -> pb.GetOverviewResponse:
    """Encodes an overview for the wire."""
    response = pb.GetOverviewResponse()
    _write(overview, response)
    return response


def decode(response: pb.GetOverviewResponse) -> Overview:
    """Decodes an overview."""
    return _read(Overview, response)


def as_json(overview: Overview) -> dict[str, Any]:
    """The overview as JSON knows it."""
    return dataclasses.asdict(overview)


def _write(value: Any, message: Message) -> None:  # noqa: ANN401 - any of the dataclasses above
    for field in message.DESCRIPTOR.fields:
        given = getattr(value, field.name)
        if field.message_type is None:
            setattr(message, field.name, given)
        elif field.message_type is Duration.DESCRIPTOR:
            getattr(message, field.name).FromNanoseconds(round(given * 1e9))
        elif field.is_repeated:
            for item in given:
                _write(item, getattr(message, field.name).add())
        else:
            _write(given, getattr(message, field.name))


def _read(kind: type[T], message: Message) -> T:
    defaults = kind()
    return kind(
        **{
            field.name: _read_field(
                getattr(message, field.name), field, getattr(defaults, field.name)
            )
            for field in message.DESCRIPTOR.fields
        }
    )


def _read_field(given: Any, field: Any, default: object) -> object:  # noqa: ANN401 - protobuf's
    if field.message_type is None:
        return given
    if field.message_type is Duration.DESCRIPTOR:
        return given.ToNanoseconds() / 1e9
    if field.is_repeated:
        return tuple(_read(_ITEMS[field.name], item) for item in given)
    return _read(type(default), given)


_ITEMS: dict[str, type[Any]] = {
    "devices": DeviceOverview,
    "contexts": ContextOverview,
    "operators": OperatorOverview,
    "streams": StreamOverview,
}
