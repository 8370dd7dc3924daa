"""Operators that draw random numbers, and dropout, beside NumPy's own methods with the same generator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aclnn import dtypes
from aclnn.tensors import Scalar
from benchmarks.cases.case import ELEMENTS, Array, Case, f, floats

_SEED, _OFFSET = 1, 0


def _source() -> np.random.Generator:
    return np.random.Generator(np.random.Philox(_SEED))


def cases() -> Iterator[Case]:
    (x,) = floats(ELEMENTS)
    yield from _filled(x)
    yield from _events(x)
    yield from _chosen()
    yield from _dropout(x)


def _filled(x: Array) -> Iterator[Case]:
    ours, theirs, seed = x.copy(), x.copy(), (_SEED, _OFFSET)
    whole, numbers = (np.empty(ELEMENTS, np.int64) for _ in range(2))

    def normal() -> Array:
        return f(2) + f(3) * _source().standard_normal(out=theirs, dtype=f)

    def uniform() -> Array:
        return f(2) + f(3) * _source().random(out=theirs, dtype=f)

    def random() -> None:
        numbers[:] = _source().integers(0, 1000, ELEMENTS)

    yield Case("InplaceNormal", (ours, 2.0, 3.0, *seed), normal)
    yield Case("InplaceUniform", (ours, 2.0, 5.0, *seed), uniform)
    yield Case("InplaceRandom", (whole, 0, 1000, *seed), random)


def _events(x: Array) -> Iterator[Case]:
    out, seed, chance = np.empty_like(x), (_SEED, _OFFSET), Scalar(0.3, "FLOAT")

    def events(probability: Array | float) -> Array:
        return (_source().random(ELEMENTS) < probability).astype(f)

    yield Case("Bernoulli", (x, chance, *seed, out), lambda: events(0.3))
    yield Case("BernoulliTensor", (x, x, *seed, out), lambda: events(x))
    yield Case("InplaceBernoulli", (out, chance, *seed), lambda: events(0.3))
    yield Case("InplaceBernoulliTensor", (out, x, *seed), lambda: events(x))


def _chosen() -> Iterator[Case]:
    numbers = np.empty(ELEMENTS, np.int64)
    yield Case(
        "Randperm", (ELEMENTS, _SEED, _OFFSET, numbers), lambda: _source().permutation(ELEMENTS)
    )
    (weights,) = floats(64, 1024)
    shares = weights.astype(np.float64)
    shares /= shares.sum(1, keepdims=True)
    for replacement, title in ((True, "with replacement"), (False, "without replacement")):

        def rows(*, replace: bool = replacement) -> Array:
            source = _source()
            return np.stack([source.choice(1024, 512, replace, row) for row in shares])

        places = np.empty((64, 512), np.int64)
        arguments = (weights, 512, replacement, _SEED, _OFFSET, places)
        yield Case("Multinomial", arguments, rows, title)


def _dropout(x: Array) -> Iterator[Case]:
    out, seed, drop = np.empty_like(x), (_SEED, _OFFSET), 0.25
    mask, factor = np.empty(ELEMENTS // 8, np.uint8), f(1 / (1 - drop))

    def drawn() -> Array:
        return _source().random(ELEMENTS, f) >= drop

    def bits() -> Array:
        return np.packbits(drawn(), bitorder="little")

    def dropped() -> object:
        kept = drawn()
        return np.where(kept, x * factor, f(0)), np.packbits(kept, bitorder="little")

    given = bits()

    def masked() -> object:
        kept = np.unpackbits(given, bitorder="little").astype(bool)
        return np.where(kept, x * factor, f(0))

    shape = ((ELEMENTS,), drop, *seed)
    yield Case("DropoutV3", (x, None, drop, *seed, out, mask.copy()), dropped)
    yield Case("DropoutGenMask", (*shape, mask), bits)
    yield Case("DropoutGenMaskV2", (*shape, dtypes.FLOAT, mask), bits)
    yield Case("DropoutDoMask", (x, given, drop, out), masked)
    yield Case("DropoutBackward", (x, given, float(factor), out), masked)
