"""Golden vectors of places that indexes name, order, and of what is put elsewhere, made and counted."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tests.data.golden_arithmetic import padded
from tests.data.golden_record import (
    FLOATS,
    GENERATOR,
    INTEGERS,
    NAMES,
    TYPES,
    case,
    exact,
    uniform,
)

NUMBERS = (*FLOATS, "DOUBLE", *INTEGERS)


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
    outs = {"valueOut": padded(values, x.numel()), "inverseOut": inverse}
    outs["countsOut"] = padded(counts, x.numel())
    given: dict[str, Any] = {"self": x, "sorted": True, "returnInverse": True, "returnCounts": True}
    case("aclnnUnique2", kind, given, outs, 0)
    runs = x.reshape(-1).repeat_interleave(2).reshape(-1, 10)[[0, 0, 1, 1, 0]]
    for dim in (None, 0):
        found = torch.unique_consecutive(runs, return_inverse=True, return_counts=True, dim=dim)
        size = runs.numel() if dim is None else runs.shape[dim]
        outs = {"valueOut": padded(found[0], runs.numel()), "inverseOut": found[1]}
        outs["countsOut"] = padded(found[2], size)
        given = {"self": runs, "returnInverse": True, "returnCounts": True}
        given |= {"dim": 1000 if dim is None else dim}
        case("aclnnUniqueConsecutive", f"{kind}-{dim}", given, outs, 0)


FAMILIES = (places, orders, elsewhere, made, counted)
