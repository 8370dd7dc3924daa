"""Trains until the server is gone; the reader of standard output takes it away after the first line."""

from __future__ import annotations

import sys

import torch
from torch import nn

from tests.torch_npu.models import batches, mlp, seeded

network = seeded(mlp).to("npu")
optimizer = torch.optim.SGD(network.parameters(), lr=0.1, foreach=False)
images, classes = (tensor.to("npu") for tensor in batches(1)[0])
try:
    while True:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(images), classes)
        loss.backward()
        optimizer.step()
        print(loss.item(), flush=True)
except RuntimeError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
    sys.exit(0)
