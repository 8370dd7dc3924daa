"""What the rows of the arithmetic table have in common: checks, prototype, documentation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aclnn.dtypes import DType
from aclnn.pythonic import Result
from aclnn_server.operators.checking.checks import (
    Broadcasts,
    NotNull,
    PlainFormat,
    RankUpTo,
    SameShape,
    TypeIn,
)
from aclnn_server.operators.definition import Check, Family, OneLine, prototype
from aclnn_server.operators.engines.common_type import CommonType, Meets
from aclnn_server.operators.engines.pointwise import (
    BROADCAST,
    FLOATING,
    HOST_CODE,
    IN_PLACE,
    NUMBERS,
    ROUNDED,
    STRIDED,
    KernelOf,
    Pointwise,
    described,
)

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """An operator out = f(tensors, scalars)."""

    name: str
    """C name without the aclnn prefix."""
    summary: str
    formula: str
    kernel: KernelOf
    tensors: Names
    source: str
    """Repository and folder of the host code."""
    scalars: Names = ()
    """aclScalars that the tensors meet with."""
    scalars_first: bool = False
    """Whether C has the aclScalars before the tensors."""
    follows: Names = ()
    """aclScalars that are cast to the common type."""
    types: tuple[DType, ...] = NUMBERS
    out_types: tuple[DType, ...] = ()
    """Types that the reference lists for the output; empty: whatever the common type casts to."""
    within: tuple[DType, ...] = ()
    """What the common type must be among; empty: anything."""
    floating: bool = False
    """Whether integers and BOOL are computed in FLOAT."""
    ranked: bool = True
    """Whether there may be 8 dimensions at most."""
    plain: bool = False
    """Whether private formats are refused."""
    extra: tuple[Check, ...] = ()
    """Checks after all others."""
    const_out: bool = False
    """Whether C declares the output const."""
    optional: Names = ()
    """aclScalars that may be null."""
    notes: Names = ()
    origin: str = HOST_CODE
    """What the formula and the checks were taken from."""
    python: str = ""
    """Name in Python."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Default of each aclScalar in Python."""

    @property
    def common(self) -> CommonType:
        """The type that is computed in."""
        return CommonType(self.tensors, self.scalars, self.floating)

    def checks(self, out: str) -> tuple[Check, ...]:
        """What phase one checks, where the output is the parameter `out`."""
        pointers = dict.fromkeys((*self.tensors, *self.scalars, *self.follows, out))
        all_tensors = tuple(dict.fromkeys((*self.tensors, out)))
        shape: Check = Broadcasts(self.tensors, to=out)
        if len(self.tensors) == 1:
            shape = SameShape((out,), self.tensors[0])
        return (
            NotNull(tuple(name for name in pointers if name not in self.optional)),
            TypeIn(self.tensors, self.types),
            *([TypeIn((out,), self.out_types)] if self.out_types else []),
            Meets(self.common, out, self.follows, self.within),
            *([RankUpTo(self.tensors)] if self.ranked else []),
            shape,
            *([PlainFormat(all_tensors)] if self.plain else []),
            *self.extra,
        )

    def declaration(self, out: str, *, const: bool) -> str:
        """The C parameters, where the output is the parameter `out`."""
        written = f"{'const ' if const else ''}aclTensor* {out}"
        rows = [written if name == out else f"const aclTensor* {name}" for name in self.tensors]
        numbers = [f"const aclScalar* {name}" for name in (*self.scalars, *self.follows)]
        rows = numbers + rows if self.scalars_first else rows + numbers
        return ", ".join(rows if out in self.tensors else [*rows, written])

    def text(self, *more: str) -> str:
        """The documentation."""
        rounding = f"{FLOATING} {ROUNDED}" if self.floating else ROUNDED
        source = self.origin.format(f"aclnn{self.name}", self.source)
        layout = BROADCAST if len(self.tensors) > 1 else STRIDED
        notes = (*self.notes, rounding, layout, *more)
        return described(self.summary, self.formula, *notes, source=source)

    def one_line(self) -> OneLine:
        """The one-line Python form."""
        kind = "floating" if self.floating else "promoted"
        return OneLine(self.python, self.defaults, result=Result("broadcast", kind, self.scalars))

    def define(self, family: Family) -> None:
        """Adds the operator to a family."""
        family.add(
            prototype(f"aclnn{self.name}", self.declaration("out", const=self.const_out)),
            Pointwise(self.tensors, "out", self.common, self.kernel),
            self.text(),
            outputs=("out",),
            checks=self.checks("out"),
            optional=self.optional,
            python=self.one_line() if self.python else None,
        )

    def define_in_place(self, family: Family, *, const: bool, ref: str = "selfRef") -> None:
        """Adds the form that writes its first tensor, which C may declare const, and calls `ref`."""
        row = replace(
            self,
            name=f"Inplace{self.name}",
            summary=f"In place: {self.summary[0].lower()}{self.summary[1:]}",
            formula=re.sub(r"\bself\b", ref, re.sub(r"\bout\b", ref, self.formula)),
            tensors=(ref, *self.tensors[1:]),
        )
        family.add(
            prototype(f"aclnn{row.name}", row.declaration(ref, const=const)),
            Pointwise(row.tensors, ref, row.common, row.kernel),
            row.text(IN_PLACE.format(ref)),
            outputs=(ref,),
            checks=row.checks(ref),
        )
