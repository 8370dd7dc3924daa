"""Golden vectors of reductions, normalisation, the optimiser, and of what works in place."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tests.data.golden_record import FLOATS, INTEGERS, NAMES, TYPES, Function, case, exact, uniform

Dims = int | list[int] | None

NUMBERS = (*FLOATS, "DOUBLE", *INTEGERS)
CASTS = (
    *((kind, kind) for kind in (*NUMBERS, "COMPLEX64")),
    ("FLOAT16", "FLOAT"),
    ("BF16", "FLOAT"),
    ("FLOAT", "FLOAT16"),
    ("INT8", "INT64"),
    ("INT32", "FLOAT"),
    ("BOOL", "INT64"),
    ("FLOAT", "BOOL"),
)
"""Types of an input, and of the result that it is cast to first."""


def sums() -> None:
    """Sums, means, products and running sums."""
    for kind, target in CASTS:
        x, dtype, name = uniform((3, 4, 5), kind, -2, 2), TYPES[target], f"{kind}-{target}"
        for dims, keep in (([0, 2], True), ([-2], False), ([], False)):
            axes, label = dims or [0, 1, 2], f"{name}-{len(dims)}"
            out = _sum(torch.sum, x, dtype, axes, keepdim=keep)
            given: dict[str, Any] = {"self": x, "dims": dims, "keepDims": keep, "dtype": dtype}
            case("aclnnReduceSum", label, given, {"out": out})
            if dtype.is_floating_point or dtype.is_complex:
                if kind == "BOOL":
                    continue
                out = _sum(torch.mean, x, dtype, axes, keepdim=keep)
                given = {"self": x, "dim": dims, "keepDim": keep, "dtype": dtype}
                case("aclnnMean", label, given, {"out": out})
        for dim in (0, -1) if target != "BOOL" else ():
            out = _sum(torch.cumsum, x, dtype, dim)
            case(
                "aclnnCumsum",
                f"{name}-{dim}",
                {"self": x, "dim": dim, "dtype": dtype},
                {"out": out},
            )
        _products(uniform((2, 3, 2), kind, -2, 2), dtype, name)
    for kind in (*FLOATS, "INT8"):
        _long(uniform((2, 700), kind, -1, 2))


def _long(x: Tensor) -> None:
    """Sums of so many elements that an error of each would show."""
    kind, dtype = NAMES[x.dtype], x.dtype
    given = {"self": x, "dims": [1], "keepDims": False, "dtype": dtype}
    case("aclnnReduceSum", f"{kind}-long", given, {"out": _sum(torch.sum, x, dtype, 1)})
    out = _sum(torch.cumsum, x, dtype, 1)
    case("aclnnCumsum", f"{kind}-long", {"self": x, "dim": 1, "dtype": dtype}, {"out": out})
    if dtype.is_floating_point:
        given = {"self": x, "dim": [1], "keepDim": False, "dtype": dtype}
        case("aclnnMean", f"{kind}-long", given, {"out": _sum(torch.mean, x, dtype, 1)})


def _sum(
    function: Function, x: Tensor, dtype: torch.dtype, dims: Dims = None, **keep: bool
) -> Tensor:
    """A reduction of elements that are cast first, in the exact type of the result."""
    operand = exact(x.to(dtype))
    given = () if dims is None else (dims,)
    return function(operand, *given, dtype=operand.dtype, **keep).to(dtype)


def _products(x: Tensor, dtype: torch.dtype, name: str) -> None:
    case("aclnnProd", name, {"self": x, "dtype": dtype}, {"out": _sum(torch.prod, x, dtype)})
    for dim, keep in ((1, False), (-1, True)):
        given = {"self": x, "dim": dim, "keepDim": keep, "dtype": dtype}
        out = _sum(torch.prod, x, dtype, dim, keepdim=keep)
        case("aclnnProdDim", f"{name}-{dim}", given, {"out": out})


def truth() -> None:
    """Whether all or any elements are other than 0, and reductions that tell it."""
    for kind in (*NUMBERS, "BOOL"):
        for zeros in (0.1, 0.9):
            x = uniform((3, 4, 2), kind, 1, 3)
            x = torch.where(uniform((3, 4, 2), "FLOAT", 0, 1) < zeros, torch.zeros_like(x), x)
            if kind in FLOATS:
                x[0] = torch.nan
            for dims, keep in (([1, 2], False), ([-2], True), ([], False)):
                given = {"self": x, "dim": dims, "keepdim": keep}
                for operator, function in (("All", torch.all), ("Any", torch.any)):
                    out = function(x, dims or [0, 1, 2], keepdim=keep)
                    case(f"aclnn{operator}", f"{kind}-{zeros}-{len(dims)}", given, {"out": out})


# --- batches, normalisation and the optimiser -----------------------------------------------------


def batches() -> None:
    """Products of matrices in batches, and the loss that writes to a tensor that is there."""
    for kind in FLOATS:
        x, y = uniform((3, 4, 6), kind, -1, 1), uniform((3, 6, 5), kind, -1, 1)
        out = torch.bmm(exact(x), exact(y)).to(x.dtype)
        case("aclnnBatchMatMul", kind, {"self": x, "mat2": y, "cubeMathType": 0}, {"out": out})
        x, y = uniform((5, 7), kind), uniform((5, 7), kind)
        for number, way in enumerate(("none", "mean", "sum")):
            given = {"self": x, "target": y, "reduction": number}
            loss = partial(functional.mse_loss, reduction=way)
            # The operator takes means and sums along the first dimension only.
            loss = loss if way == "none" else torch.vmap(loss, in_dims=1)
            out = loss(exact(x), exact(y)).to(x.dtype)
            case("aclnnMseLossOut", f"{kind}-{way}", given, {"out": out})


def normalisation() -> None:
    """Rows by their root mean square, batches, and layers with their statistics."""
    for kind, other in (
        *((kind, kind) for kind in FLOATS),
        ("FLOAT16", "FLOAT"),
        ("BF16", "FLOAT"),
    ):
        x = uniform((3, 4, 5), kind, -2, 2)
        for shape in ((5,), (4, 5)):
            _rms(x, uniform(shape, other, 0.5, 2), f"{kind}-{other}-{len(shape)}")
        weight, bias = uniform((5,), other), uniform((5,), other)
        given = {"input": x, "normalizedShape": [5], "weightOptional": weight, "biasOptional": bias}
        values = torch.native_layer_norm(exact(x), (5,), exact(weight), exact(bias), 1e-3)
        names = ("out", "meanOutOptional", "rstdOutOptional")
        results = {name: value.to(x.dtype) for name, value in zip(names, values, strict=True)}
        case("aclnnLayerNorm", f"{kind}-{other}-statistics", given | {"eps": 1e-3}, results)
        for spatial in ((), (3, 2)):
            _batch(uniform((4, 3, *spatial), kind, -2, 2), other, f"{kind}-{other}-{len(spatial)}")


def _rms(x: Tensor, gamma: Tensor, name: str) -> None:
    wide, shape = exact(x), tuple(gamma.shape)
    out = functional.rms_norm(wide, shape, exact(gamma), 1e-3).to(x.dtype)
    axes = tuple(range(-len(shape), 0))
    rstd = torch.rsqrt(wide.square().mean(axes, keepdim=True) + 1e-3).float()
    given = {"x": x, "gamma": gamma, "epsilon": 1e-3}
    case("aclnnRmsNorm", name, given, {"yOut": out, "rstdOut": rstd})


def _batch(x: Tensor, kind: str, name: str) -> None:
    weight, bias, mean = (uniform((3,), kind, -1, 1) for _ in range(3))
    variance = uniform((3,), kind, 0.5, 2)
    rows = {"input": x, "weight": weight, "bias": bias, "runningMean": mean, "runningVar": variance}
    for training in (False, True):
        for affine in (False, True):
            used = (weight, bias) if affine else (None, None)
            wide = [None if value is None else exact(value) for value in used]
            running = [exact(value).clone() for value in (mean, variance)]
            options = (*wide, training, 0.25, 1e-3)
            out = functional.batch_norm(exact(x), *running, *options)
            results = {"output": out.to(x.dtype)}
            results |= {"runningMean": running[0].to(mean.dtype)}
            results |= {"runningVar": running[1].to(mean.dtype)}
            if training:
                saved = torch.native_batch_norm(exact(x), *wide, None, None, True, 0.25, 1e-3)[1:]
                names = ("saveMean", "saveInvstd")
                results |= {key: v.to(mean.dtype) for key, v in zip(names, saved, strict=True)}
            given = rows | dict(zip(("weight", "bias"), used, strict=True))
            given |= {"training": training, "momentum": 0.25, "eps": 1e-3}
            if not training:
                given |= {"saveMean": None, "saveInvstd": None}
            case("aclnnBatchNorm", f"{name}-{training}-{affine}", given, results)


# Exact in every type, as their powers are: 1 - beta^t has no room for an error of beta^t.
_BETAS = (0.875, 0.9375)


def optimiser() -> None:
    """Steps of AdamW: the first, and the third with moments."""
    for kind in FLOATS:
        for step, maximize, amsgrad in ((1, False, False), (3, False, False), (3, True, True)):
            _adam(kind, step, maximize=maximize, amsgrad=amsgrad)


def _adam(kind: str, step: int, *, maximize: bool, amsgrad: bool) -> None:
    weights, grad = uniform((3, 4), kind, -1, 1), uniform((3, 4), kind, -1, 1)
    first = uniform((3, 4), kind, -0.5, 0.5) * min(step - 1, 1)
    second, limit = (uniform((3, 4), kind, 0.2, 0.8) * min(step - 1, 1) for _ in range(2))
    rate, decay, eps = (torch.tensor([v], dtype=TYPES[kind]) for v in (0.0625, 0.125, 2**-10))
    powers = [torch.tensor([beta ** (step - 1)], dtype=TYPES[kind]) for beta in _BETAS]
    betas = [torch.tensor([beta], dtype=TYPES[kind]) for beta in _BETAS]
    given = {"varRef": weights, "mRef": first, "vRef": second}
    given |= {"beta1Power": powers[0], "beta2Power": powers[1], "lr": rate, "weightDecay": decay}
    given |= {"beta1": betas[0], "beta2": betas[1], "eps": eps, "grad": grad}
    rows = given | {"maxGradNormOptional": limit if amsgrad else None}

    point = exact(weights).clone().requires_grad_()
    point.grad = exact(grad)
    options = {"lr": rate.item(), "betas": _BETAS, "eps": eps.item()}
    options |= {"weight_decay": decay.item(), "maximize": maximize, "amsgrad": amsgrad}
    optimizer = torch.optim.AdamW([point], **options)
    state = {"step": torch.tensor(step - 1.0), "exp_avg": exact(first).clone()}
    state |= {"exp_avg_sq": exact(second).clone(), "max_exp_avg_sq": exact(limit).clone()}
    optimizer.state[point] = state
    optimizer.step()
    # Where there is a limit, the operator stores what it divides by.
    stored = state["max_exp_avg_sq" if amsgrad else "exp_avg_sq"]
    results = {"varRef": point, "mRef": state["exp_avg"], "vRef": stored}
    results = {key: value.detach().to(weights.dtype) for key, value in results.items()}
    rows |= {"amsgrad": amsgrad, "maximize": maximize}
    case("aclnnApplyAdamW", f"{kind}-{step}-{maximize}", rows, results)


# --- in place -------------------------------------------------------------------------------------


def in_place() -> None:
    """Arithmetic that writes to its first operand."""
    for kind in (*FLOATS, "DOUBLE", "INT8", "INT32", "INT64", "UINT8", "COMPLEX64"):
        own, x, y = (uniform(shape, kind, 1, 4) for shape in ((3, 4), (4,), (3, 1)))
        whole = kind in INTEGERS
        alpha = (2, "INT64") if whole else (0.5, "FLOAT")
        rows: dict[str, tuple[dict[str, Any], Function, tuple[Any, ...], dict[str, Any]]] = {
            "Add": ({"other": x, "alpha": alpha}, Tensor.add_, (x,), {"alpha": alpha[0]}),
            "Adds": ({"other": (3, "INT64"), "alpha": alpha}, Tensor.add_, (3 * alpha[0],), {}),
            "Mul": ({"other": x}, Tensor.mul_, (x,), {}),
            "Muls": ({"other": (3, "INT64")}, Tensor.mul_, (3,), {}),
            "Sub": ({"other": x, "alpha": alpha}, Tensor.sub_, (x,), {"alpha": alpha[0]}),
        }
        added = {"tensor1": x, "tensor2": y, "value": alpha}
        if not whole:
            rows["Div"] = ({"other": x}, Tensor.div_, (x,), {})
        if kind != "COMPLEX64":
            rows["Relu"] = ({}, Tensor.relu_, (), {})
            rows["Addcmul"] = (added, Tensor.addcmul_, (x, y), {"value": alpha[0]})
            if not whole:
                rows["Addcdiv"] = (added, Tensor.addcdiv_, (x, y), {"value": alpha[0]})
        for name, (given, function, operands, keywords) in rows.items():
            # A Relu of numbers above 0 would show nothing.
            before = uniform((3, 4), kind, -4, 4) if name == "Relu" else own
            wide = [exact(v) if isinstance(v, Tensor) else v for v in operands]
            out = function(exact(before).clone(), *wide, **keywords).to(own.dtype)
            case(f"aclnnInplace{name}", kind, {"selfRef": before, **given}, {"selfRef": out})


FAMILIES = (sums, truth, batches, normalisation, optimiser, in_place)
