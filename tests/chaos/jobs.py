"""What the clients of these tests do: calls of every kind, whose results show if one was lost or made twice.

The central one appends decimal digits to a number in device memory, two calls for each: what comes out tells
which calls were made, how often and in which order.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import aclnn_client
from aclnn_client import Context, Stream, Tensor, aio, ops

Array = npt.NDArray[Any]
Job = Callable[[Context, random.Random], None]

DIGITS = 18
"""Decimal digits that an int64 holds for certain."""
SIZES = (1, 1000, 70_000, (1 << 20) + 7, 3 << 20)
"""Bytes of transfers: within a message, over protobuf's fast path, and in several chunks."""


def number_of(digits: Sequence[int]) -> int:
    """The number that these digits make."""
    return int("".join(map(str, digits)) or "0")


def append(number: Tensor, digit: int, stream: Stream | None = None) -> None:
    """Queues the two calls that append a digit."""
    for name, values in (("aclnnInplaceMuls", (10,)), ("aclnnInplaceAdds", (digit, 1))):
        plan, run = getattr(ops, f"{name}GetWorkspaceSize"), getattr(ops, name)
        size, executor = plan(number, *values)
        run(number.buffer.context.malloc(size), size, executor, stream)


def append_digits(context: Context, choose: random.Random) -> None:
    """A chain of two-phase calls on a tensor that stays on the device, read now and then."""
    digits: list[int] = []
    number = context.tensor(np.zeros(1, np.int64))
    while len(digits) < DIGITS:
        digits.append(choose.randrange(1, 10))
        append(number, digits[-1])
        if choose.random() < 0.2:
            assert number.numpy().item() == number_of(digits)
    assert number.numpy().item() == number_of(digits)


def append_in_two_streams(context: Context, choose: random.Random) -> None:
    """Two chains, and a third one that an event orders behind the first."""
    streams = [context.create_stream(), context.create_stream()]
    numbers = [context.tensor(np.zeros(1, np.int64)) for _ in streams]
    digits = [[choose.randrange(1, 10) for _ in range(DIGITS // 2)] for _ in streams]
    for place in range(DIGITS // 2):
        for number, stream, mine in zip(numbers, streams, digits, strict=True):
            append(number, mine[place], stream)
    event = context.create_event()
    event.record(streams[0])
    streams[1].wait(event)
    append(numbers[0], 7, streams[1])
    for stream in streams:
        stream.synchronize()
    assert numbers[0].numpy().item() == number_of([*digits[0], 7])
    assert numbers[1].numpy().item() == number_of(digits[1])
    for stream in streams:
        stream.close()


def run_one_plan_often(context: Context, choose: random.Random) -> None:
    """A repeatable executor, run many times without waiting."""
    runs, number = choose.randrange(1, 40), context.tensor(np.zeros(3, np.int64))
    _, executor = ops.aclnnInplaceAddsGetWorkspaceSize(number, 3, 1, repeatable=True)
    for _ in range(runs):
        ops.aclnnInplaceAdds(None, 0, executor)
    executor.destroy()
    assert number.numpy().tolist() == [3 * runs] * 3


def call_in_one_line(context: Context, choose: random.Random) -> None:
    """Arrays in, array out: small enough to travel along, and larger."""
    generator = np.random.default_rng(choose.randrange(2**32))
    for size in (3, 3000, 300_000):
        x, y = (generator.standard_normal(size, np.float32) for _ in range(2))
        np.testing.assert_array_equal(context.ops.add(x, y), x + y)
        gradient = context.ops.smooth_l1_loss_backward(x, x, y, reduction="none", beta=1.0)
        expected = np.clip((x - y).astype(np.float32), -1, 1) * x
        np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def move_bytes(context: Context, choose: random.Random) -> None:
    """Uploads, copies on the device and downloads."""
    data = random_bytes(choose, choose.choice(SIZES))
    source = context.tensor(data)
    target = context.empty(data.shape, "uint8")
    target.buffer.copy_from(source.buffer, size=data.size)
    np.testing.assert_array_equal(target.numpy(), data)
    part = data[: data.size // 3]
    target.buffer.write(part.tobytes(), offset=data.size - part.size)
    expected = np.concatenate((data[: data.size - part.size], part))
    np.testing.assert_array_equal(target.numpy(), expected)


def random_bytes(choose: random.Random, size: int) -> Array:
    """Bytes that no other tensor has."""
    return np.frombuffer(choose.randbytes(size), np.uint8)


JOBS: tuple[Job, ...] = (
    append_digits,
    append_in_two_streams,
    run_one_plan_often,
    call_in_one_line,
    move_bytes,
)


def do(context: Context, seed: int, jobs: Sequence[Job] = JOBS) -> None:
    """Does each of the jobs, in an order and with values that follow from `seed`; nothing stays behind."""
    choose = random.Random(seed)
    for job in choose.sample(jobs, len(jobs)):
        job(context, choose)
    assert context.usage().executors == 0


def connect(address: str, **more: Any) -> Context:  # noqa: ANN401
    """A context all of whose bytes pass through the network, where nothing else is asked for."""
    return aclnn_client.connect(address, **({"shared_memory": False} | more))


# --- asyncio --------------------------------------------------------------------------------------

AioJob = Callable[[aio.Context, random.Random], Awaitable[None]]


async def append_digits_aio(context: aio.Context, choose: random.Random) -> None:
    """As :func:`append_digits`."""
    digits = [choose.randrange(1, 10) for _ in range(DIGITS)]
    number = await context.tensor(np.zeros(1, np.int64))
    for digit in digits:
        _, executor = await aio.ops.aclnnInplaceMulsGetWorkspaceSize(number, 10)
        await aio.ops.aclnnInplaceMuls(None, 0, executor)
        _, executor = await aio.ops.aclnnInplaceAddsGetWorkspaceSize(number, digit, 1)
        await aio.ops.aclnnInplaceAdds(None, 0, executor)
    assert (await number.numpy()).item() == number_of(digits)


async def move_bytes_aio(context: aio.Context, choose: random.Random) -> None:
    """Up and down again."""
    data = random_bytes(choose, choose.choice(SIZES))
    np.testing.assert_array_equal(await (await context.tensor(data)).numpy(), data)


AIO_JOBS: tuple[AioJob, ...] = (append_digits_aio, move_bytes_aio)
