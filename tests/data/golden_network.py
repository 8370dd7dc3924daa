"""Golden vectors of the operators that neural networks are made of."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.data.golden_record import FLOATS, NAMES, TYPES, case, exact, uniform

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


def _wide(x: Tensor) -> float:
    """Tolerance of sums that may be near 0."""
    return {"FLOAT": 1e-5, "FLOAT16": 2e-3, "BF16": 1.6e-2}[NAMES[x.dtype]]


FAMILIES = (convolutions,)
