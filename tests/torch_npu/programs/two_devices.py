"""Computes on two devices of a server, and copies between them."""

from __future__ import annotations

import torch

assert torch.npu.device_count() == 2
left = torch.arange(6.0, device="npu:0").reshape(2, 3)
right = left.to("npu:1") * 2
with torch.npu.device(1):
    made = torch.ones(2, 3, device="npu")
assert (left.device.index, right.device.index, made.device.index) == (0, 1, 1)
total = (right + made).to("npu:0") + left
assert total.tolist() == [[1, 4, 7], [10, 13, 16]]

weights = [torch.nn.Linear(3, 1).to(f"npu:{index}") for index in (0, 1)]
for layer, data in zip(weights, (left, right), strict=True):
    layer(data).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.cpu().tolist() == data.sum(0, keepdim=True).tolist()
print("both")
