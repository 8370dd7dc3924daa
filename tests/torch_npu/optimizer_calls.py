"""Optimizers, and what training does around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.torch_npu.calls import FLOAT, Call, normal

Run = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def steps(make: Callable[..., torch.optim.Optimizer], **options: Any) -> Run:  # noqa: ANN401
    """Three steps of an optimizer on two parameters, with gradients that differ."""

    def run(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        first, second = (torch.nn.Parameter(tensor.detach().clone()) for tensor in (x, y))
        optimizer = make((first, second), lr=0.1, **options)
        for step in range(1, 4):
            first.grad, second.grad = x * step, y / step
            optimizer.step()
        return first.detach(), second.detach()

    return run


def _clip(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    first, second = (torch.nn.Parameter(tensor.detach().clone()) for tensor in (x, y))
    first.grad, second.grad = x * 2, y * 3
    norm = torch.nn.utils.clip_grad_norm_((first, second), 1.0)
    return norm, first.grad, second.grad


def _autocast(x: Tensor, weight: Tensor) -> Tensor:
    with torch.autocast(x.device.type, torch.bfloat16):
        return F.linear(x, weight)


def _rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    if x.device.type == "cpu":
        return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)
    import torch_npu

    found: Tensor = torch_npu.npu_rms_norm(x, weight, epsilon=1e-6)[0]
    return found


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    if q.device.type == "cpu":
        return F.scaled_dot_product_attention(q, k, v)
    import torch_npu

    found: Tensor = torch_npu.npu_fusion_attention(
        q, k, v, q.shape[1], "BNSD", scale=q.shape[-1] ** -0.5
    )[0]
    return found


PAIR = (normal(4, 5), normal(7))
optim = torch.optim

OPTIMIZERS = tuple(
    Call(name, run, PAIR, FLOAT, backward=False, slack=5)
    for name, run in (
        ("optim.SGD", steps(optim.SGD, foreach=False)),
        ("optim.SGD(foreach=True)", steps(optim.SGD, foreach=True)),
        ("optim.SGD(momentum=, foreach=True)", steps(optim.SGD, momentum=0.9, foreach=True)),
        ("optim.SGD(momentum=, nesterov=, weight_decay=)",
         steps(optim.SGD, momentum=0.9, nesterov=True, weight_decay=0.01, foreach=False)),
        ("optim.Adam", steps(optim.Adam, foreach=False)),
        ("optim.Adam(foreach=True)", steps(optim.Adam, foreach=True)),
        ("optim.AdamW", steps(optim.AdamW, foreach=False)),
        ("optim.AdamW(foreach=True)", steps(optim.AdamW, foreach=True)),
        ("optim.AdamW(fused=True)", steps(optim.AdamW, fused=True)),
        ("optim.AdamW(amsgrad=True)", steps(optim.AdamW, amsgrad=True, foreach=False)),
        ("optim.RMSprop", steps(optim.RMSprop, foreach=False)),
        ("optim.Adagrad", steps(optim.Adagrad, foreach=False)),
    )
)  # fmt: skip

TRAINING = (
    Call("clip_grad_norm_", _clip, PAIR, FLOAT, backward=False),
    Call("torch.autocast", _autocast, (normal(4, 5), normal(3, 5)), FLOAT),
    Call("torch_npu.npu_rms_norm", _rms_norm, (normal(4, 6), normal(6)), slack=5),
    Call(
        "torch_npu.npu_fusion_attention",
        _attention,
        (normal(2, 2, 8, 16), normal(2, 2, 8, 16), normal(2, 2, 8, 16)),
        (torch.float16, torch.bfloat16),
        slack=4,
    ),
)

GROUPS = (OPTIMIZERS, TRAINING)
