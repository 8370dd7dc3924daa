"""Makes golden vectors of operators with PyTorch, which the tests themselves do not need.

usage: python -m tests.data.make_golden    (needs torch 2.13.0, numpy and ml_dtypes)

Writes golden/operators.npz, with the bytes of arrays ``<operator>/<case>/<parameter>``, and
golden/operators.json. An output that is a parameter too is ``<parameter>.after``, and the tensors of a
list are ``<parameter>.0`` and so on. Expected values are computed in float64 from the inputs as they are
stored, by PyTorch's own functions, and rounded once to the type of the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tests.data import (
    golden_arithmetic,
    golden_images,
    golden_lists,
    golden_movement,
    golden_network,
    golden_places,
    golden_reductions,
    golden_training,
)
from tests.data.golden_record import (
    FLOATS,
    GENERATOR,
    NAMES,
    SEED,
    TYPES,
    Function,
    case,
    exact,
    uniform,
    write,
)

SHAPES = ((5, 7), (3, 1, 4))
PARTNERS = {(5, 7): (7,), (3, 1, 4): (2, 1)}
NARROW = float(np.float32(0.1))


# --- functions of one tensor ----------------------------------------------------------------------

UNARY: dict[str, tuple[Function, float, float]] = {
    "Neg": (torch.neg, -3, 3),
    "Abs": (torch.abs, -3, 3),
    "Sign": (torch.sgn, -3, 3),
    "Exp": (torch.exp, -9, 9),
    "Expm1": (torch.expm1, -1, 1),
    "Log": (torch.log, 0.01, 9),
    "Log1p": (torch.log1p, -0.5, 2),
    "Sqrt": (torch.sqrt, 0, 9),
    "Rsqrt": (torch.rsqrt, 0.1, 9),
    "Reciprocal": (torch.reciprocal, 0.2, 9),
    "Square": (torch.square, -3, 3),
    "Sin": (torch.sin, -9, 9),
    "Cos": (torch.cos, -9, 9),
    "Tanh": (torch.tanh, -4, 4),
    "Erf": (torch.erf, -4.5, 4.5),
    "Tan": (torch.tan, -1.2, 1.2),
    "Asin": (torch.asin, -1, 1),
    "Acos": (torch.acos, -1, 1),
    "Atan": (torch.atan, -9, 9),
    "Sinh": (torch.sinh, -4, 4),
    "Cosh": (torch.cosh, -4, 4),
    "Asinh": (torch.asinh, -9, 9),
    "Acosh": (torch.acosh, 1.1, 9),
    "Atanh": (torch.atanh, -0.9, 0.9),
    "Log2": (torch.log2, 0.01, 9),
    "Log10": (torch.log10, 0.01, 9),
    "Exp2": (torch.exp2, -9, 9),
    "Frac": (torch.frac, -9, 9),
    "Floor": (torch.floor, -9, 9),
    "Ceil": (torch.ceil, -9, 9),
    "Round": (torch.round, -9, 9),
    "Trunc": (torch.trunc, -9, 9),
    "Relu": (torch.relu, -3, 3),
    "Sigmoid": (torch.sigmoid, -9, 9),
    "Gelu": (functional.gelu, -5, 5),
    "Silu": (functional.silu, -9, 9),
    "LogSigmoid": (functional.logsigmoid, -9, 9),
}
UNARY_NAMES = {"Sign": ("self", "result")} | dict.fromkeys(
    ("Cos", "Acos", "Atan", "Asinh", "Atanh", "Frac"), ("input", "out")
)
UNARY_MORE = {
    "INT32": ("Neg", "Log", "Sqrt", "Rsqrt", "Reciprocal", "Sin", "Cos", "Tanh", "Square", "Relu"),
    "COMPLEX64": (
        "Tan",
        "Sinh",
        "Cosh",
        "Asinh",
        "Log2",
        "Log10",
        "Neg",
        "Exp",
        "Log",
        "Sqrt",
        "Reciprocal",
        "Sin",
        "Cos",
        "Tanh",
        "Sigmoid",
    ),
    "DOUBLE": ("Exp", "Log", "Erf", "Tanh", "Sin", "Floor"),
}


def unary() -> None:
    """Every function of one tensor."""
    for name, (function, low, high) in UNARY.items():
        given, out = UNARY_NAMES.get(name, ("self", "out"))
        more = [dtype for dtype, names in UNARY_MORE.items() if name in names]
        for dtype in (*FLOATS, *more):
            x = (
                uniform((5, 7), dtype, low, high)
                if dtype != "INT32"
                else uniform((9,), dtype, 1, 9)
            )
            kept = name in ("Neg", "Square", "Relu")
            result = TYPES["FLOAT"] if dtype == "INT32" and not kept else TYPES[dtype]
            operand = exact(x) if dtype != "INT32" or kept else x.double()
            case(f"aclnn{name}", dtype, {given: x}, {out: function(operand).to(result)})


# --- functions of several tensors and numbers -----------------------------------------------------


def pairs(
    dtypes: tuple[str, ...], low: float = 0.2, high: float = 3
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Two tensors that broadcast together."""
    for shape in SHAPES:
        for dtype in dtypes:
            x, y = uniform(shape, dtype, low, high), uniform(PARTNERS[shape], dtype, low, high)
            yield f"{dtype}-{len(shape)}", x, y


def arithmetic() -> None:
    """Sums, products, quotients, powers, bounds."""
    numbers = (*FLOATS, "INT32", "COMPLEX64")
    for name, x, y in pairs(numbers):
        alpha = (2, "INT64") if x.dtype == torch.int32 else (0.5, "FLOAT")
        for operator, function in (("Add", torch.add), ("Sub", torch.sub)):
            out = function(exact(x), exact(y), alpha=alpha[0]).to(x.dtype)
            case(f"aclnn{operator}", name, {"self": x, "other": y, "alpha": alpha}, {"out": out})
            out = function(exact(x), 3 * alpha[0]).to(x.dtype)
            given = {"self": x, "other": (3, "INT64"), "alpha": alpha}
            case(f"aclnn{operator}s", name, given, {"out": out})
        case("aclnnMul", name, {"self": x, "other": y}, {"out": (exact(x) * exact(y)).to(x.dtype)})
        out = (exact(x) * 3).to(x.dtype)
        case("aclnnMuls", name, {"self": x, "other": (3, "INT64")}, {"out": out})
        kept = torch.float32 if x.dtype == torch.int32 else x.dtype
        case("aclnnDiv", name, {"self": x, "other": y}, {"out": (exact(x) / exact(y)).to(kept)})
        out = (exact(x) / 3).to(kept)
        case("aclnnDivs", name, {"self": x, "other": (3, "INT64")}, {"out": out})
    for name, x, y in pairs((*FLOATS, "INT32"), -7, 7):
        y = torch.where(y == 0, torch.ones_like(y), y)
        for mode, rounding in ((1, "trunc"), (2, "floor")):
            out = torch.div(exact(x), exact(y), rounding_mode=rounding).to(x.dtype)
            given = {"self": x, "other": y, "mode": mode}
            case("aclnnDivMod", f"{name}-{rounding}", given, {"out": out})
    for name, x, y in pairs((*FLOATS, "INT32"), 1, 3):
        out = torch.pow(exact(x), exact(y)).to(x.dtype)
        case("aclnnPowTensorTensor", name, {"self": x, "exponent": y}, {"out": out})
        for exponent in (2, 3) if x.dtype == torch.int32 else (0.5, -1.0, 2.0, 2.5):
            kind = "INT64" if x.dtype == torch.int32 else "FLOAT"
            out = torch.pow(exact(x), exponent).to(x.dtype)
            given = {"self": x, "exponent": (exponent, kind)}
            case("aclnnPowTensorScalar", f"{name}-{exponent}", given, {"out": out})
    for name, x, y in pairs((*FLOATS, "INT32"), -5, 5):
        for operator, function in (("Maximum", torch.maximum), ("Minimum", torch.minimum)):
            case(f"aclnn{operator}", name, {"self": x, "other": y}, {"out": function(x, y)})
        given = {"self": x, "clipValueMin": (-2, "INT64"), "clipValueMax": (3, "INT64")}
        case("aclnnClamp", name, given, {"out": torch.clamp(x, -2, 3)})
        given = {"self": x, "clipValueMax": (1, "INT64")}
        case("aclnnClampMax", name, given, {"out": torch.clamp_max(x, 1)})
    for name, x, y in pairs(FLOATS):
        z = uniform(tuple(x.shape), NAMES[x.dtype])
        given = {"self": x, "tensor1": y, "tensor2": z, "value": (0.5, "FLOAT")}
        for operator, function in (("Addcmul", torch.addcmul), ("Addcdiv", torch.addcdiv)):
            out = function(exact(x), exact(y), exact(z), value=0.5).to(x.dtype)
            case(f"aclnn{operator}", name, given, {"out": out})
        out = torch.lerp(exact(x), exact(y), exact(z)).to(x.dtype)
        case("aclnnLerp", name, {"self": x, "end": y, "weight": z}, {"out": out})


def comparison() -> None:
    """Comparisons and logic."""
    for name, x, y in pairs((*FLOATS, "INT32"), 0, 3):
        x, y = (value.round() if value.is_floating_point() else value for value in (x, y))
        for operator in ("Eq", "Ne", "Lt", "Le", "Gt", "Ge"):
            function = getattr(torch, operator.lower())
            case(f"aclnn{operator}Tensor", name, {"self": x, "other": y}, {"out": function(x, y)})
            given = {"self": x, "other": (2, "INT64")}
            case(f"aclnn{operator}Scalar", name, given, {"out": function(x, 2)})
        for operator, function in (("And", torch.logical_and), ("Or", torch.logical_or)):
            case(f"aclnnLogical{operator}", name, {"self": x, "other": y}, {"out": function(x, y)})
        case("aclnnLogicalNot", name, {"self": x}, {"out": torch.logical_not(x)})
        odd = x if x.is_floating_point() else x.float()
        odd = torch.where(x == 2, torch.inf, odd).where(x != 1, torch.nan)
        case("aclnnIsFinite", name, {"self": odd}, {"out": torch.isfinite(odd)})
        chosen = uniform(tuple(x.shape), "BOOL")
        given = {"condition": chosen, "self": x, "other": y}
        case("aclnnSWhere", name, given, {"out": torch.where(chosen, x, y)})


def gradients() -> None:
    """Activations with numbers, and gradients by automatic differentiation."""
    for dtype in FLOATS:
        grad, x = uniform((5, 7), dtype, -1, 1), uniform((5, 7), dtype, -4, 4)
        both = {"gradOutput": grad, "self": x}
        slope = {"negativeSlope": (0.1, "FLOAT")}
        _activation(
            "LeakyRelu", {"self": x, **slope}, x, lambda v: functional.leaky_relu(v, NARROW)
        )
        given = {"self": x, "beta": (1.5, "FLOAT"), "threshold": (2.0, "FLOAT")}
        _activation("Softplus", given, x, lambda v: functional.softplus(v, 1.5, 2.0))
        for way, number in (("none", 0), ("tanh", 1)):
            out = functional.gelu(exact(x), approximate=way).to(x.dtype)
            case("aclnnGeluV2", f"{dtype}-{way}", {"x": x, "approximate": number}, {"y": out})
        given = {**both, **slope, "selfIsResult": False}
        _gradient("LeakyReluBackward", given, lambda v: functional.leaky_relu(v, NARROW))
        given = {**both, "threshold": (0.5, "FLOAT")}
        _gradient("ThresholdBackward", given, lambda v: functional.threshold(v, 0.5, 0.0))
        _gradient("GeluBackward", both, functional.gelu, "gradInput")
        _gradient("SiluBackward", both, functional.silu, "gradInput")
        y = uniform((5, 7), dtype, -0.9, 0.9)
        given = {"gradOutput": grad, "output": y}
        out = (exact(grad) * (1 - exact(y)) * exact(y)).to(grad.dtype)
        case("aclnnSigmoidBackward", dtype, given, {"gradInput": out})
        out = (exact(grad) * (1 - exact(y) ** 2)).to(grad.dtype)
        case("aclnnTanhBackward", dtype, given, {"gradInput": out})


def _activation(name: str, given: Mapping[str, Any], x: Tensor, function: Function) -> None:
    case(f"aclnn{name}", NAMES[x.dtype], given, {"out": function(exact(x)).to(x.dtype)})


def _gradient(name: str, given: Mapping[str, Any], function: Function, out: str = "out") -> None:
    x = exact(given["self"]).requires_grad_()
    (slope,) = torch.autograd.grad(function(x), x, exact(given["gradOutput"]))
    dtype = given["self"].dtype
    case(f"aclnn{name}", NAMES[dtype], given, {out: slope.to(dtype)})


# --- losses ---------------------------------------------------------------------------------------

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def losses() -> None:
    """Losses whose inputs are probabilities or classes, and their gradients."""
    for dtype in FLOATS:
        x, y = uniform((5, 7), dtype), uniform((5, 7), dtype)
        weight, positive = uniform((7,), dtype), uniform((7,), dtype, 0.5, 3)
        logits = uniform((5, 7), dtype, -5, 5)
        sides = torch.where(y > 0.5, 1.0, -1.0).to(y.dtype)
        for way in REDUCTIONS:
            _loss("L1Loss", x, {"target": y}, way, functional.l1_loss, forward_only=True)
            _loss("MseLoss", x, {"target": y}, way, functional.mse_loss, forward_only=True)
            _loss("SoftMarginLoss", logits, {"target": sides}, way, functional.soft_margin_loss)
            for name in (None, "weight"):
                given = {"target": y, "weight": weight if name else None}
                _loss("BinaryCrossEntropy", x, given, way, functional.binary_cross_entropy)
            for pair in ((None, None), (weight, None), (None, positive), (weight, positive)):
                given = dict(zip(("target", "weight", "pos_weight"), (y, *pair), strict=True))
                function = functional.binary_cross_entropy_with_logits
                _loss("BinaryCrossEntropyWithLogits", logits, given, way, function)
        for way in (*REDUCTIONS, "batchmean"):
            _divergence(uniform((5, 7), dtype, -3, 0), y, way)
            if way != "batchmean":
                _classes(uniform((6, 4), dtype, -4, 0), uniform((4,), dtype), way)


def _loss(
    name: str,
    x: Tensor,
    given: Mapping[str, Any],
    way: str,
    function: Function,
    *,
    forward_only: bool = False,
) -> None:
    values = {key: None if value is None else exact(value) for key, value in given.items()}
    point = exact(x).requires_grad_()
    loss = function(point, **values, reduction=way)
    label = "-".join(
        [NAMES[x.dtype], way, *(key for key, value in given.items() if value is not None)]
    )
    rows = {"self": x, **given, "reduction": REDUCTIONS[way]}
    case(f"aclnn{name}", label, _renamed(name, rows), {"out": loss.to(x.dtype)})
    if forward_only:
        return
    grad = uniform(tuple(loss.shape), NAMES[x.dtype])
    (slope,) = torch.autograd.grad(loss, point, exact(grad))
    rows = _renamed(f"{name}Backward", {"gradOutput": grad, **rows})
    case(f"aclnn{name}Backward", label, rows, {"out": slope.to(x.dtype)})


def _renamed(name: str, rows: dict[str, Any]) -> dict[str, Any]:
    new = {"pos_weight": "posWeightOptional"}
    if name != "BinaryCrossEntropy":
        new["weight"] = "weightOptional"
    return {new.get(key, key): value for key, value in rows.items()}


def _divergence(x: Tensor, y: Tensor, way: str) -> None:
    number = {**REDUCTIONS, "batchmean": 3}[way]
    for logarithm in (False, True):
        target = y.log() if logarithm else y
        points = [exact(value).requires_grad_() for value in (x, target)]
        loss = functional.kl_div(*points, reduction=way, log_target=logarithm)
        rows = {"self": x, "target": target, "reduction": number, "logTarget": logarithm}
        label = f"{NAMES[x.dtype]}-{way}-{logarithm}"
        case("aclnnKlDiv", label, rows, {"out": loss.to(x.dtype)})
        grad = uniform(tuple(loss.shape), NAMES[x.dtype])
        slopes = torch.autograd.grad(loss, points, exact(grad))
        rows = {"gradOutput": grad, **rows}
        case("aclnnKlDivBackward", label, rows, {"out": slopes[0].to(x.dtype)})
        case("aclnnKlDivTargetBackward", label, rows, {"gradTarget": slopes[1].to(x.dtype)})


def _classes(x: Tensor, weight: Tensor, way: str) -> None:
    target = torch.tensor([0, 3, 1, 2, 1, 0])
    point = exact(x).requires_grad_()
    loss = functional.nll_loss(point, target, exact(weight), ignore_index=1, reduction=way)
    total = weight[target[target != 1]].double().sum()
    rows = {"self": x, "target": target, "weight": weight}
    rows |= {"reduction": REDUCTIONS[way], "ignoreIndex": 1}
    # Without a reduction the operator leaves the weight as it is; the tests fill outputs with -77.
    weights = total if way != "none" else torch.tensor(-77.0)
    outputs = {"out": loss.to(x.dtype), "totalWeightOut": weights.to(x.dtype).reshape(1)}
    case("aclnnNLLLoss", f"{NAMES[x.dtype]}-{way}", rows, outputs)
    grad = uniform(tuple(loss.shape), NAMES[x.dtype])
    (slope,) = torch.autograd.grad(loss, point, exact(grad))
    rows = {"gradOutput": grad, **rows, "totalWeight": total.to(x.dtype).reshape(1)}
    case("aclnnNLLLossBackward", f"{NAMES[x.dtype]}-{way}", rows, {"out": slope.to(x.dtype)})


# --- along dimensions, and of matrices ------------------------------------------------------------


def along() -> None:
    """Reductions, softmax, running sums and normalisation along a dimension."""
    for dtype in FLOATS:
        x, kind = uniform((3, 4, 5), dtype, -2, 2), TYPES[dtype]
        wide = exact(x)
        for operator, function in (("Amax", torch.amax), ("Amin", torch.amin)):
            given = {"self": x, "dim": [0, 2], "keepDim": True}
            case(f"aclnn{operator}", dtype, given, {"out": function(x, (0, 2), keepdim=True)})
        given = {"self": x, "dim": [0, 2], "correction": 1, "keepdim": False}
        case("aclnnStd", dtype, given, {"out": wide.std((0, 2), correction=1).to(kind)})
        given = {"self": x, "dim": [1], "unbiased": False, "keepdim": True}
        out = wide.var((1,), correction=0, keepdim=True).to(kind)
        case("aclnnVar", dtype, given, {"out": out})
        values, places = x.max(1)
        given = {"self": x, "dim": 1, "keepdim": False}
        case("aclnnArgMax", dtype, given, {"out": places})
        case("aclnnMaxDim", dtype, given, {"out": values, "indices": places})
        for operator, function in (("Softmax", torch.softmax), ("LogSoftmax", torch.log_softmax)):
            out = function(wide, 1).to(kind)
            case(f"aclnn{operator}", dtype, {"self": x, "dim": 1}, {"out": out})
            grad, point = uniform((3, 4, 5), dtype), wide.detach().requires_grad_()
            (slope,) = torch.autograd.grad(function(point, 1), point, exact(grad))
            given = {"gradOutput": grad, "output": out, "dim": 1}
            # From the rounded output, of which a row does not sum to 1 exactly.
            case(f"aclnn{operator}Backward", dtype, given, {"out": slope.to(kind)})
        weight, bias = uniform((5,), dtype), uniform((5,), dtype)
        given = {"input": x, "normalizedShape": [5], "weightOptional": weight, "biasOptional": bias}
        given |= {"eps": 1e-5, "meanOutOptional": None, "rstdOutOptional": None}
        out = functional.layer_norm(wide, (5,), exact(weight), exact(bias), 1e-5).to(kind)
        case("aclnnLayerNorm", dtype, given, {"out": out})


def matrices() -> None:
    """Products of matrices and vectors."""
    for dtype in FLOATS:
        kind = TYPES[dtype]
        x, y, z = uniform((4, 6), dtype), uniform((6, 5), dtype), uniform((4, 5), dtype)
        out = (exact(x) @ exact(y)).to(kind)
        for operator in ("Mm", "Matmul"):
            case(f"aclnn{operator}", dtype, {"self": x, "mat2": y, "cubeMathType": 0}, {"out": out})
        given = {"self": z, "mat1": x, "mat2": y, "beta": (0.5, "FLOAT"), "alpha": (2.0, "FLOAT")}
        out = (0.5 * exact(z) + 2 * exact(x) @ exact(y)).to(kind)
        case("aclnnAddmm", dtype, given | {"cubeMathType": 0}, {"out": out})
        v = uniform((6,), dtype)
        given = {"self": x, "vec": v, "cubeMathType": 0}
        case("aclnnMv", dtype, given, {"out": (exact(x) @ exact(v)).to(kind)})
        out = (exact(x[0]) @ exact(v)).to(kind)
        case("aclnnDot", dtype, {"self": x[0], "tensor": v}, {"out": out})


FAMILIES = (unary, arithmetic, comparison, gradients, losses, along, matrices)


def main() -> None:
    """Makes everything."""
    modules = (
        golden_movement,
        golden_reductions,
        golden_arithmetic,
        golden_lists,
        golden_places,
        golden_network,
        golden_training,
        golden_images,
    )
    for families in (FAMILIES, *(module.FAMILIES for module in modules)):
        # A module's numbers do not change with what is made before it.
        GENERATOR.manual_seed(SEED)
        for family in families:
            family()
    write()


if __name__ == "__main__":
    main()
