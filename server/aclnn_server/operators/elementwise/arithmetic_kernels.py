"""Kernels of arithmetic; see :data:`aclnn_server.operators.engines.blocks.Kernel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.definition import Call
from aclnn_server.operators.engines.blocks import Kernel, OnePass
from aclnn_server.operators.engines.pointwise import KernelOf, number, ufunc
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]
DType = np.dtype[Any]
Function = Callable[..., Any]


def scaled(function: Function, of_bool: Function) -> KernelOf:
    """f(self, alpha * other); BOOL has a function of its own."""

    def make(call: Call, dtype: DType) -> Kernel:
        combine = of_bool if dtype.kind == "b" else function
        alpha = number(call["alpha"], dtype)
        if alpha == 1:
            return ufunc(combine)

        def kernel(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
            product = scratch.like(out)
            np.multiply(y, alpha, out=product)
            combine(x, product, out=out)

        return kernel

    return make


def scaled_number(function: Function, of_bool: Function) -> KernelOf:
    """f(self, alpha * other), where other is an aclScalar."""

    def make(call: Call, dtype: DType) -> Kernel:
        combine = of_bool if dtype.kind == "b" else function
        with np.errstate(all="ignore"):
            product = number(call["alpha"], dtype) * number(call["other"], dtype)
        return with_number(combine, product)

    return make


def with_number(function: Function, value: Any) -> Kernel:  # noqa: ANN401 - a NumPy scalar
    """f(self, value)."""
    return OnePass(function, (value,))


def with_scalar(function: Function, name: str = "other") -> KernelOf:
    """f(self, scalar), where the scalar is the aclScalar `name`."""
    return lambda call, dtype: with_number(function, number(call[name], dtype))


def quotient(dtype: DType, mode: int) -> Kernel:
    """self / other; rounded to 0 (mode 1) or down (mode 2)."""
    if dtype.kind in "iu":
        return ufunc(np.floor_divide) if mode == 2 else _integer_quotient
    rounding = (None, np.trunc, np.floor)[mode]

    def kernel(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
        np.divide(x, y, out=out)
        if rounding is not None:
            rounding(out, out=out)

    return kernel


def _integer_quotient(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    """Exact once the remainder, which has the sign of x, is taken off."""
    whole = scratch.like(out)
    np.fmod(x, y, out=whole)
    np.subtract(x, whole, out=whole)
    np.floor_divide(whole, y, out=out)


def add_product(call: Call, dtype: DType) -> Kernel:
    """self + value * tensor1 * tensor2."""
    return add_scaled(np.multiply, number(call["value"], dtype))


def add_quotient(call: Call, dtype: DType) -> Kernel:
    """self + value * tensor1 / tensor2."""
    value = number(call["value"], dtype)
    if dtype.kind not in "iu":
        return add_scaled(np.divide, value)

    def kernel(x: Array, y: Array, z: Array, *, out: Array, scratch: Scratch) -> None:
        share = scratch.like(out)
        np.multiply(y, value, out=share)
        _integer_quotient(share, z, out=share, scratch=scratch)
        np.add(x, share, out=out)

    return kernel


def add_scaled(function: Function, value: Any) -> Kernel:  # noqa: ANN401 - a NumPy scalar
    """self + value * f(tensor1, tensor2)."""

    def kernel(x: Array, y: Array, z: Array, *, out: Array, scratch: Scratch) -> None:
        share = scratch.like(out)
        function(y, z, out=share)
        if value != 1:
            np.multiply(share, value, out=share)
        np.add(x, share, out=out)

    return kernel


def lerp(
    x: Array,
    end: Array,
    weight: Any,  # noqa: ANN401 - an array or a NumPy scalar
    *,
    out: Array,
    scratch: Scratch,
) -> None:
    """x + weight * (end - x)."""
    span = scratch.like(out)
    np.subtract(end, x, out=span)
    np.multiply(span, weight, out=span)
    np.add(x, span, out=out)


def lerp_by_number(call: Call, dtype: DType) -> Kernel:
    """x + weight * (end - x), where weight is an aclScalar."""
    weight = number(call["weight"], dtype)
    return lambda x, end, *, out, scratch: lerp(x, end, weight, out=out, scratch=scratch)


def power(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
    """x ** y; integers to negative powers give what their reciprocal is when rounded to 0."""
    if out.dtype.kind not in "iu":
        np.power(x, y, out=out)
        return
    exponent, parity = scratch.like(out), scratch.like(out)
    np.maximum(y, 0, out=exponent)
    negative = np.less(y, 0)
    # 1 and -1 are the only integers whose reciprocal does not vanish; 0 has none, and gives 0.
    np.bitwise_and(y, 1, out=parity)
    unit = np.equal(x, 1) | (np.equal(x, -1) if out.dtype.kind == "i" else False)
    np.copyto(exponent, parity, where=negative & unit)
    vanishes = negative & ~unit
    np.power(x, exponent, out=out)
    np.copyto(out, 0, where=vanishes)


def power_of_number(call: Call, dtype: DType) -> Kernel:
    """x ** exponent, by a cheaper function where there is one."""
    exponent = number(call["exponent"], dtype)
    if dtype.kind == "b":
        return with_number(np.logical_or, not exponent)
    if dtype.kind == "f" and exponent in _POWERS:
        return ufunc(_POWERS[float(exponent)])
    return ufunc(np.square) if exponent == 2 else with_number(np.power, exponent)


_POWERS: dict[float, Function] = {1.0: np.positive, 0.5: np.sqrt, -1.0: np.reciprocal}


def maximum(dtype: DType) -> Function:
    """The larger of two numbers, NaN where one is."""
    return np.logical_or if dtype.kind == "b" else np.maximum


def minimum(dtype: DType) -> Function:
    """The smaller of two numbers, NaN where one is."""
    return np.logical_and if dtype.kind == "b" else np.minimum


def clamp(call: Call, dtype: DType) -> Kernel:
    """x between two bounds, of which one may be null; the upper one wins."""
    low, high = (
        None if call[name] is None else number(call[name], dtype)
        for name in ("clipValueMin", "clipValueMax")
    )
    return OnePass(np.clip, (low, high))
