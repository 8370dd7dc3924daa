"""Several streams at once from one asyncio program; an event orders work across two of them."""

from __future__ import annotations

import asyncio

import numpy as np
import numpy.typing as npt
from a_server import server_address

from aclnn_client import aio

Array = npt.NDArray[np.float32]

STREAMS, ELEMENTS = 4, 100_000


async def gradient_of(context: aio.Context, number: int, target: aio.Tensor) -> Array:
    """One of several jobs: uploads, computes on a stream of its own, downloads."""
    async with await context.create_stream() as stream:
        x = await context.tensor(np.full(ELEMENTS, number / 2, np.float32))
        one = await context.tensor(np.ones(1, np.float32))
        gradient = await context.ops.smooth_l1_loss_backward(
            one, x, target, reduction="none", stream=stream
        )
        result: Array = await gradient.numpy()
    print(f"stream {number}: x is {number / 2}, its gradient {result[0]}")
    return result


async def loss_after_gradient(context: aio.Context, target: aio.Tensor) -> float:
    """Two streams, the second of which needs what the first computes."""
    first, second = await context.create_stream(), await context.create_stream()
    ops = context.ops
    x, one = await context.tensor(np.full(ELEMENTS, 3, np.float32)), np.ones(1, np.float32)
    gradient = await ops.smooth_l1_loss_backward(one, x, target, reduction="none", stream=first)

    done = context.create_event()
    done.record(first)
    second.wait(done)  # holds up the stream, not this program
    loss = await ops.smooth_l1_loss(gradient, target, reduction="sum", stream=second)
    return float(await loss.numpy())


async def main(address: str) -> None:
    async with aio.connect(address) as context:
        target = await context.tensor(np.zeros(ELEMENTS, np.float32))  # for all of them
        jobs = (gradient_of(context, number, target) for number in range(STREAMS))
        gradients = await asyncio.gather(*jobs)
        assert [gradient.mean() for gradient in gradients] == [0, 0.5, 1, 1]

        loss = await loss_after_gradient(context, target)
        print(f"loss of the gradient: {loss}")
        assert loss == ELEMENTS / 2
    print("all as expected")


if __name__ == "__main__":
    with server_address(__doc__) as address:
        asyncio.run(main(address))
