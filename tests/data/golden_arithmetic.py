"""Golden vectors of what a mask selects, and of more arithmetic."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.data.golden_record import (
    FLOATS,
    GENERATOR,
    INTEGERS,
    NAMES,
    case,
    exact,
    uniform,
)

NUMBERS = (*FLOATS, "DOUBLE", *INTEGERS)


def padded(found: Tensor, size: int) -> Tensor:
    """A result in an output that is larger, filled as the tests fill outputs."""
    filling = {"BOOL": 1, "UINT8": 77}.get(NAMES[found.dtype], -77)
    rest = torch.full((size - found.numel(),), filling, dtype=found.dtype)
    return torch.cat([found.reshape(-1), rest])


def selected() -> None:
    """What a mask selects, and what is not 0."""
    for kind in (*NUMBERS, "BOOL"):
        x, mask = uniform((3, 1, 4), kind, -9, 9), uniform((2, 1), "BOOL")
        out = padded(torch.masked_select(x, mask), 24)
        case("aclnnMaskedSelect", kind, {"self": x, "mask": mask}, {"out": out}, 0)
        x = torch.where(uniform((3, 5), "BOOL"), uniform((3, 5), kind, 1, 9), 0).to(x.dtype)
        found = torch.nonzero(x)
        for operator, result in (("Nonzero", found), ("NonzeroV2", found.T.contiguous())):
            shape = (15, 2) if operator == "Nonzero" else (2, 15)
            out = padded(result, 30).reshape(shape)
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


FAMILIES = (selected, bits, divisions, forms, masked, extremes)
