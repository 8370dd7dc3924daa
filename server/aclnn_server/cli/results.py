"""Tensors as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn_server.cli.tables import indented

Array = npt.NDArray[Any]

MOST_ELEMENTS = 200
"""Elements that are all shown; of more, the first and the last."""


def describe(array: Array) -> str:
    """Element type and shape: ``"FLOAT 4x2"``."""
    shape = "x".join(map(str, array.shape)) or "without dimensions"
    return f"{dtypes.dtype(array.dtype).name} {shape}"


def show(array: Array) -> str:
    """The elements: a table for up to two dimensions, else as NumPy shows them."""
    if array.ndim > 2 or array.size > MOST_ELEMENTS:
        return indented(np.array2string(array, threshold=MOST_ELEMENTS, max_line_width=100))
    if array.size == 0:
        return indented("no elements")
    rows = [[number(value) for value in row] for row in np.atleast_2d(array)]
    width = max(len(cell) for row in rows for cell in row)
    return indented("\n".join(" ".join(cell.rjust(width) for cell in row) for row in rows))


def line(array: Array) -> str:
    """The elements in C order, in one line."""
    return " ".join(number(value) for value in array.reshape(-1))


def number(value: object) -> str:
    """The shortest text that reads back as the same number; whole ones without a point."""
    return str(value).removesuffix(".0")
