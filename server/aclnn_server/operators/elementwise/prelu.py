"""The positive part with a slope for negative elements that is learned, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.definition import Call, Family, Work, prototype
from aclnn_server.operators.engines.reducing import total_along
from aclnn_server.operators.engines.staging import Arrays, in_blocks, staged
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.networks.matmul import FLOATS
from aclnn_server.operators.products import ASCEND310B

Array = npt.NDArray[Any]

PRELU = Family()


def _check_weight(call: Call) -> None:
    shape, weight = call.tensor("self").shape, call.tensor("weight").shape
    channels = shape[1] if len(shape) > 1 else 1
    if len(weight) > 1 or call.tensor("weight").elements not in (1, channels):
        raise call.invalid(
            "weight",
            f"weight has shape {list(weight)}; it must have 1 element, or {channels}, the channels of self",
        )


_WEIGHT = Holds("weight has 1 element, or one for each channel, dimension 1 of self", _check_weight)


def _channels(array: Array, channels: int) -> Array:
    """A tensor of the shape of self, as (samples, channels, elements)."""
    samples = array.shape[0] if array.ndim > 1 else 1
    return array.reshape(samples, channels, array.size // max(1, samples * channels))


def _count(array: Array) -> int:
    return array.shape[1] if array.ndim > 1 else 1


@PRELU.operator(
    prototype("aclnnPrelu", "const aclTensor* self, const aclTensor* weight, aclTensor* out"),
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("self", "weight", "out")),
        TypeIn(("self", "weight", "out"), FLOATS),
        SameType(("weight", "out"), "self"),
        RankUpTo(("self",)),
        _WEIGHT,
        SameShape(("out",), "self"),
    ),
)
def prelu(call: Call) -> Work:
    """Each element, with the negative ones scaled by a number of their channel.

    $$out = \\begin{cases} self & self > 0 \\\\ weight \\cdot self & \\text{otherwise} \\end{cases}$$

    - weight has one element for all, or one for each channel, which is dimension 1.
    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.

    Source: the public documentation of aclnnPrelu (hicann/ops-nn, activation); the order of checks is not
    documented.
    """

    def compute(arrays: Arrays, threads: Threads) -> None:
        count = _count(arrays["self"])
        x, out = (_channels(arrays[name], count) for name in ("self", "out"))
        weight = np.broadcast_to(arrays["weight"].reshape(-1), count)[:, np.newaxis]

        def block(cut: slice) -> None:
            part = x[cut]
            out[cut] = np.where(part > 0, part, part * weight)

        in_blocks(threads, len(x), x[:1].size, block)

    return staged(call, compute, ("self", "weight"), ("out",))


@PRELU.operator(
    prototype(
        "aclnnPreluBackward",
        "const aclTensor* gradOutput, const aclTensor* self, const aclTensor* weight, "
        "aclTensor* gradInput, aclTensor* gradWeight",
    ),
    outputs=("gradInput", "gradWeight"),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("gradOutput", "self", "weight", "gradInput", "gradWeight")),
        TypeIn(("gradOutput", "self", "weight", "gradInput", "gradWeight"), FLOATS),
        SameType(("gradOutput", "weight", "gradInput", "gradWeight"), "self"),
        RankUpTo(("self",)),
        _WEIGHT,
        SameShape(("gradOutput", "gradInput"), "self"),
        SameShape(("gradWeight",), "weight"),
    ),
)
def prelu_backward(call: Call) -> Work:
    """Gradients of the positive part with a learned slope: of its input and of the slope.

    $$gradInput = gradOutput \\cdot \\begin{cases} 1 & self > 0 \\\\ weight & \\text{otherwise} \\end{cases}
    \\qquad gradWeight = \\sum_{self \\le 0} gradOutput \\cdot self$$

    - The sum is over the elements of a channel, or over all where weight has one element.
    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnPreluBackward (hicann/ops-nn, activation); the order of checks
    is not documented.
    """
    spec = call.tensor("self")
    samples, count = spec.shape[:2] if len(spec.shape) > 1 else (1, 1)

    def compute(arrays: Arrays, threads: Threads) -> None:
        names = ("gradOutput", "self", "gradInput")
        grad, x, out = (_channels(arrays[name], count) for name in names)
        weight = np.broadcast_to(arrays["weight"].reshape(-1), count)[:, np.newaxis]
        sums = arrays["sums"]

        def block(cut: slice) -> None:
            slope, part = grad[cut], x[cut]
            positive = part > 0
            sums[cut] = total_along(np.where(positive, np.float32(0), slope * part), (2,))[..., 0]
            out[cut] = np.where(positive, slope, slope * weight)

        in_blocks(threads, len(x), x[:1].size, block)
        target = arrays["gradWeight"].reshape(-1)
        by_channel = total_along(sums, (0,)).reshape(-1)
        target[...] = by_channel if target.size == count else total_along(by_channel, (0,))

    return staged(
        call,
        compute,
        ("gradOutput", "self", "weight"),
        ("gradInput", "gradWeight"),
        rooms={"sums": (samples, count)},
    )
