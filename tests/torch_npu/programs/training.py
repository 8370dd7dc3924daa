"""Trains the perceptron on the device that is named, and prints its losses as JSON."""

from __future__ import annotations

import json
import sys

import torch

from tests.torch_npu.models import mlp, trained

device = sys.argv[1]
print(json.dumps(trained(mlp, torch.optim.SGD, 6, device, lr=0.1, foreach=False)))
