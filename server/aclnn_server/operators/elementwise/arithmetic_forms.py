"""Further forms of arithmetic: reversed, with a number in place of a tensor, bounded, and in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.errors import NullPointerError
from aclnn_server.operators.checking.checks import (
    Broadcasts,
    Holds,
    NotNull,
    RankUpTo,
    TypeIn,
)
from aclnn_server.operators.definition import Call, Family, Work, prototype
from aclnn_server.operators.elementwise import arithmetic, arithmetic_kernels
from aclnn_server.operators.elementwise.arithmetic_rows import Row
from aclnn_server.operators.engines.blocks import Kernel
from aclnn_server.operators.engines.common_type import CommonType, Meets
from aclnn_server.operators.engines.pointwise import (
    COMPLEX,
    DOCUMENTED,
    FLOATS,
    INTEGERS,
    REAL,
    WRAPS,
    Pointwise,
    fixed,
    number,
    ufunc,
)
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]
DType = np.dtype[Any]

ARITHMETIC_FORMS = Family()

_NUMBERS = (*FLOATS, dtypes.DOUBLE, *INTEGERS, *COMPLEX)
_BOUNDED = (*FLOATS, dtypes.DOUBLE, *INTEGERS)
_NAN = "NaN in any input gives NaN."


# --- differences the other way round ----------------------------------------------------------------


def _less(x: Array, y: Any, *, out: Array) -> None:  # noqa: ANN401 - an array or a NumPy scalar
    """y - x."""
    np.subtract(y, x, out=out)


def _reversed_difference(call: Call, dtype: DType) -> Kernel:
    """other - alpha * self."""
    alpha = number(call["alpha"], dtype)
    if alpha == 1:
        return ufunc(_less)

    def kernel(x: Array, y: Array, *, out: Array, scratch: Scratch) -> None:
        product = scratch.like(out)
        np.multiply(x, alpha, out=product)
        np.subtract(y, product, out=out)

    return kernel


def _difference_from_number(call: Call, dtype: DType) -> Kernel:
    """A number - alpha * self."""
    alpha, whole = number(call["alpha"], dtype), number(call["other"], dtype)
    if alpha == 1:
        return arithmetic_kernels.with_number(_less, whole)

    def kernel(x: Array, *, out: Array, scratch: Scratch) -> None:
        np.multiply(x, alpha, out=out)
        np.subtract(whole, out, out=out)

    return kernel


RSUB = Row(
    "Rsub",
    "Difference of two tensors the other way round, the first scaled.",
    "out = other - alpha \\cdot self",
    _reversed_difference,
    ("self", "other"),
    "ops-math, math/sub",
    follows=("alpha",),
    types=_NUMBERS,
    notes=(WRAPS,),
    python="rsub",
    defaults={"alpha": 1},
)
RSUBS = Row(
    "Rsubs",
    "Difference of a number and a tensor, the latter scaled.",
    "out = other - alpha \\cdot self",
    _difference_from_number,
    ("self",),
    "ops-math, math/sub",
    scalars=("other",),
    follows=("alpha",),
    types=_NUMBERS,
    notes=(WRAPS,),
    python="rsubs",
    defaults={"other": 1, "alpha": 1},
)


# --- interpolation and powers -----------------------------------------------------------------------


LERPS = Row(
    "Lerps",
    "Linear interpolation between two tensors, by a number.",
    "out = self + weight \\cdot (end - self)",
    arithmetic_kernels.lerp_by_number,
    ("self", "end"),
    "ops-math, math/lerp",
    follows=("weight",),
    types=FLOATS,
    out_types=FLOATS,
    origin=DOCUMENTED,
    python="lerps",
    defaults={"weight": 0.5},
)


def _power_of_base(call: Call, dtype: DType) -> Kernel:
    """A number ** exponent."""
    base = np.array(number(call["self"], dtype))

    def kernel(exponent: Array, *, out: Array, scratch: Scratch) -> None:
        arithmetic_kernels.power(
            np.broadcast_to(base, exponent.shape), exponent, out=out, scratch=scratch
        )

    return kernel


def _check_not_truth(call: Call) -> None:
    if {call["self"].dtype, call["exponent"].dtype} == {dtypes.BOOL}:
        raise call.invalid("exponent", "self and exponent are BOOL both")


POW_SCALAR_TENSOR = Row(
    "PowScalarTensor",
    "Powers of a number, with a tensor's elements as exponents.",
    "out = self^{exponent}",
    _power_of_base,
    ("exponent",),
    "ops-math, math/pow",
    scalars=("self",),
    scalars_first=True,
    extra=(Holds("self and exponent are not BOOL both", _check_not_truth),),
    const_out=True,
    origin=DOCUMENTED,
    notes=(WRAPS, "A negative power of an integer is its reciprocal rounded to 0; of 0 it is 0."),
)


# --- bounds -----------------------------------------------------------------------------------------

CLAMP_MIN = Row(
    "ClampMin",
    "Elements of a tensor, at least a number.",
    "out = \\max(self, clipValueMin)",
    arithmetic_kernels.with_scalar(np.maximum, "clipValueMin"),
    ("self",),
    "ops-math, conversion/clip_by_value",
    scalars=("clipValueMin",),
    types=_BOUNDED,
    notes=(_NAN,),
    origin=DOCUMENTED,
    python="clamp_min",
    defaults={"clipValueMin": 0},
)
CLAMP_MIN_TENSOR = Row(
    "ClampMinTensor",
    "Elements of a tensor, at least those of another.",
    "out = \\max(self, clipValueMin)",
    fixed(ufunc(np.maximum)),
    ("self", "clipValueMin"),
    "ops-math, conversion/clip_by_value",
    types=_BOUNDED,
    notes=(_NAN,),
    origin=DOCUMENTED,
    python="clamp_min_tensor",
)
CLAMP_MAX_TENSOR = Row(
    "ClampMaxTensor",
    "Elements of a tensor, at most those of another.",
    "out = \\min(self, max)",
    fixed(ufunc(np.minimum)),
    ("self", "max"),
    "ops-math, conversion/clip_by_value",
    types=_BOUNDED,
    notes=(_NAN,),
    origin=DOCUMENTED,
    python="clamp_max_tensor",
)

for _row in (RSUB, RSUBS, LERPS, POW_SCALAR_TENSOR, CLAMP_MIN, CLAMP_MIN_TENSOR, CLAMP_MAX_TENSOR):
    _row.define(ARITHMETIC_FORMS)

arithmetic.CLAMP_MAX.define_in_place(ARITHMETIC_FORMS, const=True)
for _row in (
    LERPS,
    CLAMP_MIN_TENSOR,
    CLAMP_MAX_TENSOR,
    arithmetic.LERP,
    arithmetic.SUBS,
    arithmetic.DIVS,
):
    _row.define_in_place(ARITHMETIC_FORMS, const=False)
for _row in (arithmetic.POW_SCALAR, arithmetic.POW):
    _row.define_in_place(ARITHMETIC_FORMS, const=True, ref="self")

_BOUNDS = ("clipValueMin", "clipValueMax")


def _check_bounds(call: Call) -> None:
    given = [name for name in _BOUNDS if call[name] is not None]
    if not given:
        raise call.invalid(
            "clipValueMin", "clipValueMin and clipValueMax are null pointers both", NullPointerError
        )
    TypeIn(tuple(given), REAL)(call)
    Meets(CommonType(("self", *given)), "out")(call)
    Broadcasts(("self", *given), to="out")(call)


def _clamp_between(*arrays: Array, out: Array, scratch: Scratch) -> None:
    x, low, high = arrays
    np.clip(x, low, high, out=out)


@ARITHMETIC_FORMS.operator(
    prototype(
        "aclnnClampTensor",
        "const aclTensor* self, const aclTensor* clipValueMin, const aclTensor* clipValueMax, "
        "aclTensor* out",
    ),
    outputs=("out",),
    optional=_BOUNDS,
    checks=(
        NotNull(("self", "out")),
        TypeIn(("self",), REAL),
        RankUpTo(("self",)),
        Holds(
            "clipValueMin and clipValueMax are not null both, meet self in a type, and broadcast with it "
            "to out",
            _check_bounds,
        ),
    ),
)
def clamp_tensor(call: Call) -> Work:
    """Elements of a tensor, moved between those of two others.

    $$out = \\min(\\max(self, clipValueMin), clipValueMax)$$

    - A bound that is null does not bound; where the bounds cross, the upper one holds.
    - NaN in any input gives NaN.
    - FLOAT16 and BF16 are computed in FLOAT, rounded once to the common type of the inputs, then cast to the
      type of the output.
    - Inputs broadcast to exactly the shape of the output, and may be strided, as it may.

    Source: the public documentation of aclnnClampTensor (hicann/ops-math, conversion/clip_by_value).
    """
    names = tuple(name for name in ("self", *_BOUNDS) if call[name] is not None)
    one: Callable[..., Any] = np.minimum if "clipValueMax" in names else np.maximum
    kernel: Kernel = _clamp_between if len(names) == 3 else ufunc(one)
    return Pointwise(names, "out", CommonType(names), fixed(kernel))(call)
