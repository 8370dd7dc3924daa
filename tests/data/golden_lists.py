"""Golden vectors of lists of tensors, norms, spread, an optimiser, and of what works in place."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.data.golden_record import (
    ARRAYS,
    FLOATS,
    INDEX,
    INTEGERS,
    TYPES,
    Function,
    case,
    exact,
    uniform,
)

NUMBERS = (*FLOATS, "DOUBLE", *INTEGERS)


# --- lists of tensors -----------------------------------------------------------------------------


def foreach() -> None:
    """Arithmetic on lists of tensors."""
    for kind in (*FLOATS, "INT32"):
        _lists(
            [[uniform(shape, kind, 1, 4) for shape in ((3, 2), (), (5,))] for _ in range(3)], kind
        )


def _lists(lists: list[list[Tensor]], kind: str) -> None:
    xs, ys, zs = lists
    dtype, whole = xs[0].dtype, kind == "INT32"
    number = (2, "INT64") if whole else (0.5, "FLOAT")
    scalars = [(value, "INT64") for value in (1, 2, 3)]
    one, few = torch.tensor([2], dtype=dtype), torch.tensor([1, 2, 3], dtype=dtype)
    for word, function in (("Add", torch.add), ("Sub", torch.sub), ("Mul", torch.mul)):
        _each(f"{word}ScalarV2", kind, {"x": xs, "scalar": number}, function, (number[0],))
        _each(f"{word}Scalar", kind, {"x": xs, "scalar": one}, function, (2,))
        outs = [function(exact(x), n).to(dtype) for x, n in zip(xs, (1, 2, 3), strict=True)]
        case(f"aclnnForeach{word}ScalarList", kind, {"x": xs, "scalars": scalars}, {"out": outs})
    pair = {"x1": xs, "x2": ys}
    _each("MulList", kind, pair, torch.mul)
    _each("MaximumList", kind, pair, torch.maximum)
    _each("MinimumList", kind, pair, torch.minimum)
    alpha: dict[str, Any] = {"alpha": number[0]}
    _each("AddListV2", kind, pair | {"alpha": number}, torch.add, **alpha)
    _each("SubListV2", kind, pair | {"alpha": number}, torch.sub, **alpha)
    _each("AddList", kind, pair | {"alpha": one}, torch.add, alpha=2)
    _each("MaximumScalarV2", kind, {"x": xs, "scalar": (2, "INT64")}, torch.clamp_min, (2,))
    _each("MinimumScalarV2", kind, {"x": xs, "scalar": (2, "INT64")}, torch.clamp_max, (2,))
    _each("Neg", kind, {"x": xs}, torch.neg)
    _each("Abs", kind, {"x": [-x for x in xs]}, torch.abs)
    case("aclnnForeachCopy", kind, {"x": xs}, {"out": xs}, 0)
    case("aclnnForeachZeroInplace", kind, {"x": xs}, {"x": [torch.zeros_like(x) for x in xs]}, 0)
    if whole:
        return
    _each("DivScalarV2", kind, {"x": xs, "scalar": number}, torch.div, (number[0],))
    _each("DivScalar", kind, {"x": xs, "scalar": one}, torch.div, (2,))
    outs = [(exact(x) / n).to(dtype) for x, n in zip(xs, (1, 2, 3), strict=True)]
    case("aclnnForeachDivScalarList", kind, {"x": xs, "scalars": scalars}, {"out": outs})
    _each("DivList", kind, pair, torch.div)
    _each("PowScalarV2", kind, {"x": xs, "scalar": (1.5, "FLOAT")}, torch.pow, (1.5,))
    for name, function in (("Sqrt", torch.sqrt), ("Reciprocal", torch.reciprocal)):
        _each(name, kind, {"x": xs}, function)
    _each("Exp", kind, {"x": xs}, torch.exp)
    _each("LerpScalar", kind, pair | {"weight": (0.25, "FLOAT")}, torch.lerp, (0.25,))
    _each("LerpList", kind, pair | {"weight": zs}, torch.lerp)
    three = pair | {"x3": zs}
    for word, function in (("Addcmul", torch.addcmul), ("Addcdiv", torch.addcdiv)):
        _each(f"{word}ScalarV2", kind, three | {"scalar": number}, function, value=number[0])
        _each(f"{word}Scalar", kind, three | {"scalar": one}, function, value=2)
        outs = [
            function(exact(x), exact(y), exact(z), value=n).to(dtype)
            for x, y, z, n in zip(xs, ys, zs, (1, 2, 3), strict=True)
        ]
        case(f"aclnnForeach{word}ScalarList", kind, three | {"scalars": few}, {"out": outs})
    for order in (0, 1, 2, 3, float("inf"), float("-inf")):
        outs = [torch.linalg.vector_norm(exact(x), order).to(dtype) for x in xs]
        given = {"x": xs, "scalar": (order, "FLOAT")}
        case("aclnnForeachNorm", f"{kind}-{order}", given, {"out": outs})


def _each(
    name: str,
    kind: str,
    given: dict[str, Any],
    function: Function,
    numbers: tuple[float, ...] = (),
    **keywords: float,
) -> None:
    lists = [value for value in given.values() if isinstance(value, list)]
    outs = [
        function(*map(exact, tensors), *numbers, **keywords).to(tensors[0].dtype)
        for tensors in zip(*lists, strict=True)
    ]
    case(f"aclnnForeach{name}", kind, given, {"out": outs})


# --- norms, spread and an optimiser ---------------------------------------------------------------


def norms() -> None:
    """Norms, logarithms of sums, and spread."""
    for kind in FLOATS:
        x = uniform((3, 4, 5), kind, -2, 2)
        dtype, wide = x.dtype, exact(x)
        for dims, keep in (([1], False), ([0, -1], True), ([], False)):
            axes, name = dims or [0, 1, 2], f"{kind}-{len(dims)}"
            for order in (0, 1, 2, 2.5, float("inf"), float("-inf")):
                out = torch.linalg.vector_norm(wide, order, axes, keep).to(dtype)
                given = {"self": x, "ord": (order, "FLOAT"), "dims": dims, "keepDims": keep}
                label = f"{name}-{order}"
                case("aclnnLinalgVectorNorm", label, given | {"dtype": dtype}, {"out": out})
                given = {"self": x, "pScalar": (order, "FLOAT"), "dim": dims, "keepdim": keep}
                case("aclnnNorm", label, given, {"out": out})
            given = {"self": x, "dim": dims, "keepDim": keep}
            case(
                "aclnnLogSumExp", name, given, {"out": torch.logsumexp(wide, axes, keep).to(dtype)}
            )
            given = {"self": x, "dim": dims, "correction": 1, "keepdim": keep}
            out = torch.var(wide, axes, correction=1, keepdim=keep).to(dtype)
            case("aclnnVarCorrection", name, given, {"out": out})
            both = torch.std_mean(wide, axes, correction=1, keepdim=keep)
            outs = {"stdOut": both[0].to(dtype), "meanOut": both[1].to(dtype)}
            case("aclnnStdMeanCorrection", name, given, outs)


def steps() -> None:
    """Steps of AdamW with the number of steps in a tensor."""
    for kind in FLOATS:
        for done, maximize, amsgrad in ((0, False, False), (2, False, True), (2, True, False)):
            _step(kind, done, maximize=maximize, amsgrad=amsgrad)


def _step(kind: str, done: int, *, maximize: bool, amsgrad: bool) -> None:
    weights, grad, first = (uniform((3, 4), kind, -1, 1) for _ in range(3))
    second, limit = (uniform((3, 4), kind, 0.2, 0.8) for _ in range(2))
    # Exact in FLOAT, as C takes them.
    settings = {"lr": 0.0625, "beta1": 0.875, "beta2": 0.9375, "weightDecay": 0.125, "eps": 2**-10}
    point = exact(weights).clone().requires_grad_()
    point.grad = exact(grad)
    optimizer = torch.optim.AdamW(
        [point],
        lr=settings["lr"],
        betas=(settings["beta1"], settings["beta2"]),
        eps=settings["eps"],
        weight_decay=settings["weightDecay"],
        maximize=maximize,
        amsgrad=amsgrad,
    )
    state = {"step": torch.tensor(float(done)), "exp_avg": exact(first).clone()}
    state |= {"exp_avg_sq": exact(second).clone(), "max_exp_avg_sq": exact(limit).clone()}
    optimizer.state[point] = state
    optimizer.step()
    count = torch.tensor([done], dtype=torch.int64 if maximize else torch.float32)
    given = {"varRef": weights, "mRef": first, "vRef": second, "grad": grad, "step": count}
    given |= {"maxGradNormOptionalRef": limit if amsgrad else None, **settings}
    given |= {"amsgrad": amsgrad, "maximize": maximize}
    names = {"varRef": point, "mRef": state["exp_avg"], "vRef": state["exp_avg_sq"]}
    if amsgrad:
        names["maxGradNormOptionalRef"] = state["max_exp_avg_sq"]
    results = {name: value.detach().to(weights.dtype) for name, value in names.items()}
    case("aclnnApplyAdamWV2", f"{kind}-{done}-{maximize}", given, results)


# --- in place -------------------------------------------------------------------------------------

_TWINS = (
    "Ceil Erf Exp Expm1 Floor Log Log1p Neg Rsqrt Sin Tanh Trunc Sigmoid LeakyRelu Reciprocal Round "
    "Sqrt Cos EqScalar EqTensor GeScalar GeTensor GtScalar GtTensor LeScalar LeTensor LtScalar LtTensor "
    "NeScalar NeTensor Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Log2 Log10 Exp2 Frac"
)
_NAMES = {"Sqrt": "self"} | dict.fromkeys(
    ("Cos", "Acos", "Atan", "Asinh", "Atanh", "Frac"), "inputRef"
)
"""First tensors that are not called selfRef."""


def in_place() -> None:
    """What operators on one tensor or a pair compute, written to the first: from their own vectors."""
    for word in _TWINS.split():
        rows = [row for row in INDEX if row["operator"] == f"aclnn{word}"]
        for kind in FLOATS:
            row = next(row for row in rows if row["case"].split("-")[0] == kind)
            _twin(word, row)


def _twin(word: str, row: dict[str, Any]) -> None:
    name, ref = row["case"], _NAMES.get(word, "selfRef")
    first, *_ = row["parameters"]
    (out,) = row["outputs"]
    given = {
        ref if key == first else key: _recalled(f"aclnn{word}/{name}/{key}", value)
        for key, value in row["parameters"].items()
    }
    result = _recalled(f"aclnn{word}/{name}/{out}", {"kind": "tensor", **row["outputs"][out]})
    dtype = given[ref].dtype
    case(f"aclnnInplace{word}", name, given, {ref: result.to(dtype)}, row["rtol"])


def _recalled(key: str, row: dict[str, Any]) -> Any:  # noqa: ANN401
    """A parameter as it was recorded."""
    if row["kind"] == "scalar":
        return row["value"], row["dtype"]
    stored = torch.from_numpy(ARRAYS[key])
    dtype = TYPES[row["dtype"]]
    return stored.view(dtype) if dtype == torch.bfloat16 else stored


FAMILIES = (foreach, norms, steps, in_place)
