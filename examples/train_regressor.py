"""Trains a small regressor whose loss and gradient are computed on the server.

The weights stay here; each step sends the predictions and gets back their gradient. The data are a straight
line with outliers, which the smooth L1 loss forgives. The same training without a server gives the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from a_server import server_address

from aclnn_client import connect

Array = npt.NDArray[np.float32]
Loss = Callable[[Array, Array], tuple[float, Array]]
"""Of predictions and targets: the loss, and its gradient with respect to the predictions."""

STEPS, RATE, BETA = 100, 0.1, 0.5
TRUE_WEIGHTS = np.array([[2.0], [-1.0], [0.5]], np.float32)


def made_up_data(samples: int = 256) -> tuple[Array, Array]:
    random = np.random.default_rng(1)
    inputs = random.standard_normal((samples, 3)).astype(np.float32)
    targets = inputs @ TRUE_WEIGHTS + 0.1 * random.standard_normal((samples, 1), np.float32)
    targets[::16] += 5  # outliers
    return inputs, targets


def train(loss: Loss, inputs: Array, targets: Array) -> tuple[Array, list[float]]:
    weights = np.zeros((3, 1), np.float32)
    curve = []
    for _ in range(STEPS):
        value, gradient = loss(inputs @ weights, targets)
        weights -= RATE * (inputs.T @ gradient)
        curve.append(value)
    return weights, curve


def local_loss(predictions: Array, targets: Array) -> tuple[float, Array]:
    difference = predictions - targets
    small = np.abs(difference) < BETA
    losses = np.where(small, difference**2 / (2 * BETA), np.abs(difference) - BETA / 2)
    gradient = np.where(small, difference / BETA, np.sign(difference)) / difference.size
    return float(losses.mean()), gradient.astype(np.float32)


def main(address: str) -> None:
    inputs, targets = made_up_data()
    one = np.ones((1, 1), np.float32)

    with connect(address) as context:
        device_targets = context.tensor(targets)  # the same at each step: uploaded once

        def remote_loss(predictions: Array, _: Array) -> tuple[float, Array]:
            # With a tensor among the inputs the results are tensors, and nothing waits before numpy().
            value = context.ops.smooth_l1_loss(predictions, device_targets, beta=BETA)
            gradient = context.ops.smooth_l1_loss_backward(
                one, predictions, device_targets, beta=BETA
            )
            return float(value.numpy()), gradient.numpy()

        weights, curve = train(remote_loss, inputs, targets)

    for step in range(0, STEPS, 10):
        print(f"step {step:3}  loss {curve[step]:.4f}  {'#' * round(40 * curve[step] / curve[0])}")
    print(f"weights {weights.ravel().round(2)}, true {TRUE_WEIGHTS.ravel()}")

    local_weights, local_curve = train(local_loss, inputs, targets)
    assert np.allclose(curve, local_curve, rtol=1e-4)
    assert np.allclose(weights, local_weights, atol=1e-4)
    print("the same as without a server")


if __name__ == "__main__":
    with server_address(__doc__) as address:
        main(address)
