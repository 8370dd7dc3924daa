"""Casts of blocks between element types, with FLOAT16 by tables.

NumPy casts FLOAT16 one element at a time, with branches. A look-up is about twice as fast and gives
the same bits; it also is one call, for whose time other threads run.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_HALF = np.dtype(np.float16)
_SINGLE = np.dtype(np.float32)
_SMALL = 4096
"""Elements below which NumPy's own cast is as fast."""

# A float32 without its lowest 11 bits still has two bits more than a float16 of the same exponent,
# which decide how it is rounded if the lower one tells whether anything was cut off.
_CUT = np.uint32(11)
_CUT_BITS = np.uint32((1 << 11) - 1)


def widen(source: Array, target: Array) -> None:
    """Copies a block into another of equal shape and of a type that holds all its values.

    Args:
        source: any strides.
        target: another array, any strides.
    """
    fast = source.dtype == _HALF and target.dtype == _SINGLE and target.flags.c_contiguous
    if fast and source.size >= _SMALL:
        np.take(_singles(), source.view(np.uint16), out=target, mode="wrap")
    else:
        np.copyto(target, source, casting="unsafe")


def narrow(source: Array, target: Array, scratch: Array) -> None:
    """Copies a block into another of equal shape and of any type, rounding to nearest even.

    Args:
        source: contiguous.
        target: another array, any strides.
        scratch: contiguous array of the shape and type of `source`; overwritten.
    """
    fast = source.dtype == _SINGLE and target.dtype == _HALF and target.flags.c_contiguous
    if fast and source.size >= _SMALL:
        bits, index = source.view(np.uint32), scratch.view(np.uint32)
        np.bitwise_and(bits, _CUT_BITS, out=index)
        np.add(index, _CUT_BITS, out=index)
        np.bitwise_or(index, bits, out=index)
        np.right_shift(index, _CUT, out=index)
        np.take(_halves(), index, out=target, mode="wrap")
    else:
        np.copyto(target, source, casting="unsafe")


@cache
def _singles() -> Array:
    """The float32 of every float16, by its bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


@cache
def _halves() -> Array:
    """The float16 of every float32, by its bits without the cut ones."""
    bits = np.arange(1 << (32 - _CUT), dtype=np.uint32) << _CUT
    with np.errstate(all="ignore"):
        return bits.view(np.float32).astype(np.float16)
