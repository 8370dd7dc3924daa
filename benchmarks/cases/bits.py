"""Logic of bits and of truth values, and masks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from aclnn.tensors import Scalar
from benchmarks.cases.case import ELEMENTS, Case, f, floats, scalar

_PAIRS = (("And", np.bitwise_and), ("Or", np.bitwise_or), ("Xor", np.bitwise_xor))


def cases() -> Iterator[Case]:
    yield from _bits()
    yield from _truth_in_place()
    yield from _masks()


def _bits() -> Iterator[Case]:
    x, y = np.random.default_rng(1).integers(0, 1 << 30, (2, ELEMENTS), np.int32)
    out, ours, theirs = np.empty_like(x), x.copy(), x.copy()
    number, own = Scalar(12345, "INT32"), np.int32(12345)
    for word, function in _PAIRS:
        name = f"Bitwise{word}"
        yield Case(f"{name}Tensor", (x, y, out), partial(function, x, y))
        yield Case(f"{name}Scalar", (x, number, out), partial(function, x, own))
        in_place = partial(function, theirs, out=theirs)
        yield Case(f"Inplace{name}Tensor", (ours, y), partial(in_place, y))
        yield Case(f"Inplace{name}Scalar", (ours, number), partial(in_place, own))
    yield Case("BitwiseNot", (x, out), partial(np.invert, x))


def _truth_in_place() -> Iterator[Case]:
    x, y = np.random.default_rng(1).integers(0, 2, (2, ELEMENTS), np.int8).astype(bool)
    ours, theirs = x.copy(), x.copy()
    for word, function in (("And", np.logical_and), ("Or", np.logical_or)):
        in_place = partial(function, theirs, y, out=theirs)
        yield Case(f"InplaceLogical{word}", (ours, y), in_place)
    yield Case("InplaceLogicalNot", (ours,), lambda: np.logical_not(theirs, out=theirs))


def _masks() -> Iterator[Case]:
    (x,) = floats(ELEMENTS)
    ours, theirs, mask = x.copy(), x.copy(), x < f(0.5)
    one = np.ones((), f)
    yield Case(
        "InplaceMaskedFillScalar",
        (ours, mask, scalar(1)),
        lambda: np.copyto(theirs, f(1), where=mask),
    )
    yield Case(
        "InplaceMaskedFillTensor", (ours, mask, one), lambda: np.copyto(theirs, one, where=mask)
    )
    yield Case("MaskedSelect", (x, mask, np.empty_like(x)), lambda: x[mask])
    chosen = mask.reshape(-1, 1024)
    places = np.empty(2 * chosen.size, np.int64)
    yield Case("Nonzero", (chosen, places.reshape(-1, 2)), lambda: np.argwhere(chosen))
    yield Case("NonzeroV2", (chosen, places.reshape(2, -1)), lambda: np.stack(np.nonzero(chosen)))
