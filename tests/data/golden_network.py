"""Golden vectors of the operators that neural networks are made of."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tests.data.golden_record import FLOATS, NAMES, TYPES, Function, case, exact, uniform

WINDOWS = (
    # shape, weight, stride, padding, dilation, transposed, output padding, groups
    ("line", (2, 4, 9), (6, 2, 3), [2], [1], [1], False, [0], 2),
    ("plane", (2, 3, 6, 5), (4, 3, 3, 2), [1, 2], [1, 0], [1, 1], False, [0, 0], 1),
    ("apart", (1, 2, 7, 8), (2, 1, 3, 3), [1, 1], [2, 2], [2, 2], False, [0, 0], 2),
    ("point", (2, 4, 3, 3), (5, 4, 1, 1), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ("space", (1, 2, 4, 4, 3), (2, 2, 2, 3, 2), [1, 2, 1], [0, 1, 1], [1, 1, 1], False, [0] * 3, 1),
    ("turned", (2, 4, 3, 4), (4, 3, 3, 2), [2, 1], [1, 0], [1, 1], True, [1, 0], 2),
)


def convolutions() -> None:
    """Convolutions and their gradients; sums of gradients are over many products."""
    for dtype in FLOATS:
        for name, shape, kernel, stride, padding, dilation, turned, more, groups in WINDOWS:
            x, weight = uniform(shape, dtype, -1, 1), uniform(kernel, dtype, -1, 1)
            bias = uniform((kernel[1] * groups if turned else kernel[0],), dtype)
            points = [exact(value).requires_grad_() for value in (x, weight, bias)]
            settings = (stride, padding, dilation, turned, more, groups)
            out = torch.convolution(*points, *settings)
            window = dict(
                zip(
                    ("stride", "padding", "dilation", "transposed", "outputPadding", "groups"),
                    settings,
                    strict=True,
                )
            )
            given = {"input": x, "weight": weight, **window, "cubeMathType": 0}
            results = {"output": out.to(TYPES[dtype])}
            case("aclnnConvolution", f"{dtype}-{name}", given | {"bias": bias}, results, _wide(x))
            grad = uniform(tuple(out.shape), dtype, -1, 1)
            slopes = torch.autograd.grad(out, points, exact(grad))
            given |= {"gradOutput": grad, "biasSizes": [len(bias)], "outputMask": [True] * 3}
            names = ("gradInput", "gradWeight", "gradBias")
            rows = zip(names, slopes, strict=True)
            results = {key: slope.to(TYPES[dtype]) for key, slope in rows}
            case("aclnnConvolutionBackward", f"{dtype}-{name}", given, results, _wide(x))


MASK = [True] * 3


def normalizations() -> None:
    """Gradients of normalisations, and that of groups."""
    for dtype in FLOATS:
        kind, single = TYPES[dtype], torch.float32
        x, grad = uniform((3, 4, 5), dtype, -2, 2), uniform((3, 4, 5), dtype, -1, 1)
        weight, bias = uniform((5,), dtype), uniform((5,), dtype)
        points = [exact(value).requires_grad_() for value in (x, weight, bias)]
        mean = exact(x).mean(2, keepdim=True)
        rstd = 1 / (exact(x).var(2, correction=0, keepdim=True) + 1e-5).sqrt()
        out = functional.layer_norm(points[0], (5,), points[1], points[2], 1e-5)
        slopes = torch.autograd.grad(out, points, exact(grad))
        given = {"gradOut": grad, "input": x, "normalizedShape": [5], "mean": mean.to(single)}
        given |= {"rstd": rstd.to(single), "weightOptional": weight, "biasOptional": bias}
        names = ("gradInputOut", "gradWeightOut", "gradBiasOut")
        results = {key: slope.to(kind) for key, slope in zip(names, slopes, strict=True)}
        case("aclnnLayerNormBackward", dtype, given | {"outputMask": MASK}, results, _wide(x))

        square = 1 / (exact(x).square().mean(2, keepdim=True) + 1e-6).sqrt()
        out = functional.rms_norm(points[0], (5,), points[1], 1e-6)
        slopes = torch.autograd.grad(out, points[:2], exact(grad))
        given = {"dy": grad, "x": x, "rstd": square.to(single), "gamma": weight}
        results = {"dxOut": slopes[0].to(kind), "dgammaOut": slopes[1].to(single)}
        case("aclnnRmsNormGrad", dtype, given, results, _wide(x))
        _batches(x, grad)
        _groups(uniform((2, 6, 2, 3), dtype, -2, 2), uniform((2, 6, 2, 3), dtype, -1, 1))


def _batches(x: Tensor, grad: Tensor) -> None:
    dtype = NAMES[x.dtype]
    weight, bias, mean, variance = (uniform((4,), dtype) for _ in range(4))
    for training in (False, True):
        points = [exact(value).requires_grad_() for value in (x, weight, bias)]
        known = (exact(mean), exact(variance))
        out = functional.batch_norm(points[0], *known, points[1], points[2], training, 0.0, 1e-5)
        slopes = torch.autograd.grad(out, points, exact(grad))
        own = exact(x).transpose(0, 1).reshape(4, -1)
        saved = (own.mean(1), 1 / (own.var(1, correction=0) + 1e-5).sqrt())
        given = {"gradOut": grad, "input": x, "weight": weight, "runningMean": mean}
        given |= {"runningVar": variance, "saveMean": saved[0].float(), "training": training}
        given |= {"saveInvstd": saved[1].float(), "eps": 1e-5, "outputMask": MASK}
        names = ("gradInput", "gradWeight", "gradBias")
        results = {key: slope.to(x.dtype) for key, slope in zip(names, slopes, strict=True)}
        case("aclnnBatchNormBackward", f"{dtype}-{training}", given, results, _wide(x))


def _groups(x: Tensor, grad: Tensor) -> None:
    kind, dtype = x.dtype, NAMES[x.dtype]
    gamma, beta = uniform((6,), dtype), uniform((6,), dtype)
    points = [exact(value).requires_grad_() for value in (x, gamma, beta)]
    out, mean, rstd = torch.native_group_norm(*points, 2, 6, 6, 3, 1e-5)
    sizes = {"N": 2, "C": 6, "HxW": 6, "group": 3}
    given = {"self": x, "gamma": gamma, "beta": beta, **sizes, "eps": 1e-5}
    results = {"out": out.to(kind), "meanOut": mean.to(kind), "rstdOut": rstd.to(kind)}
    case("aclnnGroupNorm", dtype, given, results, _wide(x))
    slopes = torch.autograd.grad(out, points, exact(grad))
    given = {"gradOut": grad, "input": x, "gamma": gamma, **sizes, "outputMask": MASK}
    given |= {"mean": mean.float(), "rstd": rstd.float()}
    names = ("gradInput", "gradGammaOut", "gradBetaOut")
    results = {key: slope.to(kind) for key, slope in zip(names, slopes, strict=True)}
    case("aclnnGroupNormBackward", dtype, given, results, _wide(x))


POOLS = (
    # shape, kernel, stride, padding, ceil
    ("halves", (2, 2, 6, 8), [2, 2], [2, 2], [0, 0], False),
    ("overlap", (1, 3, 7, 5), [3, 2], [2, 1], [1, 1], False),
    ("ceil", (3, 6, 7), [3, 3], [2, 2], [1, 0], True),
)


def pooling() -> None:
    """Pooling and its gradients."""
    for dtype in FLOATS:
        for name, shape, kernel, stride, padding, ceil in POOLS:
            x, label = uniform(shape, dtype, -2, 2), f"{dtype}-{name}"
            _largest(x, kernel, stride, padding, ceil, label)
            _means(x, kernel, stride, padding, ceil, label)
        for size in ((1, 1), (3, 2), (7, 5)):
            x, label = uniform((2, 2, 5, 4), dtype, -2, 2), f"{dtype}-{size[0]}"
            out, slope, grad = _slope(x, lambda v, s=size: functional.adaptive_avg_pool2d(v, s))
            case("aclnnAdaptiveAvgPool2d", label, {"self": x, "outputSize": [*size]}, {"out": out})
            given = {"gradOutput": grad, "self": x}
            case("aclnnAdaptiveAvgPool2dBackward", label, given, {"out": slope}, _wide(x))


def _slope(x: Tensor, function: Function) -> tuple[Tensor, Tensor, Tensor]:
    """The result of a function, the gradient of x, and the gradient that it follows from."""
    point = exact(x).requires_grad_()
    out = function(point)
    grad = uniform(tuple(out.shape), NAMES[x.dtype], -1, 1)
    (slope,) = torch.autograd.grad(out, point, exact(grad))
    return out.to(x.dtype), slope.to(x.dtype), grad


def _largest(
    x: Tensor, kernel: list[int], stride: list[int], padding: list[int], ceil: bool, label: str
) -> None:
    settings: Any = (kernel, stride, padding, [1, 1], ceil)
    window = dict(
        zip(("kernelSize", "stride", "padding", "dilation", "ceilMode"), settings, strict=True)
    )
    out, slope, grad = _slope(x, lambda v: functional.max_pool2d(v, *settings))
    places = functional.max_pool2d(exact(x), *settings, return_indices=True)[1]
    results = {"out": out, "indices": places}
    case("aclnnMaxPool2dWithIndices", label, {"self": x, **window}, results, 0)
    given = {"gradOutput": grad, "self": x, "indices": places, **window}
    case("aclnnMaxPool2dWithIndicesBackward", label, given, {"gradInput": slope}, _wide(x))
    mask = _mask(places, x.shape[-1], kernel, stride, padding)
    results = {"out": out, "indices": mask}
    case("aclnnMaxPool2dWithMask", label, {"self": x, **window}, results, 0)
    given["indices"] = mask
    case("aclnnMaxPool2dWithMaskBackward", label, given, {"gradInput": slope}, _wide(x))


def _mask(
    places: Tensor, width: int, kernel: list[int], stride: list[int], padding: list[int]
) -> Tensor:
    """The server's layout: a row for each place of the kernel, a byte for each window, 1 or 0."""
    *planes, rows, columns = places.shape
    top = torch.arange(rows)[:, None] * stride[0] - padding[0]
    left = torch.arange(columns) * stride[1] - padding[1]
    number = (places // width - top) * kernel[1] + places % width - left
    count = kernel[0] * kernel[1]
    hits = number.reshape(*planes, 1, -1) == torch.arange(count)[:, None]
    row = (-(-rows * columns // 16) + 1) * 32
    return functional.pad(hits, (0, row - rows * columns)).to(torch.int8)


def _means(
    x: Tensor, kernel: list[int], stride: list[int], padding: list[int], ceil: bool, label: str
) -> None:
    for padded, divisor in ((True, 0), (False, 0), (True, 5)):
        settings: Any = (kernel, stride, padding, ceil, padded, divisor or None)
        out, slope, grad = _slope(x, lambda v, s=settings: functional.avg_pool2d(v, *s))
        given: dict[str, Any] = {"self": x, "kernelSize": kernel, "ceilMode": ceil}
        given |= {"countIncludePad": padded, "divisorOverride": divisor, "cubeMathType": 0}
        lists = {"strides": stride, "paddings": padding}
        name = f"{label}-{padded}-{divisor}"
        case("aclnnAvgPool2d", name, given | lists, {"out": out})
        given |= {"gradOutput": grad, "stride": stride, "padding": padding}
        case("aclnnAvgPool2dBackward", name, given, {"gradInput": slope}, _wide(x))


def tables() -> None:
    """Gradients of tables."""
    for dtype in FLOATS:
        grad, places = uniform((4, 3, 5), dtype, -1, 1), torch.arange(12).reshape(4, 3) ** 2 % 7
        for padding, scaled in ((-1, False), (4, False), (1, True)):
            slope = torch.ops.aten.embedding_dense_backward(
                exact(grad), places, 7, padding, scaled
            ).to(grad.dtype)
            given = {"grad": grad, "indices": places, "numWeights": 7, "scaleGradByFreq": scaled}
            given["paddingIdx"] = padding % 2**64
            label = f"{dtype}-{padding}-{scaled}"
            case("aclnnEmbeddingDenseBackward", label, given, {"out": slope}, _wide(grad))


WINDOW = {"preTokens": 3, "nextTokens": 1, "innerPrecise": 0, "keepProb": 1.0}
SPARSE = ((0, False), (0, True), (2, True), (3, True), (4, True))


def attention() -> None:
    """Attention and its gradients, for each layout and way to hide keys."""
    for dtype in FLOATS:
        for layout in ("BNSD", "BSND", "BSH", "SBH"):
            for mode, masked in SPARSE if layout == "BNSD" else SPARSE[1:2]:
                _attention(dtype, layout, mode, masked=masked)


def _attention(dtype: str, layout: str, mode: int, *, masked: bool) -> None:
    shapes = ((2, 4, 5, 6), (2, 2, 7, 6), (2, 2, 7, 6))
    query, key, value = (uniform(shape, dtype, -1, 1) for shape in shapes)
    points = [exact(part).requires_grad_() for part in (query, key, value)]
    wide = [points[0], *(part.repeat_interleave(2, 1) for part in points[1:])]
    distance = torch.arange(7) - torch.arange(5)[:, None]
    hidden = {
        0: uniform((2, 1, 5, 7), "BOOL") & (distance != 0),
        2: distance > 0,
        3: distance > 2,
        4: (distance > 3) | (distance < -1),
    }[mode]
    scores = wide[0] @ wide[1].transpose(2, 3) * 0.3
    if masked:
        scores = scores.masked_fill(hidden, -torch.inf)
    largest = scores.amax(3, keepdim=True)
    sums = (scores - largest).exp().sum(3, keepdim=True)
    out = scores.softmax(3) @ wide[2]
    grad = uniform(tuple(out.shape), dtype, -1, 1)
    slopes = torch.autograd.grad(out, points, exact(grad))
    result = out.to(TYPES[dtype])
    given = {"query": _laid(query, layout), "value": _laid(value, layout)}
    settings = {"scaleValue": 0.3, **WINDOW, "headNum": 4, "inputLayout": layout}
    settings |= {"sparseMode": mode, "attenMaskOptional": hidden if masked else None}
    eight = [value.expand(2, 4, 5, 8).float() for value in (largest, sums)]
    later = {"pseType": 1, "seed": 0, "offset": 0, "outDtype": 0}
    results = {
        "attentionOutOut": _laid(result, layout),
        "softmaxMaxOut": eight[0],
        "softmaxSumOut": eight[1],
    }
    label = f"{dtype}-{layout}-{mode}-{masked}"
    forward = given | {"key": _laid(key, layout)} | settings
    case("aclnnFlashAttentionScore", label, forward, results, _wide(query))
    case("aclnnFlashAttentionScoreV4", label, forward | later, results, _wide(query))
    names = ("dqOut", "dkOut", "dvOut")
    pairs = zip(names, slopes, strict=True)
    results = {name: _laid(slope.to(TYPES[dtype]), layout) for name, slope in pairs}
    backward = given | settings | {"keyIn": _laid(key, layout), "dy": _laid(grad, layout)}
    backward |= {"softmaxMaxOptional": eight[0], "softmaxSumOptional": eight[1]}
    backward["attentionInOptional"] = _laid(result, layout)
    case("aclnnFlashAttentionScoreGrad", label, backward, results, 2 * _wide(query))
    case("aclnnFlashAttentionScoreGradV4", label, backward | later, results, 2 * _wide(query))


def _laid(value: Tensor, layout: str) -> Tensor:
    """A tensor of dimensions (B, N, S, D) in another order of them."""
    value = value.detach()
    if layout == "BNSD":
        return value
    moved = value.permute((2, 0, 1, 3) if layout == "SBH" else (0, 2, 1, 3))
    return moved if layout == "BSND" else moved.flatten(2)


def masks() -> None:
    """Masks of bits on tensors."""
    for dtype in FLOATS:
        x, bits = uniform((5, 27), dtype, -2, 2), uniform((256,), "BOOL").to(torch.uint8)
        mask = (bits.reshape(32, 8) * 2 ** torch.arange(8)).sum(1).to(torch.uint8)
        kept = bits[:135].reshape(5, 27).double()
        out = (exact(x) * kept / 0.75).to(x.dtype)
        case("aclnnDropoutDoMask", dtype, {"self": x, "mask": mask, "prob": 0.25}, {"out": out})
        out = (exact(x) * kept * 1.25).to(x.dtype)
        given = {"gradOutput": x, "mask": mask, "scale": 1.25}
        case("aclnnDropoutBackward", dtype, given, {"out": out})


NUMBERS = {"alpha": (1.5, "FLOAT"), "scale": (1.25, "FLOAT"), "inputScale": (0.75, "FLOAT")}
BOUNDS = ((-1.0, "FLOAT"), (1.5, "FLOAT"))
SMOOTH = {"beta": (1.5, "FLOAT"), "threshold": (2.0, "FLOAT")}


def _elu(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 1.5 * torch.expm1(0.75 * x)) * 1.25


def activations() -> None:
    """Further activations and gradients."""
    for dtype in FLOATS:
        x, grad = uniform((5, 7), dtype, -4, 4), uniform((5, 7), dtype, -1, 1)
        # At 3 and -3 some functions have no slope, or one on either side.
        x = torch.where(x.abs() == 3, 2.5, x).to(x.dtype)
        forward: dict[str, tuple[Function, dict[str, Any]]] = {
            "Hardsigmoid": (functional.hardsigmoid, {}),
            "Hardswish": (functional.hardswish, {}),
            "Mish": (functional.mish, {}),
            "Selu": (functional.selu, {}),
            "Elu": (_elu, NUMBERS),
            "Hardtanh": (
                lambda v: functional.hardtanh(v, -1.0, 1.5),
                dict(zip(("clipValueMin", "clipValueMax"), BOUNDS, strict=True)),
            ),
        }
        for name, (function, more) in forward.items():
            case(
                f"aclnn{name}", dtype, {"self": x, **more}, {"out": function(exact(x)).to(x.dtype)}
            )
        _slopes(x, grad)
        _gates(uniform((3, 6, 2), dtype, -3, 3))


def _slopes(x: Tensor, grad: Tensor) -> None:
    backward: dict[str, tuple[Function, dict[str, Any], str]] = {
        "HardsigmoidBackward": (functional.hardsigmoid, {}, "out"),
        "HardswishBackward": (functional.hardswish, {}, "out"),
        "HardswishBackwardV2": (functional.hardswish, {}, "out"),
        "MishBackward": (functional.mish, {}, "gradInput"),
        "SoftplusBackward": (lambda v: functional.softplus(v, 1.5, 2.0), SMOOTH, "gradInput"),
        "HardtanhBackward": (
            lambda v: functional.hardtanh(v, -1.0, 1.5),
            dict(zip(("min", "max"), BOUNDS, strict=True)),
            "out",
        ),
        "LogSigmoidBackward": (functional.logsigmoid, {}, "gradInput"),
    }
    for way in ("none", "tanh"):
        gelu = partial(functional.gelu, approximate=way)
        backward[f"GeluBackwardV2-{way}"] = (gelu, {"approximate": way}, "gradInput")
    for name, (function, more, out) in backward.items():
        slope = _derivative(function, x, grad)
        given = {"gradOutput": grad, "self": x, **more}
        operator, _, label = name.partition("-")
        case(f"aclnn{operator}", f"{NAMES[x.dtype]}{label}", given, {out: slope})
    result = functional.selu(exact(x)).to(x.dtype)
    given = {"gradOutput": grad, "result": result}
    slope = {"gradInput": _derivative(functional.selu, x, grad)}
    case("aclnnSeluBackward", NAMES[x.dtype], given, slope, _wide(x))
    for known in (False, True):
        point = _elu(exact(x)).to(x.dtype) if known else x
        given = {"gradOutput": grad, **NUMBERS, "isResult": known, "selfOrResult": point}
        slope = {"gradInput": _derivative(_elu, x, grad)}
        case("aclnnEluBackward", f"{NAMES[x.dtype]}-{known}", given, slope, _wide(x))


def _derivative(function: Function, x: Tensor, grad: Tensor) -> Tensor:
    point = exact(x).requires_grad_()
    (slope,) = torch.autograd.grad(function(point), point, exact(grad))
    return slope.to(x.dtype)


def _gates(x: Tensor) -> None:
    for dim in (1, -1):
        out, slope, grad = _slope(x, lambda v, d=dim: functional.glu(v, d))
        case("aclnnGlu", f"{NAMES[x.dtype]}-{dim}", {"self": x, "dim": dim}, {"out": out})
        given = {"gradOut": grad, "self": x, "dim": dim}
        case("aclnnGluBackward", f"{NAMES[x.dtype]}-{dim}", given, {"out": slope})


def _wide(x: Tensor) -> float:
    """Tolerance of sums that may be near 0."""
    return {"FLOAT": 1e-5, "FLOAT16": 2e-3, "BF16": 1.6e-2}[NAMES[x.dtype]]


FAMILIES = (convolutions, normalizations, pooling, tables, attention, masks, activations)
