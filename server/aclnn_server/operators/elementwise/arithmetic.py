"""Arithmetic of tensors and numbers: sums, products, quotients, powers, extremes and bounds."""

from __future__ import annotations

import numpy as np

from aclnn import codes, dtypes
from aclnn.errors import NullPointerError
from aclnn.promotion import promote_float
from aclnn.pythonic import Result
from aclnn_server.operators.checking.checks import (
    Broadcasts,
    Holds,
    NotNull,
    OneOf,
    RankUpTo,
    TypeIn,
    broadcast_shape,
)
from aclnn_server.operators.definition import Call, Family, OneLine, Work
from aclnn_server.operators.elementwise import arithmetic_kernels as kernels
from aclnn_server.operators.elementwise.arithmetic_rows import Row
from aclnn_server.operators.engines.blocks import Types, elementwise
from aclnn_server.operators.engines.common_type import CommonType, Meets
from aclnn_server.operators.engines.pointwise import FLOATS, NUMBERS, REAL, WRAPS, fixed, ufunc

ARITHMETIC = Family()

_TWO = ("self", "other")
_THREE = ("self", "tensor1", "tensor2")
_MODES = {"none": 0, "trunc": 1, "floor": 2}
_QUOTIENTS = (*FLOATS, dtypes.DOUBLE, dtypes.INT64)
_PRODUCTS = (*_QUOTIENTS, dtypes.INT8, dtypes.INT32, dtypes.UINT8)
_BOUNDED = (*_PRODUCTS, dtypes.INT16)
_POWER = CommonType(("self",), ("exponent",))
_SUM_NOTES = (WRAPS, "BOOL: a sum is the logical or, a difference the exclusive or.")
_NAN = "NaN in any input gives NaN."
_LOWER_KIND = "other counts in the common type only where it is of a higher kind than self."


def _check_a_bound(call: Call) -> None:
    if call["clipValueMin"] is None and call["clipValueMax"] is None:
        raise call.invalid(
            "clipValueMin",
            "clipValueMin and clipValueMax are null pointers both",
            NullPointerError,
        )


def _check_bases(call: Call) -> None:
    if {call["self"].dtype, call["exponent"].dtype} == {dtypes.BOOL}:
        raise call.invalid("exponent", "self and exponent are BOOL both")


def _check_exponent(call: Call) -> None:
    whole = _POWER.known(call).kind in ("signed", "unsigned")
    if whole and call["exponent"].value < 0:
        raise call.invalid(
            "exponent", f"exponent is {call['exponent'].value}; integers have no negative powers"
        )


_BASES = Holds("self and exponent are not BOOL both", _check_bases)

ADD = Row(
    "Add",
    "Sum of two tensors, the second scaled.",
    "out = self + alpha \\cdot other",
    kernels.scaled(np.add, np.logical_or),
    _TWO,
    "ops-math, math/add",
    follows=("alpha",),
    notes=_SUM_NOTES,
    python="add",
    defaults={"alpha": 1},
)
ADDS = Row(
    "Adds",
    "Sum of a tensor and a number, the latter scaled.",
    "out = self + alpha \\cdot other",
    kernels.scaled_number(np.add, np.logical_or),
    ("self",),
    "ops-math, math/add",
    scalars=("other",),
    follows=("alpha",),
    notes=(*_SUM_NOTES, _LOWER_KIND),
    python="adds",
    defaults={"other": 1, "alpha": 1},
)
SUB = Row(
    "Sub",
    "Difference of two tensors, the second scaled.",
    "out = self - alpha \\cdot other",
    kernels.scaled(np.subtract, np.logical_xor),
    _TWO,
    "ops-math, math/sub",
    follows=("alpha",),
    notes=_SUM_NOTES,
    python="sub",
    defaults={"alpha": 1},
)
SUBS = Row(
    "Subs",
    "Difference of a tensor and a number, the latter scaled.",
    "out = self - alpha \\cdot other",
    kernels.scaled_number(np.subtract, np.logical_xor),
    ("self",),
    "ops-math, math/sub",
    scalars=("other",),
    follows=("alpha",),
    notes=(*_SUM_NOTES, _LOWER_KIND),
    python="subs",
    defaults={"other": 1, "alpha": 1},
)
MUL = Row(
    "Mul",
    "Product of two tensors.",
    "out = self \\cdot other",
    fixed(ufunc(np.multiply)),
    _TWO,
    "ops-math, math/mul",
    out_types=NUMBERS,
    notes=(WRAPS, "BOOL: the logical and."),
    python="mul",
)
MULS = Row(
    "Muls",
    "Product of a tensor and a number.",
    "out = self \\cdot other",
    kernels.with_scalar(np.multiply),
    ("self",),
    "ops-math, math/mul",
    scalars=("other",),
    out_types=NUMBERS,
    ranked=False,
    notes=(WRAPS, _LOWER_KIND),
    python="muls",
    defaults={"other": 1},
)
DIV = Row(
    "Div",
    "Quotient of two tensors.",
    "out = \\frac{self}{other}",
    fixed(ufunc(np.divide)),
    _TWO,
    "ops-math, math/div",
    floating=True,
    plain=True,
    python="div",
)
DIVS = Row(
    "Divs",
    "Quotient of a tensor and a number.",
    "out = \\frac{self}{other}",
    kernels.with_scalar(np.divide),
    ("self",),
    "ops-math, math/div",
    scalars=("other",),
    floating=True,
    notes=(_LOWER_KIND,),
    python="divs",
    defaults={"other": 1},
)
ADDCMUL = Row(
    "Addcmul",
    "A tensor plus the scaled product of two others.",
    "out = self + value \\cdot tensor1 \\cdot tensor2",
    kernels.add_product,
    _THREE,
    "ops-math, math/addcmul",
    follows=("value",),
    types=_PRODUCTS,
    plain=True,
    notes=(WRAPS,),
    python="addcmul",
    defaults={"value": 1},
)
ADDCDIV = Row(
    "Addcdiv",
    "A tensor plus the scaled quotient of two others.",
    "out = self + value \\cdot \\frac{tensor1}{tensor2}",
    kernels.add_quotient,
    _THREE,
    "ops-math, math/addcdiv",
    follows=("value",),
    types=_QUOTIENTS,
    const_out=True,
    notes=("Of INT64, the quotient of value * tensor1 and tensor2 is rounded to 0.",),
    python="addcdiv",
    defaults={"value": 1},
)
LERP = Row(
    "Lerp",
    "Linear interpolation between two tensors.",
    "out = self + weight \\cdot (end - self)",
    fixed(kernels.lerp),
    ("self", "end", "weight"),
    "ops-math, math/lerp",
    types=FLOATS,
    out_types=FLOATS,
    ranked=False,
    python="lerp",
)
POW_SCALAR = Row(
    "PowTensorScalar",
    "Powers of a tensor's elements, with a number as the exponent.",
    "out = self^{exponent}",
    kernels.power_of_number,
    ("self",),
    "ops-math, math/pow",
    scalars=("exponent",),
    extra=(_BASES, Holds("integers have no negative exponent", _check_exponent)),
    const_out=True,
    notes=(WRAPS,),
    python="pow_scalar",
    defaults={"exponent": 2},
)
POW = Row(
    "PowTensorTensor",
    "Powers of a tensor's elements.",
    "out = self^{exponent}",
    fixed(kernels.power),
    ("self", "exponent"),
    "ops-math, math/pow",
    extra=(_BASES,),
    notes=(WRAPS, "A negative power of an integer is its reciprocal rounded to 0; of 0 it is 0."),
    python="pow",
)
MAXIMUM = Row(
    "Maximum",
    "The larger of two tensors' elements.",
    "out = \\max(self, other)",
    lambda _call, dtype: ufunc(kernels.maximum(dtype)),
    _TWO,
    "ops-math, math/maximum",
    types=REAL,
    out_types=REAL,
    notes=(_NAN,),
    python="maximum",
)
MINIMUM = Row(
    "Minimum",
    "The smaller of two tensors' elements.",
    "out = \\min(self, other)",
    lambda _call, dtype: ufunc(kernels.minimum(dtype)),
    _TWO,
    "ops-math, math/minimum",
    types=REAL,
    out_types=REAL,
    notes=(_NAN,),
    python="minimum",
)
CLAMP = Row(
    "Clamp",
    "Elements of a tensor, moved between two bounds.",
    "out = \\min(\\max(self, clipValueMin), clipValueMax)",
    kernels.clamp,
    ("self",),
    "ops-math, conversion/clip_by_value",
    scalars=("clipValueMin", "clipValueMax"),
    types=_BOUNDED,
    optional=("clipValueMin", "clipValueMax"),
    extra=(
        Holds(
            "clipValueMin and clipValueMax are not null both",
            _check_a_bound,
            codes.ACLNN_ERR_PARAM_NULLPTR,
        ),
    ),
    notes=(
        "A bound that is null does not bound; where the bounds cross, the upper one holds.",
        _NAN,
    ),
    python="clamp",
    defaults={"clipValueMin": None, "clipValueMax": None},
)
CLAMP_MAX = Row(
    "ClampMax",
    "Elements of a tensor, at most a number.",
    "out = \\min(self, clipValueMax)",
    kernels.with_scalar(np.minimum, "clipValueMax"),
    ("self",),
    "ops-math, conversion/clip_by_value",
    scalars=("clipValueMax",),
    types=_BOUNDED,
    notes=(_NAN,),
    python="clamp_max",
    defaults={"clipValueMax": 0},
)

ROWS = (
    ADD, ADDS, SUB, SUBS, MUL, MULS, DIV, DIVS, ADDCMUL, ADDCDIV, LERP, POW_SCALAR, POW, MAXIMUM,
    MINIMUM, CLAMP, CLAMP_MAX,
)  # fmt: skip
for _row in ROWS:
    _row.define(ARITHMETIC)
for _row in (ADD, ADDS, ADDCMUL, ADDCDIV):
    _row.define_in_place(ARITHMETIC, const=True)
for _row in (SUB, MUL, MULS, DIV):
    _row.define_in_place(ARITHMETIC, const=False)


def _check_kind(call: Call) -> None:
    if call["mode"] != 0 and any(spec.dtype.kind == "complex" for spec in call.tensors(_TWO)):
        raise call.invalid(
            "mode", f"mode is {call['mode']}; complex numbers are divided with mode 0 only"
        )


@ARITHMETIC.operator(
    """
    aclnnStatus aclnnDivModGetWorkspaceSize(
        const aclTensor* self, const aclTensor* other, int mode, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull((*_TWO, "out")),
        TypeIn(_TWO, NUMBERS),
        OneOf("mode", _MODES),
        Meets(CommonType(_TWO), "out"),
        Holds("complex numbers are divided with mode 0", _check_kind),
        RankUpTo(_TWO),
        Broadcasts(_TWO, to="out"),
    ),
    python=OneLine("div_mod", {"mode": "none"}, {"mode": _MODES}, Result("broadcast", "floating")),
)
def div_mod(call: Call) -> Work:
    """Quotient of two tensors, rounded to 0 or down where that is asked for.

    $$out = \\begin{cases} self / other & mode = 0 \\\\ trunc(self / other) & mode = 1 \\\\
    \\lfloor self / other \\rfloor & mode = 2 \\end{cases}$$

    - Mode 0 computes integers and BOOL in FLOAT; modes 1 and 2 keep integers, and compute BOOL in FLOAT.
    - Of integers, x / 0 is 0 with mode 1 and 2.
    - FLOAT16 and BF16 are computed in FLOAT, rounded once to the common type of the inputs, then cast
      to the type of the output.
    - Inputs broadcast to exactly the shape of the output, and may be strided, as it may.

    Source: the public documentation of aclnnDivMod, and for the order of checks its host code
    (hicann/ops-math, math/div).
    """
    common = CommonType(_TWO).known(call)
    if call["mode"] == 0 or common is dtypes.BOOL:
        common = promote_float(common)
    types = Types.of(common)
    kernel = kernels.quotient(types.computed, call["mode"])
    return elementwise(call, kernel, _TWO, "out", broadcast_shape(call, _TWO), types)
