"""Checks of what a caller says about a tensor, before its sizes are used."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from aclnn import formats
from aclnn.errors import InvalidParameterError
from aclnn.tensors import TensorSpec, contiguous_strides
from aclnn_client.arrays import DTypeLike, data_type


def integer(value: Any, parameter: str, *, lowest: int | None = None) -> int:  # noqa: ANN401
    """Reads an integer.

    Raises:
        InvalidParameterError: 161002, it is none, or below `lowest`.
    """
    allowed = "an integer" if lowest is None else f"an integer of at least {lowest}"
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (lowest is not None and number < lowest):
        raise InvalidParameterError(
            f"{parameter} is {value!r}; it must be {allowed}", parameter=parameter
        )
    return number


def integers(
    values: Any,  # noqa: ANN401
    parameter: str,
    *,
    lowest: int | None = None,
) -> tuple[int, ...]:
    """Reads a sequence of integers.

    Raises:
        InvalidParameterError: 161002, it is none, or one is below `lowest`.
    """
    try:
        items = list(values)
    except TypeError:
        raise InvalidParameterError(
            f"{parameter} is {values!r}; it must be a sequence of integers", parameter=parameter
        ) from None
    return tuple(
        integer(item, f"{parameter}[{index}]", lowest=lowest) for index, item in enumerate(items)
    )


def describe(
    shape: Sequence[int],
    dtype: DTypeLike,
    strides: Sequence[int] | None,
    offset: int,
    format: str,
    storage_shape: Sequence[int] | None,
) -> TensorSpec:
    """Describes a tensor; arguments as of ``Context.create_tensor``.

    Raises:
        InvalidParameterError: 161002, a value cannot be.
    """
    dims = integers(shape, "shape", lowest=0)
    steps = contiguous_strides(dims) if strides is None else integers(strides, "strides")
    if len(steps) != len(dims):
        raise InvalidParameterError(
            f"strides is {list(steps)}; shape {list(dims)} needs {len(dims)} of them",
            parameter="strides",
        )
    start = integer(offset, "offset")
    view = TensorSpec(data_type(dtype), dims, steps, start, dims, _format(format))
    storage = (
        _storage_shape(view)
        if storage_shape is None
        else integers(storage_shape, "storage_shape", lowest=0)
    )
    spec = TensorSpec(view.dtype, dims, steps, start, storage, view.format)
    spec.check(parameter="tensor")
    return spec


def _storage_shape(view: TensorSpec) -> tuple[int, ...]:
    """The smallest storage that holds the view: of its shape where that is enough."""
    _, high = view.reach
    return view.shape if high <= view.elements else (high,)


def _format(name: str) -> formats.Format:
    try:
        return formats.format_of(name)
    except ValueError as error:
        raise InvalidParameterError(f"format is {error}", parameter="format") from None


def check_buffer(context: object, spec: TensorSpec, buffer: Any) -> None:  # noqa: ANN401
    """Checks that a buffer can hold a tensor's storage.

    Raises:
        InvalidParameterError: 161002, it is none, of another context, or too small.
    """
    problem = ""
    if getattr(buffer, "context", None) is None or not hasattr(buffer, "buffer_id"):
        problem = f"is a {type(buffer).__name__}, which is no buffer"
    elif buffer.context is not context:
        problem = "belongs to another context"
    elif buffer.size < spec.storage_bytes:
        problem = f"has {buffer.size} bytes; the storage needs {spec.storage_bytes}"
    if problem:
        raise InvalidParameterError(f"buffer {problem}", parameter="buffer")
