"""Golden vectors of what PyTorch prints, selects, orders and draws with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tests.data.golden_record import (
    FLOATS,
    GENERATOR,
    INTEGERS,
    NAMES,
    TYPES,
    Function,
    case,
    exact,
    uniform,
)

NUMBERS = (*FLOATS, "DOUBLE", *INTEGERS)


def _padded(found: Tensor, size: int) -> Tensor:
    """A result in an output that is larger, filled as the tests fill outputs."""
    filling = {"BOOL": 1, "UINT8": 77}.get(NAMES[found.dtype], -77)
    rest = torch.full((size - found.numel(),), filling, dtype=found.dtype)
    return torch.cat([found.reshape(-1), rest])


def selected() -> None:
    """What a mask selects, and what is not 0."""
    for kind in (*NUMBERS, "BOOL"):
        x, mask = uniform((3, 1, 4), kind, -9, 9), uniform((2, 1), "BOOL")
        out = _padded(torch.masked_select(x, mask), 24)
        case("aclnnMaskedSelect", kind, {"self": x, "mask": mask}, {"out": out}, 0)
        x = torch.where(uniform((3, 5), "BOOL"), uniform((3, 5), kind, 1, 9), 0).to(x.dtype)
        found = torch.nonzero(x)
        for operator, result in (("Nonzero", found), ("NonzeroV2", found.T.contiguous())):
            shape = (15, 2) if operator == "Nonzero" else (2, 15)
            out = _padded(result, 30).reshape(shape)
            case(f"aclnn{operator}", kind, {"self": x}, {"out": out}, 0)


# --- arithmetic -----------------------------------------------------------------------------------


def _both(name: str, kind: str, given: dict[str, Any], out: Tensor, **options: Any) -> None:  # noqa: ANN401
    """Records a case of an operator, and of its form in place where the result is of the first's type."""
    case(f"aclnn{name}", kind, given, {"out": out}, **options)
    own, *_ = given.values()
    if own.shape == out.shape and own.dtype == out.dtype:
        rows = {"selfRef" if key == "self" else key: value for key, value in given.items()}
        case(f"aclnnInplace{name}", kind, rows, {"selfRef": out}, **options)


def bits() -> None:
    """Logic of bits."""
    for kind in (*INTEGERS, "BOOL"):
        x, y = uniform((3, 4), kind, -9, 9), uniform((4,), kind, -9, 9)
        number = (True, "BOOL") if kind == "BOOL" else (5, "INT64")
        case("aclnnBitwiseNot", kind, {"self": x}, {"out": ~x}, 0)
        for word in ("And", "Or", "Xor"):
            function = getattr(torch, f"bitwise_{word.lower()}")
            _both(f"Bitwise{word}Tensor", kind, {"self": x, "other": y}, function(x, y))
            given = {"self": x, "other": number}
            _both(f"Bitwise{word}Scalar", kind, given, function(x, number[0]).to(x.dtype))


def divisions() -> None:
    """Quotients rounded down, and what is left over."""
    for kind in (*FLOATS, "DOUBLE", "INT32", "INT64"):
        x, y = uniform((3, 4), kind, -9, 9), uniform((4,), kind, 1, 4)
        for name, function in (
            ("FloorDivide", torch.floor_divide),
            ("RemainderTensorTensor", torch.remainder),
            ("FmodTensor", torch.fmod),
        ):
            _both(name, kind, {"self": x, "other": y}, function(exact(x), exact(y)).to(x.dtype))
        for name, function in (
            ("FloorDivides", torch.floor_divide),
            ("RemainderTensorScalar", torch.remainder),
            ("FmodScalar", torch.fmod),
        ):
            for number in (-3, 4):
                given = {"self": x, "other": (number, "INT64")}
                _both(name, f"{kind}-{number}", given, function(exact(x), number).to(x.dtype))
        out = torch.remainder(7, exact(y)).to(y.dtype)
        given = {"self": (7, "INT64"), "other": y}
        case("aclnnRemainderScalarTensor", kind, given, {"out": out})
        _modes(x, y, kind)


def _modes(x: Tensor, y: Tensor, kind: str) -> None:
    for mode, rounding in enumerate((None, "trunc", "floor")):
        whole = kind.startswith("INT")
        if mode == 0 and whole:
            continue
        out = torch.div(exact(x), 3, rounding_mode=rounding).to(x.dtype)
        given = {"self": x, "other": (3, "INT64"), "mode": mode}
        _both("DivMods", f"{kind}-{mode}", given, out)
        out = torch.div(exact(x), exact(y), rounding_mode=rounding).to(x.dtype)
        given = {"selfRef": x, "other": y, "mode": mode}
        case("aclnnInplaceDivMod", f"{kind}-{mode}", given, {"selfRef": out})


def forms() -> None:
    """Arithmetic the other way round, with a number, bounded, and in place."""
    for kind in (*FLOATS, "DOUBLE", "INT32"):
        x, y = uniform((3, 4), kind, 1, 4), uniform((4,), kind, 1, 4)
        alpha = (2, "INT64") if kind == "INT32" else (0.5, "FLOAT")
        out = torch.rsub(exact(x), exact(y), alpha=alpha[0]).to(x.dtype)
        case("aclnnRsub", kind, {"self": x, "other": y, "alpha": alpha}, {"out": out})
        out = torch.rsub(exact(x), 3, alpha=alpha[0]).to(x.dtype)
        case("aclnnRsubs", kind, {"self": x, "other": (3, "INT64"), "alpha": alpha}, {"out": out})
        out = torch.sub(exact(x), 3, alpha=alpha[0]).to(x.dtype)
        given = {"selfRef": x, "other": (3, "INT64"), "alpha": alpha}
        case("aclnnInplaceSubs", kind, given, {"selfRef": out})
        out = torch.pow(2, exact(y)).to(y.dtype)
        case("aclnnPowScalarTensor", kind, {"self": (2, "INT64"), "exponent": y}, {"out": out})
        out = torch.pow(exact(x), exact(y)).to(x.dtype)
        case("aclnnInplacePowTensorTensor", kind, {"self": x, "exponent": y}, {"self": out})
        given = {"self": x, "exponent": (3, "INT64")}
        out = torch.pow(exact(x), 3).to(x.dtype)
        case("aclnnInplacePowTensorScalar", kind, given, {"self": out})
        _bounds(x, y, kind)
    for kind in FLOATS:
        x, y, z = (uniform(shape, kind, -2, 2) for shape in ((3, 4), (4,), (3, 1)))
        weight = (0.25, "FLOAT")
        out = torch.lerp(exact(x), exact(y).expand(3, 4), 0.25).to(x.dtype)
        _both("Lerps", kind, {"self": x, "end": y, "weight": weight}, out)
        out = torch.lerp(exact(x), exact(y), exact(z)).to(x.dtype)
        case("aclnnInplaceLerp", kind, {"selfRef": x, "end": y, "weight": z}, {"selfRef": out})
        given = {"selfRef": x, "other": (3, "INT64")}
        case("aclnnInplaceDivs", kind, given, {"selfRef": (exact(x) / 3).to(x.dtype)})


def _bounds(x: Tensor, y: Tensor, kind: str) -> None:
    given = {"self": x, "clipValueMin": (2, "INT64")}
    case("aclnnClampMin", kind, given, {"out": torch.clamp_min(x, 2)})
    given = {"selfRef": x, "clipValueMax": (2, "INT64")}
    case("aclnnInplaceClampMax", kind, given, {"selfRef": torch.clamp_max(x, 2)})
    for name, bound in (("Min", "clipValueMin"), ("Max", "max")):
        function = torch.maximum if name == "Min" else torch.minimum
        _both(f"Clamp{name}Tensor", kind, {"self": x, bound: y}, function(x, y))
    for low, high in ((y, None), (None, y), (y - 1, y)):
        given = {"self": x, "clipValueMin": low, "clipValueMax": high}
        name = f"{kind}-{low is None}-{high is None}"
        case("aclnnClampTensor", name, given, {"out": torch.clamp(x, low, high)})


def masked() -> None:
    """Filled where a mask is true."""
    for kind in (*FLOATS, "INT8", "INT32", "INT64", "BOOL"):
        own, mask, one = uniform((3, 4), kind, -9, 9), uniform((3, 1), "BOOL"), uniform((), kind)
        out = own.masked_fill(mask, 2.5)
        given = {"selfRef": own, "mask": mask, "value": (2.5, "FLOAT")}
        case("aclnnInplaceMaskedFillScalar", kind, given, {"selfRef": out}, 0)
        out = own.masked_fill(mask, one)
        given = {"selfRef": own, "mask": mask, "value": one}
        case("aclnnInplaceMaskedFillTensor", kind, given, {"selfRef": out}, 0)


def extremes() -> None:
    """The greatest and least of all elements, and the least along a dimension."""
    for kind in (*NUMBERS, "BOOL"):
        x = uniform((3, 4, 5), kind, -9, 9)
        case("aclnnMax", kind, {"self": x}, {"out": x.max()}, 0)
        case("aclnnMin", kind, {"self": x}, {"out": x.min()}, 0)
        if kind == "BOOL":
            continue
        for dim, keep in ((1, False), (-1, True)):
            # Elements that differ, so that there is one position only.
            apart = torch.randperm(60, generator=GENERATOR).reshape(3, 4, 5).to(x.dtype)
            given = {"self": apart, "dim": dim, "keepdim": keep}
            values, places = apart.min(dim, keepdim=keep)
            case("aclnnArgMin", f"{kind}-{dim}", given, {"out": places}, 0)
            if kind in (*FLOATS, "INT32", "INT64"):
                case("aclnnMinDim", f"{kind}-{dim}", given, {"out": values, "indices": places}, 0)


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


# --- places that indexes name, and order ----------------------------------------------------------

_WHOLE = torch.zeros(0)
"""An index that takes its dimension whole."""


def places() -> None:
    """Elements at places that indexes name, read and written."""
    for kind in (*NUMBERS, "BOOL", "COMPLEX64"):
        x = uniform((4, 3, 5), kind, -9, 9)
        first, second = torch.tensor([[3], [-1]]), torch.tensor([0, 2, 2], dtype=torch.int32)
        rows: dict[str, tuple[list[Tensor], tuple[Any, ...]]] = {
            "first": ([first], (first,)),
            "pair": ([first, second], (first, second)),
            "apart": ([first, _WHOLE, second], (first, slice(None), second)),
            "last": ([_WHOLE, _WHOLE, second], (slice(None), slice(None), second)),
            "mask": ([x[..., 0] != 0], (x[..., 0] != 0,)),
        }
        for name, (indices, key) in rows.items():
            out = x[
                tuple(
                    k.long() if isinstance(k, Tensor) and k.dtype == torch.int32 else k for k in key
                )
            ]
            given: dict[str, Any] = {"self": x, "indices": indices}
            case("aclnnIndex", f"{kind}-{name}", given, {"out": out}, 0)
            if name != "mask":
                _put(x, indices, key, out, f"{kind}-{name}")
        _scatters(kind)


def _put(x: Tensor, indices: list[Tensor], key: tuple[Any, ...], out: Tensor, name: str) -> None:
    key = tuple(k.long() if isinstance(k, Tensor) else k for k in key)
    places = torch.arange(x.numel()).reshape(x.shape)[key]
    values = uniform(tuple(out.shape), NAMES[x.dtype], -9, 9)
    for accumulate in (False, True):
        if not accumulate and places.unique().numel() != places.numel():
            continue  # which of several is written, PyTorch leaves open
        flat, added = exact(x).reshape(-1).clone(), exact(values).reshape(-1)
        flat.index_put_((places.reshape(-1),), added, accumulate=accumulate)
        given = {"selfRef": x, "indices": indices, "values": values}
        given |= {"accumulate": accumulate, "unsafe": False}
        result = flat.reshape(x.shape).to(x.dtype)
        case("aclnnIndexPutImpl", f"{name}-{accumulate}", given, {"selfRef": result})


def _scatters(kind: str) -> None:
    own, src = uniform((3, 4), kind, -9, 9), uniform((3, 4), kind, -3, 3)
    # Each place once in a row, as PyTorch leaves open which of several is written.
    index = torch.stack([torch.randperm(4, generator=GENERATOR)[:2] for _ in range(3)])
    given = {"self": own, "dim": 1, "index": index}
    case("aclnnGather", kind, given, {"out": torch.gather(own, 1, index)}, 0)
    for reduction, way in enumerate((None, "add", "multiply")):
        if way and kind in ("BOOL", "COMPLEX64"):
            continue
        keywords = {"reduce": way} if way else {}
        out = torch.scatter(exact(own), 1, index, exact(src), **keywords).to(own.dtype)
        number = (3, "INT64") if kind != "BOOL" else (True, "BOOL")
        filled = torch.scatter(exact(own), 1, index, number[0], **keywords).to(own.dtype)
        for name, extra, result in (("", {"src": src}, out), ("Value", {"value": number}, filled)):
            rows = {"dim": 1, "index": index, **extra, "reduce": reduction}
            label = f"{kind}-{reduction}"
            case(f"aclnnScatter{name}", label, {"self": own, **rows}, {"out": result})
            rows = {"selfRef": own, **rows}
            case(f"aclnnInplaceScatter{name}", label, rows, {"selfRef": result})
    if kind == "COMPLEX64":
        return
    slices, twice = uniform((3, 3), kind, -3, 3), torch.tensor([1, 3, 1])
    alpha = (2, "INT64") if kind != "BOOL" else (True, "BOOL")
    out = torch.index_add(exact(own), 1, twice, exact(slices), alpha=alpha[0]).to(own.dtype)
    given = {"self": own, "dim": 1, "index": twice, "source": slices, "alpha": alpha}
    case("aclnnIndexAdd", kind, given, {"out": out})


def orders() -> None:
    """Sorted, the first of them, and extremes so far."""
    for kind in (*NUMBERS, "BOOL"):
        x = uniform((3, 5, 2), kind, -9, 9)
        if kind in FLOATS:
            x[0, 2], x[1, 1, 0] = torch.nan, torch.inf
        for dim, descending in ((1, False), (1, True), (0, True)):
            name = f"{kind}-{dim}-{descending}"
            values, found = torch.sort(x, dim=dim, descending=descending, stable=True)
            given = {"self": x, "stable": True, "dim": dim, "descending": descending}
            case("aclnnSort", name, given, {"valuesOut": values, "indicesOut": found}, 0)
            given = {"self": x, "dim": dim, "descending": descending}
            case("aclnnArgsort", name, given, {"out": found}, 0)
            given = {"self": x, "k": 2, "dim": dim, "largest": descending, "sorted": True}
            outs = {
                "valuesOut": values.narrow(dim, 0, 2).contiguous(),
                "indicesOut": found.narrow(dim, 0, 2).contiguous(),
            }
            case("aclnnTopk", name, given, outs, 0)
        if kind == "INT16":
            continue
        for word, function in (("max", torch.cummax), ("min", torch.cummin)):
            values, found = function(x, 1)
            given = {"self": x, "dim": 1}
            case(f"aclnnCum{word}", kind, given, {"valuesOut": values, "indicesOut": found}, 0)


# --- elsewhere, made and counted ------------------------------------------------------------------


def elsewhere() -> None:
    """Turned around, rolled, repeated and cut."""
    for kind in (*NUMBERS, "BOOL", "COMPLEX64"):
        x = uniform((3, 4, 2), kind, -9, 9)
        for dims in ([0], [-1, 0], []):
            given = {"self": x, "dims": dims}
            case("aclnnFlip", f"{kind}-{len(dims)}", given, {"out": torch.flip(x, dims)}, 0)
        for shifts, dims in (([5], []), ([-1, 3], [0, -2]), ([2], [1])):
            out = torch.roll(x, shifts if dims else shifts[0], dims or None)
            given = {"x": x, "shifts": shifts, "dims": dims}
            case("aclnnRoll", f"{kind}-{len(shifts)}-{len(dims)}", given, {"out": out}, 0)
        for repeats in ([2, 1, 3], [2, 1, 2, 1]):
            given = {"self": x, "repeats": repeats}
            case("aclnnRepeat", f"{kind}-{len(repeats)}", given, {"out": x.repeat(repeats)}, 0)
        given = {"self": x, "starts": [1, -9], "ends": [99, -1], "axes": [0, 1], "steps": [1, 2]}
        case("aclnnSliceV2", kind, given, {"out": x[1:, 0:3:2].contiguous()}, 0)


def made() -> None:
    """Unit matrices, classes as vectors, and numbers between two others."""
    for kind in (*NUMBERS, "BOOL"):
        for rows, columns in ((3, 5), (4, 2)):
            out = torch.eye(rows, columns).to(TYPES[kind])
            case("aclnnEye", f"{kind}-{rows}", {"n": rows, "m": columns}, {"out": out}, 0)
        if kind == "BOOL":
            continue
        for number, (low, high, steps) in enumerate(((0, 10, 5), (3, 60, 7), (2, 2, 1), (9, 1, 9))):
            given = {"start": (low, "INT64"), "end": (high, "DOUBLE"), "steps": steps}
            out = torch.linspace(low, high, steps, dtype=torch.float64).to(TYPES[kind])
            case("aclnnLinspace", f"{kind}-{number}", given, {"out": out})
    for kind in ("FLOAT", "FLOAT16", "INT32", "INT64", "INT8", "UINT8"):
        own = torch.tensor(
            [[2, 0, 3], [1, 1, 2]], dtype=torch.int64 if kind != "INT32" else torch.int32
        )
        on, off = (torch.tensor([value], dtype=TYPES[kind]) for value in (3, 1))
        for axis in (-1, 0, 1):
            hot = functional.one_hot(own.long(), 5).movedim(-1, axis)
            out = torch.where(hot == 1, on, off)
            given = {"self": own, "numClasses": 5, "onValue": on, "offValue": off, "axis": axis}
            case("aclnnOneHot", f"{kind}-{axis}", given, {"out": out.contiguous()}, 0)


def counted() -> None:
    """Counted in intervals, by their values, and those that differ."""
    for kind in NUMBERS:
        # Quarters are exact in every type, so that no rounding moves one to another interval.
        x = uniform((60,), "INT32", 0 if kind == "UINT8" else -20, 20).double() / 4
        x = x.to(TYPES[kind])
        for number, (low, high) in enumerate(((-2, 2), (0, 0))):
            given = {"self": x, "bins": 8, "min": (low, "INT64"), "max": (high, "INT64")}
            out = torch.histc(x.double(), 8, low, high).to(x.dtype)
            case("aclnnHistc", f"{kind}-{number}", given, {"out": out}, 0)
        _distinct(x, kind)
        if kind not in INTEGERS:
            continue
        _occurring(uniform((30,), kind, 0, 6).abs(), kind)
    _distinct(uniform((30,), "BOOL"), "BOOL")


def _occurring(own: Tensor, kind: str) -> None:
    for size in (7, 12):
        given: dict[str, Any] = {"self": own, "weights": None, "minlength": size}
        out = torch.bincount(own, minlength=size)
        case("aclnnBincount", f"{kind}-{size}", given, {"out": out}, 0)
    for other in FLOATS:
        weights = uniform((30,), other, -1, 1)
        given = {"self": own, "weights": weights, "minlength": 9}
        out = torch.bincount(own, weights.double(), minlength=9).float()
        case("aclnnBincount", f"{kind}-{other}", given, {"out": out})


def _distinct(x: Tensor, kind: str) -> None:
    x = x.reshape(-1, 10)
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    outs = {"valueOut": _padded(values, x.numel()), "inverseOut": inverse}
    outs["countsOut"] = _padded(counts, x.numel())
    given: dict[str, Any] = {"self": x, "sorted": True, "returnInverse": True, "returnCounts": True}
    case("aclnnUnique2", kind, given, outs, 0)
    runs = x.reshape(-1).repeat_interleave(2).reshape(-1, 10)[[0, 0, 1, 1, 0]]
    for dim in (None, 0):
        found = torch.unique_consecutive(runs, return_inverse=True, return_counts=True, dim=dim)
        size = runs.numel() if dim is None else runs.shape[dim]
        outs = {"valueOut": _padded(found[0], runs.numel()), "inverseOut": found[1]}
        outs["countsOut"] = _padded(found[2], size)
        given = {"self": runs, "returnInverse": True, "returnCounts": True}
        given |= {"dim": 1000 if dim is None else dim}
        case("aclnnUniqueConsecutive", f"{kind}-{dim}", given, outs, 0)


FAMILIES = (
    selected, bits, divisions, forms, masked, extremes, foreach, norms, steps, places, orders,
    elsewhere, made, counted,
)  # fmt: skip
