"""Arguments of an operator as they are written on the command line.

A tensor is ``FORM[:DTYPE]``, FLOAT where no dtype is given::

    2.5                     one number, no dimensions
    [[1,2],[3,4]]:float16   the elements
    FILE.npy                a file of NumPy's
    ones:4x2                also zeros, empty (zeros as well), arange
    full:4x2:3.5            all the same
    rand:4x2:float32:7      uniform in [0, 1), with a seed (0 where left out)

An output is ``FILE.npy`` to save to, or a tensor that describes it, or both, ``TENSOR:FILE.npy``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.signatures import Kind, Parameter
from aclnn.tensors import Scalar
from aclnn_server.cli import fitting

Array = npt.NDArray[Any]
NULL = "null"
_MOST_DIGITS = 19
"""Of a size; those of the largest int64."""
_ALIASES: Mapping[str, DType] = {
    "bf16": dtypes.BF16,
    "fp16": dtypes.FLOAT16,
    "fp32": dtypes.FLOAT,
    "float": dtypes.FLOAT,  # as in ACL and C; NumPy means 64 bits by it
}


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor that the operator writes to."""

    initial: Array | None = None
    """Shape, dtype and first content; ``None``: by the operator's rule."""
    file: Path | None = None
    """Where to save it; ``None``: it is printed."""


def read(parameter: Parameter, text: str, choices: Mapping[str, int]) -> Any:  # noqa: ANN401
    """Reads one argument.

    Args:
        parameter: the parameter that it is for.
        text: what stands after ``=``.
        choices: names that stand for numbers, as ``mean`` does.

    Returns:
        NumPy arrays for tensors, :class:`Output` for those that are written to, tuples of them for lists,
        and for everything else what :func:`aclnn.arguments.encode` takes.

    Raises:
        ValueError: the text cannot be read; the message tells what is allowed.
    """
    if text == NULL:
        if not parameter.kind.pointer:
            raise ValueError(f"{parameter.c_type} cannot be null")
        return None
    if text in choices:
        return choices[text]
    tensor = output if parameter.output else array
    if parameter.kind is Kind.TENSOR:
        return tensor(text)
    if parameter.kind is Kind.TENSOR_LIST:
        return tuple(tensor(element) for element in _elements(text))
    return _READERS[parameter.kind](text)


# --- tensors ----------------------------------------------------------------------------------------


def output(text: str) -> Output:
    """Reads an output: ``FILE.npy``, a tensor, or ``TENSOR:FILE.npy``."""
    found = re.fullmatch(r"(?:(?P<tensor>.+):)?(?P<file>[^:]+\.npy)", text)
    if found is None:
        return Output(array(text))
    initial = None if found["tensor"] is None else array(found["tensor"])
    return Output(initial, Path(found["file"]))


def array(text: str) -> Array:
    """Reads a tensor."""
    form, *rest = text.split(":")
    if form in _MAKERS:
        return _made(form, rest)
    if form.endswith(".npy"):
        return _load(form, rest)
    elements, row = _literal(form), _row(rest)
    try:
        return fitting.from_literal(elements, row)
    except ValueError as error:
        raise ValueError(f"{text!r} is no tensor: {error}") from None


def shape(text: str) -> tuple[int, ...]:
    """Reads a shape: ``4x2``, ``8``, or nothing for no dimensions."""
    if not re.fullmatch(r"(\d+(x\d+)*)?", text):
        raise ValueError(f"{text!r} is no shape; one is written 4x2")
    if any(len(size) > _MOST_DIGITS for size in text.split("x")):
        raise ValueError(f"{text!r} has a size that is larger than any memory")
    return tuple(int(size) for size in text.split("x")) if text else ()


def _row(rest: list[str], default: DType = dtypes.FLOAT) -> DType:
    if len(rest) > 1:
        raise ValueError(f"nothing is known of {':'.join(rest[1:])!r}")
    found = _data_type(rest[0]) if rest else default
    fitting.numpy_type(found)
    return found


def _made(form: str, rest: list[str]) -> Array:
    """What one of :data:`_MAKERS` makes; the shape comes first, the dtype last."""
    if not rest:
        raise ValueError(f"a shape is missing: {form}:4x2")
    dims, extra, rest = shape(rest[0]), "", rest[1:]
    if form == "full":
        if not rest:
            raise ValueError("full takes a shape and a value: full:4x2:3.5")
        extra, rest = rest[0], rest[1:]
    elif form == "rand" and len(rest) == 2:
        extra, rest = rest[1], rest[:1]
    row = _row(rest)
    fitting.check_size(dims, row)
    try:
        return _MAKERS[form](dims, row, extra)
    except MemoryError:
        raise fitting.too_large(dims, row) from None


def _ones(dims: tuple[int, ...], row: DType, _: str) -> Array:
    return _filled(dims, row, 1)


def _zeros(dims: tuple[int, ...], row: DType, _: str) -> Array:
    return _filled(dims, row, 0)


def _empty(dims: tuple[int, ...], row: DType, _: str) -> Array:
    return np.zeros(dims, row.numpy)


def _full(dims: tuple[int, ...], row: DType, value: str) -> Array:
    return _filled(dims, row, _number(value))


def _filled(dims: tuple[int, ...], row: DType, value: float) -> Array:
    fitting.check(value, row)
    with np.errstate(all="ignore"):
        return np.full(dims, value, row.numpy)


def _arange(dims: tuple[int, ...], row: DType, _: str) -> Array:
    count = math.prod(dims)
    fitting.check(max(count - 1, 0), row)
    fitting.check_size(dims, dtypes.INT64)
    return np.arange(count).reshape(dims).astype(fitting.numpy_type(row))


def _rand(dims: tuple[int, ...], row: DType, seed: str) -> Array:
    fitting.check_size(dims, dtypes.DOUBLE)
    values = np.random.default_rng(_whole(seed) if seed else 0).random(dims)
    return values.astype(fitting.numpy_type(row))


_MAKERS: Mapping[str, Callable[[tuple[int, ...], DType, str], Array]] = {
    "ones": _ones,
    "zeros": _zeros,
    "empty": _empty,
    "full": _full,
    "arange": _arange,
    "rand": _rand,
}


def _load(path: str, rest: list[str]) -> Array:
    try:
        loaded: Array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except (EOFError, ValueError):
        raise ValueError(f"{path} is no file of a NumPy array of numbers") from None
    if loaded.dtype.kind == "V":
        # NumPy's files do not know the types of ml_dtypes.
        if not rest:
            raise ValueError(f"{path} does not tell its elements' type; name it: {path}:bfloat16")
        return loaded.view(fitting.numpy_type(_row(rest)))
    if not rest:
        return loaded
    try:
        return fitting.cast(loaded, _row(rest))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


# --- everything else --------------------------------------------------------------------------------


def _literal(text: str) -> Any:  # noqa: ANN401 - a number, a bool, or nested lists of them
    spelled = re.sub(r"\bnan\b", "NaN", text, flags=re.IGNORECASE)
    spelled = re.sub(r"\binf(inity)?\b", "Infinity", spelled, flags=re.IGNORECASE)
    try:
        return json.loads(spelled, parse_float=_finite)
    except ValueError:
        raise ValueError(f"{text!r} is no number and no list in brackets") from None
    except OverflowError as error:
        raise ValueError(str(error)) from None


def _finite(text: str) -> float:
    """A number in digits; what is meant to be infinite is written as inf."""
    value = float(text)
    if math.isinf(value):
        raise OverflowError(f"{text} does not fit DOUBLE, the largest type of numbers")
    return value


def _number(text: str) -> float:
    value = _literal(text)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{text!r} is no number")
    return value


def _whole(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None


def _boolean(text: str) -> bool:
    allowed = {"true": True, "false": False, "1": True, "0": False}
    if text.lower() not in allowed:
        raise ValueError(f"{text!r} is no bool; allowed are {', '.join(allowed)}")
    return allowed[text.lower()]


def _list(text: str) -> list[Any]:
    values = _literal(text)
    if not isinstance(values, list):
        raise ValueError(f"{text!r} is no list; one is written [1,2]")
    return values


def _scalar(text: str) -> Any:  # noqa: ANN401 - the client chooses the dtype of a plain number
    number, *rest = text.split(":")
    value = _literal(number)
    return Scalar(value, _data_type(":".join(rest))) if rest else value


def _scalars(text: str) -> tuple[Any, ...]:
    values, *rest = text.split(":")
    if not rest:
        return tuple(_list(values))
    dtype = _data_type(":".join(rest))
    return tuple(Scalar(value, dtype) for value in _list(values))


def _data_type(text: str) -> DType:
    try:
        return _ALIASES[text] if text in _ALIASES else dtypes.dtype(text)
    except TypeError:
        known = ", ".join(row.name if row.numpy is None else row.numpy.name for row in dtypes.ALL)
        raise ValueError(f"{text!r} is no element type of ACL; known are {known}") from None


def _elements(text: str) -> list[str]:
    """The tensors of a list, between commas outside of brackets; ``[]`` has none."""
    if text == "[]":
        return []
    depth, elements = 0, [""]
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            elements.append("")
        else:
            elements[-1] += character
    return elements


_READERS: Mapping[Kind, Callable[[str], Any]] = {
    Kind.SCALAR: _scalar,
    Kind.SCALAR_LIST: _scalars,
    Kind.INT_ARRAY: _list,
    Kind.FLOAT_ARRAY: _list,
    Kind.BOOL_ARRAY: _list,
    Kind.TEXT: str,
    Kind.INT64: _whole,
    Kind.INT32: _whole,
    Kind.INT8: _whole,
    Kind.UINT64: _whole,
    Kind.BOOL: _boolean,
    Kind.DOUBLE: _number,
    Kind.FLOAT: _number,
    Kind.DATA_TYPE: _data_type,
}
