"""Numbers and sizes that an element type and this machine's memory can hold, and refusals of all others.

NumPy wraps, cuts or warns where a number does not fit; what a user wrote is refused instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from aclnn.dtypes import DType
from aclnn_server.cli.tables import size

Array = npt.NDArray[Any]
_MOST_BYTES = 2**63 - 1
_MOST_DIMENSIONS = 64
"""NumPy's own limit."""


def check_size(shape: Sequence[int], row: DType) -> None:
    """Refuses shapes that no memory holds.

    Raises:
        ValueError: too many elements or dimensions.
    """
    if len(shape) > _MOST_DIMENSIONS:
        raise ValueError(
            f"{len(shape)} dimensions are too many; at most {_MOST_DIMENSIONS} are held"
        )
    # NumPy counts what is beside a size of 0 as well.
    if math.prod(filter(None, shape)) > _MOST_BYTES // numpy_type(row).itemsize:
        raise ValueError(f"a tensor of {'x'.join(map(str, shape))} {row} is larger than any memory")


def too_large(shape: Sequence[int], row: DType) -> ValueError:
    """The error of a tensor that memory did not suffice for."""
    needed = size(math.prod(shape) * numpy_type(row).itemsize)
    text = "x".join(map(str, shape))
    return ValueError(f"a tensor of {text} {row} takes {needed}, more than this machine has free")


def numpy_type(row: DType) -> np.dtype[Any]:
    """NumPy's dtype of an element type.

    Raises:
        ValueError: it has none.
    """
    if row.numpy is None:
        raise ValueError(f"NumPy has no array of {row}")
    return row.numpy


def check(value: float, row: DType) -> None:
    """Refuses a number that an element type does not hold; floats may be rounded, integers not.

    Raises:
        ValueError: it does not fit; the message has the value, the type and its range.
    """
    if row.kind == "bool" or isinstance(value, bool):
        return
    if not (_is_whole_in_range(value, row) if _is_whole(row) else _is_held(value, row)):
        raise ValueError(f"{value!r} does not fit {row}, which holds {_range(row)}")


def from_literal(elements: Any, row: DType) -> Array:  # noqa: ANN401 - a number, or nested lists
    """Makes a tensor of numbers in nested lists.

    Raises:
        ValueError: an element is no number or does not fit, or the lists are of unequal lengths.
    """
    for value in _flat(elements):
        if not isinstance(value, (int, float)):
            raise ValueError(f"{value!r} is no number")
        check(value, row)
    try:
        with np.errstate(all="ignore"):
            return np.array(elements, numpy_type(row))
    except ValueError:
        raise ValueError("its lists are of unequal lengths") from None


def cast(array: Array, row: DType) -> Array:
    """Converts a tensor.

    Raises:
        ValueError: an element does not fit.
    """
    if array.dtype.kind == "c" and row.kind != "complex":
        raise ValueError(f"complex numbers do not fit {row}")
    with np.errstate(all="ignore"):
        made = array.astype(numpy_type(row))
    if row.kind != "bool":
        lost = made != array if _is_whole(row) else np.isfinite(array) & ~np.isfinite(made)
        if lost.any():
            value = array[lost][0].item()
            raise ValueError(f"{value!r} does not fit {row}, which holds {_range(row)}")
    return made


def _flat(elements: Any) -> Iterator[Any]:  # noqa: ANN401 - as of from_literal
    if not isinstance(elements, list):
        yield elements
        return
    for element in elements:
        yield from _flat(element)


def _is_whole(row: DType) -> bool:
    return row.kind in ("signed", "unsigned")


def _is_whole_in_range(value: float, row: DType) -> bool:
    least, most = _limits(numpy_type(row))
    return math.isfinite(value) and value == int(value) and least <= value <= most


def _is_held(value: float, row: DType) -> bool:
    try:
        with np.errstate(all="ignore"):
            made = np.array(float(value)).astype(numpy_type(row))
    except OverflowError:
        return False
    if math.isnan(value):
        return bool(np.isnan(made))
    if math.isinf(value):
        return bool(np.isinf(made))
    # The smallest types have no infinity, and hold their largest number in place of a larger one.
    saturates = row.packed and abs(value) > _limits(made.dtype)[1]
    return bool(np.isfinite(made)) and not saturates


def _range(row: DType) -> str:
    least, most = _limits(numpy_type(row))
    if _is_whole(row):
        return f"whole numbers from {least} to {most}"
    return f"numbers from {least:.6g} to {most:.6g}"


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The least and the largest number, exactly; of complex numbers that of each part."""
    whole = dtype.kind in "iu" or dtype == ml_dtypes.int4
    limits: Any = ml_dtypes.iinfo(dtype) if whole else ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    if whole:
        return int(limits.min), int(limits.max)
    return float(limits.min), float(limits.max)
