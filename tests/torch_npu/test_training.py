"""Networks learn on the device as on the CPU: the same losses, step by step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.torch_npu.models import (
    MakeOptimizer,
    Transformer,
    batches,
    convolutional,
    digits,
    mlp,
    seeded,
    train,
    trained,
)

optim = torch.optim
STEPS = 12


def close(found: list[float], expected: list[float]) -> None:
    assert found == pytest.approx(expected, rel=2e-4, abs=2e-5)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (optim.SGD, {"lr": 0.2}),
        (optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (optim.SGD, {"lr": 0.1, "momentum": 0.9, "foreach": True}),
        (optim.Adam, {"lr": 0.01}),
        (optim.Adam, {"lr": 0.01, "foreach": True}),
        (optim.AdamW, {"lr": 0.01, "foreach": False}),
        (optim.AdamW, {"lr": 0.01, "fused": True}),
    ],
    ids=lambda value: value.__name__ if callable(value) else ",".join(value),
)
def test_a_perceptron(make: MakeOptimizer, options: dict[str, object]) -> None:
    found = trained(mlp, make, STEPS, "npu", **options)
    close(found, trained(mlp, make, STEPS, "cpu", **options))
    assert found[-1] < found[0]


@pytest.mark.parametrize("make", [convolutional, Transformer])
def test_larger_networks(make: Callable[[], nn.Module]) -> None:
    found = trained(make, optim.AdamW, STEPS, "npu", lr=0.03)
    close(found, trained(make, optim.AdamW, STEPS, "cpu", lr=0.03))
    assert found[-1] < 0.95 * found[0]


def test_a_perceptron_learns_the_digits() -> None:
    network = seeded(mlp).to("npu")
    optimizer = optim.Adam(network.parameters(), lr=0.01)
    train(network, optimizer, batches(32) * 3, 96, "npu")
    images, classes = digits(1024)
    right = (network(images.to("npu")).argmax(1).cpu() == classes).float().mean().item()
    assert right > 0.9


def test_autocast_with_a_scaler() -> None:
    """The loss of 16-bit matrices is near that of 32-bit ones, and weights stay FLOAT."""
    losses = {}
    for enabled in (False, True):
        network = seeded(mlp).to("npu")
        optimizer = optim.SGD(network.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("npu", enabled=enabled)
        for images, classes in batches(6):
            optimizer.zero_grad()
            with torch.autocast("npu", torch.float16, enabled=enabled):
                scores = network(images.to("npu"))
                loss = nn.functional.cross_entropy(scores.float(), classes.to("npu"))
            assert scores.dtype == (torch.float16 if enabled else torch.float32)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        losses[enabled] = loss.item()
        assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    assert losses[True] == pytest.approx(losses[False], rel=0.01)


def test_clipped_gradients() -> None:
    norms = {}
    for device in ("cpu", "npu"):
        network = seeded(mlp).to(device)
        images, classes = batches(1)[0]
        nn.functional.cross_entropy(network(images.to(device)), classes.to(device)).backward()
        before = nn.utils.clip_grad_norm_(network.parameters(), 0.01)
        after = [p.grad.norm().item() for p in network.parameters() if p.grad is not None]
        norms[device] = [before.item(), *after]
    close(norms["npu"], norms["cpu"])
    assert sum(norm**2 for norm in norms["npu"][1:]) == pytest.approx(0.01**2, rel=1e-3)


def test_workers_load_the_data() -> None:
    """Processes that are forked while the device is in use, and pages from which copies need not wait."""
    data = TensorDataset(*digits(128))
    loader = DataLoader(data, batch_size=32, num_workers=2, pin_memory=False)
    found = []
    for device in ("npu", "cpu"):
        network = seeded(mlp).to(device)
        optimizer = optim.SGD(network.parameters(), lr=0.1)
        found.append(train(network, optimizer, loader, 4, device))
    close(*found)


def test_a_checkpoint(tmp_path: Path) -> None:
    """Saved in the middle, it goes on as if nothing had been, on the device and on the CPU."""
    data = batches(8)

    def start(device: str) -> tuple[nn.Module, torch.optim.Optimizer]:
        network = seeded(mlp).to(device)
        return network, optim.Adam(network.parameters(), lr=0.01)

    network, optimizer = start("npu")
    train(network, optimizer, data[:4], 4, "npu")
    saved = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(saved, tmp_path / "saved.pt")
    expected = train(network, optimizer, data[4:], 4, "npu")
    for device in ("npu", "cpu"):
        network, optimizer = start(device)
        loaded = torch.load(tmp_path / "saved.pt", map_location=device)
        network.load_state_dict(loaded["network"])
        optimizer.load_state_dict(loaded["optimizer"])
        close(train(network, optimizer, data[4:], 4, device), expected)
