"""Quotients that are rounded down, and what is left over by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.promotion import promote_float
from aclnn.pythonic import Result
from aclnn_server.operators.checking.checks import (
    Broadcasts,
    NotNull,
    OneOf,
    RankUpTo,
    SameShape,
    TypeIn,
    broadcast_shape,
)
from aclnn_server.operators.definition import Call, Check, Family, OneLine, Work, prototype
from aclnn_server.operators.elementwise.arithmetic_kernels import quotient, with_scalar
from aclnn_server.operators.elementwise.arithmetic_rows import Row
from aclnn_server.operators.engines.blocks import Kernel, Types, elementwise
from aclnn_server.operators.engines.common_type import CommonType, Meets
from aclnn_server.operators.engines.pointwise import (
    DOCUMENTED,
    FLOATS,
    INTEGERS,
    REAL,
    fixed,
    number,
    ufunc,
)
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]
DType = np.dtype[Any]

REMAINDERS = Family()

_DIVIDED = (*FLOATS, dtypes.DOUBLE, *INTEGERS)
_REMAINED = (*FLOATS, dtypes.DOUBLE, dtypes.INT32, dtypes.INT64)
_MODULAR = (*_REMAINED, dtypes.INT8, dtypes.UINT8)
_MODES = {"none": 0, "trunc": 1, "floor": 2}
_ZERO = "Of integers, x / 0 is 0."
_LEFT_OVER = "Of integers, what x / 0 leaves is 0."


def _with_divisor(mode: int) -> Any:  # noqa: ANN401 - KernelOf
    """self / a number, rounded as a mode says."""

    def make(call: Call, dtype: DType) -> Kernel:
        return _by_number(quotient(dtype, mode), number(call["other"], dtype))

    return make


def _by_number(kernel: Kernel, divisor: Any) -> Kernel:  # noqa: ANN401 - a NumPy scalar
    """A kernel of two arrays, with a number as the second."""
    other = np.array([divisor])

    def of_one(x: Array, *, out: Array, scratch: Scratch) -> None:
        kernel(x, np.broadcast_to(other, x.shape), out=out, scratch=scratch)

    return of_one


FLOOR_DIVIDE = Row(
    "FloorDivide",
    "Quotient of two tensors, rounded down.",
    "out = \\lfloor self / other \\rfloor",
    lambda _call, dtype: quotient(dtype, 2),
    ("self", "other"),
    "ops-math, math/floor_div",
    types=_DIVIDED,
    notes=(_ZERO,),
    python="floor_divide",
)
FLOOR_DIVIDES = Row(
    "FloorDivides",
    "Quotient of a tensor and a number, rounded down.",
    "out = \\lfloor self / other \\rfloor",
    _with_divisor(2),
    ("self",),
    "ops-math, math/floor_div",
    scalars=("other",),
    types=_DIVIDED,
    notes=(_ZERO,),
    python="floor_divides",
    defaults={"other": 1},
)
REMAINDER = Row(
    "RemainderTensorTensor",
    "What a division that is rounded down leaves, of two tensors.",
    "out = self - \\lfloor self / other \\rfloor \\cdot other",
    fixed(ufunc(np.remainder)),
    ("self", "other"),
    "ops-math, math/floor_mod",
    types=REAL,
    within=_REMAINED,
    notes=("It has the sign of other.", _LEFT_OVER),
    python="remainder",
)
REMAINDER_OF_NUMBER = Row(
    "RemainderTensorScalar",
    "What a division that is rounded down leaves, of a tensor and a number.",
    "out = self - \\lfloor self / other \\rfloor \\cdot other",
    with_scalar(np.remainder),
    ("self",),
    "ops-math, math/floor_mod",
    scalars=("other",),
    types=REAL,
    within=_REMAINED,
    notes=("It has the sign of other.", _LEFT_OVER),
    python="remainder_scalar",
    defaults={"other": 1},
)


def _number_divided(call: Call, dtype: DType) -> Kernel:
    """What self, a number, leaves."""
    whole = number(call["self"], dtype)

    def kernel(x: Array, *, out: Array, scratch: Scratch) -> None:
        np.remainder(whole, x, out=out)

    return kernel


NUMBER_DIVIDED = Row(
    "RemainderScalarTensor",
    "What a division that is rounded down leaves, of a number and a tensor.",
    "out = self - \\lfloor self / other \\rfloor \\cdot other",
    _number_divided,
    ("other",),
    "ops-math, math/floor_mod",
    scalars=("self",),
    scalars_first=True,
    types=REAL,
    within=_REMAINED,
    notes=("It has the sign of other.", _LEFT_OVER),
)
FMOD = Row(
    "FmodTensor",
    "What a division that is rounded to 0 leaves, of two tensors.",
    "out = self - trunc(self / other) \\cdot other",
    fixed(ufunc(np.fmod)),
    ("self", "other"),
    "ops-math, math/mod",
    types=_MODULAR,
    out_types=_MODULAR,
    within=_MODULAR,
    notes=("It has the sign of self.", _LEFT_OVER),
    python="fmod",
)
FMOD_OF_NUMBER = Row(
    "FmodScalar",
    "What a division that is rounded to 0 leaves, of a tensor and a number.",
    "out = self - trunc(self / other) \\cdot other",
    with_scalar(np.fmod),
    ("self",),
    "ops-math, math/mod",
    scalars=("other",),
    types=_MODULAR,
    out_types=_MODULAR,
    within=_MODULAR,
    notes=("It has the sign of self.", _LEFT_OVER),
    origin=DOCUMENTED,
    python="fmod_scalar",
    defaults={"other": 1},
)

for _row in (FLOOR_DIVIDE, FLOOR_DIVIDES, REMAINDER, REMAINDER_OF_NUMBER, FMOD, FMOD_OF_NUMBER):
    _row.define(REMAINDERS)
    _row.define_in_place(REMAINDERS, const=False)
NUMBER_DIVIDED.define(REMAINDERS)


# --- aclnnDivMods, and aclnnDivMod and it in place --------------------------------------------------


def _computed(call: Call, tensors: tuple[str, ...], scalars: tuple[str, ...]) -> Types:
    common = CommonType(tensors, scalars).known(call)
    if call["mode"] == 0 or common is dtypes.BOOL:
        common = promote_float(common)
    return Types.of(common)


def _define(name: str, *, in_place: bool, of_number: bool) -> None:
    """Adds one form."""
    own = "selfRef" if in_place else "self"
    out = own if in_place else "out"
    tensors = (own,) if of_number else (own, "other")
    scalars = ("other",) if of_number else ()
    first = f"aclTensor* {own}" if in_place else f"const aclTensor* {own}"
    last = "" if in_place else f", aclTensor* {out}"
    kind = "aclScalar" if of_number else "aclTensor"

    def plan(call: Call) -> Work:
        types = _computed(call, tensors, scalars)
        kernel = quotient(types.computed, call["mode"])
        if of_number:
            kernel = _by_number(kernel, number(call["other"], types.computed))
        return elementwise(call, kernel, tensors, out, broadcast_shape(call, tensors), types)

    shape: Check = SameShape((out,), own) if of_number else Broadcasts(tensors, to=out)
    REMAINDERS.add(
        prototype(name, f"{first}, const {kind}* other, int mode{last}"),
        plan,
        f"""Quotient of a tensor and {"a number" if of_number else "another"}, rounded if that is asked for.

        $${out} = \\begin{{cases}} {own} / other & mode = 0 \\\\ trunc({own} / other) & mode = 1 \\\\
        \\lfloor {own} / other \\rfloor & mode = 2 \\end{{cases}}$$

        - Mode 0 computes integers and BOOL in FLOAT; modes 1 and 2 keep integers, and compute BOOL in FLOAT.
        - Of integers, x / 0 is 0 with mode 1 and 2.
        - FLOAT16 and BF16 are computed in FLOAT, rounded once to the common type of the inputs, then cast
          to the type of {out}.

        Source: the public documentation of {name} (hicann/ops-math, math/div).
        """,
        outputs=(out,),
        checks=(
            NotNull(tuple(dict.fromkeys((own, "other", out)))),
            TypeIn(tensors, REAL),
            OneOf("mode", _MODES),
            Meets(CommonType(tensors, scalars), out),
            RankUpTo(tensors),
            shape,
        ),
        python=None
        if in_place
        else OneLine(
            "div_mods",
            {"other": 1, "mode": "none"},
            {"mode": _MODES},
            Result("broadcast", "floating", scalars),
        ),
    )


_define("aclnnDivMods", in_place=False, of_number=True)
_define("aclnnInplaceDivMods", in_place=True, of_number=True)
_define("aclnnInplaceDivMod", in_place=True, of_number=False)
