"""Every metric: its name, kind, labels and meaning, in one table."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Kind(enum.StrEnum):
    """Prometheus's kinds."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    name: str
    """As it is queried: a counter's ends with ``_total``."""
    kind: Kind
    labels: tuple[str, ...]
    help: str
    """One sentence, which ``/metrics`` carries too."""


LABELS = {
    "code": "code that the vendor's C API returns for the cause, such as 161002",
    "device": "index of the device",
    "limit": "name of the limit, as the flag has it without `max-`",
    "method": "name of the call in the protocol, unary or inside of Submit, such as Execute",
    "name": "product name of the device",
    "operator": "C name of the operator, or empty where the call is of none",
    "owner": "name of the token that opened the context; empty, and so not there, without tokens",
    "part": "`queue`: from being queued to being started; `copy_in`: taking in arrays that came with the "
    "call; `run`: computing; `copy_out`: taking out arrays that go back with the answer",
    "reason": "machine-readable cause, such as INVALID_PARAMETER; of a context's end: `closed` by its "
    "client, `lease` when that was silent, `token` when its token was withdrawn or expired, `stop` with "
    "the server",
}
"""What labels stand for."""


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"aclnn_serve_{name}", Kind.GAUGE, labels, text)


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"aclnn_serve_{name}_total", Kind.COUNTER, labels, text)


def _histogram(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"aclnn_serve_{name}", Kind.HISTOGRAM, labels, text)


_WHO = ("device", "owner")

BUILD_INFO = _gauge(
    "build_info", "1, with what the server is as labels.", "version", "protocol", "backend", "soc"
)
READY = _gauge("ready", "1 while new work is welcome; 0 while the server starts or drains.")
START_TIME = _gauge("start_time_seconds", "When the server was started, in seconds since 1970.")
LIMIT = _gauge("limit", "A limit in force.", "limit")
DEVICE_INFO = _gauge("device_info", "1, with what the device is as labels.", "device", "name")
DEVICE_MEMORY = _gauge(
    "device_memory_bytes", "Memory of the device; missing where not known.", "device"
)
DEVICE_MEMORY_FREE = _gauge(
    "device_memory_free_bytes", "Memory that is free; missing where not known.", "device"
)

CONTEXTS = _gauge("contexts", "Open contexts.", *_WHO)
STREAMS = _gauge("streams", "Streams, default ones included.", *_WHO)
EXECUTORS = _gauge("executors", "Executors planned and not yet freed.", *_WHO)
BUFFERS = _gauge("buffers", "Buffers, freed ones that queued work still uses included.", *_WHO)
EVENTS = _gauge("events", "Events.", *_WHO)
MEMORY_USED = _gauge(
    "memory_used_bytes", "Device memory in buffers, workspaces and inline tensors.", *_WHO
)
MEMORY_LIMIT = _gauge("memory_limit_bytes", "What the open contexts may hold together.", *_WHO)
QUEUED_COMMANDS = _gauge("queued_commands", "Commands queued or running in streams.", *_WHO)
SUBMIT_CALLS = _gauge("submit_calls", "Open Submit calls.")
CALLS_IN_HAND = _gauge("calls_in_hand", "Unary calls and commands that are being served.")

CONTEXTS_OPENED = _counter("contexts_opened", "Contexts that were opened.", *_WHO)
CONTEXTS_ENDED = _counter("contexts_ended", "Contexts that have ended.", *_WHO, "reason")
CALLS = _counter("calls", "Calls and commands served, failed ones included.", "method", *_WHO)
ERRORS = _counter(
    "errors", "Calls and commands answered with an error.",
    "method", "operator", "reason", "code", *_WHO,
)  # fmt: skip
RECEIVED_BYTES = _counter("received_bytes", "Bytes of requests for a context.", *_WHO)
SENT_BYTES = _counter("sent_bytes", "Bytes of answers for a context.", *_WHO)
EXECUTIONS = _counter(
    "executions", "Runs of operators that have ended, well or not.", "operator", *_WHO
)
EXECUTION_FAILURES = _counter(
    "execution_failures", "Runs of operators that failed.", "operator", "reason", "code", *_WHO
)
RUN_SECONDS = _counter("run_seconds", "Time that operators ran.", *_WHO)
EXECUTION_SECONDS = _histogram(
    "execution_seconds", "Time of runs that ended well, all parts together.", "operator"
)
EXECUTION_PART_SECONDS = _histogram(
    "execution_part_seconds",
    "The same, split; copy_in and copy_out of runs that have some.",
    "operator",
    "part",
)

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All of them, in the order above."""
