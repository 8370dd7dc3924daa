"""Golden vectors of the operators that move elements, look them up and make them.

Nearly all results are exact.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from tests.data.golden_record import FLOATS, INTEGERS, TYPES, case, exact, uniform

KINDS = (*FLOATS, "DOUBLE", *INTEGERS, "BOOL", "COMPLEX64")
EXPANDABLE = (*FLOATS, "INT8", "INT32", "INT64", "UINT8", "BOOL")
_FRACTIONS = (0, -0.0, 0.5, 1.5, 2.5, 100.625, 1 / 3, -0.75, -1.5, -99.9)
_WIDE = (70000, -1e6, 3.4e38, 1e-8, 1e-42, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11)
_NOT_FINITE = (float("nan"), float("inf"), -float("inf"))
_WHOLE = (0, 1, -1, 2, 127, -128, 255, 2049, -32768, 65537, 2**24 + 1, 2**31 - 1, 2**40 + 3)


def _values(kind: str, target: str) -> Tensor:
    """Elements whose cast is defined: no float that an integer type does not hold."""
    dtype = TYPES[kind]
    if kind == "BOOL":
        return torch.tensor([True, False, True])
    if kind in INTEGERS:
        bounds = torch.iinfo(dtype)
        return torch.tensor([v for v in _WHOLE if bounds.min <= v <= bounds.max], dtype=dtype)
    more = () if target in INTEGERS else (*_WIDE, *_NOT_FINITE)
    found = torch.tensor([*_FRACTIONS, *more], dtype=torch.float64)
    found = found.abs() if target == "UINT8" else found
    # NaN times the imaginary unit would be NaN twice.
    return torch.complex(found, found.flip(0)).to(dtype) if kind == "COMPLEX64" else found.to(dtype)


def casts() -> None:
    """Casts of every type to every other, alone and into a tensor that is there."""
    for kind in KINDS:
        for target in KINDS:
            x, dtype = _values(kind, target), TYPES[target]
            case(
                "aclnnCast",
                f"{kind}-{target}",
                {"self": x, "dtype": dtype},
                {"out": _to(x, dtype)},
                0,
            )
        for source in ("FLOAT", "BF16", "INT32", "BOOL"):
            own, src = uniform((2, 3, 2), kind), uniform((3, 1), source, 0, 9)
            out = own.clone().copy_(src)
            given = {"selfRef": own, "src": src}
            case("aclnnInplaceCopy", f"{kind}-{source}", given, {"selfRef": out}, 0)


def _to(x: Tensor, dtype: torch.dtype) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of imaginary parts that are dropped
        return x.to(dtype)


def joined() -> None:
    """Lists of tensors, joined."""
    for kind in KINDS:
        x, y, z = (uniform((2, size, 3), kind, -9, 9) for size in (2, 1, 3))
        for dim in (1, -2):
            given = {"tensors": [x, y, z], "dim": dim}
            case("aclnnCat", f"{kind}-{dim}", given, {"out": torch.cat([x, y, z], dim)}, 0)
        rows = [uniform((2, 3), kind, -9, 9) for _ in range(3)]
        for dim in (0, 1, -1):
            given = {"tensors": rows, "dim": dim}
            case("aclnnStack", f"{kind}-{dim}", given, {"out": torch.stack(rows, dim)}, 0)
    for kinds in (("FLOAT16", "FLOAT"), ("FLOAT16", "BF16"), ("BOOL", "INT8"), ("UINT8", "INT8")):
        for own in (kinds, kinds[::-1]):
            pair = [uniform((2, 3), kind, -9, 9) for kind in own]
            given, name = {"tensors": pair, "dim": 0}, "-".join(own)
            case("aclnnCat", name, given, {"out": torch.cat(pair)}, 0)
            case("aclnnStack", name, given, {"out": torch.stack(pair)}, 0)
    pair = [torch.empty(0), uniform((2, 3), "FLOAT")]
    case("aclnnCat", "empty", {"tensors": pair, "dim": 1}, {"out": torch.cat(pair, 1)}, 0)


def viewed() -> None:
    """Permuted, expanded, cut, padded, and triangles."""
    for kind in KINDS:
        x = uniform((2, 3, 4), kind, -9, 9)
        for dims in ((2, 0, 1), (0, -1, 1)):
            given = {"self": x, "dims": list(dims)}
            case("aclnnPermute", f"{kind}-{dims[0]}", given, {"out": x.permute(dims)}, 0)
        for number, pad in enumerate(((1, 2), (0, 1, 2, 0), (-1, 2, 1, -1, 0, 1))):
            value = (1.25, "FLOAT") if kind in FLOATS else (1, "INT64")
            out = functional.pad(x, pad, value=value[0])
            given = {"self": x, "pad": list(pad), "value": value}
            case("aclnnConstantPadNd", f"{kind}-{number}", given, {"out": out}, 0)
        for diagonal in (-1, 0, 2):
            given, name = {"self": x, "diagonal": diagonal}, f"{kind}-{diagonal}"
            case("aclnnTriu", name, given, {"out": torch.triu(x, diagonal)}, 0)
            case("aclnnTril", name, given, {"out": torch.tril(x, diagonal)}, 0)
    for kind in EXPANDABLE:
        x = uniform((3, 1, 2), kind, -9, 9)
        for size in ((3, 4, 2), (2, 3, 3, 2)):
            given = {"self": x, "size": list(size)}
            case("aclnnExpand", f"{kind}-{len(size)}", given, {"out": x.expand(size)}, 0)
        _slices(uniform((3, 7), kind, -9, 9), kind)


def _slices(x: Tensor, kind: str) -> None:
    for start, end, step in ((1, 6, 1), (0, 7, 3), (-5, -1, 2), (2, 99, 1), (-99, 3, 1)):
        given = {"self": x, "dim": -1, "start": start, "end": end, "step": step}
        out = torch.ops.aten.slice(x, -1, start, end, step)
        case("aclnnSlice", f"{kind}-{start}", given, {"out": out}, 0)
    given = {"self": x, "dim": 0, "start": 1, "end": 3, "step": 1}
    case("aclnnSlice", f"{kind}-rows", given, {"out": torch.ops.aten.slice(x, 0, 1, 3)}, 0)


def _indexes() -> Iterator[tuple[str, Tensor]]:
    for dtype in ("INT32", "INT64"):
        yield dtype, torch.tensor([2, 0, 2, 1], dtype=TYPES[dtype])


def indexed() -> None:
    """Places that indexes name, read and added to."""
    for kind in KINDS:
        x = uniform((3, 3, 2), kind, -9, 9)
        for dtype, index in _indexes():
            for dim in (0, -2):
                given, name = {"self": x, "dim": dim, "index": index}, f"{kind}-{dtype}-{dim}"
                out = torch.index_select(x, dim, index)
                case("aclnnIndexSelect", name, given, {"out": out}, 0)
            square = torch.stack([index, index.flip(0) - 3])
            given = {"self": x, "dim": 1, "index": square}
            case("aclnnGatherV2", f"{kind}-{dtype}", given, {"out": x[:, square.long()]}, 0)
            given = {"weight": x[0], "indices": index.reshape(2, 2)}
            out = functional.embedding(given["indices"], x[0])
            case("aclnnEmbedding", f"{kind}-{dtype}", given, {"out": out}, 0)
    for kind in (*FLOATS, "DOUBLE", *INTEGERS, "BOOL", "COMPLEX64"):
        _scattered(kind)


def _scattered(kind: str) -> None:
    for dim, shape in ((0, (4, 2)), (1, (2, 4)), (-1, (3, 3))):
        own, src = uniform((3, 3), kind, -9, 9), uniform((4, 4), kind, -9, 9)
        index = uniform(shape, "INT64", 0, 2)
        out = torch.scatter_add(exact(own), dim, index, exact(src)).to(own.dtype)
        given = {"self": own, "dim": dim, "index": index, "src": src}
        case("aclnnScatterAdd", f"{kind}-{dim}", given, {"out": out})


RANGES = (
    ("INT64", 0, 9, 1),
    ("INT64", 2**40, 2**40 + 20, 7),
    ("INT64", 9, -3, -4),
    ("INT32", -5, 6, 3),
    ("FLOAT", 0, 1, 0.125),
    ("FLOAT", 3, -2, -0.75),
    ("FLOAT", -1.5, 7, 1),
    ("DOUBLE", 0, 5, 0.5),
    ("FLOAT16", 0, 12, 1),
    ("FLOAT16", -2, 2, 0.375),
    ("BF16", 250, 300, 7),
    ("BF16", 0, 2, 0.25),
)


def created() -> None:
    """Filled and counted."""
    for kind in KINDS:
        own = uniform((2, 3), kind, -9, 9)
        for value in ((0.1, "FLOAT"), (-3.75, "DOUBLE"), (7, "INT64"), (True, "BOOL")):
            if kind == "UINT8" and value[0] < 0:
                continue
            given = {"selfRef": own, "value": value}
            number = torch.tensor(value[0], dtype=TYPES[value[1]])
            out = own.clone().fill_(number)
            case("aclnnInplaceFillScalar", f"{kind}-{value[1]}", given, {"selfRef": out}, 0)
        case("aclnnInplaceZero", kind, {"selfRef": own}, {"selfRef": own.clone().zero_()}, 0)
        if kind != "COMPLEX64":
            case("aclnnInplaceOne", kind, {"selfRef": own}, {"selfRef": torch.ones_like(own)}, 0)
    for number, (kind, *bounds) in enumerate(RANGES):
        counted = "INT64" if kind in INTEGERS else "DOUBLE"
        out = torch.arange(*bounds, dtype=TYPES[counted]).to(TYPES[kind])
        given = {
            name: (value, counted)
            for name, value in zip(("start", "end", "step"), bounds, strict=True)
        }
        case("aclnnArange", f"{kind}-{number}", given, {"out": out}, 0)


FAMILIES = (casts, joined, viewed, indexed, created)
