"""Arguments of the operators that neural networks are made of; see :mod:`.special_samples`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from aclnn import dtypes
from tests.operators.special_samples import Making, Values

CHANNELS = 2
FILTERS = 4


def _convolution(make: Making) -> Values:
    samples, length = make.matrix
    return {
        "input": make.numbers(samples, CHANNELS, length),
        "weight": make.numbers(FILTERS, CHANNELS, 3),
        "bias": make.numbers(FILTERS),
        "stride": (1,),
        "padding": (1,),
        "dilation": (1,),
        "outputPadding": (0,),
        "groups": 1,
        "output": make.out(samples, FILTERS, length),
    }


def _convolution_backward(make: Making) -> Values:
    samples, length = make.matrix
    return _convolution(make) | {
        "gradOutput": make.numbers(samples, FILTERS, length),
        "biasSizes": (FILTERS,),
        "outputMask": (True, True, True),
        "gradInput": make.out(samples, CHANNELS, length),
        "gradWeight": make.out(FILTERS, CHANNELS, 3),
        "gradBias": make.out(FILTERS),
    }


def _layer_norm_backward(make: Making) -> Values:
    *rest, size = make.shape
    return {
        "gradOut": make.numbers(*rest, size),
        "input": make.numbers(*rest, size),
        "normalizedShape": (size,),
        "mean": make.numbers(*rest, 1),
        "rstd": make.numbers(*rest, 1),
        "weightOptional": make.numbers(size),
        "biasOptional": make.numbers(size),
        "outputMask": (True, True, True),
        "gradInputOut": make.out(*rest, size),
        "gradWeightOut": make.out(size),
        "gradBiasOut": make.out(size),
    }


def _rms_norm_grad(make: Making) -> Values:
    *rest, size = make.shape
    single = {
        "rstd": make.numbers(*rest, 1).astype(np.float32),
        "dgammaOut": make.out(size, dtype=np.float32),
    }
    return single | {
        "dy": make.numbers(*rest, size),
        "x": make.numbers(*rest, size),
        "gamma": make.numbers(size),
        "dxOut": make.out(*rest, size),
    }


def _batch_norm_backward(make: Making) -> Values:
    channels = make.matrix[1]
    names = ("weight", "runningMean", "runningVar", "saveMean", "saveInvstd")
    return {
        **{name: make.numbers(*make.matrix) for name in ("gradOut", "input")},
        **{name: make.numbers(channels) for name in names},
        "training": True,
        "outputMask": (True, True, True),
        "gradInput": make.out(*make.matrix),
        "gradWeight": make.out(channels),
        "gradBias": make.out(channels),
    }


def _group_norm(make: Making) -> Values:
    samples, length = make.matrix
    return {
        **{name: make.numbers(samples, 4, length) for name in ("self", "input", "gradOut")},
        **{name: make.numbers(4) for name in ("gamma", "beta")},
        **{name: make.numbers(samples, 2) for name in ("mean", "rstd")},
        "N": samples,
        "C": 4,
        "HxW": length,
        "group": 2,
        "outputMask": (True, True, True),
        **{name: make.out(samples, 4, length) for name in ("out", "gradInput")},
        **{name: make.out(samples, 2) for name in ("meanOut", "rstdOut")},
        **{name: make.out(4) for name in ("gradGammaOut", "gradBetaOut")},
    }


def _pooling(make: Making) -> Values:
    """Planes of two rows, of which each window has both and three columns."""
    samples, length = make.matrix
    planes, points = (samples, 2, 2, length), (samples, 2, 1, length)
    return {
        "self": make.numbers(*planes),
        "gradOutput": make.numbers(*points),
        "kernelSize": (2, 3),
        **dict.fromkeys(("stride", "strides", "dilation"), (1,)),
        **dict.fromkeys(("padding", "paddings"), (0, 1)),
        "outputSize": (1, length),
        "out": make.out(*points),
        "gradInput": make.out(*planes),
    }


def _pooling_by_index(make: Making) -> Values:
    samples, length = make.matrix
    return _pooling(make) | {"indices": make.indices(2 * length, samples, 2, 1, length)}


def _pooling_by_mask(make: Making) -> Values:
    samples, length = make.matrix
    row = (-(-length // 16) + 1) * 32
    return _pooling(make) | {"indices": make.out(samples, 2, 6, row, dtype=np.int8)}


def _shares(make: Making) -> Values:
    return _pooling(make) | {"out": make.out(make.matrix[0], 2, 2, make.matrix[1])}


def _embedding_gradient(make: Making) -> Values:
    rows, size = make.matrix
    return {
        "grad": make.numbers(rows, size),
        "indices": make.indices(5, rows),
        "numWeights": 5,
        "paddingIdx": 2**64 - 1,
        "out": make.out(5, size),
    }


def _attention(make: Making) -> Values:
    """Two heads of queries and one of three keys."""
    batches, queries = make.matrix
    rows, keys = (batches, 2, queries, 4), (batches, 1, 3, 4)
    single = (batches, 2, queries, 8)
    kept = {
        name: make.numbers(*single).astype(np.float32)
        for name in ("softmaxMaxOptional", "softmaxSumOptional")
    }
    return {
        **{name: make.numbers(*rows) for name in ("query", "dy", "attentionInOptional")},
        **{name: make.numbers(*keys) for name in ("key", "keyIn", "value")},
        **kept,
        **{name: make.out(*rows) for name in ("attentionOutOut", "dqOut")},
        **{name: make.out(*keys) for name in ("dkOut", "dvOut")},
        **{
            name: make.out(*single, dtype=np.float32) for name in ("softmaxMaxOut", "softmaxSumOut")
        },
        "headNum": 2,
        "pseType": 1,
        "inputLayout": "BNSD",
    }


def _dropout(make: Making) -> Values:
    size = -(-math.prod(make.shape) // 128) * 16
    return {
        **{name: make.numbers(*make.shape) for name in ("input", "self", "gradOutput")},
        "mask": make.generator.integers(0, 256, size, np.uint8),
        **dict.fromkeys(("p", "prob"), 0.25),
        "scale": 1.5,
        "offset": 4,
        "out": make.out(*make.shape),
        "maskOut": make.out(size, dtype=np.uint8),
    }


def _dropout_mask(make: Making) -> Values:
    size = -(-math.prod(make.shape) // 128) * 16
    drawn = {
        "shape": make.shape,
        "probDataType": dtypes.FLOAT,
        "out": make.out(size, dtype=np.uint8),
    }
    return _dropout(make) | drawn


def _gate(make: Making) -> Values:
    *rest, size = make.shape
    return {
        "self": make.numbers(*rest, 2 * size),
        "gradOut": make.numbers(*rest, size),
        "dim": -1,
        "out": make.out(*rest, size),
    }


def _gate_backward(make: Making) -> Values:
    *rest, size = make.shape
    return _gate(make) | {"out": make.out(*rest, 2 * size)}


def _resized(make: Making) -> Values:
    """Planes of two rows, which become three; columns are left."""
    samples, length = make.matrix
    planes, points = (samples, 2, 2, length), (samples, 2, 3, length)
    return {
        "self": make.numbers(*planes),
        "gradOut": make.numbers(*points),
        "outputSize": (3, length),
        "inputSize": planes,
        "out": make.out(*points),
        "gradInput": make.out(*planes),
    }


def _resized_backward(make: Making) -> Values:
    return _resized(make) | {"out": make.out(make.matrix[0], 2, 2, make.matrix[1])}


def _reflected(make: Making) -> Values:
    return _resized(make) | {
        "padding": (0, 0, 1, 0),
        "gradOutput": make.numbers(make.matrix[0], 2, 3, make.matrix[1]),
    }


def _grid(make: Making) -> Values:
    samples, length = make.matrix
    return {
        "input": make.numbers(samples, 2, 4, 5),
        "grid": make.numbers(samples, length, 1, 2),
        "gradOutput": make.numbers(samples, 2, length, 1),
        "outputMask": (True, True),
        "out": make.out(samples, 2, length, 1),
        "inputGrad": make.out(samples, 2, 4, 5),
        "gridGrad": make.out(samples, length, 1, 2),
    }


def _sum_of_products(make: Making) -> Values:
    rows, inner = make.matrix
    return {
        "self": make.numbers(2, rows, 4),
        "batch1": make.numbers(2, rows, inner),
        "batch2": make.numbers(2, inner, 4),
        "out": make.out(2, rows, 4),
    }


def _lstm(make: Making) -> Values:
    """One layer of two directions."""
    steps, batch = make.matrix
    shapes = [(12, 2), (12, 3), (12,), (12,)] * 2
    kept = ("iOut", "jOut", "fOut", "oOut", "hOut", "cOut", "tanhCOut")
    return {
        "input": make.numbers(steps, batch, 2),
        "params": [make.numbers(*shape) for shape in shapes],
        "hx": [make.numbers(2, batch, 3) for _ in range(2)],
        **dict.fromkeys(("hasBias", "train", "bidirectional"), True),
        "numLayers": 1,
        "output": make.out(steps, batch, 6),
        **{name: make.out(2, batch, 3) for name in ("hy", "cy")},
        **{name: [make.out(steps, batch, 3) for _ in range(2)] for name in kept},
    }


def _distances(make: Making) -> Values:
    rows, size = make.matrix
    return {
        "x1": make.numbers(rows, size),
        "x2": make.numbers(2, size),
        **{name: make.numbers(rows, 2) for name in ("grad", "cdist")},
        "p": 2.0,
        "out": make.out(rows, 2),
    }


def _distances_backward(make: Making) -> Values:
    return _distances(make) | {"out": make.out(*make.matrix)}


def _prelu(make: Making) -> Values:
    rows, channels = make.matrix
    return {
        **{
            name: make.numbers(rows, channels) - make.numbers(1)[0]
            for name in ("self", "gradOutput")
        },
        "weight": make.numbers(channels),
        **{name: make.out(rows, channels) for name in ("out", "gradInput")},
        "gradWeight": make.out(channels),
    }


def _sum_of_batch(make: Making) -> Values:
    return _sum_of_products(make) | {
        "self": make.numbers(make.matrix[0], 4),
        "out": make.out(make.matrix[0], 4),
    }


def _sum_of_vector(make: Making) -> Values:
    rows, inner = make.matrix
    return {
        "self": make.numbers(rows),
        "mat": make.numbers(rows, inner),
        "vec": make.numbers(inner),
        "out": make.out(rows),
    }


NETWORK: dict[str, Callable[[Making], Values]] = {
    "Convolution": _convolution,
    "ConvolutionBackward": _convolution_backward,
    "LayerNormBackward": _layer_norm_backward,
    "RmsNormGrad": _rms_norm_grad,
    "BatchNormBackward": _batch_norm_backward,
    "GroupNorm": _group_norm,
    "GroupNormBackward": _group_norm,
    "MaxPool2dWithIndices": _pooling_by_index,
    "MaxPool2dWithIndicesBackward": _pooling_by_index,
    "MaxPool2dWithMask": _pooling_by_mask,
    "MaxPool2dWithMaskBackward": _pooling_by_mask,
    "AvgPool2d": _pooling,
    "AvgPool2dBackward": _pooling,
    "AdaptiveAvgPool2d": _pooling,
    "AdaptiveAvgPool2dBackward": _shares,
    "EmbeddingDenseBackward": _embedding_gradient,
    **dict.fromkeys(
        (
            "FlashAttentionScore",
            "FlashAttentionScoreV4",
            "FlashAttentionScoreGrad",
            "FlashAttentionScoreGradV4",
        ),
        _attention,
    ),
    **dict.fromkeys(("DropoutV3", "DropoutDoMask", "DropoutBackward"), _dropout),
    **dict.fromkeys(("DropoutGenMask", "DropoutGenMaskV2"), _dropout_mask),
    "Glu": _gate,
    "GluBackward": _gate_backward,
    "GeluBackwardV2": lambda _make: {"approximate": "tanh"},
    **dict.fromkeys(
        (
            "UpsampleNearest2d",
            "UpsampleNearest2dV2",
            "UpsampleNearest2dBackward",
            "UpsampleBilinear2d",
        ),
        _resized,
    ),
    **dict.fromkeys(
        ("UpsampleBilinear2dBackward", "UpsampleBilinear2dBackwardV2"), _resized_backward
    ),
    **dict.fromkeys(
        (
            "ReflectionPad2d",
            "ReflectionPad2dBackward",
            "ReplicationPad2d",
            "ReplicationPad2dBackward",
        ),
        _reflected,
    ),
    **dict.fromkeys(("GridSampler2D", "GridSampler2DBackward"), _grid),
    "Baddbmm": _sum_of_products,
    "LSTM": _lstm,
    "Cdist": _distances,
    "CdistBackward": _distances_backward,
    **dict.fromkeys(("Prelu", "PreluBackward"), _prelu),
    "Addbmm": _sum_of_batch,
    "Addmv": _sum_of_vector,
}
