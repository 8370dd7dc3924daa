"""Trains a two-layer network end to end on the server: forward, loss, backward and update.

Weights, activations and gradients stay on the device. Every call is planned once; a step then sends its batch
and runs the plans, and nothing comes back before the end. Plain NumPy, step by step the same, gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from a_server import server_address

from aclnn_client import Context, Tensor, connect, ops

Array = npt.NDArray[np.float32]
Parameters = dict[str, Array]

STEPS, BATCH, INPUTS, HIDDEN, RATE, BETA = 200, 64, 8, 512, 0.01, 1.0
MEAN, KEEP_DTYPE = 1, 0


def made_up_batches() -> Iterator[tuple[Array, Array]]:
    """Distances from a plane, which no sum of the inputs tells."""
    random = np.random.default_rng(1)
    for _ in range(STEPS):
        x = random.standard_normal((BATCH, INPUTS), np.float32)
        yield x, np.abs(x.sum(1, keepdims=True)) / np.float32(np.sqrt(INPUTS))


def first_parameters() -> Parameters:
    random = np.random.default_rng(2)
    return {
        "w1": random.standard_normal((INPUTS, HIDDEN), np.float32) / np.float32(np.sqrt(INPUTS)),
        "b1": np.zeros(HIDDEN, np.float32),
        "w2": random.standard_normal((HIDDEN, 1), np.float32) / np.float32(np.sqrt(HIDDEN)),
        "b2": np.zeros(1, np.float32),
    }


# --- on the server ----------------------------------------------------------------------------------


class Network:
    """The network's tensors on the device, and the plans of one step."""

    def __init__(self, context: Context, parameters: Parameters) -> None:
        self.context = context
        self.parameters = {name: context.tensor(array) for name, array in parameters.items()}
        w1, b1, w2, b2 = self.parameters.values()
        self.x, self.y = self.room(BATCH, INPUTS), self.room(BATCH, 1)
        self.losses = [self.room() for _ in range(STEPS)]
        before, hidden, prediction = (
            self.room(BATCH, HIDDEN),
            self.room(BATCH, HIDDEN),
            self.room(BATCH, 1),
        )
        d_prediction, d_hidden = self.room(BATCH, 1), self.room(BATCH, HIDDEN)
        d_w1, d_b1, d_w2, d_b2 = (self.room(*tensor.shape) for tensor in (w1, b1, w2, b2))
        one = context.tensor(np.float32(1))

        self.plans = [
            # forward
            self.plan(ops.aclnnAddmmGetWorkspaceSize, b1, self.x, w1, 1.0, 1.0, before, KEEP_DTYPE),
            self.plan(ops.aclnnReluGetWorkspaceSize, before, hidden),
            self.plan(
                ops.aclnnAddmmGetWorkspaceSize, b2, hidden, w2, 1.0, 1.0, prediction, KEEP_DTYPE
            ),
            # backward
            self.plan(
                ops.aclnnSmoothL1LossBackwardGetWorkspaceSize,
                one,
                prediction,
                self.y,
                MEAN,
                BETA,
                d_prediction,
            ),
            self.plan(
                ops.aclnnMmGetWorkspaceSize, transposed(hidden), d_prediction, d_w2, KEEP_DTYPE
            ),
            self.plan(ops.aclnnReduceSumGetWorkspaceSize, d_prediction, (0,), False, "FLOAT", d_b2),
            self.plan(
                ops.aclnnMmGetWorkspaceSize, d_prediction, transposed(w2), d_hidden, KEEP_DTYPE
            ),
            self.plan(ops.aclnnThresholdBackwardGetWorkspaceSize, d_hidden, before, 0.0, d_hidden),
            self.plan(ops.aclnnMmGetWorkspaceSize, transposed(self.x), d_hidden, d_w1, KEEP_DTYPE),
            self.plan(ops.aclnnReduceSumGetWorkspaceSize, d_hidden, (0,), False, "FLOAT", d_b1),
            # update
            *(
                self.plan(ops.aclnnInplaceSubGetWorkspaceSize, tensor, gradient, RATE)
                for tensor, gradient in ((w1, d_w1), (b1, d_b1), (w2, d_w2), (b2, d_b2))
            ),
        ]
        _, self.loss = ops.aclnnSmoothL1LossGetWorkspaceSize(
            prediction, self.y, MEAN, BETA, self.losses[0], repeatable=True
        )

    def room(self, *shape: int) -> Tensor:
        return self.context.empty(shape, np.float32)

    def plan(
        self, phase_one: Callable[..., tuple[int, ops.Executor]], *arguments: object
    ) -> ops.Executor:
        _, executor = phase_one(*arguments, repeatable=True)
        return executor

    def step(self, number: int, x: Array, y: Array) -> None:
        """Sends a batch, and queues one step on it."""
        self.x.write(x)
        self.y.write(y)
        for executor in self.plans[:3]:
            executor.run()
        self.loss.run(result=self.losses[number])
        for executor in self.plans[3:]:
            executor.run()

    def curve(self) -> Array:
        """The losses of all steps, put together on the device."""
        together = self.room(STEPS)
        _, executor = ops.aclnnStackGetWorkspaceSize(self.losses, 0, together)
        executor.run()
        return together.numpy()


def transposed(tensor: Tensor) -> Tensor:
    """The same memory with its two dimensions swapped."""
    rows, columns = tensor.shape
    return tensor.context.create_tensor(
        (columns, rows), np.float32, (1, columns), buffer=tensor.buffer
    )


def train(context: Context) -> tuple[Array, Parameters]:
    network = Network(context, first_parameters())
    context.synchronize()
    held = context.usage()
    for number, (x, y) in enumerate(made_up_batches()):
        network.step(number, x, y)
    context.synchronize()
    # No step has left anything behind.
    assert (context.usage().buffers, context.usage().executors) == (held.buffers, held.executors)
    return network.curve(), {name: tensor.numpy() for name, tensor in network.parameters.items()}


# --- without it -------------------------------------------------------------------------------------


def train_here() -> tuple[Array, Parameters]:
    p = first_parameters()
    curve = []
    for x, y in made_up_batches():
        before = x @ p["w1"] + p["b1"]
        hidden = np.maximum(before, 0)
        difference = hidden @ p["w2"] + p["b2"] - y
        far = np.abs(difference) >= BETA
        curve.append(
            np.where(far, np.abs(difference) - BETA / 2, difference**2 / (2 * BETA)).mean()
        )
        d_prediction = np.where(far, np.sign(difference), difference / BETA) / BATCH
        d_hidden = (d_prediction @ p["w2"].T) * (before > 0)
        p["w2"] = p["w2"] - RATE * (hidden.T @ d_prediction)
        p["b2"] = p["b2"] - RATE * d_prediction.sum(0)
        p["w1"] = p["w1"] - RATE * (x.T @ d_hidden)
        p["b1"] = p["b1"] - RATE * d_hidden.sum(0)
    return np.array(curve, np.float32), p


def main(address: str) -> None:
    with connect(address) as context:
        curve, parameters = train(context)

    smooth = curve.reshape(-1, 10).mean(1)
    for number, loss in enumerate(smooth):
        print(f"steps from {10 * number:3}  loss {loss:.4f}  {'#' * round(40 * loss / smooth[0])}")

    local_curve, local_parameters = train_here()
    assert np.allclose(curve, local_curve, rtol=1e-3, atol=1e-5)
    for name, array in parameters.items():
        assert np.allclose(array, local_parameters[name], rtol=1e-3, atol=1e-4), name
    print("the same as without a server")


if __name__ == "__main__":
    with server_address(__doc__) as address:
        main(address)
