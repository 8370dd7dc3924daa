"""Trains without looking at the loss, and counts what the server was asked to wait for or to give back.

Prints as JSON, by step: how often each call of the protocol was made, for steps that read nothing and for one
that reads its loss.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections import Counter

import torch
from torch import Tensor, nn

from tests.torch_npu.models import batches, mlp, seeded

WAITS = ("SynchronizeStream", "ReadBuffer", "SynchronizeEvent", "QueryStream", "QueryEvent")


def calls() -> Counter[str]:
    url = f"http://{os.environ['METRICS']}/metrics"
    with urllib.request.urlopen(url) as answer:
        text = answer.read().decode()
    counted: Counter[str] = Counter()
    for method, value in re.findall(
        r'^aclnn_serve_calls_total\{.*method="(\w+)".*\} (\S+)$', text, re.M
    ):
        counted[method] += int(float(value))
    return counted


network = seeded(mlp).to("npu")
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
images, classes = (tensor.to("npu") for tensor in batches(1)[0])


def step() -> Tensor:
    optimizer.zero_grad()
    loss: Tensor = nn.functional.cross_entropy(network(images), classes)
    loss.backward()
    optimizer.step()
    return loss


def counted(steps: int, *, read: bool) -> dict[str, float]:
    """Calls that waited, by name, and runs of operators; of each step."""
    torch.npu.synchronize()
    before = calls()
    for _ in range(steps):
        loss = step()
        if read:
            loss.item()
    torch.npu.synchronize()
    made = calls() - before
    return {name: made[name] / steps for name in (*WAITS, "Execute") if made[name]}


step()
torch.npu.synchronize()
nothing = counted(
    0 + 1, read=False
)  # what the last synchronisation takes is the same for any number
print(json.dumps([nothing, counted(10, read=False), counted(10, read=True)]))
