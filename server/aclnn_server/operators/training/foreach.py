"""Arithmetic on lists of tensors, place by place, as optimisers do it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn_server.operators.checking.checks import Holds, NotNull, TypeIn
from aclnn_server.operators.definition import Call, Check, Family, Work, prototype
from aclnn_server.operators.elementwise import arithmetic_kernels as kernels
from aclnn_server.operators.engines.blocks import Kernel
from aclnn_server.operators.engines.common_type import CommonType
from aclnn_server.operators.engines.copies import constant, copy, fill, movement
from aclnn_server.operators.engines.folds import Norm, exponent_of
from aclnn_server.operators.engines.lists import ListsAlike, ListTypeIn, each
from aclnn_server.operators.engines.pointwise import (
    FLOATS,
    KernelOf,
    Pointwise,
    described,
    fixed,
    number,
    ufunc,
)
from aclnn_server.operators.engines.threads import Scratch
from aclnn_server.operators.reductions.reductions import plan_reduction

Array = npt.NDArray[Any]
Names = tuple[str, ...]

FOREACH = Family()

_WITH_WHOLE = (*FLOATS, dtypes.INT32)
_PAIR = ("x1", "x2")
_THREE = ("x1", "x2", "x3")
_ROUNDED = "FLOAT16 and BF16 are computed in FLOAT and rounded once. out may be the same memory as an input."
_SOURCE = "the public documentation of {0} (hicann/ops-nn, foreach)"


@dataclass(frozen=True, slots=True)
class Row:
    """An operator out_i = f(lists_i, a number)."""

    name: str
    """C name without the aclnnForeach prefix."""
    summary: str
    formula: str
    """Right side, in LaTeX."""
    lists: Names
    kernel: KernelOf
    types: tuple[DType, ...] = FLOATS
    number: str = ""
    """Name of the number."""
    kind: str = "aclScalar"
    """C type of the number: aclScalar, aclScalarList, or aclTensor."""

    def define(self) -> None:
        """Adds the operator."""
        name = f"aclnnForeach{self.name}"
        rows = [f"const aclTensorList* {row}" for row in self.lists]
        rows += [f"const {self.kind}* {self.number}"] if self.number else []
        of_tensor = self.number and self.kind == "aclTensor"
        split = self.number if of_tensor else ""
        inputs = (*self.lists, split) if split else self.lists
        plan = Pointwise(inputs, "out", CommonType(self.lists[:1]), self.kernel)
        FOREACH.add(
            prototype(name, ", ".join([*rows, "aclTensorList* out"])),
            each(plan, self.lists[0], split),
            described(
                self.summary,
                f"out_i = {self.formula}",
                _ROUNDED,
                source=_SOURCE.format(name),
            ),
            outputs=("out",),
            checks=self._checks(),
        )

    def _checks(self) -> tuple[Check, ...]:
        pointers = (*self.lists, *([self.number] if self.number else []), "out")
        checks: list[Check] = [
            NotNull(pointers),
            ListTypeIn(self.lists, self.types),
            ListsAlike((*self.lists, "out")),
        ]
        if self.kind == "aclTensor" and self.number:
            checks += [
                TypeIn((self.number,), (*_WITH_WHOLE, dtypes.DOUBLE)),
                Holds(f"{self.number} has one element, or one for each place", self._check_count),
            ]
        if self.kind == "aclScalarList":
            checks.append(Holds(f"{self.number} has a number for each place", self._check_numbers))
        return tuple(checks)

    def _check_count(self, call: Call) -> None:
        spec, count = call.tensor(self.number), len(call[self.lists[0]])
        if spec.elements != 1 and spec.shape != (count,):
            raise call.invalid(
                self.number,
                f"{self.number} has shape {list(spec.shape)}; it must have one element, or [{count}]",
            )

    def _check_numbers(self, call: Call) -> None:
        found, count = len(call[self.number]), len(call[self.lists[0]])
        if found != count:
            raise call.invalid(
                self.number,
                f"{self.number} has {found} numbers; it must have {count}, as x has tensors",
            )


def _by_number(function: Any, name: str) -> KernelOf:  # noqa: ANN401 - a NumPy ufunc
    return kernels.with_scalar(function, name)


def _scaled(function: Any) -> KernelOf:  # noqa: ANN401
    """f(x1, alpha * x2), alpha a tensor of one element."""

    def kernel(x: Array, y: Array, alpha: Array, *, out: Array, scratch: Scratch) -> None:
        product = scratch.like(out)
        np.multiply(y, alpha, out=product)
        function(x, product, out=out)

    return fixed(kernel)


def _share_of_number(function: Any) -> KernelOf:  # noqa: ANN401
    """x1 + scalar * f(x2, x3)."""
    return lambda call, dtype: kernels.add_scaled(function, number(call["scalar"], dtype))


def _share_of_tensor(function: Any) -> KernelOf:  # noqa: ANN401
    """The same with a tensor of one element for the number."""

    def kernel(x: Array, y: Array, z: Array, value: Array, *, out: Array, scratch: Scratch) -> None:
        share = scratch.like(out)
        function(y, z, out=share)
        np.multiply(share, value, out=share)
        np.add(x, share, out=out)

    return fixed(kernel)


def _power(call: Call, dtype: np.dtype[Any]) -> Kernel:
    return kernels.with_number(np.power, number(call["scalar"], dtype))


def _rows_of_one_function(
    word: str, verb: str, sign: str, function: np.ufunc, types: tuple[DType, ...]
) -> tuple[Row, ...]:
    """With a number, a number for each place, and the number in a tensor."""
    formula = f"x_i {sign} "
    kernel = fixed(ufunc(function))
    return (
        Row(
            f"{word}ScalarV2",
            f"{verb} a number, place by place.",
            f"{formula}scalar",
            ("x",),
            _by_number(function, "scalar"),
            types,
            "scalar",
        ),
        Row(
            f"{word}Scalar",
            f"{verb} the number in a tensor, place by place.",
            f"{formula}scalar",
            ("x",),
            kernel,
            types,
            "scalar",
            "aclTensor",
        ),
        Row(
            f"{word}ScalarList",
            f"{verb} a number of their own, place by place.",
            f"{formula}scalars_i",
            ("x",),
            _by_number(function, "scalars"),
            types,
            "scalars",
            "aclScalarList",
        ),
    )


ROWS = (
    *_rows_of_one_function("Add", "Tensors plus", "+", np.add, _WITH_WHOLE),
    *_rows_of_one_function("Sub", "Tensors minus", "-", np.subtract, _WITH_WHOLE),
    *_rows_of_one_function("Mul", "Tensors times", "\\cdot", np.multiply, _WITH_WHOLE),
    *_rows_of_one_function("Div", "Tensors by", "/", np.divide, FLOATS),
    Row(
        "AddListV2",
        "Sums of two lists' tensors, the second scaled by a number.",
        "x1_i + alpha \\cdot x2_i",
        _PAIR,
        kernels.scaled(np.add, np.logical_or),
        _WITH_WHOLE,
        "alpha",
    ),
    Row(
        "AddList",
        "Sums of two lists' tensors, the second scaled by the number in a tensor.",
        "x1_i + alpha \\cdot x2_i",
        _PAIR,
        _scaled(np.add),
        _WITH_WHOLE,
        "alpha",
        "aclTensor",
    ),
    Row(
        "SubListV2",
        "Differences of two lists' tensors, the second scaled by a number.",
        "x1_i - alpha \\cdot x2_i",
        _PAIR,
        kernels.scaled(np.subtract, np.logical_xor),
        _WITH_WHOLE,
        "alpha",
    ),
    Row(
        "MulList",
        "Products of two lists' tensors.",
        "x1_i \\cdot x2_i",
        _PAIR,
        fixed(ufunc(np.multiply)),
        _WITH_WHOLE,
    ),
    Row(
        "DivList",
        "Quotients of two lists' tensors.",
        "x1_i / x2_i",
        _PAIR,
        fixed(ufunc(np.divide)),
    ),
    Row(
        "MaximumList",
        "The larger of two lists' elements.",
        "\\max(x1_i, x2_i)",
        _PAIR,
        fixed(ufunc(np.maximum)),
        _WITH_WHOLE,
    ),
    Row(
        "MinimumList",
        "The smaller of two lists' elements.",
        "\\min(x1_i, x2_i)",
        _PAIR,
        fixed(ufunc(np.minimum)),
        _WITH_WHOLE,
    ),
    Row(
        "MaximumScalarV2",
        "Elements of a list's tensors, at least a number.",
        "\\max(x_i, scalar)",
        ("x",),
        _by_number(np.maximum, "scalar"),
        _WITH_WHOLE,
        "scalar",
    ),
    Row(
        "MinimumScalarV2",
        "Elements of a list's tensors, at most a number.",
        "\\min(x_i, scalar)",
        ("x",),
        _by_number(np.minimum, "scalar"),
        _WITH_WHOLE,
        "scalar",
    ),
    Row(
        "PowScalarV2",
        "Powers of a list's tensors, with a number as the exponent.",
        "x_i^{scalar}",
        ("x",),
        _power,
        number="scalar",
    ),
    *(
        row
        for word, verb, sign, function in (
            ("Addcmul", "products", "\\cdot", np.multiply),
            ("Addcdiv", "quotients", "/", np.divide),
        )
        for row in (
            Row(
                f"{word}ScalarV2",
                f"Tensors plus the {verb} of two other lists', scaled by a number.",
                f"x1_i + scalar \\cdot (x2_i {sign} x3_i)",
                _THREE,
                _share_of_number(function),
                number="scalar",
            ),
            Row(
                f"{word}Scalar",
                f"Tensors plus the {verb} of two other lists', scaled by the number in a tensor.",
                f"x1_i + scalar \\cdot (x2_i {sign} x3_i)",
                _THREE,
                _share_of_tensor(function),
                number="scalar",
                kind="aclTensor",
            ),
            Row(
                f"{word}ScalarList",
                f"Tensors plus the {verb} of two other lists', scaled by an element of a tensor each.",
                f"x1_i + scalars_i \\cdot (x2_i {sign} x3_i)",
                _THREE,
                _share_of_tensor(function),
                number="scalars",
                kind="aclTensor",
            ),
        )
    ),
    Row(
        "LerpScalar",
        "Linear interpolation between two lists' tensors, by a number.",
        "x1_i + weight \\cdot (x2_i - x1_i)",
        _PAIR,
        kernels.lerp_by_number,
        number="weight",
    ),
    Row(
        "LerpList",
        "Linear interpolation between two lists' tensors, by those of a third.",
        "x1_i + weight_i \\cdot (x2_i - x1_i)",
        (*_PAIR, "weight"),
        fixed(kernels.lerp),
    ),
    Row("Sqrt", "Square roots of a list's tensors.", "\\sqrt{x_i}", ("x",), fixed(ufunc(np.sqrt))),
    Row(
        "Reciprocal",
        "Reciprocals of a list's tensors.",
        "\\frac{1}{x_i}",
        ("x",),
        fixed(ufunc(np.reciprocal)),
    ),
    Row("Neg", "Negatives of a list's tensors.", "-x_i", ("x",), fixed(ufunc(np.negative)), _WITH_WHOLE),
    Row("Abs", "Magnitudes of a list's tensors.", "|x_i|", ("x",), fixed(ufunc(np.abs)), _WITH_WHOLE),
    Row("Exp", "Exponentials of a list's tensors.", "e^{x_i}", ("x",), fixed(ufunc(np.exp))),
)  # fmt: skip
for _row in ROWS:
    _row.define()


# --- copies, zeros and norms ------------------------------------------------------------------------

_MOVED = (*FLOATS, dtypes.INT8, dtypes.INT16, dtypes.INT32, dtypes.INT64, dtypes.UINT8, dtypes.BOOL)


def _copy(call: Call) -> Work:
    own, out = call.tensors(("x", "out"))
    return movement("out", out, [copy(("x", own), ("out", out))])


def _zero(call: Call) -> Work:
    own = call.tensor("x")
    return movement("x", own, [fill(("x", own), constant(0, own.dtype))])


FOREACH.add(
    prototype("aclnnForeachCopy", "const aclTensorList* x, aclTensorList* out"),
    each(_copy, "x"),
    described(
        "Copies of a list's tensors.", "out_i = x_i", source=_SOURCE.format("aclnnForeachCopy")
    ),
    outputs=("out",),
    checks=(NotNull(("x", "out")), ListTypeIn(("x",), _MOVED), ListsAlike(("x", "out"))),
)
FOREACH.add(
    prototype("aclnnForeachZeroInplace", "const aclTensorList* x"),
    each(_zero, "x"),
    described(
        "Fills a list's tensors with 0.",
        "x_i = 0",
        source=_SOURCE.format("aclnnForeachZeroInplace"),
    ),
    outputs=("x",),
    checks=(NotNull(("x",)), ListTypeIn(("x",), _MOVED)),
)


def _norm(call: Call) -> Work:
    own, out = call.tensors(("x", "out"))
    if not own.elements:
        return movement("out", out, [fill(("out", out), constant(0, out.dtype))])
    fold = Norm(exponent_of(call["scalar"]))
    axes = tuple(range(len(own.shape)))
    return plan_reduction(call, fold, axes, ("out",), given="x")


def _check_one_each(call: Call) -> None:
    if len(call["out"]) != len(call["x"]):
        raise call.invalid(
            "out", f"out has {len(call['out'])} tensors; it must have {len(call['x'])}, as x has"
        )
    for place, (own, out) in enumerate(zip(call["x"], call["out"], strict=True)):
        if out.shape not in ((), (1,)) or out.dtype is not own.dtype:
            raise call.invalid(
                "out",
                f"out[{place}] is {out.dtype} of shape {list(out.shape)}; it must be {own.dtype} with one "
                "element",
            )


FOREACH.add(
    prototype(
        "aclnnForeachNorm", "const aclTensorList* x, const aclScalar* scalar, aclTensorList* out"
    ),
    each(_norm, "x"),
    described(
        "Norms of a list's tensors, of all their elements.",
        "out_i = \\left(\\sum |x_i|^{scalar}\\right)^{1 / scalar}",
        "Of 0 the number of elements that are not 0; of infinity the largest magnitude.",
        "Powers are of FLOAT, their sums DOUBLE, rounded once. Of an empty tensor it is 0.",
        "Deterministic, at any number of threads.",
        source=_SOURCE.format("aclnnForeachNorm"),
    ),
    outputs=("out",),
    checks=(
        NotNull(("x", "scalar", "out")),
        ListTypeIn(("x",), FLOATS),
        Holds("out has a tensor of one element and of x's type for each place", _check_one_each),
    ),
)
