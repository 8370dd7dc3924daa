"""What ``aclnn-serve bench`` measures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from aclnn_client import Context

OPERATOR = "aclnnSmoothL1LossBackward"
ELEMENTS = 8
IN_FLIGHT = 1000
"""Calls that do not wait for each other."""
SIZES = (1 << 16, 1 << 20, 1 << 24, 1 << 26)
"""Bytes of the tensors that are transferred."""
FEWEST = 3
"""Repetitions, even where they take longer than there is time for."""

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls that wait for each other."""

    p50_seconds: float
    p99_seconds: float
    calls_per_second: float
    count: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """Tensors of one size; the middle of the repetitions."""

    bytes: int
    upload_bytes_per_second: float
    download_bytes_per_second: float
    transport: str
    """What they went by; see ``Context.transport``."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything."""

    version: str
    address: str
    backend: str
    device: int
    operator: str
    elements: int
    one_line: Calls
    two_phases: Calls
    in_flight: float
    """Calls per second."""
    in_flight_calls: int
    features: tuple[str, ...]
    """Optional features of the server."""
    transfers: tuple[Transfer, ...]


def measure(context: Context, seconds: float) -> Measured:
    """Measures all in about `seconds`, of which small calls get a half.

    Raises:
        AclnnError: the server lacks the operator, or has no room for the tensors.
    """
    info = context.info()
    context.operator(OPERATOR)
    one_line, two_phases, in_flight = _small_calls(context)
    share = seconds / 6
    return Measured(
        version=info.version,
        address=context.address,
        backend=info.backend,
        device=context.device,
        operator=OPERATOR,
        elements=ELEMENTS,
        one_line=_calls(_times(one_line, share)),
        two_phases=_calls(_times(two_phases, share)),
        in_flight=IN_FLIGHT / float(np.median(_times(in_flight, share))),
        in_flight_calls=IN_FLIGHT,
        features=tuple(info.features),
        transfers=tuple(_transfers(context, seconds - 3 * share)),
    )


# --- calls ------------------------------------------------------------------------------------------


def _small_calls(context: Context) -> tuple[Callable[[], object], ...]:
    """A call in one line, in two phases, and a thousand of the latter."""
    from aclnn_client import ops

    ones = np.ones(ELEMENTS, np.float32)
    grad, x, target = (context.tensor(ones) for _ in range(3))
    output = context.empty(ones.shape, "float32")
    stream = context.create_stream()

    def one_line() -> None:
        context.ops.smooth_l1_loss_backward(ones, ones, ones)

    def queue(calls: int) -> None:
        for _ in range(calls):
            size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
                grad, x, target, 0, 1.0, output
            )
            ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor, stream)
        stream.synchronize()

    return one_line, lambda: queue(1), lambda: queue(IN_FLIGHT)


def _calls(times: list[float]) -> Calls:
    p50, p99 = np.percentile(times, (50, 99))
    return Calls(float(p50), float(p99), len(times) / sum(times), len(times))


def _times(call: Callable[[], object], seconds: float) -> list[float]:
    """Seconds of each call, repeated for a while; the first, which warms up, does not count."""
    call()
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < FEWEST or time.perf_counter() < until:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


# --- transfers --------------------------------------------------------------------------------------


def _transfers(context: Context, seconds: float) -> Iterator[Transfer]:
    """Each size in turn; those that would take too long are left out."""
    share = seconds / (2 * len(SIZES))
    slowest = np.inf
    for size in SIZES:
        if FEWEST * size / slowest > seconds:
            return
        transfer = _transfer(context, size, share)
        yield transfer
        slowest = min(transfer.upload_bytes_per_second, transfer.download_bytes_per_second)


def _transfer(context: Context, size: int, seconds: float) -> Transfer:
    array = np.ones(size // 4, np.float32)
    tensor, into = context.tensor(array), np.empty_like(array)

    def upload() -> None:
        tensor.buffer.write(array)
        context.synchronize()

    def download() -> None:
        tensor.numpy(into)

    try:
        up, down = (float(np.median(_times(way, seconds))) for way in (upload, download))
    finally:
        tensor.free()
    return Transfer(size, size / up, size / down, context.transport)
