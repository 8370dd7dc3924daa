"""What NumPy has no fast loops for, compiled by numba: casts of 16-bit floats, a gradient in one pass.

Only imported where numba is installed (the extra ``jit``). Compilation takes a moment at the first use, and
is kept on disk for the next process where there is a place for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_INT16, _INT32 = ir.IntType(16), ir.IntType(32)
_HALF, _SINGLE = ir.HalfType(), ir.FloatType()

# Written as instructions: numba's own integers are of 64 bits as soon as two of them meet, and half as
# many of those fit a register.


def _instructions(source: Any, target: Any, build: Callable[[Any, Any], Any]) -> Any:  # noqa: ANN401
    """A function of one number, for compiled loops; ``build(builder, value)`` writes its instructions."""

    def typed(typing: object, value: object) -> tuple[Any, Any]:
        def generate(context: object, builder: Any, signature: object, given: Any) -> Any:  # noqa: ANN401
            return build(builder, given[0])

        return target(source), generate

    return intrinsic(typed)


def _build_narrow_brain(to: Any, value: Any) -> Any:  # noqa: ANN401
    def number(value: int) -> Any:  # noqa: ANN401
        return ir.Constant(_INT32, value)

    bits = to.bitcast(value, _INT32)
    high = to.lshr(bits, number(16))
    up = to.add(number(0x7FFF), to.and_(high, number(1)))  # to nearest, to even between two
    rounded = to.lshr(to.add(bits, up), number(16))
    quiet = to.or_(to.and_(high, number(0x8000)), number(0x7FC0))
    return to.trunc(to.select(to.fcmp_unordered("uno", value, value), quiet, rounded), _INT16)


def _build_widen_brain(to: Any, value: Any) -> Any:  # noqa: ANN401
    bits = to.shl(to.zext(value, _INT32), ir.Constant(_INT32, 16))
    return to.bitcast(bits, _SINGLE)


_widen_brain = _instructions(types.uint16, types.float32, _build_widen_brain)
_narrow_brain = _instructions(types.float32, types.uint16, _build_narrow_brain)
_widen_half = _instructions(
    types.uint16, types.float32, lambda to, value: to.fpext(to.bitcast(value, _HALF), _SINGLE)
)
_narrow_half = _instructions(
    types.float32, types.uint16, lambda to, value: to.bitcast(to.fptrunc(value, _HALF), _INT16)
)


def _loop(function: Any) -> Any:  # noqa: ANN401
    """Compiles a function, without the lock of Python, as NumPy's own loops are."""
    try:
        return njit(nogil=True, cache=True)(function)
    except (
        RuntimeError
    ):  # there is no place to keep the code: a read-only system, a user without a home
        return njit(nogil=True)(function)


# FLOAT16 and BF16 are given by their bits.


@_loop
def widen_half(source: Any, target: Any) -> None:  # noqa: ANN401 - arrays of one dimension
    """FLOAT16 to FLOAT."""
    for index in range(target.size):
        target[index] = _widen_half(source[index])


@_loop
def narrow_half(source: Any, target: Any) -> None:  # noqa: ANN401
    """FLOAT to FLOAT16, to nearest even."""
    for index in range(target.size):
        target[index] = _narrow_half(source[index])


@_loop
def widen_brain(source: Any, target: Any) -> None:  # noqa: ANN401
    """BF16 to FLOAT."""
    for index in range(target.size):
        target[index] = _widen_brain(source[index])


@_loop
def narrow_brain(source: Any, target: Any) -> None:  # noqa: ANN401
    """FLOAT to BF16, to nearest even; NaN keeps its sign and becomes quiet."""
    for index in range(target.size):
        target[index] = _narrow_brain(source[index])


# The gradient of the smooth L1 loss in one pass, for 0 < beta < infinity; as losses.SmoothL1Gradient.


@njit(inline="always")
def _gradient(grad: Any, x: Any, y: Any, beta: Any, factor: Any) -> Any:  # noqa: ANN401 - FLOAT
    slope = (x - y) / beta
    slope = np.float32(1) if slope > np.float32(1) else slope
    slope = np.float32(-1) if slope < np.float32(-1) else slope
    return slope * grad * factor


@_loop
def gradient_single(grad: Any, x: Any, y: Any, beta: Any, factor: Any, out: Any) -> None:  # noqa: ANN401
    """Of FLOAT."""
    for i in range(out.size):
        out[i] = _gradient(grad[i], x[i], y[i], beta, factor)


@_loop
def gradient_half(grad: Any, x: Any, y: Any, beta: Any, factor: Any, out: Any) -> None:  # noqa: ANN401
    """Of FLOAT16."""
    for i in range(out.size):
        g, a, b = _widen_half(grad[i]), _widen_half(x[i]), _widen_half(y[i])
        out[i] = _narrow_half(_gradient(g, a, b, beta, factor))


@_loop
def gradient_brain(grad: Any, x: Any, y: Any, beta: Any, factor: Any, out: Any) -> None:  # noqa: ANN401
    """Of BF16."""
    for i in range(out.size):
        g, a, b = _widen_brain(grad[i]), _widen_brain(x[i]), _widen_brain(y[i])
        out[i] = _narrow_brain(_gradient(g, a, b, beta, factor))
