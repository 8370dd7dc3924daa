"""Networks, and their training on a device; the same numbers on every device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Batches = Iterable[tuple[Tensor, Tensor]]
MakeOptimizer = Callable[..., torch.optim.Optimizer]


def mlp() -> nn.Module:
    """For digits: 64 pixels, 10 classes."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def convolutional() -> nn.Module:
    """For digits: images of 8×8."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


class Transformer(nn.Module):
    """Two layers over the eight rows of a digit, as over words."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.place = nn.Embedding(8, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 32, dropout=0.0, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Classes of images of 1×8×8."""
        rows = self.embed(images.squeeze(1)) + self.place(torch.arange(8, device=images.device))
        found: Tensor = self.head(self.layers(rows).mean(1))
        return found


def digits(count: int = 256) -> tuple[Tensor, Tensor]:
    """Images of 1×8×8 and their classes."""
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    pixels = torch.tensor(images[:count] / 16.0, dtype=torch.float32).reshape(-1, 1, 8, 8)
    return pixels, torch.tensor(classes[:count])


def batches(count: int, size: int = 32) -> list[tuple[Tensor, Tensor]]:
    """The first batches of the digits."""
    images, classes = digits(count * size)
    return list(zip(images.split(size), classes.split(size), strict=True))


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    """A network with the same weights each time."""
    torch.manual_seed(7)
    return make()


def train(
    network: nn.Module, optimizer: torch.optim.Optimizer, data: Batches, steps: int, device: str
) -> list[float]:
    """Trains, and gives the loss of each step."""
    losses = []
    for images, classes in islice(data, steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(images.to(device)), classes.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [loss.item() for loss in losses]


def trained(
    make: Callable[[], nn.Module],
    make_optimizer: MakeOptimizer,
    steps: int,
    device: str,
    **options: object,
) -> list[float]:
    """Trains a new network on digits, and gives the loss of each step."""
    network = seeded(make).to(device)
    optimizer = make_optimizer(network.parameters(), **options)
    return train(network, optimizer, batches(8) * steps, steps, device)
