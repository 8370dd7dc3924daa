"""The error function, which NumPy does not have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.engines.pointwise import select
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]

# In FLOAT: below _NEAR, erf(x) = x * p(x^2); from there to _FAR, erf(x) = 1 - exp(-x * q(x)); beyond, it
# is 1. Both polynomials are least-squares fits, weighted for the relative error of erf. The result is
# within 3 units in the last place.
_NEAR = np.float32(0.9)
_FAR = np.float32(4)
_SIGN = np.int32(-(1 << 31))
_P = (
    1.128379225730896,
    -0.37612634897232056,
    0.11283715069293976,
    -0.026860510930418968,
    0.0052038636058568954,
    -0.0008175682742148638,
    8.513267675880343e-05,
)
_Q = (
    1.1286410093307495,
    0.6351814866065979,
    0.10618763417005539,
    -0.023720204830169678,
    0.0036229281686246395,
    -0.0003180621424689889,
    1.0763431419036351e-05,
)


def erf(x: Array, *, out: Array, scratch: Scratch) -> None:
    """Kernel of the error function, of float32 or float64; takes five arrays of scratch at most."""
    if out.dtype == np.float64:
        np.copyto(out, np.frompyfunc(math.erf, 1, 1)(x), casting="unsafe")
        return
    is_near = scratch.take(out.shape, np.dtype(np.bool_))
    far, near = scratch.like(out), scratch.like(out)
    mark = scratch.mark()
    magnitude = scratch.like(out)
    np.abs(x, out=magnitude)
    np.minimum(magnitude, _FAR, out=magnitude)
    np.less(magnitude, _NEAR, out=is_near)
    _polynomial(magnitude, _Q, far)
    np.multiply(far, magnitude, out=far)
    np.negative(far, out=far)
    np.exp(far, out=far)
    np.subtract(1, far, out=far)
    # The sign of x by its bit: NumPy's copysign takes longer than the exponential.
    np.bitwise_and(x.view(np.int32), _SIGN, out=near.view(np.int32))
    np.bitwise_or(far.view(np.int32), near.view(np.int32), out=far.view(np.int32))
    np.multiply(magnitude, magnitude, out=magnitude)
    _polynomial(magnitude, _P, near)
    np.multiply(near, x, out=near)
    scratch.rewind(mark)
    select(is_near, near, far, out=out, scratch=scratch)


def _polynomial(x: Array, coefficients: tuple[float, ...], out: Array) -> None:
    out.fill(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        np.multiply(out, x, out=out)
        np.add(out, np.float32(coefficient), out=out)
