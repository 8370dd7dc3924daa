"""Forms of elementwise operators that write their first tensor, derived from the operators themselves.

Such a form has the checks, the kernel and the documentation of the operator, with one name for its input and
its output; what compares the two is left out.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, TypeVar

from aclnn.signatures import Kind
from aclnn_server.operators.checking.checks import SameShape, SameType, TypeIn
from aclnn_server.operators.checking.layout_checks import SameFormat
from aclnn_server.operators.definition import Check, Family, Operator, prototype
from aclnn_server.operators.elementwise.activations import ACTIVATIONS
from aclnn_server.operators.elementwise.comparison import COMPARISON
from aclnn_server.operators.elementwise.more_unary import MORE_UNARY
from aclnn_server.operators.elementwise.unary import UNARY
from aclnn_server.operators.engines.common_type import CommonType
from aclnn_server.operators.engines.pointwise import IN_PLACE as NOTE
from aclnn_server.operators.engines.pointwise import STRIDED, Pointwise

IN_PLACE = Family()

_T = TypeVar("_T")
_FAMILIES = (UNARY, MORE_UNARY, ACTIVATIONS, COMPARISON)

_PLAIN = (
    "Ceil", "Erf", "Exp", "Expm1", "Floor", "Log", "Log1p", "Neg", "Rsqrt", "Sin", "Tanh", "Trunc",
    "Sigmoid", "LeakyRelu", "GeScalar", "GeTensor", "GtScalar", "LeScalar", "LeTensor", "NeScalar",
    "NeTensor", "Asin", "Sinh", "Cosh", "Acosh", "Log10", "Exp2",
)  # fmt: skip
_CONST = (
    "Reciprocal", "Round", "EqScalar", "EqTensor", "GtTensor", "LtScalar", "LtTensor", "Tan", "Log2",
)  # fmt: skip
"""Those whose selfRef C declares const."""
_NAMED = {"Sqrt": "self"} | dict.fromkeys(
    ("Cos", "Acos", "Atan", "Asinh", "Atanh", "Frac"), "inputRef"
)
"""Those whose first tensor is called otherwise."""


def _renamed(value: Any, names: dict[str, str]) -> Any:  # noqa: ANN401 - a field of any type
    """A name, names, or the type that they meet in, with other names of parameters."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, tuple):
        return tuple(dict.fromkeys(_renamed(item, names) for item in value))
    return _with_names(value, names) if isinstance(value, CommonType) else value


def _with_names(value: _T, names: dict[str, str]) -> _T:
    """A check or a planner with other names of parameters."""
    assert dataclasses.is_dataclass(value), "it is a row of fields"
    assert not isinstance(value, type)
    fields = {row.name: getattr(value, row.name) for row in dataclasses.fields(value)}
    changed = {name: _renamed(item, names) for name, item in fields.items()}
    return dataclasses.replace(value, **changed)


def _checks(operator: Operator, first: str, out: str, names: dict[str, str]) -> tuple[Check, ...]:
    """The checks but those that only compare the output with the input, or allow it more."""
    kept = []
    for check in operator.checks:
        compares = isinstance(check, SameType | SameShape) and check.like == first
        allows = isinstance(check, TypeIn) and check.names == (out,)
        if allows:
            assert set(operator.dtypes[first]) <= set(operator.dtypes[out]), "all may be written"
        if not (compares or allows or isinstance(check, SameFormat)):
            kept.append(_with_names(check, names))
    return tuple(kept)


def _text(operator: Operator, names: dict[str, str], ref: str) -> str:
    """The documentation, of one tensor that is input and output."""
    layout = r"\s+".join(map(re.escape, STRIDED.split()))
    text = re.sub(layout, NOTE.format(ref), operator.description)
    for old, new in names.items():
        text = re.sub(rf"\b{old}\b", new, text)
    text = text.replace(operator.name, f"aclnnInplace{operator.name[5:]}")
    return f"In place: {operator.summary[0].lower()}{operator.summary[1:]}\n\n{text}"


def _define(operator: Operator, ref: str, *, const: bool) -> None:
    """Adds the form of an operator in place."""
    first, *others = (row for row in operator.signature.parameters if not row.output)
    (out,) = operator.signature.outputs
    names = {first.name: ref, out.name: ref}
    assert first.kind is Kind.TENSOR, "it is what is written"
    assert isinstance(operator.planner, Pointwise), "names are all that differs"
    rows = [f"{'const ' if const else ''}aclTensor* {ref}"]
    rows += [f"{row.c_type} {row.name}" for row in others]
    IN_PLACE.add(
        prototype(f"aclnnInplace{operator.name[5:]}", ", ".join(rows)),
        _with_names(operator.planner, names),
        _text(operator, names, ref),
        outputs=(ref,),
        checks=_checks(operator, first.name, out.name, names),
    )


for _operator in (row for family in _FAMILIES for row in family.operators):
    _name = _operator.name.removeprefix("aclnn")
    if _name in (*_PLAIN, *_CONST, *_NAMED):
        _define(_operator, _NAMED.get(_name, "selfRef"), const=_name in _CONST)
