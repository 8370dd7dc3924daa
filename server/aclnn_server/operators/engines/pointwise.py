"""Tables of operators that compute each element of the output from one of each input.

A family's row says which tensors there are, in which type they meet and what the kernel is; this module
plans the work, and writes the lines of the documentation that are the same for all.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.tensors import Scalar
from aclnn_server.operators.checking.checks import broadcast_shape
from aclnn_server.operators.definition import Call, Work
from aclnn_server.operators.engines.blocks import Kernel, OnePass, Types, elementwise
from aclnn_server.operators.engines.common_type import CommonType
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]
Names = tuple[str, ...]

_WIDTH = 90
"""Characters of a line of documentation."""

KernelOf = Callable[[Call, "np.dtype[Any]"], Kernel]
"""Makes the kernel of a call that is computed in a type."""

INTEGERS = (dtypes.INT8, dtypes.INT16, dtypes.INT32, dtypes.INT64, dtypes.UINT8)
FLOATS = (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BF16)
COMPLEX = (dtypes.COMPLEX64, dtypes.COMPLEX128)
REAL = (*FLOATS, dtypes.DOUBLE, *INTEGERS, dtypes.BOOL)
NUMBERS = (*REAL, *COMPLEX)
UNSIGNED = (dtypes.UINT16, dtypes.UINT32, dtypes.UINT64)


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Plans an operator whose inputs broadcast to its output."""

    inputs: Names
    output: str
    common: CommonType
    kernel: KernelOf
    produces: DType | None = None
    """Type of what the kernel writes, where that is not the common one."""
    loads: DType | None = None
    """Type that the inputs are cast to, where that is not the common one."""

    def __call__(self, call: Call) -> Work:
        """Plans the work."""
        types = self._types(call)
        kernel = self.kernel(call, types.computed)
        shape = broadcast_shape(call, self.inputs)
        return elementwise(call, kernel, self.inputs, self.output, shape, types)

    def _types(self, call: Call) -> Types:
        types = Types.of(self.loads or self.common.known(call))
        if self.produces is None:
            return types
        produced = self.produces.numpy
        assert produced is not None
        return Types(types.computed, produced, produced)


def fixed(kernel: Kernel) -> KernelOf:
    """The kernel that is the same for every call."""
    return lambda _call, _dtype: kernel


def ufunc(function: Callable[..., object]) -> Kernel:
    """The kernel that calls a NumPy ufunc."""
    return OnePass(function)


_BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def select(mask: Array, chosen: Array, other: Array, *, out: Array, scratch: Scratch) -> None:
    """Writes `chosen` where the BOOL `mask` is true, and `other` elsewhere; takes two arrays of scratch.

    By the bits, because NumPy's copy with a mask takes a branch for each element.
    """
    bits = _BITS.get(out.itemsize) if chosen.dtype == other.dtype == out.dtype else None
    if bits is None:  # 128 bits, or an output of another type than what is computed in
        found = scratch.like(out)
        np.copyto(found, other)
        np.copyto(found, chosen, where=mask)
        np.copyto(out, found)
        return
    where, change = (scratch.take(out.shape, np.dtype(bits)) for _ in range(2))
    np.copyto(where, mask)
    np.negative(where, out=where)
    np.bitwise_xor(chosen.view(bits), other.view(bits), out=change)
    np.bitwise_and(change, where, out=change)
    np.bitwise_xor(change, other.view(bits), out=out.view(bits))


def keep(mask: Array, x: Array, *, out: Array, scratch: Scratch) -> None:
    """Writes `x` where the BOOL `mask` is true, and 0 elsewhere; takes an array of scratch."""
    bits = _BITS.get(out.itemsize) if x.dtype == out.dtype else None
    if bits is None:
        found = scratch.like(out)
        np.copyto(found, 0)
        np.copyto(found, x, where=mask)
        np.copyto(out, found)
        return
    where = scratch.take(out.shape, np.dtype(bits))
    np.copyto(where, mask)
    np.negative(where, out=where)
    np.bitwise_and(x.view(bits), where, out=out.view(bits))


def number(scalar: Scalar, dtype: np.dtype[Any]) -> Any:  # noqa: ANN401 - a NumPy scalar of any type
    """An aclScalar as a NumPy scalar of the type that is computed in."""
    with np.errstate(all="ignore"):
        return np.array(scalar.value).astype(dtype)[()]


def described(summary: str, formula: str, *notes: str, source: str) -> str:
    """Puts an operator's documentation together.

    Args:
        summary: one sentence.
        formula: LaTeX, without the dollar signs.
        notes: one sentence or two each.
        source: what the formula and the checks were taken from.
    """
    lines = "\n".join(_wrapped(f"- {note}", "  ") for note in notes)
    parts = (summary, _wrapped(f"$${formula}$$"), lines, _wrapped(f"Source: {source}."))
    return "\n\n".join(parts)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


ROUNDED = (
    "FLOAT16 and BF16 are computed in FLOAT, rounded once to the common type of the inputs, then cast to "
    "the type of the output."
)
FLOATING = "Integers and BOOL are computed in FLOAT."
BROADCAST = "Inputs broadcast to exactly the shape of the output, and may be strided, as it may."
STRIDED = "Input and output may be strided; the output may be the same memory as the input."
IN_PLACE = "{0} is input and output; inputs that share memory with it otherwise are copied first."
WRAPS = "Integers wrap around."
DOCUMENTED = "the public documentation of {0} (hicann/{1})"
HOST_CODE = (
    "the public documentation of {0}, and for the order of checks its host code (hicann/{1})"
)
