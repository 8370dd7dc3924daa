"""The type in which the operands of a call meet: found once for the checks and for the computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from aclnn import codes
from aclnn.dtypes import DType
from aclnn.promotion import can_cast, promote, promote_float, promote_scalar
from aclnn_server.operators.definition import Call

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommonType:
    """How the common type of a call follows from its operands."""

    tensors: Names
    """Tensors, which promote each other."""
    scalars: Names = ()
    """aclScalars, which count only where they are of a higher kind than the tensors; null ones do not."""
    floating: bool = False
    """Whether integers and BOOL are computed in FLOAT."""
    widening: bool = False
    """Whether an integer scalar counts like a tensor: a comparison must not cut it off."""

    def of(self, call: Call) -> DType | None:
        """Finds the type; ``None`` where the operands meet in none."""
        found = promote(*(spec.dtype for spec in call.tensors(self.tensors)))
        for name in self.scalars:
            if found is not None and call[name] is not None:
                found = self._with_scalar(found, call[name].dtype)
        return promote_float(found) if found is not None and self.floating else found

    def _with_scalar(self, tensor: DType, scalar: DType) -> DType | None:
        both = {tensor.kind, scalar.kind} <= {"bool", "signed", "unsigned"}
        return promote(tensor, scalar) if self.widening and both else promote_scalar(tensor, scalar)

    def known(self, call: Call) -> DType:
        """Finds the type of a call that passed the check :class:`Meets`."""
        found = self.of(call)
        assert found is not None, "a check of the operator covers it"
        return found

    @property
    def names(self) -> Names:
        """Everything that takes part."""
        return self.tensors + self.scalars


@dataclass(frozen=True, slots=True)
class Meets:
    """Operands meet in a common type, which casts to that of the output."""

    common: CommonType
    to: str = ""
    """The output."""
    follows: Names = ()
    """Scalars that must cast to the common type, without taking part in it."""
    within: tuple[DType, ...] = ()
    """What the common type must be among; empty: anything."""
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    @property
    def names(self) -> Names:
        """Every parameter that the rule is about."""
        return self.common.names + self.follows

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        common = self.common.of(call)
        if common is None or (self.within and common not in self.within):
            raise call.invalid(self.common.names[-1], self._no_type(call, common))
        for name in self.follows:
            if call[name] is not None and not _scalar_casts(call[name].dtype, common):
                raise call.invalid(
                    name, f"{name} is {call[name].dtype}, which does not cast to {common}"
                )
        if self.to and not can_cast(common, call.tensor(self.to).dtype):
            raise call.invalid(
                self.to,
                f"{self.to} is {call.tensor(self.to).dtype}, to which {common}, in which "
                f"{_and(self.common.names)} are computed, does not cast",
            )

    def _no_type(self, call: Call, common: DType | None) -> str:
        given = [name for name in self.common.names if call[name] is not None]
        what = f"{_and(given)} are {_and([call[name].dtype for name in given])}, which meet in "
        if common is None:
            return what + "no common type"
        return what + f"{common}; allowed are {', '.join(map(str, self.within))}"

    @property
    def rule(self) -> str:
        """What must hold."""
        within = f" among {', '.join(map(str, self.within))}" if self.within else ""
        parts = [f"{_and(self.common.names)} meet in a common type{within}"]
        parts += [f"{_and(self.follows)} cast to it"] if self.follows else []
        parts += [f"it casts to that of {self.to}"] if self.to else []
        return ", ".join(parts)


def _scalar_casts(scalar: DType, common: DType) -> bool:
    if common.kind == "bool":
        return scalar.kind in ("bool", "signed", "unsigned")
    return can_cast(scalar, common)


def _and(items: Names | list[str] | list[DType]) -> str:
    *head, last = map(str, items)
    return f"{', '.join(head)} and {last}" if head else last
