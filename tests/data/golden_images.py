"""Golden vectors of planes that are read at other places, of sums of products, and of recurrence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tests.data.golden_network import _slope, _wide
from tests.data.golden_record import FLOATS, NAMES, case, exact, uniform

Size = tuple[int, int]


def resized() -> None:
    """Planes of another size, and reflected at their edges."""
    for dtype in FLOATS:
        for size in ((7, 9), (3, 2), (5, 1)):
            for scales in ((0.0, 0.0), (1.5, 1.75)) if size == (7, 9) else ((0.0, 0.0),):
                _resized(uniform((2, 3, 5, 6), dtype, -2, 2), size, scales)
        x = uniform((2, 3, 4), dtype, -2, 2)
        for padding in ([1, 2, 2, 0], [5, 0, 0, 4]):
            out, slope, grad = _slope(x, lambda v, p=padding: functional.pad(v, p, "replicate"))
            given = {"self": x, "padding": padding}
            label = f"{dtype}-{padding[0]}"
            case("aclnnReplicationPad2d", label, given, {"out": out})
            given |= {"gradOutput": grad}
            case("aclnnReplicationPad2dBackward", label, given, {"gradInput": slope}, _wide(x))
        for padding in ([1, 2, 2, 0], [3, 3, 0, 1]):
            out, slope, grad = _slope(x, lambda v, p=padding: functional.pad(v, p, "reflect"))
            given = {"self": x, "padding": padding}
            case("aclnnReflectionPad2d", f"{dtype}-{padding[0]}", given, {"out": out})
            given |= {"gradOutput": grad}
            results = {"gradInput": slope}
            label = f"{dtype}-{padding[0]}"
            case("aclnnReflectionPad2dBackward", label, given, results, _wide(x))


def _resized(x: Tensor, size: Size, scales: tuple[float, float]) -> None:
    numbers = {"scalesH": scales[0], "scalesW": scales[1]}
    label = f"{NAMES[x.dtype]}-{size[0]}-{scales[0]}"
    used = [scale or None for scale in scales]
    aten = torch.ops.aten
    out, slope, grad = _slope(x, lambda v: aten.upsample_nearest2d(v, size, *used))
    given: dict[str, Any] = {"self": x, "outputSize": [*size]}
    if not any(scales):
        case("aclnnUpsampleNearest2d", label, given, {"out": out}, 0)
    case("aclnnUpsampleNearest2dV2", label, given | numbers, {"out": out}, 0)
    back = {"gradOut": grad, "outputSize": [*size], "inputSize": list(x.shape), **numbers}
    case("aclnnUpsampleNearest2dBackward", label, back, {"gradInput": slope}, _wide(x))
    for corners in (False, True):
        more, name = {"alignCorners": corners, **numbers}, f"{label}-{corners}"
        out, slope, grad = _slope(
            x, lambda v, c=corners: aten.upsample_bilinear2d(v, size, c, *used)
        )
        case("aclnnUpsampleBilinear2d", name, given | more, {"out": out}, _wide(x))
        back |= {"gradOut": grad, **more}
        for version in ("", "V2"):
            operator = f"aclnnUpsampleBilinear2dBackward{version}"
            case(operator, name, back, {"out": slope}, _wide(x))


def grids() -> None:
    """Planes read wherever a grid says."""
    for dtype in FLOATS:
        x, grid = uniform((2, 3, 4, 5), dtype, -2, 2), uniform((2, 3, 4, 2), dtype, -1.4, 1.4)
        for way, padding, corners in ((0, 0, False), (0, 1, True), (0, 2, False), (1, 0, True)):
            points = [exact(x).requires_grad_(), exact(grid).requires_grad_()]
            out = torch.grid_sampler_2d(*points, way, padding, corners)
            grad = uniform(tuple(out.shape), dtype, -1, 1)
            slopes = torch.autograd.grad(out, points, exact(grad))
            given = {"input": x, "grid": grid, "interpolationMode": way, "paddingMode": padding}
            given |= {"alignCorners": corners}
            label = f"{dtype}-{way}-{padding}"
            case("aclnnGridSampler2D", label, given, {"out": out.to(x.dtype)}, _wide(x))
            given |= {"gradOutput": grad, "outputMask": [True, True]}
            pairs = zip(("inputGrad", "gridGrad"), slopes, strict=True)
            results = {name: slope.to(x.dtype) for name, slope in pairs}
            case("aclnnGridSampler2DBackward", label, given, results, 2 * _wide(x))


def products() -> None:
    """Sums of products of matrices."""
    for dtype in FLOATS:
        first, second = uniform((2, 3, 4), dtype), uniform((2, 4, 5), dtype)
        for shape in ((2, 3, 5), (5,)):
            own = uniform(shape, dtype)
            out = 0.5 * exact(own) + 2 * exact(first) @ exact(second)
            given = {"self": own, "batch1": first, "batch2": second, "cubeMathType": 0}
            given |= {"beta": (0.5, "FLOAT"), "alpha": (2.0, "FLOAT")}
            case("aclnnBaddbmm", f"{dtype}-{len(shape)}", given, {"out": out.to(own.dtype)})
            out = 0.5 * exact(own[0]) + 2 * (exact(first) @ exact(second)).sum(0)
            results = {"out": out.to(own.dtype)}
            case(
                "aclnnAddbmm",
                f"{dtype}-{len(shape)}",
                given | {"self": own[0]},
                results,
                _wide(own),
            )
        own, mat, vec = uniform((3,), dtype), uniform((3, 4), dtype), uniform((4,), dtype)
        out = 0.5 * exact(own) + 2 * exact(mat) @ exact(vec)
        given = {"self": own, "mat": mat, "vec": vec, "cubeMathType": 0}
        given |= {"beta": (0.5, "FLOAT"), "alpha": (2.0, "FLOAT")}
        case("aclnnAddmv", dtype, given, {"out": out.to(own.dtype)})


def distances() -> None:
    """Distances of rows, and the positive part with a learned slope."""
    for dtype in FLOATS:
        x, y = uniform((2, 3, 4), dtype, -2, 2), uniform((5, 4), dtype, -2, 2)
        for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")):
            point = exact(x).requires_grad_()
            out = torch.cdist(point, exact(y), p, "donot_use_mm_for_euclid_dist")
            given: dict[str, Any] = {"x1": x, "x2": y, "p": p, "compute_mode": 2}
            label, rounded = f"{dtype}-{p}", out.to(x.dtype)
            case("aclnnCdist", label, given, {"out": rounded}, _wide(x))
            grad = uniform((2, 3, 5), dtype, -1, 1)
            (slope,) = torch.autograd.grad(out, point, exact(grad))
            given |= {"grad": grad, "cdist": rounded}
            case("aclnnCdistBackward", label, given, {"out": slope.to(x.dtype)}, 2 * _wide(x))
        for count in (1, 3):
            _learned(x, uniform((count,), dtype))
        odd = torch.tensor([0, 1, torch.inf, -torch.inf, torch.nan]).to(x.dtype)
        case("aclnnIsPosInf", dtype, {"self": odd}, {"out": torch.isposinf(odd)})
        case("aclnnIsNegInf", dtype, {"self": odd}, {"out": torch.isneginf(odd)})
        out = functional.logsigmoid(exact(x)).to(x.dtype)
        case("aclnnLogSigmoidForward", dtype, {"self": x}, {"out": out})


def _learned(x: Tensor, weight: Tensor) -> None:
    points = [exact(x).requires_grad_(), exact(weight).requires_grad_()]
    out = functional.prelu(*points)
    grad = uniform(tuple(out.shape), NAMES[x.dtype], -1, 1)
    slopes = torch.autograd.grad(out, points, exact(grad))
    label = f"{NAMES[x.dtype]}-{len(weight)}"
    given = {"self": x, "weight": weight}
    case("aclnnPrelu", label, given, {"out": out.to(x.dtype)})
    pairs = zip(("gradInput", "gradWeight"), slopes, strict=True)
    results = {name: slope.to(x.dtype) for name, slope in pairs}
    case("aclnnPreluBackward", label, given | {"gradOutput": grad}, results, _wide(x))


NETWORKS = ((1, False, True, False), (2, True, True, True), (1, True, False, False))
"""Layers, whether in both directions, whether with biases, and whether batches come first."""


def recurrent() -> None:
    """Long short-term memory, of one layer and of two in both directions."""
    for dtype in ("FLOAT", "FLOAT16"):
        for layers, both, bias, first in (
            (1, False, True, False),
            (2, True, True, True),
            (1, True, False, False),
        ):
            model = torch.nn.LSTM(3, 4, layers, bias, first, bidirectional=both).double()
            for part in model.parameters():
                part.data = exact(uniform(tuple(part.shape), dtype, -0.6, 0.6))
            x, runs = uniform((5, 2, 3), dtype, -1, 1), layers * (2 if both else 1)
            batch = 5 if first else 2
            state = [uniform((runs, batch, 4), dtype, -1, 1) for _ in range(2)]
            out, (hidden, cell) = model(exact(x), tuple(map(exact, state)))
            params = [part.detach().to(x.dtype) for part in model.parameters()]
            given = {
                "input": x,
                "params": params,
                "hx": state,
                "hasBias": bias,
                "numLayers": layers,
            }
            given |= {"dropout": 0.0, "train": False, "bidirectional": both, "batchFirst": first}
            results = {"output": out, "hy": hidden, "cy": cell}
            results = {name: value.to(x.dtype) for name, value in results.items()}
            case("aclnnLSTM", f"{dtype}-{layers}-{both}-{bias}", given, results, _wide(x))


FAMILIES = (resized, grids, products, distances, recurrent)
