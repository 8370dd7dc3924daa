"""Casts of blocks between element types, those of 16-bit floats by faster ways than NumPy's.

NumPy casts FLOAT16 one element at a time, with branches. A look-up in a table is about twice as fast; the
processor's own instructions, by numba where that is installed, are twenty times as fast. All give the same
values (of NaN, the sign and that it is NaN).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_HALF = np.dtype(np.float16)
_SINGLE = np.dtype(np.float32)
_BRAIN = np.dtype(ml_dtypes.bfloat16)
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
    if source.size >= _SMALL and target.dtype == _SINGLE and _compiled(source, target):
        return
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
    if source.size >= _SMALL and source.dtype == _SINGLE and _compiled(source, target):
        return
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


def _compiled(source: Array, target: Array) -> bool:
    """Casts by a compiled loop; tells whether there is one."""
    loop = loops().get((source.dtype, target.dtype))
    if loop is None or not (source.flags.c_contiguous and target.flags.c_contiguous):
        return False
    loop(bits_of(source), bits_of(target))
    return True


def bits_of(array: Array) -> Array:
    """A contiguous array in one dimension, 16-bit floats by their bits, as compiled loops take it."""
    flat = array.reshape(-1)
    return flat.view(np.uint16) if flat.itemsize == 2 else flat


@cache
def has_compiler() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


@cache
def loops() -> dict[tuple[np.dtype[Any], np.dtype[Any]], Callable[[Array, Array], object]]:
    """Compiled casts by source and target type; none where numba is not installed."""
    if not has_compiler():
        return {}
    from aclnn_server.operators.engines import compiled

    return {
        (_HALF, _SINGLE): compiled.widen_half,
        (_SINGLE, _HALF): compiled.narrow_half,
        (_BRAIN, _SINGLE): compiled.widen_brain,
        (_SINGLE, _BRAIN): compiled.narrow_brain,
    }


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
