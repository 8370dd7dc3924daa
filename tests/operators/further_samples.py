"""Arguments of those operators that select, order, draw or update lists; see :mod:`.samples`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from aclnn import dtypes
from tests.operators.special_samples import Making, Values, numbers

# --- results as large as their elements make them ------------------------------------------------------


def _masked(make: Making) -> Values:
    mask = numbers(make.shape, dtypes.BOOL, make.generator)
    return {"mask": mask, "self": make.numbers(*make.shape), "out": make.out(math.prod(make.shape))}


def _positions(make: Making) -> Values:
    count, rank = math.prod(make.shape), len(make.shape)
    own = make.numbers(*make.shape)
    return {"self": own, "out": make.out(count, rank, dtype=np.int64)}


FURTHER: dict[str, Callable[[Making], Values]] = {
    "MaskedSelect": _masked,
    "Nonzero": _positions,
    "NonzeroV2": _positions,
}
"""By C name without the aclnn prefix: the arguments that are not as those of an elementwise operator."""
