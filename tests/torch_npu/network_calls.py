"""Layers, activations and losses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.torch_npu.calls import FLOAT, Call, normal, positive, truth, unit, whole


def _batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean = torch.zeros(x.shape[1], device=x.device)
    variance = torch.ones(x.shape[1], device=x.device)
    return F.batch_norm(x, mean, variance, weight, bias, training=True)


def _batch_norm_eval(x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    return F.batch_norm(x, mean.detach().float(), var.detach().float(), weight, bias)


def _instance_norm(x: Tensor) -> Tensor:
    return F.instance_norm(x)


def _lstm(x: Tensor) -> tuple[Tensor, Tensor]:
    torch.manual_seed(5)
    layer = torch.nn.LSTM(4, 3, num_layers=2, batch_first=True).to(x.device, x.dtype)
    out, (hidden, _) = layer(x)
    return out, hidden


def _grid(x: Tensor, grid: Tensor) -> Tensor:
    return F.grid_sample(x, grid, align_corners=False)


ACTIVATIONS = (
    Call("F.relu", F.relu, (normal(4, 5),)),
    Call("F.gelu", F.gelu, (normal(4, 5),)),
    Call("F.gelu(approximate='tanh')", lambda x: F.gelu(x, approximate="tanh"), (normal(4, 5),)),
    Call("F.silu", F.silu, (normal(4, 5),)),
    Call("F.leaky_relu", lambda x: F.leaky_relu(x, 0.1), (normal(4, 5),)),
    Call("F.softplus", F.softplus, (normal(4, 5),)),
    Call("torch.tanh", torch.tanh, (normal(4, 5),)),
    Call("torch.sigmoid", torch.sigmoid, (normal(4, 5),)),
    Call("F.softmax", lambda x: F.softmax(x, -1), (normal(4, 5),)),
    Call("F.log_softmax", lambda x: F.log_softmax(x, 1), (normal(4, 5),)),
)

LAYERS = (
    Call("F.linear", F.linear, (normal(6, 5), normal(3, 5), normal(3))),
    Call("F.linear of three dimensions", F.linear, (normal(2, 6, 5), normal(3, 5), normal(3))),
    Call(
        "F.conv1d",
        lambda x, w, b: F.conv1d(x, w, b, padding=1),
        (normal(2, 3, 9), normal(4, 3, 3), normal(4)),
    ),
    Call(
        "F.conv2d",
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1),
        (normal(2, 3, 8, 8), normal(4, 3, 3, 3), normal(4)),
    ),
    Call(
        "F.conv2d(groups=, dilation=)",
        lambda x, w: F.conv2d(x, w, dilation=2, groups=2),
        (normal(2, 4, 8, 8), normal(6, 2, 3, 3)),
    ),
    Call(
        "F.conv_transpose2d",
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1),
        (normal(2, 3, 5, 5), normal(3, 4, 3, 3), normal(4)),
    ),
    Call("F.batch_norm", _batch_norm, (normal(4, 3, 5, 5), positive(3), normal(3)), FLOAT, slack=5),
    Call(
        "F.batch_norm(training=False)",
        _batch_norm_eval,
        (normal(4, 3, 5, 5), positive(3), normal(3), normal(3), positive(3)),
        FLOAT,
        backward=False,
    ),
    Call(
        "F.layer_norm",
        lambda x, w, b: F.layer_norm(x, (6,), w, b),
        (normal(4, 6), positive(6), normal(6)),
        slack=5,
    ),
    Call(
        "F.group_norm",
        lambda x, w, b: F.group_norm(x, 2, w, b),
        (normal(2, 4, 5, 5), positive(4), normal(4)),
        slack=5,
    ),
    Call("F.instance_norm", _instance_norm, (normal(2, 3, 5, 5),), FLOAT, backward=False),
    Call("F.rms_norm", lambda x, w: F.rms_norm(x, (6,), w), (normal(4, 6), positive(6)), slack=5),
    Call("F.embedding", F.embedding, (whole(0, 7, 3, 4), normal(7, 5))),
    Call("F.max_pool2d", lambda x: F.max_pool2d(x, 2), (normal(2, 3, 8, 8),)),
    Call("F.avg_pool2d", lambda x: F.avg_pool2d(x, 2), (normal(2, 3, 8, 8),)),
    Call("F.adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 1), (normal(2, 3, 8, 8),)),
    Call("F.dropout", lambda x: F.dropout(x, 0.5), (positive(20, 50),), random=True),
    Call("nn.LSTM", _lstm, (normal(2, 5, 4),), FLOAT, backward=False),
    Call(
        "F.scaled_dot_product_attention",
        F.scaled_dot_product_attention,
        (normal(2, 2, 8, 16), normal(2, 2, 8, 16), normal(2, 2, 8, 16)),
        slack=4,
    ),
    Call(
        "F.scaled_dot_product_attention(is_causal=True)",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (normal(2, 2, 8, 16), normal(2, 2, 8, 16), normal(2, 2, 8, 16)),
        slack=4,
    ),
    Call(
        "F.interpolate(mode='bilinear')",
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
        (normal(1, 2, 4, 4),),
    ),
    Call(
        "F.interpolate(mode='nearest')",
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
        (normal(1, 2, 4, 4),),
    ),
    Call("F.grid_sample", _grid, (normal(1, 2, 4, 4), unit(1, 3, 3, 2)), FLOAT, backward=False),
    Call("F.pad", lambda x: F.pad(x, (1, 2), value=0.5), (normal(2, 3),)),
    Call(
        "F.pad(mode='reflect')",
        lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        (normal(1, 2, 4, 4),),
    ),
    Call("F.one_hot", lambda x: F.one_hot(x, 6), (whole(0, 6, 5),), backward=False),
)

LOSSES = (
    Call("F.cross_entropy", F.cross_entropy, (normal(6, 4), whole(0, 4, 6))),
    Call("F.nll_loss", F.nll_loss, (normal(6, 4), whole(0, 4, 6))),
    Call(
        "F.binary_cross_entropy_with_logits",
        F.binary_cross_entropy_with_logits,
        (normal(6, 4), unit(6, 4)),
        backward=False,
    ),
    Call("F.l1_loss", F.l1_loss, (normal(6, 4), normal(6, 4))),
    Call("F.mse_loss", F.mse_loss, (normal(6, 4), normal(6, 4))),
    Call(
        "F.smooth_l1_loss",
        lambda x, y: F.smooth_l1_loss(x, y, beta=0.5),
        (normal(6, 4), normal(6, 4)),
    ),
    Call("F.huber_loss", F.huber_loss, (normal(6, 4), normal(6, 4)), FLOAT),
    Call(
        "F.kl_div",
        lambda x, y: F.kl_div(x, y, reduction="batchmean"),
        (normal(6, 4), unit(6, 4)),
        backward=False,
    ),
    Call(
        "Tensor.masked_fill",
        lambda x, mask: x.masked_fill(mask, -1.5),
        (normal(4, 5), truth(4, 5)),
    ),
)

GROUPS = (ACTIVATIONS, LAYERS, LOSSES)
